"""Verbs of the engine: what thresholds give, how links and truth compare, a page to review."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._compared import Comparison, of_both, of_one
from ._errors import PlanError
from ._frame import Frame
from ._kinds import ROW, Kind, Tabled, kind_of
from ._measures import Options
from ._outputs import Columns

if TYPE_CHECKING:
    from ._context import Context
    from ._job import Job

#: Spellings that do not count, as one word or several: ``"lower"``, ``["lower", "accents"]``.
Folds = str | Sequence[str]

#: One verb at a time: the tables that it makes have fixed names.
_ALONE = threading.Lock()


def folds(fold: Folds | None) -> list[str]:
    """Gives spellings that do not count as a list, from words between commas too."""
    given: Any = fold.split(",") if isinstance(fold, str) else fold or ()
    words: list[Any] = list(given) if isinstance(given, list | tuple | set) else [None]
    if not all(isinstance(word, str) for word in words):
        raise PlanError(
            f"fold={fold!r} names no spellings",
            "fold is lower, accents, punctuation, spaces, or several of them",
        )
    return [word.strip() for word in words if word.strip()]


@dataclass(frozen=True)
class Asked:
    """What a verb asks of the rows of one or two frames."""

    job: Job
    kinds: tuple[Kind, ...]
    compared: Comparison
    keys: tuple[list[str], list[str]]
    fold: list[str]
    #: The names of the inputs in messages.
    told: tuple[str, ...] = ("the frame", "the second frame")

    def words(self, **others: Any) -> dict[str, Any]:
        """Gives the words of the engine's verb, whose tables are named for the call."""
        options = self.compared.options
        least = options.at_least if options.threshold is None else options.threshold
        at_most = options.at_most
        on = []
        for column in self.compared.columns:
            measure = column.options.measure
            if measure == "cosine" and at_most is not None:
                measure = "cosine_distance"
            tokenizer = column.options.tokenizer
            on.append((column.left, column.right, measure, tokenizer, column.weight))
        tables = []
        for place, kind in enumerate(self.kinds):
            tables.append((table_of(self.job, kind), self.told[place]))
        return words(
            tables=tables,
            on=on,
            keys=list(zip(*self.keys, strict=True)),
            at_least=None if least is None else float(least),
            at_most=None if at_most is None else float(at_most),
            fold=self.fold,
            **others,
        )


def words(**given: Any) -> dict[str, Any]:
    """Gives all words of the engine's verb, as far as they are not given without a meaning."""
    empty: dict[str, Any] = {
        "tables": [],
        "on": [],
        "keys": [],
        "at_least": None,
        "at_most": None,
        "fold": [],
        "any_bound": False,
        "id": None,
        "show": None,
        "pairs": [],
        "numbers": [],
        "flags": [],
        "texts": [],
    }
    return empty | given


def table_of(job: Job, kind: Kind) -> str:
    """Names a whole frame as a table, with the numbers of its rows."""
    name = job.fresh()
    kind.register(job.context, name, {column: column for column in kind.names()}, ROW)
    if isinstance(kind, Tabled):
        # The verb may put columns behind those of the table.
        frame = job.context.table(name).cache()
        job.context.deregister(name)
        job.context._session.register(name, frame, None)
    return name


def planned(context: Context, verb: str, given: dict[str, Any]) -> Frame:
    """Plans a verb of the engine that makes no tables of its own."""
    rows = context._session.verb(verb, given).rows
    assert rows is not None
    return Frame(context, rows)


def run(context: Context, verb: str, given: dict[str, Any]) -> tuple[Frame | None, str | None]:
    """Runs a verb of the engine. Gives its rows, and what is said of them."""
    with _ALONE:
        try:
            context._session.drop_made()
            answer = context._session.verb(verb, given)
            rows = None if answer.rows is None else Frame(context, answer.rows).cache()
            return rows, answer.text
        finally:
            context._session.drop_made()


def marks(job: Job, labels: Any, id: str | None) -> dict[str, Any]:
    """Gives the words for pairs that are marked, which the column ``id`` or places tell."""
    if labels is None:
        return {}
    table = (table_of(job, kind_of(labels, job)), "the frame of labels")
    return {"pairs": [table], "id": None if id is None else ("i", "i")}


def like(kind: Kind, answer: Frame) -> Any:
    """Gives the rows of an answer as a frame of the kind that came in."""
    if isinstance(kind, Tabled):
        return kind.finish(answer)
    name = type(kind).__name__
    if name == "Pandas":
        return answer.to_pandas()
    return answer.to_polars() if name == "Polars" else answer.to_arrow_table()


def one_or_two(
    job: Job,
    data: Any,
    other: Any,
    of: tuple[object, object, object],
    options: Options,
    keys: Columns | tuple[Columns, Columns] | None,
    fold: Folds | None,
    *,
    needs_bound: bool = True,
) -> Asked:
    """Gives what is asked of one frame, or of two."""
    from ._links import _keys

    on, left_on, right_on = of
    first = kind_of(data, job)
    if other is None:
        if left_on is not None or right_on is not None:
            raise PlanError("left_on and right_on are for two frames", "on is for one")
        return Asked(job, (first,), of_one(on, options, first), _keys(keys), folds(fold))
    second = kind_of(other, job)
    compared = of_both(on, left_on, right_on, options, first, second, needs_bound=needs_bound)
    told = ("the first frame", "the second frame")
    return Asked(job, (first, second), compared, _keys(keys), folds(fold), told)
