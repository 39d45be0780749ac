"""Frames: queries that run when their rows are asked for."""

from __future__ import annotations

import html
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from . import _native, _progress
from ._sql import quoted, text

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._context import Context

#: Formats of files that frames write, by the ends of their names.
FORMATS = {"parquet": "PARQUET", "csv": "CSV", "json": "JSON", "ndjson": "JSON", "arrow": "ARROW"}


#: The end of messages on a missing library of frames.
WITHOUT = "; to_pylist() and to_pydict() need no library"


class Explained(str):
    """A plan as text. ``operators`` has it as data, the outermost operator first.

    Each operator is a dictionary with ``operator`` (its name), ``depth``, ``details`` and, after
    ``explain(analyze=True)``, ``metrics``: counts, bytes, and times in nanoseconds.
    ``summary`` says of a join by similarity that has run what cost the time, and what would help.
    The text begins with it.
    """

    operators: list[dict[str, Any]]
    summary: str | None

    def __new__(
        cls, plan: str, operators: list[dict[str, Any]], summary: str | None = None
    ) -> Explained:
        explained = super().__new__(cls, plan if summary is None else f"{summary}\n\n{plan}")
        explained.operators, explained.summary = operators, summary
        return explained

    def __repr__(self) -> str:
        return str(self)


class Frame:
    """A query, or the result of a statement. It runs when its rows are asked for, each time anew.

    Rows come in the order of the query's ORDER BY, by whichever way they are asked for. A query
    without one that only picks columns and rows of a table in memory, by conditions without
    functions, has the order of the table; others have none.

    Every library that reads Arrow's streams reads a frame: ``polars.DataFrame(frame)``,
    ``pyarrow.table(frame)``, ``duckdb.sql("FROM frame")``.

    >>> import simjoin
    >>> frame = simjoin.connect().sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name)")
    >>> frame.columns
    ['id', 'name']
    >>> frame.count()
    2
    >>> frame.to_pylist()
    [{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]
    """

    def __init__(self, context: Context, native: _native.Frame) -> None:
        self._context = context
        self._native = native

    @property
    def context(self) -> Context:
        """The context that the frame belongs to."""
        return self._context

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._native.columns()]

    @property
    def schema(self) -> Schema:
        """The columns with their types, which any library that reads Arrow's schemas takes."""
        return Schema(self._native)

    def _progress(self) -> AbstractContextManager[_progress.Progress | None]:
        return _progress.Progress() if self._context._shows_progress() else nullcontext()

    def _new(self, native: _native.Frame) -> Frame:
        return Frame(self._context, native)

    # -- queries over the query

    def head(self, rows: int = 5) -> Frame:
        """Gives the first rows of a query that has an order, and any rows of another one."""
        return self._new(self._native.limit(rows))

    limit = head

    def select(self, *columns: str) -> Frame:
        """Gives some of the columns."""
        return self._new(self._native.select(list(columns)))

    def __getitem__(self, column: str | list[str]) -> Frame:
        return self.select(column) if isinstance(column, str) else self.select(*column)

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns

    def cache(self) -> Frame:
        """Runs the query, and gives its rows, in their order, as a frame that holds them."""
        with self._progress() as progress:
            return self._new(self._native.cache(progress))

    # -- the rows

    def count(self) -> int:
        """Counts the rows; of a join by similarity, without making them."""
        with self._progress() as progress:
            return self._native.count(progress)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Gives the rows as a stream of Arrow, as they are found, without a copy."""
        return self._native.stream(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Gives the schema as one of Arrow."""
        return self._native.schema()

    def to_arrow_reader(self) -> pyarrow.RecordBatchReader:
        """Gives the rows as they are found. Closing or dropping the reader cancels the query."""
        return _library("pyarrow", WITHOUT).RecordBatchReader.from_stream(self)

    def to_arrow_table(self) -> pyarrow.Table:
        """Runs the query, and gives its rows as a table of pyarrow."""
        return _library("pyarrow", WITHOUT).table(self.cache())

    def to_pandas(self) -> pandas.DataFrame:
        """Runs the query, and gives its rows as a frame of pandas (by way of pyarrow)."""
        _library("pandas", WITHOUT)
        frame: pandas.DataFrame = self.to_arrow_table().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Runs the query, and gives its rows as a frame of polars."""
        return _library("polars", WITHOUT).DataFrame(self.cache())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Runs the query, and gives its rows as dictionaries. No other library is needed."""
        with self._progress() as progress:
            return self._native.rows(progress)

    def to_pydict(self) -> dict[str, list[Any]]:
        """Runs the query, and gives its columns as lists."""
        rows = self.to_pylist()
        return {name: [row[name] for row in rows] for name in self.columns}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    # -- files

    def write_parquet(self, path: str | os.PathLike[str]) -> int:
        """Runs the query, writes its rows to a file of Parquet, and gives their number."""
        return self._write(path, "PARQUET")

    def write_csv(self, path: str | os.PathLike[str]) -> int:
        """Runs the query, writes its rows to a file of CSV, and gives their number."""
        return self._write(path, "CSV")

    def write(self, path: str | os.PathLike[str]) -> int:
        """Runs the query, and writes its rows in the format that the file's name ends with."""
        ending = os.fspath(path).rpartition(".")[2].lower()
        if ending not in FORMATS:
            known = ", ".join(f".{ending}" for ending in FORMATS)
            from ._errors import PlanError

            raise PlanError(f"{os.fspath(path)} does not end with the name of a format", known)
        return self._write(path, FORMATS[ending])

    def _write(self, path: str | os.PathLike[str], format: str) -> int:
        name = self._context._fresh_name()
        self._native.register(name)
        try:
            target = text(os.fspath(path))
            written = self._context.sql(
                f"COPY (SELECT * FROM {quoted(name)}) TO {target} STORED AS {format}"
            )
            return int(written.to_pylist()[0]["count"])
        finally:
            self._context.deregister(name)

    # -- for people

    def explain(self, *, analyze: bool = False, verbose: bool = False) -> Explained:
        """Gives the plan of the query. With ``analyze``, the query runs, and the plan has metrics.

        The result is text, and has the plan as data in ``operators``.
        """
        return Explained(*self._native.explain(analyze, verbose))

    def show(self, rows: int = 20) -> None:
        """Prints the first rows, fitted to the terminal."""
        width = shutil.get_terminal_size((0, 0)).columns
        with self._progress() as progress:
            table, has_more = self._native.text(rows, width or None, progress)
        print(table, end="")
        if has_more:
            print(f"The first {rows} rows; show(n) prints more.")

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._native.columns())
        return f"Frame[{columns}]"

    def _repr_html_(self) -> str:
        rows, has_more = self._native.cells(10)
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        more = "<p>The first 10 rows.</p>" if has_more else ""
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


class Schema:
    """The columns of a frame: names with types."""

    def __init__(self, native: _native.Frame) -> None:
        self._native = native

    def __arrow_c_schema__(self) -> Any:
        """Gives the schema as one of Arrow."""
        return self._native.schema()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._native.columns())

    def __len__(self) -> int:
        return len(self._native.columns())

    def __getitem__(self, name: str) -> str:
        return dict(self._native.columns())[name]

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {kind}" for name, kind in self)


#: The packages of modules that have another name.
PACKAGES = {"adbc_driver_manager": "adbc-driver-manager pyarrow"}


def _library(name: str, instead: str = "") -> Any:
    """Gives a library that the caller may have; ``instead`` says what needs none."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        module = name.partition(".")[0]
        package = PACKAGES.get(module, module)
        raise ImportError(f"this needs {module}: pip install {package}{instead}") from error
