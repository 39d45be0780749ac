"""Errors and warnings of simjoin."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Sequence
from contextvars import ContextVar


class Error(Exception):
    """An error of simjoin. ``hint`` is advice, where there is any."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nHint: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[Error], tuple[str, str | None]]:
        return type(self), (self.message, self.hint)


class SQLError(Error):
    """The text is no SQL."""


class PlanError(Error, ValueError):
    """The statement or the call cannot be planned: a name, a type, a threshold, an option."""


class InputError(PlanError, TypeError):
    """Rows that cannot be read: a column of several types, an object that is no table."""


class ExecutionError(Error):
    """The query failed as it ran."""


class ResourcesExhausted(Error, MemoryError):
    """The query does not fit into a limit of memory or of disk."""


class FileError(Error):
    """A file cannot be read or written."""


class InternalError(Error):
    """A defect of simjoin, a panic of the engine among them. Please report it."""


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Gives the beginning of a hint, with the known name that is nearest to a name, if any is."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}? " if near else ""


def no_column(name: str, known: Sequence[str]) -> PlanError:
    """Gives the error for a column that a frame has not."""
    hint = f"{did_you_mean(name, known)}its columns are {', '.join(known) or 'none'}"
    parent = name.partition(".")[0]
    if "(" in name:
        hint = (
            f"{name} is an expression: make a column of it first, or compare expressions in SQL, "
            f"by simjoin.connect().sql(…); {hint}"
        )
    elif parent != name and parent in known:
        hint = (
            f"{name} is a field of {parent}: make a column of it first, or compare "
            f"a.{parent}['{name.partition('.')[2]}'] in SQL; {hint}"
        )
    return PlanError(f"the frame has no column {name!r}", hint)


class SimjoinWarning(UserWarning):
    """A probable mistake, such as a threshold that no pair can reach."""


#: Whether the thresholds of joins are bounds that the engine derives from one that is checked.
has_derived_bounds: ContextVar[bool] = ContextVar("simjoin_has_derived_bounds", default=False)


def warn(text: str) -> None:
    """Warns of a probable mistake at the place that called simjoin.

    Bounds that no pair satisfies are none where the engine derives them.
    """
    if has_derived_bounds.get() and text.startswith("no pair can satisfy"):
        return
    here = os.path.dirname(__file__)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, SimjoinWarning, stacklevel=level)
