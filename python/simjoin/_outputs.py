"""Columns of results: those of pairs, of the rows that pairs are of, and of their scores."""

from __future__ import annotations

from collections.abc import Sequence

from ._compared import Comparison
from ._errors import PlanError, no_column
from ._kinds import Kind, Output

Columns = str | Sequence[str]


def listed(columns: Columns | None) -> list[str]:
    """Gives columns as a list of their names."""
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def scores(compared: Comparison, score: str = "score") -> list[Output]:
    """Gives the column of scores, and of a weighted sum one for each compared column."""
    outputs = [Output(score, "score")]
    if compared.is_weighted:
        for place, column in enumerate(compared.columns):
            outputs.append(Output(f"{column.name}_{score}", f"x{place}_score"))
    return outputs


def pairs(
    a: Kind,
    b: Kind,
    compared: Comparison,
    id: str | tuple[str, str] | None,
    columns: Columns | None,
) -> list[Output]:
    """Gives the columns of pairs."""
    outputs = told(a, b, id, ("left", "right")) + scores(compared)
    for column in listed(columns):
        outputs.append(Output(f"{column}_left", column, "left"))
        outputs.append(Output(f"{column}_right", column, "right"))
    for output in outputs:
        known = (a if output.rows == "left" else b).names()
        if output.rows is not None and output.column not in known:
            raise no_column(output.column, known)
    check_distinct(outputs)
    return outputs


def told(
    a: Kind, b: Kind, id: str | tuple[str, str] | None, names: tuple[str, str]
) -> list[Output]:
    """Gives the columns that tell the rows of a pair: those of ``id``, or labels and places."""
    if id is None:
        for kind in (a, b):
            kind.check_labels()
        return [Output(name, name, label_of=name) for name in names]
    columns = (id, id) if isinstance(id, str) else tuple(id)
    if len(columns) != 2 or (a is b and columns[0] != columns[1]):
        raise PlanError(
            f"id={id!r} does not tell rows by one column",
            "id is a column, or of two frames a pair, one of each: id=('id', 'number')",
        )
    for kind, column in zip((a, b), columns, strict=True):
        if column not in kind.names():
            raise no_column(column, kind.names())
    return [Output(name, column, name) for name, column in zip(names, columns, strict=True)]


def check_distinct(outputs: list[Output]) -> None:
    """Refuses two columns of one name."""
    seen: set[str] = set()
    for output in outputs:
        if output.name in seen:
            raise PlanError(
                f"the result would have two columns {output.name!r}",
                "rename the column, or give join another suffix or score",
            )
        seen.add(output.name)
