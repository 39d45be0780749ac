"""Similarity joins in sessions of the package ``datafusion`` (experimental)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native
from ._context import Context, connect
from ._errors import PlanError
from ._frame import Frame
from ._sql import quoted

#: The version of ``datafusion`` whose interface this package is built for.
MAJOR = 55

#: The catalog of a session of either package.
CATALOG = "datafusion"

HINT = f"pip install 'datafusion>={MAJOR},<{MAJOR + 1}'"

T = TypeVar("T")


def check_version() -> None:
    """Refuses to go on where ``datafusion`` is missing, or is of another version.

    What crosses is laid out in memory as one version has it: another one would read it wrongly.
    """
    # What few need, and takes long, is imported late.
    from importlib import metadata

    try:
        version = metadata.version("datafusion")
    except metadata.PackageNotFoundError:
        raise PlanError("simjoin.Extension needs the package datafusion", HINT) from None
    if version.partition(".")[0] != str(MAJOR):
        raise PlanError(
            f"simjoin.Extension is built for datafusion {MAJOR}, and {version} is installed",
            HINT,
        )


class Extension:
    """Brings similarity joins into sessions of the package ``datafusion`` 55. Experimental.

    ``with_extensions`` registers the scalar functions of this package (``jaccard``, ``qgrams``, …)
    and the table function ``simjoin``, which runs a query with SIMJOIN over the session's tables:

    >>> import simjoin
    >>> from datafusion import SessionContext  # doctest: +SKIP
    >>> ctx = SessionContext().with_extensions(simjoin.Extension())  # doctest: +SKIP
    >>> ctx.sql('''SELECT * FROM simjoin($$
    ...     SELECT a.id, b.id AS other FROM docs a SIMJOIN docs b
    ...       ON jaccard(a.tokens, b.tokens) >= 0.8 AND a.id < b.id
    ... $$)''')  # doctest: +SKIP

    The query runs in a context of this package, which reads the session's tables as streams of
    Arrow, each time the query runs. Limits of the session's memory do not count there: give them
    here. A plain ``JOIN`` outside of ``simjoin(…)`` is the session's own, by nested loops.
    """

    def __init__(self, **options: Any) -> None:
        """Takes the options of ``simjoin.connect``, for the context that runs the queries.

        Raises:
            PlanError: ``datafusion`` is not installed, or is of another version.
        """
        check_version()
        options.setdefault("progress", False)
        self._context: Context = connect(**options)
        # Tables are named while a query is planned.
        self._lock = threading.Lock()

    def __datafusion_session_planner__(self, ctx: Any, fallback: Any) -> None:
        """Registers the functions when all extensions have been checked. There is no planner."""
        self.register(ctx)

    def register(self, ctx: Any) -> None:
        """Registers the functions in a session, as ``with_extensions`` does."""
        import datafusion

        for _, capsule in _native.scalar_functions():
            ctx.register_udf(datafusion.udf(_Function(capsule)))
        ctx.register_udtf(datafusion.udtf(self._call, "simjoin", with_session=True))

    def sql(self, ctx: Any, query: str, /, *positional: Any, **named: Any) -> Any:
        """Gives a query with SIMJOIN over the tables of a session as its ``DataFrame``.

        The query runs when the rows are asked for. Values take the places of ``$1, $2, …`` or of
        ``$name``.
        """
        return ctx.read_table(self._table(ctx, query, positional, named))

    def _call(self, query: Any, *values: Any, session: Any) -> Any:
        """Gives the table of ``simjoin('query', $1, $2, …)``."""
        text, *positional = (value.python_value().as_py() for value in (query, *values))
        if not isinstance(text, str):
            raise PlanError(
                "simjoin takes the text of a query",
                "SELECT * FROM simjoin($$ … FROM a SIMJOIN b ON jaccard(a.t, b.t) >= $1 $$, 0.8)",
            )
        # The session plans on this thread, on which it could not plan its tables in between.
        return _apart(lambda: self._table(session, text, positional, {}))

    def _table(self, ctx: Any, query: str, positional: Any, named: dict[str, Any]) -> Any:
        from datafusion.catalog import Table

        with self._lock:
            frame = self._frame(ctx, query, positional, named)
        columns = frame.columns
        twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
        if twice:
            raise PlanError(
                f"the query has several columns {twice[0]}",
                f"name them, as in b.{twice[0]} AS other",
            )
        return Table(_Provider(frame))

    def _frame(self, ctx: Any, query: str, positional: Any, named: dict[str, Any]) -> Frame:
        """Plans the query over the tables that it names, which the context forgets again."""
        session, registered = self._context._session, []
        try:
            for catalog, schema, name in session.tables_of(query):
                table = _find(ctx, catalog, schema, name)
                if table is not None:
                    session.register_lazy(name, table.schema(), _opener(table), False, schema)
                    registered.append((name, schema))
            return self._context.sql(query, *positional, **named)
        finally:
            for name, schema in registered:
                session.deregister(name, schema)

    def __repr__(self) -> str:
        return "simjoin.Extension()"


class _Function:
    """A scalar function, as ``datafusion.udf`` takes it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __datafusion_scalar_udf__(self) -> Any:
        return self._capsule


class _Provider:
    """A query, as ``datafusion.catalog.Table`` takes it."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __datafusion_table_provider__(self, session: Any) -> Any:
        return self._frame._native.provider()


def _find(ctx: Any, catalog: str | None, schema: str | None, name: str) -> Any:
    """Gives a table of a session as its frame; None where there is none, as for a file."""
    parts = [part for part in (catalog, schema, name) if part is not None]
    path = ".".join(quoted(part) for part in parts)
    if not ctx.table_exist(path):
        return None
    if catalog not in (None, CATALOG):
        raise PlanError(
            f"{path} is of another catalog than {CATALOG}",
            f"CREATE VIEW {name} AS SELECT * FROM {path}",
        )
    return ctx.table(path)


def _opener(table: Any) -> Callable[[], Any]:
    return lambda: table


def _apart(run: Callable[[], T]) -> T:
    """Runs on a thread of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "simjoin-extension") as threads:
        return threads.submit(run).result()
