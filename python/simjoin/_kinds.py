"""Kinds of frames: the one-liners give back the kind that came in.

The engine answers with numbers of rows and with scores. A kind picks the rows with the library that
the frame is of, so that types, categories and labels stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import PlanError
from ._frame import Frame
from ._inputs import VALUE, as_frame, columns_of, is_class, library, register
from ._sql import quoted

if TYPE_CHECKING:
    from ._context import Context
    from ._job import Job

#: The number of a row, in tables of the one-liners.
ROW = "__simjoin_row"


@dataclass(frozen=True)
class Output:
    """A column of a result: one of the answer, or of the rows that its column ``rows`` numbers.

    ``label_of`` says that the answer's column numbers rows of that source. They are told by their
    labels where the library has labels, else by their places.
    """

    name: str
    column: str
    rows: str | None = None
    label_of: str | None = None


class Kind:
    """A frame that came in."""

    #: The frame, as its library has it.
    frame: Any

    def names(self) -> list[str]:
        """Gives the names of the columns."""
        raise NotImplementedError

    def check_labels(self) -> None:
        """Refuses labels that do not tell rows."""

    def register(self, context: Context, name: str, columns: dict[str, str], row: str) -> None:
        """Names some columns as a table under other names, with the numbers of the rows."""
        raise NotImplementedError

    def assemble(
        self, answer: Frame, sources: Mapping[str, Any], outputs: list[Output], *, labels: bool
    ) -> Any:
        """Gives the result: columns of the answer, and of the frames in ``sources``.

        ``sources`` has the frame, of this kind, for each column of the answer that numbers rows;
        missing numbers give missing values. With ``labels`` each row of the result is one of the
        first frame, and keeps its label where the library has labels.
        """
        raise NotImplementedError


class Pandas(Kind):
    """A ``DataFrame`` of pandas."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def _column(self, name: str) -> Any:
        return self.frame.iloc[:, self.names().index(name)]

    def register(self, context: Context, name: str, columns: dict[str, str], row: str) -> None:
        import pandas

        picked = {own: self._column(column) for own, column in columns.items()}
        # Without labels, which Arrow would have as columns.
        frame = pandas.DataFrame(picked).reset_index(drop=True)
        register(context, name, frame, row, columns)

    def check_labels(self) -> None:
        index = self.frame.index
        if not index.is_unique:
            twice = index[index.duplicated()].tolist()[0]
            raise PlanError(
                f"the rows of the frame are told by the labels of its index, and several have the "
                f"label {twice!r}",
                "frame.reset_index(drop=True) tells them by their places, id='column' by a column",
            )

    def _labels(self) -> Any:
        """Gives the labels of the rows, those of several levels as tuples."""
        index = self.frame.index
        return index.to_series(index=range(len(index)))

    def assemble(
        self, answer: Frame, sources: Mapping[str, Any], outputs: list[Output], *, labels: bool
    ) -> Any:
        import numpy
        import pandas

        answer = answer.cache()
        names, families = answer.columns, dict(answer.schema)
        numbers = {}
        for place, name in enumerate(names):
            of_integers = "Int" in families[name]
            numbers[name] = numpy.frombuffer(
                answer._native.numbers(place), dtype="int64" if of_integers else "float64"
            )
        parts, index = [], None
        for output in outputs:
            if output.label_of is not None:
                told = sources[output.label_of]._labels()
                parts.append(_picked(told, numbers[output.column]))
                continue
            if output.rows is None:
                values = pandas.Series(numbers[output.column])
                # Integers of answers are never negative: -1 stands for a missing one.
                is_missing = values < 0 if values.dtype == "int64" else values.isna()
                parts.append(values.mask(is_missing) if is_missing.any() else values)
                continue
            source, rows = sources[output.rows], numbers[output.rows]
            if labels and index is None:
                index = source.frame.index[rows]
            parts.append(_picked(source._column(output.column), rows))
        result = pandas.concat(parts, axis=1)
        result.columns = _names(outputs, sources)
        if index is not None:
            result.index = index
        return result


def _picked(column: Any, rows: Any) -> Any:
    """Gives the values of rows of a column of pandas; -1 stands for a missing row."""
    if (rows < 0).any():
        return column.reset_index(drop=True).reindex(rows).reset_index(drop=True)
    return column.iloc[rows].reset_index(drop=True)


def _names(outputs: list[Output], sources: Mapping[str, Kind]) -> list[Any]:
    """Gives the names of the columns, those of pandas that are no texts as they are."""
    names: list[Any] = []
    for output in outputs:
        name: Any = output.name
        source = None if output.rows is None else sources[output.rows]
        if isinstance(source, Pandas) and output.name == output.column:
            name = source._column(output.column).name
        names.append(name)
    return names


class Polars(Kind):
    """A ``DataFrame`` or a ``LazyFrame`` of polars."""

    def __init__(self, frame: Any) -> None:
        self._is_lazy = is_class(frame, "LazyFrame")
        self.frame = frame.collect() if self._is_lazy else frame

    def names(self) -> list[str]:
        return list(self.frame.columns)

    def register(self, context: Context, name: str, columns: dict[str, str], row: str) -> None:
        import polars

        picked = self.frame.select(polars.col(column).alias(own) for own, column in columns.items())
        register(context, name, picked, row, columns)

    def assemble(
        self, answer: Frame, sources: Mapping[str, Any], outputs: list[Output], *, labels: bool
    ) -> Any:
        import polars

        numbers = answer.to_polars()
        parts = []
        for output in outputs:
            if output.rows is None:
                parts.append(numbers[output.column].alias(output.name))
                continue
            source = sources[output.rows]
            rows = numbers[output.rows]
            parts.append(source.frame[output.column].gather(rows).alias(output.name))
        result = polars.DataFrame(parts)
        return result.lazy() if self._is_lazy else result


class PyArrow(Kind):
    """A ``Table`` or a ``RecordBatch`` of pyarrow; the result is a table."""

    def __init__(self, frame: Any) -> None:
        import pyarrow

        self.frame = frame if is_class(frame, "Table") else pyarrow.table(frame)

    def names(self) -> list[str]:
        return list(self.frame.column_names)

    def register(self, context: Context, name: str, columns: dict[str, str], row: str) -> None:
        picked = self.frame.select(list(columns.values())).rename_columns(list(columns))
        register(context, name, picked, row, columns)

    def assemble(
        self, answer: Frame, sources: Mapping[str, Any], outputs: list[Output], *, labels: bool
    ) -> Any:
        import pyarrow

        numbers = answer.to_arrow_table()
        arrays = []
        for output in outputs:
            if output.rows is None:
                arrays.append(numbers[output.column])
                continue
            source = sources[output.rows]
            arrays.append(source.frame[output.column].take(numbers[output.rows]))
        return pyarrow.table(arrays, names=[output.name for output in outputs])


class Tabled(Kind):
    """Rows that the engine picks: files, frames of simjoin, and what has no other kind.

    The result is a ``Frame``, unless the kind gives it back as something else.
    """

    def __init__(self, frame: Any, job: Job) -> None:
        self.frame = frame
        self._job = job
        self._context = job.context
        self._table = job.fresh()
        register(self._context, self._table, frame, ROW)

    def names(self) -> list[str]:
        columns = self._context.table(self._table).columns
        return [column for column in columns if column != ROW]

    def register(self, context: Context, name: str, columns: dict[str, str], row: str) -> None:
        picked = [f"{quoted(column)} AS {quoted(own)}" for own, column in columns.items()]
        picked.append(f"{quoted(ROW)} AS {quoted(row)}")
        query = f"SELECT {', '.join(picked)} FROM {quoted(self._table)}"
        context.sql(query)._native.register(name)

    def assemble(
        self, answer: Frame, sources: Mapping[str, Any], outputs: list[Output], *, labels: bool
    ) -> Any:
        table = self._job.fresh()
        # The answer's own order is that of the result.
        self._context._session.register(table, answer.cache(), ROW)
        tables: dict[str | None, str] = {None: "p"}
        query = f" FROM {quoted(table)} p"
        for number, (column, source) in enumerate(sources.items()):
            tables[column] = f"s{number}"
            query += (
                f" LEFT JOIN {quoted(source._table)} s{number}"
                f" ON p.{quoted(column)} = s{number}.{quoted(ROW)}"
            )
        columns = [
            f"{tables[output.rows]}.{quoted(output.column)} AS {quoted(output.name)}"
            for output in outputs
        ]
        query = f"SELECT {', '.join(columns)}{query} ORDER BY p.{quoted(ROW)}"
        return self.finish(self._context.sql(query).cache())

    def finish(self, result: Frame) -> Any:
        """Gives the result as the kind that came in."""
        return result


class Values(Tabled):
    """A dictionary of columns, a list of rows, or a list of values."""

    def finish(self, result: Frame) -> Any:
        if isinstance(self.frame, Mapping):
            return result.to_pydict()
        rows = result.to_pylist()
        if result.columns == [VALUE]:
            return [row[VALUE] for row in rows]
        return rows


class DuckDB(Tabled):
    """A relation of DuckDB; the result is one of the default connection."""

    def finish(self, result: Frame) -> Any:
        import duckdb

        return duckdb.from_arrow(result.to_arrow_table())


class Ibis(Tabled):
    """A table of Ibis; the result is one in memory."""

    def finish(self, result: Frame) -> Any:
        import ibis

        return ibis.memtable(result.to_arrow_table())


def kind_of(data: Any, job: Job) -> Kind:
    """Gives the kind of an input."""
    data = as_frame(data)
    of = library(data)
    if of == "pandas":
        return Pandas(data)
    if of == "polars":
        return Polars(data)
    if of == "pyarrow" and is_class(data, "Table", "RecordBatch"):
        return PyArrow(data)
    if of in ("duckdb", "_duckdb"):
        return DuckDB(data, job)
    if of == "ibis":
        return Ibis(data, job)
    is_path = isinstance(data, str | os.PathLike)
    if not is_path and columns_of(data) is not None:
        return Values(data, job)
    return Tabled(data, job)


def same_kind(a: Any, b: Any, job: Job) -> tuple[Kind, Kind]:
    """Gives the kinds of two inputs; where they differ, both are read by the engine."""
    first, second = kind_of(a, job), kind_of(b, job)
    if type(first) is type(second) or (isinstance(first, Tabled) and isinstance(second, Tabled)):
        return first, second
    return (
        first if isinstance(first, Tabled) else Tabled(first.frame, job),
        second if isinstance(second, Tabled) else Tabled(second.frame, job),
    )
