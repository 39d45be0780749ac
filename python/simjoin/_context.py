"""Contexts: sessions with tables, options and limits."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any

from . import _native, _progress
from ._errors import PlanError
from ._frame import Frame
from ._inputs import register
from ._sql import quoted, text


class Context:
    """A session of the engine. ``simjoin.connect`` opens one.

    Threads may share a context. A child process of ``fork`` may go on with one; what runs in the
    parent stays there.
    """

    def __init__(self, flags: list[str], progress: bool | None) -> None:
        self._session = _native.Session(flags)
        self._progress = progress
        self._names = itertools.count()

    def sql(self, statements: str, /, *positional: Any, **named: Any) -> Frame:
        """Runs SQL. A query runs later, when its rows are asked for; other statements run now.

        Of several statements, the frame is that of the last one. Values take the places of
        ``$1, $2, …`` or of ``$name``:

        >>> import simjoin
        >>> ctx = simjoin.connect()
        >>> ctx.register("docs", {"id": [1, 2, 3], "tokens": [[1, 2, 3, 4], [1, 2, 3], [9]]})
        >>> ctx.sql(
        ...     "SELECT a.id, b.id AS other, jaccard(a.tokens, b.tokens) AS score FROM docs a "
        ...     "SIMJOIN docs b ON jaccard(a.tokens, b.tokens) >= $t AND a.id < b.id",
        ...     t=0.7,
        ... ).to_pylist()
        [{'id': 1, 'other': 2, 'score': 0.75}]
        """
        return Frame(self, self._session.run(statements, list(positional), named))

    def register(self, name: str, data: Any) -> None:
        """Names rows as a table, in place of a table that had the name.

        ``data`` is anything that gives Arrow's streams (frames of pandas, polars, pyarrow, Ibis or
        simjoin, relations of DuckDB), a dictionary of columns, a list of rows, or the path of a
        file. Frames in memory are read now, without a copy of their buffers; lazy frames of polars,
        relations of DuckDB, tables of Ibis and files are read for each query.
        """
        register(self, name, data)

    def deregister(self, name: str) -> bool:
        """Removes a table. Gives False where there is none of that name."""
        return self._session.deregister(name)

    def table(self, name: str) -> Frame:
        """Gives a table, or a file by its path, as a frame."""
        if name in self._session.tables():
            return self.sql(f"SELECT * FROM {quoted(name)}")
        return self.sql(f"SELECT * FROM {text(name)}")

    def tables(self) -> list[str]:
        """Gives the names of the tables."""
        return [name for name in self._session.tables() if not name.startswith(PRIVATE)]

    def __getitem__(self, name: str) -> Frame:
        return self.table(name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    def set(self, option: str, value: Any) -> None:
        """Sets an option, such as ``simjoin.strategy`` or ``datafusion.execution.batch_size``."""
        if not option.replace("_", "").replace(".", "").isalnum():
            raise PlanError(f"{option} is no name of an option", "SHOW ALL lists the options")
        self.sql(f"SET {option} = {text(setting(value))}")

    def __repr__(self) -> str:
        return f"simjoin.Context(tables={self.tables()})"

    def _fresh_name(self) -> str:
        return f"{PRIVATE}{next(self._names)}"

    def _shows_progress(self) -> bool:
        return _progress.is_wanted() if self._progress is None else self._progress


#: The start of the names of tables that a context makes for itself.
PRIVATE = "__simjoin_python_"


def setting(value: Any) -> str:
    """Gives the value of an option as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def connect(
    *,
    memory_limit: str | int | None = None,
    disk_limit: str | int | None = None,
    device: str | None = None,
    threads: int | None = None,
    batch_size: int | None = None,
    scheduler: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> Context:
    """Opens a context.

    Args:
        memory_limit: The greatest memory for the data of running queries: ``"4g"``, or bytes. Joins
            beyond it go to disk. The rows of registered frames are their owners'.
        disk_limit: The greatest size of what goes to disk.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"cuda:0,2"``, as the option
            ``simjoin.device``.
        threads: How many threads run a query; by default one for each core.
        batch_size: Rows per batch.
        scheduler: The ``host:port`` of a cluster's scheduler, which then runs the queries. Wheels
            have no clusters.
        options: Other options, by name: ``{"simjoin.strategy": "ppjoin"}``.
        progress: Whether long queries show a line on standard error; by default in terminals and
            notebooks.

    >>> import simjoin
    >>> ctx = simjoin.connect(memory_limit="1g", device="cpu")
    >>> ctx.sql("SELECT jaccard([1, 2, 3], [2, 3, 4]) AS score").to_pylist()
    [{'score': 0.5}]
    """
    flags = []
    for flag, value in [
        ("--memory-limit", memory_limit),
        ("--disk-limit", disk_limit),
        ("--batch-size", batch_size),
        ("--scheduler", scheduler),
    ]:
        if value is not None:
            flags += [flag, str(value)]
    context = Context(flags, progress)
    given = dict(options or {})
    if device is not None:
        given["simjoin.device"] = device
    if threads is not None:
        given["datafusion.execution.target_partitions"] = threads
    for option, value in given.items():
        context.set(option, value)
    return context


_DEFAULT: dict[int, Context] = {}


def default_context() -> Context:
    """Gives the context of the one-liners of this process."""
    process = os.getpid()
    if process not in _DEFAULT:
        _DEFAULT[process] = connect()
    return _DEFAULT[process]
