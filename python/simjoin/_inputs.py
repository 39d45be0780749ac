"""Inputs: how the rows of a library's frame reach the engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._errors import Error, InputError
from ._sql import text

if TYPE_CHECKING:
    from ._context import Context

#: The name of the only column of a list of values.
VALUE = "value"


def library(data: Any) -> str:
    """Gives the name of the library that an object is of."""
    return type(data).__module__.partition(".")[0]


def is_class(data: Any, *names: str) -> bool:
    """Tells whether the object is of a class, or of one that is made of it, with such a name."""
    return any(base.__name__ in names for base in type(data).__mro__)


def as_frame(data: Any) -> Any:
    """Gives single columns of a library as its frame."""
    kind = library(data)
    if kind == "pandas" and is_class(data, "Series"):
        return data.to_frame(VALUE if data.name is None else data.name)
    if kind == "polars" and is_class(data, "Series"):
        return data.to_frame(data.name or VALUE)
    if kind == "pyarrow" and is_class(data, "Array", "ChunkedArray"):
        import pyarrow

        return pyarrow.table({VALUE: data})
    return data


def columns_of(data: Any) -> dict[str, Any] | None:
    """Gives a dictionary of columns, or a list of rows or values, as columns; None for others."""
    if isinstance(data, Mapping):
        return dict(data)
    if library(data) == "numpy":
        return {VALUE: data}
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        if data and all(isinstance(row, Mapping) for row in data):
            names = dict.fromkeys(name for row in data for name in row)
            return {name: [row.get(name) for row in data] for name in names}
        return {VALUE: list(data)}
    return None


def register(
    context: Context,
    name: str,
    data: Any,
    row: str | None = None,
    told: Mapping[str, str] | None = None,
) -> None:
    """Names rows as a table, with a column ``row`` of their numbers where it is named.

    ``told`` has the names of columns in messages, where these are other ones.
    """
    session, data = context._session, as_frame(data)
    if isinstance(data, str | os.PathLike):
        view(context, name, f"SELECT * FROM {text(os.fspath(data))}", row)
        return
    columns = columns_of(data)
    if columns is not None:
        with readable(data, columns, told):
            session.register_columns(name, columns, row)
        return
    kind = library(data)
    if kind == "simjoin":
        if data.context is context and row is None:
            data._native.register(name)
        else:
            session.register(name, data.cache(), row)
        return
    if kind == "pandas":
        data = data.set_axis([str(column) for column in data.columns], axis=1)
        with readable(data, list(data.columns), told):
            _pandas(session, name, data, row)
        return
    if kind == "polars":
        _check_objects(data, told or {})
    if row is None and kind == "polars" and is_class(data, "LazyFrame"):
        session.register_lazy(name, data.head(0).collect(), data.collect, False)
        return
    if kind == "polars" and is_class(data, "LazyFrame"):
        data = data.collect()
    if row is None and kind in ("duckdb", "_duckdb"):
        session.register_lazy(name, data.limit(0), lambda: data, True)
        return
    if row is None and kind == "ibis":
        session.register_lazy(name, data.limit(0).to_pyarrow(), data.to_pyarrow, True)
        return
    if kind == "ibis":
        data = data.to_pyarrow()
    with readable(data, data.columns if kind == "polars" else [], told):
        session.register(name, data, row)


@contextmanager
def readable(data: Any, columns: Iterable[str], told: Mapping[str, str] | None) -> Iterator[None]:
    """Gives errors of the library that has the data as errors of simjoin that name the column."""
    try:
        yield
    except (Error, ImportError, MemoryError):
        raise
    except Exception as error:
        wrong = _unreadable(data, columns)
        if wrong is None:
            raise InputError(str(error)) from error
        column, reason = wrong
        raise InputError(
            f"the column {(told or {}).get(column, column)} cannot be read: {_words(reason)}",
            "give it values of one type, such as frame[column].astype(str), or leave it out",
        ) from error


def _unreadable(data: Any, columns: Iterable[str]) -> tuple[str, Exception] | None:
    """Gives the first column of a frame that Arrow does not take, and the reason."""
    for column in () if columns_of(data) is not None else columns:
        try:
            data[[column]].__arrow_c_stream__()
        except Exception as error:
            return column, error
    return None


def _words(error: Exception) -> str:
    """Gives the words of an error, of pyarrow's without those on the column's name and type."""
    return str(error.args[0] if error.args else error)


def _check_objects(data: Any, told: Mapping[str, str]) -> None:
    """Refuses columns of objects, of which polars would give the addresses in memory."""
    for column, kind in data.collect_schema().items():
        if str(kind) == "Object":
            raise InputError(
                f"the column {told.get(column, column)} has objects of Python, which are no values",
                "give it values of one type, such as text, or leave it out",
            )


def view(context: Context, name: str, query: str, row: str | None) -> None:
    """Names a query as a table; with the numbers of its rows, it runs now."""
    frame = context.sql(query)
    if row is None:
        frame._native.register(name)
    else:
        context._session.register(name, frame.cache(), row)


def _pandas(session: Any, name: str, data: Any, row: str | None) -> None:
    try:
        session.register(name, data, row)
    except ImportError:
        # Without pyarrow, pandas gives no streams of Arrow.
        columns = {column: _values(data[column]) for column in data.columns}
        session.register_columns(name, columns, row)


def _values(series: Any) -> Any:
    """Gives the values of a column of pandas: numbers as they lie, others as a list."""
    values = series.to_numpy()
    if values.dtype.kind in "iuf" and not series.isna().any():
        return values
    return [
        None if missing else value for value, missing in zip(series, series.isna(), strict=True)
    ]
