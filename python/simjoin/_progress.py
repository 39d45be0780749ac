"""A line on standard error that tells how far a long query is."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

#: Seconds before the line appears: most queries end sooner.
PATIENCE = 1.0


def is_wanted() -> bool:
    """Tells whether somebody watches: standard error is a terminal or a notebook's."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or "ipykernel" in sys.modules)


class Progress:
    """The line of one query, for as long as the ``with`` block runs."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __call__(self, text: str) -> None:
        """Shows the text in place of the one before."""
        elapsed = time.monotonic() - self._start
        if elapsed < PATIENCE:
            return
        columns = shutil.get_terminal_size().columns - 1
        line = f"{elapsed:5.1f} s  {text}"[:columns]
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
