"""The compared columns: what ``on``, ``left_on`` and ``right_on`` name, and with which weights."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

from ._errors import PlanError
from ._kinds import Kind
from ._measures import Options, number

#: The compared column, or columns with weights: dictionaries that are made before they are given
#: have values of several types, which a type of weights would refuse.
On = str | Mapping[str, Any] | None
#: Of two frames: keys may be pairs of columns.
OnBoth = str | Mapping[Any, Any] | None

_FORMS = (
    "a weight, 0.5, a measure and a weight, ('jaccard', 0.5), or a tokenizer too, "
    "('jaccard', 0.5, 'words')"
)


@dataclass(frozen=True)
class Compared:
    """A column of each frame, compared with the other one."""

    left: str
    right: str
    #: The measure and the tokenizer of this column.
    options: Options
    #: The weight of the score; None for the only column.
    weight: float | None = None

    @property
    def name(self) -> str:
        """The name of the column, or those of both."""
        return self.left if self.left == self.right else f"{self.left}_{self.right}"


@dataclass(frozen=True)
class Comparison:
    """The columns that are compared, and the threshold."""

    columns: tuple[Compared, ...]
    options: Options

    @property
    def is_weighted(self) -> bool:
        """Whether the score of two rows is a weighted sum of the scores of columns."""
        return self.columns[0].weight is not None

    @property
    def lefts(self) -> list[str]:
        """The compared columns of the first frame."""
        return [column.left for column in self.columns]

    @property
    def rights(self) -> list[str]:
        """The compared columns of the second frame."""
        return [column.right for column in self.columns]


def of_one(on: object, options: Options, kind: Kind) -> Comparison:
    """Gives the compared columns of one frame."""
    if not isinstance(on, Mapping):
        name = _name(on, "on", kind, "")
        return Comparison((Compared(name, name, options),), options)
    compared = _weighted(on, options)
    for column in compared.columns:
        if column.left != column.right:
            raise PlanError(
                f"on has the pair {(column.left, column.right)!r}, and pairs are for two frames",
                "name one column; join, link and match take two frames, which may be the same",
            )
    return compared


def of_both(
    on: object,
    left_on: object,
    right_on: object,
    options: Options,
    a: Kind,
    b: Kind,
    *,
    needs_bound: bool = True,
) -> Comparison:
    """Gives the compared columns of two frames; weights without a bound where none is needed."""
    if left_on is None and right_on is None:
        if isinstance(on, Mapping):
            return _weighted(on, options, needs_bound=needs_bound)
        names = [_name(on, "on", kind, _sides(on)) for kind in (a, b)]
    elif on is not None:
        given = "left_on" if left_on is not None else "right_on"
        raise PlanError(
            f"on and {given} are both given",
            "on is for columns of one name in both frames, left_on and right_on for two names",
        )
    elif left_on is None or right_on is None:
        missing = "left_on" if left_on is None else "right_on"
        raise PlanError(
            f"{missing} is missing: left_on and right_on go together",
            "left_on is the column of the first frame, right_on that of the second",
        )
    else:
        names = [_name(left_on, "left_on", a, ""), _name(right_on, "right_on", b, "")]
    return Comparison((Compared(names[0], names[1], options),), options)


def _sides(on: object) -> str:
    """Gives the advice for two names where one is wanted, as far as they may be of two frames."""
    if isinstance(on, Sequence) and len(on) == 2:
        return f"left_on={on[0]!r}, right_on={on[1]!r} compare a column of each frame; "
    return ""


def _name(on: object, argument: str, kind: Kind, way: str) -> str:
    """Gives the compared column; frames of one column need not name it."""
    if isinstance(on, str):
        return on
    names = kind.names()
    if on is None:
        if len(names) == 1:
            return names[0]
        raise PlanError("on is missing: name the column to compare", f"one of {', '.join(names)}")
    if isinstance(on, list | tuple) and all(isinstance(name, str) for name in on):
        if len(on) == 1:
            raise PlanError(f"{argument}={on!r} is a list", f"{argument}={on[0]!r} names a column")
        weights = ", ".join(f"{name!r}: {round(1 / len(on), 2)}" for name in on)
        raise PlanError(
            f"{argument}={on!r} names {len(on)} columns, and one is compared",
            f"{way}on={{{weights}}} compares all of them, with weights; SQL takes a condition for "
            "each: simjoin.connect().sql(…)",
        )
    if isinstance(on, Mapping):
        raise PlanError(
            f"{argument} is one column, and has weights",
            "on={('title', 'name'): 0.5} compares columns of two names with weights",
        )
    raise PlanError(
        f"{argument}={on!r} is no name of a column",
        f"{argument} is the column to compare; at_least and at_most are the threshold",
    )


def _weighted(on: Mapping[Any, Any], options: Options, *, needs_bound: bool = True) -> Comparison:
    """Gives the columns of a weighted sum."""
    if not on:
        raise PlanError("on={} has no columns", "on={'name': 0.5, 'city': 0.5} has two")
    for argument, example in (
        ("measure", "('jaccard', 0.5)"),
        ("tokenizer", "('jaccard', 0.5, 'words')"),
    ):
        if (given := getattr(options, argument)) is not None:
            raise PlanError(
                f"{argument}={given!r} is for one column, and on has weights",
                f"on={{'name': {example}}} has it beside the weight",
            )
    parsed = [(_key(key), *_weight(key, value)) for key, value in on.items()]
    # As SQL adds them: sum() would add the errors of rounding at the end.
    greatest = reduce(operator.add, (weight for _, _, weight, _ in parsed))
    least = _at_least(options, greatest, needs_bound=needs_bound)
    columns = (
        Compared(left, right, Options(measure, tokenizer, None, least, None), weight)
        for (left, right), measure, weight, tokenizer in parsed
    )
    return Comparison(tuple(columns), Options(None, None, None, least, None))


def _key(key: object) -> tuple[str, str]:
    """Gives the columns of a key of ``on``."""
    if isinstance(key, str):
        return key, key
    if isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key):
        return key
    raise PlanError(
        f"on has the key {key!r}, which is no name of a column",
        "keys are names, or pairs of a name in each frame: ('title', 'name')",
    )


def _weight(key: object, value: object) -> tuple[str | None, float, str | None]:
    """Gives the measure, the weight and the tokenizer of a value of ``on``."""
    measure, weight, tokenizer = None, value, None
    if isinstance(value, tuple) and len(value) in (2, 3):
        measure, weight, tokenizer = value if len(value) == 3 else (*value, None)
        if not isinstance(measure, str) or not isinstance(tokenizer, str | None):
            raise PlanError(f"on[{key!r}] is {value!r}", f"give {_FORMS}")
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise PlanError(
            f"the weight of {key!r} is {weight!r}, which is no number", f"give {_FORMS}"
        )
    weight = float(weight)
    if not 0 < weight < math.inf:
        raise PlanError(
            f"the weight of {key!r} is {weight}",
            "weights are finite numbers above 0; leave out columns that do not count",
        )
    return measure, weight, tokenizer


def _at_least(options: Options, greatest: float, *, needs_bound: bool) -> float | None:
    """Gives the least weighted sum, which rows can reach; None where none is needed or given."""
    if options.at_most is not None:
        raise PlanError("a weighted sum is a similarity: give at_least, not at_most")
    given = options.at_least if options.threshold is None else options.threshold
    if given is None and not needs_bound:
        return None
    if given is None:
        raise PlanError(
            "at_least is missing: weights have no default threshold",
            f"at_least is the least weighted sum, of at most {greatest}: at_least="
            f"{float(f'{0.8 * greatest:.2g}')}",
        )
    if options.threshold is not None and options.at_least is not None:
        raise PlanError("give the threshold by its place or as at_least, not both")
    least = float(number(given))
    if least > greatest:
        rounding = ""
        if math.isclose(least, greatest, rel_tol=1e-9):
            rounding = f", which rounding makes of the weights: at_least={greatest} is reached"
        raise PlanError(
            f"at_least={given!r} is above the greatest sum that rows can reach, {greatest}",
            f"the weights add up to {greatest}{rounding}",
        )
    if not least > 0:
        raise PlanError(
            f"at_least={given!r} is no bound: give a weighted sum above 0",
            f"the weights add up to {greatest}",
        )
    return least
