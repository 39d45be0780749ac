"""A line on standard error that tells how far a long query is."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Any

#: Seconds before the line appears: most queries end sooner.
PATIENCE = 1.0


#: Columns of the time before the line.
TIME = 10

#: Columns of a line that no terminal cuts.
WIDE = 160


def is_wanted() -> bool:
    """Tells whether somebody watches: standard error is a terminal, or there is a notebook."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or in_notebook())


def in_notebook() -> bool:
    """Tells whether the process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


class Progress:
    """The line of one query, for as long as the ``with`` block runs."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._line: _Line | _Display = _Display() if in_notebook() else _Line()

    @property
    def columns(self) -> int:
        """The greatest length of a text that is shown whole."""
        return max(self._line.columns - TIME, 1)

    def __enter__(self) -> Progress:
        return self

    def __call__(self, text: str) -> None:
        """Shows the text in place of the one before."""
        elapsed = time.monotonic() - self._start
        if elapsed >= PATIENCE:
            self._line.show(f"{elapsed:5.1f} s  {text}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.clear()


class _Line:
    """A line of a terminal, which is gone in the end."""

    def __init__(self) -> None:
        self.columns = shutil.get_terminal_size().columns - 1
        self._width = 0

    def show(self, text: str) -> None:
        line = text[: self.columns]
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def clear(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


class _Display:
    """An output of a notebook's cell, which is empty in the end.

    Standard error would keep every line in the saved notebook.
    """

    columns = WIDE

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import display

        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
