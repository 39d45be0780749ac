"""Inputs: how the rows of a library's frame reach the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


def register(context: Context, name: str, data: Any, row: str | None = None) -> None:
    """Names rows as a table, with a column ``row`` of their numbers where it is named."""
    session, data = context._session, as_frame(data)
    if isinstance(data, str | os.PathLike):
        view(context, name, f"SELECT * FROM {text(os.fspath(data))}", row)
        return
    columns = columns_of(data)
    if columns is not None:
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
        _pandas(session, name, data, row)
        return
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
    session.register(name, data, row)


def view(context: Context, name: str, query: str, row: str | None) -> None:
    """Names a query as a table; with the numbers of its rows, it runs now."""
    frame = context.sql(query)
    if row is None:
        frame._native.register(name)
    else:
        context._session.register(name, frame.cache(), row)


def _pandas(session: Any, name: str, data: Any, row: str | None) -> None:
    named = data.set_axis([str(column) for column in data.columns], axis=1)
    try:
        session.register(name, named, row)
    except ImportError:
        # Without pyarrow, pandas gives no streams of Arrow.
        columns = {column: _values(named[column]) for column in named.columns}
        session.register_columns(name, columns, row)


def _values(series: Any) -> Any:
    """Gives the values of a column of pandas: numbers as they lie, others as a list."""
    values = series.to_numpy()
    if values.dtype.kind in "iuf" and not series.isna().any():
        return values
    return [
        None if missing else value for value, missing in zip(series, series.isna(), strict=True)
    ]
