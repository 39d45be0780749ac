"""One call of a one-liner: its tables, and the condition that makes two rows similar."""

from __future__ import annotations

from dataclasses import dataclass

from ._context import Context, default_context
from ._errors import PlanError, no_column
from ._kinds import ROW, Kind
from ._measures import Measure, Options, measure_of, only_bits, threshold_of, tokens_of


@dataclass(frozen=True)
class Condition:
    """What makes two rows similar."""

    score: str
    text: str
    threshold: float
    measure: Measure

    def shown(self, value: str) -> str:
        """Gives the score of a value of the driving function, as an expression of SQL."""
        return self.measure.shown(value)

    @property
    def order(self) -> str:
        """The last argument of the functions that prefer one score to another."""
        return ", 'distance'" if self.measure.is_distance else ""


class Job:
    """One call: its tables, which are gone afterwards."""

    def __init__(self, context: Context | None) -> None:
        self.context = context or default_context()
        self._tables: list[str] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        for table in self._tables:
            self.context.deregister(table)

    def table(self, kind: Kind, columns: dict[str, str]) -> str:
        """Names columns of a frame as a table, with the numbers of its rows."""
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

    def score(
        self, tables: tuple[str, str], names: tuple[str, str], options: Options
    ) -> tuple[str, str, Measure]:
        """Gives the function that compares the columns ``x`` of two tables, as SQL.

        The name and the measure come along.
        """
        natives = [self.context.table(table)._native for table in tables]
        families, types = [], []
        for native in natives:
            place = [name for name, _ in native.columns()].index("x")
            families.append(native.families()[place])
            types.append(native.columns()[place][1])
        if families[0] != families[1] and "text" in families:
            raise PlanError(
                f"the columns {names[0]} ({types[0]}) and {names[1]} ({types[1]}) do not compare",
                "both are texts, or both are lists",
            )
        family = "vector" if "vector" in families else families[0]
        name, measure = measure_of(options, family, names[0], types[0])
        if family != "text" and options.tokenizer is not None:
            raise PlanError(
                f"the column {names[0]} ({types[0]}) is a list: a tokenizer is for texts"
            )
        values = ["a.x", "b.x"]
        if measure.family == "string" and options.tokenizer is not None:
            raise PlanError(f"{measure.function} compares texts as they are: it takes no tokenizer")
        if measure.family == "set":
            for place in range(1 if tables[0] == tables[1] else 2):
                # Rows of zeros and ones look like sets of two, and mean the places of the ones.
                if families[place] == "integers" and natives[place].has_only_bits("x"):
                    raise only_bits(names[place])
        if family == "text" and measure.family == "set":
            values = [tokens_of(options.tokenizer, value) for value in values]
        return f"{measure.function}({', '.join(values)})", name, measure

    def condition(
        self,
        tables: tuple[str, str],
        names: tuple[str, str],
        keys: int,
        options: Options,
    ) -> Condition:
        """Gives the condition of the columns ``x``, ``k0``, ``k1`` and so on of two tables."""
        score, name, measure = self.score(tables, names, options)
        bound = threshold_of(name, measure, options)
        text = f"{score} {'<=' if measure.is_distance else '>='} $t"
        for key in range(keys):
            text += f" AND a.k{key} = b.k{key}"
        return Condition(score, text, bound, measure)
