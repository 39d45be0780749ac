"""Errors and warnings of simjoin."""

from __future__ import annotations

import os
import sys
import warnings


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


class ExecutionError(Error):
    """The query failed as it ran."""


class ResourcesExhausted(Error, MemoryError):
    """The query does not fit into a limit of memory or of disk."""


class FileError(Error):
    """A file cannot be read or written."""


class InternalError(Error):
    """A defect of simjoin, a panic of the engine among them. Please report it."""


class SimjoinWarning(UserWarning):
    """A probable mistake, such as a threshold that no pair can reach."""


def warn(text: str) -> None:
    """Warns of a probable mistake at the place that called simjoin."""
    here = os.path.dirname(__file__)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, SimjoinWarning, stacklevel=level)
