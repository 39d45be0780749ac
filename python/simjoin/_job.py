"""One call of a one-liner: its tables, and the condition that makes two rows similar."""

from __future__ import annotations

from contextvars import Token
from dataclasses import dataclass

from . import _native
from ._compared import Compared, Comparison
from ._context import Context, default_context
from ._errors import PlanError, has_derived_bounds, no_column
from ._kinds import ROW, Kind
from ._measures import EQUAL, Measure, measure_of, only_bits, threshold_of, tokens_of
from ._sql import quoted


@dataclass(frozen=True)
class Score:
    """The score of a compared column of two tables, as SQL.

    ``a`` and ``b`` are the names of the tables there.
    """

    #: Of the columns of the tables, behind ``x``.
    place: int
    #: Of the measure, as it was given.
    name: str
    measure: Measure
    #: Whether texts become sets.
    has_tokens: bool
    column: Compared

    def value(self, a: str = "a", b: str = "b") -> str:
        """Gives the value of the measure's function."""
        left, right = f"{a}.x{self.place}", f"{b}.x{self.place}"
        if self.measure is EQUAL:
            return f"CASE WHEN {left} = {right} THEN 1.0 WHEN {left} <> {right} THEN 0.0 END"
        if self.has_tokens:
            left, right = (tokens_of(self.column.options.tokenizer, own) for own in (left, right))
        return f"{self.measure.function}({left}, {right})"

    def number(self, a: str = "a", b: str = "b") -> str:
        """Gives the value; NaN, which joins take for a missing value, is missing."""
        value = self.value(a, b)
        if self.measure.family != "vector":
            return value
        return f"nullif({value}, CAST('NaN' AS DOUBLE))"

    def shown(self, a: str = "a", b: str = "b") -> str:
        """Gives the score; that of a missing value is missing."""
        return self.measure.shown(self.number(a, b))

    def weighted(self, value: str, a: str = "a", b: str = "b") -> str:
        """Gives the part of a weighted sum, in which a missing value counts as 0."""
        weight = self.column.weight
        if self.measure is EQUAL:
            return f"CASE WHEN {a}.x{self.place} = {b}.x{self.place} THEN {weight!r} ELSE 0.0 END"
        if self.measure.is_complement:
            # Bounds follow where only the function is replaced, and not the difference.
            return f"{weight!r} * (1 - coalesce({value}, 1.0))"
        return f"{weight!r} * coalesce({value}, 0.0)"


@dataclass(frozen=True)
class Condition:
    """What makes two rows similar: columns ``x0``, ``x1``, …, and equal ones, ``k0``, ``k1``, …."""

    scores: tuple[Score, ...]
    #: Of two rows: that of the only column, or the sum.
    measure: Measure
    is_weighted: bool
    #: None of a weighted sum that has none.
    threshold: float | None
    keys: int

    def value(self, a: str = "a", b: str = "b") -> str:
        """Gives what the threshold bounds, as an expression of SQL."""
        if not self.is_weighted:
            return self.scores[0].value(a, b)
        return " + ".join(score.weighted(score.number(a, b), a, b) for score in self.scores)

    def shown(self, value: str) -> str:
        """Gives the score of such a value, as an expression of SQL."""
        return self.measure.shown(value)

    @property
    def ranked(self) -> str:
        """What ranks rows of the tables ``a`` and ``b``: of functions as they are bounds follow."""
        if not self.is_weighted:
            return self.value()
        return " + ".join(score.weighted(score.value()) for score in self.scores)

    @property
    def text(self) -> str:
        """The condition of rows of the tables ``a`` and ``b``."""
        value = self.ranked
        equal = "".join(f" AND a.k{key} = b.k{key}" for key in range(self.keys))
        return f"{value} {'<=' if self.measure.is_distance else '>='} $t{equal}"

    def parts(self, a: str = "a", b: str = "b") -> str:
        """Gives the columns ``p0``, ``p1``, … of a weighted sum, each behind a comma."""
        if not self.is_weighted:
            return ""
        return "".join(f", {score.shown(a, b)} AS p{score.place}" for score in self.scores)

    @property
    def order(self) -> str:
        """The last argument of the functions that prefer one score to another."""
        return ", 'distance'" if self.measure.is_distance else ""


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
        fold: list[str] | None = None,
    ) -> str:
        """Names columns of a frame as a table, with the numbers of its rows.

        The compared columns are ``x0``, ``x1``, …, the keys ``k0``, ``k1``, …, the others have the
        names that they are given. Compared texts are without the spellings of ``fold``.
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
        return self._folded(name, len(compared), fold) if fold else name

    def _folded(self, table: str, compared: int, fold: list[str]) -> str:
        """Gives a table whose compared texts are without differences of spellings."""
        native = self.context.table(table)._native
        names = [name for name, _ in native.columns()]
        kinds = dict(zip(names, native.families(), strict=True))
        texts = {
            name for name in (f"x{place}" for place in range(compared)) if kinds[name] == "text"
        }
        columns = ", ".join(
            f"{_native.Session.folded(fold, name)} AS {name}" if name in texts else quoted(name)
            for name in names
        )
        folded = self.fresh()
        frame = self.context.sql(f"SELECT {columns} FROM {quoted(table)}").cache()
        self.context._session.register(folded, frame, None)
        return folded

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
        if not is_equality and families[0] != families[1] and "text" in families:
            raise PlanError(
                f"the columns {names[0]} ({types[0]}) and {names[1]} ({types[1]}) do not compare",
                "both are texts, or both are lists",
            )
        family = "vector" if "vector" in families else families[0]
        name, measure = measure_of(options, family, names[0], types[0], column.weight)
        if options.tokenizer is not None:
            _check_tokenizer(measure, family, f"{names[0]} ({types[0]})")
        if measure.family == "set":
            for side in range(1 if tables[0] == tables[1] else 2):
                # Rows of zeros and ones look like sets of two, and mean the places of the ones.
                if families[side] == "integers" and natives[side].has_only_bits(own):
                    raise only_bits(names[side])
        return Score(place, name, measure, family == "text" and measure.family == "set", column)

    def condition(self, tables: tuple[str, str], compared: Comparison, keys: int) -> Condition:
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
            name, measure = "the sum", Measure("+", "sum", is_symmetric=is_symmetric)
            self._token = has_derived_bounds.set(True)
        bound = None
        if not compared.is_weighted or compared.options.at_least is not None:
            bound = threshold_of(name, measure, compared.options)
        return Condition(scores, measure, compared.is_weighted, bound, keys)


def _check_tokenizer(measure: Measure, family: str, column: str) -> None:
    """Refuses a tokenizer where there is no text to make a set of."""
    if measure.family in ("string", "equality"):
        raise PlanError(f"{measure.function} compares texts as they are: it takes no tokenizer")
    if family != "text":
        raise PlanError(f"the column {column} is a list: a tokenizer is for texts")
