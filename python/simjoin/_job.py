"""One call of a one-liner: its tables, and what makes two rows similar, for the engine's verbs."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from . import _verbs
from ._compared import Compared, Comparison
from ._context import Context, default_context
from ._errors import PlanError, has_derived_bounds, no_column
from ._frame import Frame
from ._kinds import ROW, Kind
from ._measures import EQUAL, Measure, measure_of, only_bits, threshold_of


@dataclass(frozen=True)
class Score:
    """The score of a compared column of two tables."""

    #: Of the columns of the tables, behind ``x``.
    place: int
    #: Of the measure, as it was given.
    name: str
    measure: Measure
    column: Compared

    @property
    def words(self) -> tuple[str, str, str, str | None, float | None]:
        """The words of the engine: columns, measure, tokenizer, weight."""
        own, column = f"x{self.place}", self.column
        return own, own, self.measure.name, column.options.tokenizer, column.weight


@dataclass(frozen=True)
class Condition:
    """What makes two rows similar: columns ``x0``, ``x1``, …, and equal ones, ``k0``, ``k1``, …."""

    scores: tuple[Score, ...]
    #: Of two rows: that of the only column, or the sum.
    measure: Measure
    is_weighted: bool
    #: None where there is none.
    threshold: float | None
    keys: int

    @property
    def words(self) -> dict[str, Any]:
        """The words of the engine's verbs."""
        bound = self.threshold
        return {
            "on": [score.words for score in self.scores],
            "keys": [(f"k{key}", f"k{key}") for key in range(self.keys)],
            "at_least": None if self.measure.is_distance or bound is None else float(bound),
            "at_most": float(bound) if self.measure.is_distance and bound is not None else None,
            "any_bound": True,
            "show": [],
        }


class Job:
    """One call: its tables, which are gone afterwards."""

    def __init__(self, context: Context | None) -> None:
        self.context = context or default_context()
        self._tables: list[str] = []
        self._token: Token[bool] | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            has_derived_bounds.reset(self._token)
        for table in self._tables:
            self.context.deregister(table)

    def table(
        self,
        kind: Kind,
        compared: list[str],
        keys: list[str],
        others: dict[str, str] | None = None,
    ) -> str:
        """Names columns of a frame as a table, with the numbers of its rows.

        The compared columns are ``x0``, ``x1``, …, the keys ``k0``, ``k1``, …, the others have the
        names that they are given.
        """
        columns = {f"x{place}": column for place, column in enumerate(compared)}
        columns |= {f"k{place}": key for place, key in enumerate(keys)}
        columns |= others or {}
        name = self.fresh()
        known = kind.names()
        for column in columns.values():
            if column not in known:
                raise no_column(column, known)
        kind.register(self.context, name, columns, ROW)
        return name

    def fresh(self) -> str:
        """Gives a name for a table that goes with the call."""
        name = self.context._fresh_name()
        self._tables.append(name)
        return name

    def score(self, tables: tuple[str, str], column: Compared, place: int = 0) -> Score:
        """Gives the score of the columns ``x0``, ``x1``, … of a place of two tables."""
        own, names, options = f"x{place}", (column.left, column.right), column.options
        natives = [self.context.table(table)._native for table in tables]
        families, types = [], []
        for native in natives:
            number = [name for name, _ in native.columns()].index(own)
            families.append(native.families()[number])
            types.append(native.columns()[number][1])
        is_equality = column.weight is not None and options.measure == EQUAL.function
        differs = not is_equality and families[0] != families[1]
        if differs and ("text" in families or "weighted" in families):
            way = (
                "texts, or both are lists" if "text" in families else "weighted sets, or neither is"
            )
            raise PlanError(
                f"the columns {names[0]} ({types[0]}) and {names[1]} ({types[1]}) do not compare",
                f"both are {way}",
            )
        family = "vector" if "vector" in families else families[0]
        name, measure = measure_of(options, family, names[0], types[0], column.weight)
        weighs = measure.family in ("weighted", "rarity") and family not in ("text", "weighted")
        if weighs and types[0] != types[1]:
            raise PlanError(
                f"{name} weighs the tokens of {names[0]} ({types[0]}) and of {names[1]} "
                f"({types[1]}) together, and they are of two types",
                "cast one column to the type of the other",
            )
        if options.tokenizer is not None:
            _check_tokenizer(measure, family, f"{names[0]} ({types[0]})")
        if measure.family in ("set", "weighted", "rarity"):
            for side in range(1 if tables[0] == tables[1] else 2):
                # Rows of zeros and ones look like sets of two, and mean the places of the ones.
                if families[side] == "integers" and natives[side].has_only_bits(own):
                    raise only_bits(names[side])
        return Score(place, name, measure, column)

    def condition(
        self, tables: tuple[str, str], compared: Comparison, keys: int, *, needs_bound: bool = True
    ) -> Condition:
        """Gives the condition that makes rows of two tables similar."""
        scores = tuple(
            self.score(tables, column, place) for place, column in enumerate(compared.columns)
        )
        if compared.is_weighted and all(score.measure is EQUAL for score in scores):
            raise PlanError(
                "on compares no column by a similarity",
                "keys names columns that are equal in both rows; on has one similarity at least",
            )
        name, measure = scores[0].name, scores[0].measure
        if compared.is_weighted:
            is_symmetric = all(score.measure.is_symmetric for score in scores)
            name, measure = "the sum", Measure("+", "+", "sum", is_symmetric=is_symmetric)
            self._token = has_derived_bounds.set(True)
        bound, options = None, compared.options
        given = (options.threshold, options.at_least, options.at_most)
        if any(one is not None for one in given) or (needs_bound and not compared.is_weighted):
            bound = threshold_of(name, measure, options)
        return Condition(scores, measure, compared.is_weighted, bound, keys)

    def run(self, verb: str, condition: Condition, tables: Sequence[str], **given: Any) -> Frame:
        """Plans a verb of the engine over tables."""
        told = [(table, "the frame") for table in dict.fromkeys(tables)]
        words = _verbs.words(tables=told, **condition.words, **given)
        return _verbs.planned(self.context, verb, words)

    def run_alone(
        self, verb: str, condition: Condition, tables: Sequence[str], **given: Any
    ) -> Frame:
        """Runs a verb of the engine that makes tables of its own. Gives its rows."""
        told = [(table, "the frame") for table in tables]
        words = _verbs.words(tables=told, **condition.words, **given)
        rows, _ = _verbs.run(self.context, verb, words)
        assert rows is not None
        return rows


def _check_tokenizer(measure: Measure, family: str, column: str) -> None:
    """Refuses a tokenizer where there is no text to make a set of."""
    if measure.family in ("string", "equality"):
        raise PlanError(f"{measure.function} compares texts as they are: it takes no tokenizer")
    if family != "text":
        raise PlanError(f"the column {column} is a list: a tokenizer is for texts")
