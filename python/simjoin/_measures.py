"""Measures of the one-liners, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from . import _native
from ._errors import PlanError, did_you_mean


@dataclass(frozen=True)
class Measure:
    """A function that compares two values."""

    #: Of the engine.
    name: str
    function: str
    #: "set", "weighted" (sets with weights, or tokens that the verb weighs), "rarity" (tokens that
    #: the verb weighs), "string" or "vector".
    family: str
    is_distance: bool = False
    #: The threshold where none is given.
    threshold: float | None = None
    #: measure(a, b) = measure(b, a).
    is_symmetric: bool = True
    #: Of measures that are no similarities up to 1: the name of one of the same values.
    similarity: str | None = None

    @property
    def bound(self) -> str:
        """The name of the threshold's keyword."""
        return "at_most" if self.is_distance else "at_least"


def _of_family(family: str) -> dict[str, Measure]:
    """Gives the measures of a family by their names, in the order of the engine."""
    measures = (Measure(*words) for words in _native.measures())
    return {measure.name: measure for measure in measures if measure.family == family}


_SETS = _of_family("set")
_WEIGHTED = _of_family("weighted")
#: Of sets whose tokens have no weights yet.
_TOKENS = _SETS | _of_family("rarity") | _WEIGHTED
_STRINGS = _of_family("string")
_VECTORS = _of_family("vector")
#: The distance, where no least similarity asks for the similarity.
_VECTORS["cosine"] = _VECTORS["cosine_distance"]
#: Whether two values are equal, which has a place in a weighted sum alone.
EQUAL = Measure("equal", "equal", "equality")


@dataclass(frozen=True)
class Options:
    """The arguments that say what is similar."""

    #: None: by the kind of the column.
    measure: str | None
    tokenizer: str | None
    threshold: float | None
    at_least: float | None
    at_most: float | None


def measure_of(
    options: Options, family: str, column: str, kind: str, weight: float | None = None
) -> tuple[str, Measure]:
    """Gives the measure for a column of a family, with its name.

    With a weight it is one that has a place in a weighted sum.
    """
    if weight is not None and options.measure == "equal":
        return "equal", EQUAL
    usual = {"vector": "euclidean", "weighted": "weighted_cosine"}
    name = options.measure or usual.get(family, "jaccard")
    families = {
        "text": _TOKENS | _STRINGS,
        "set": _TOKENS,
        "weighted": _WEIGHTED,
        "vector": _VECTORS,
        "integers": _VECTORS | _TOKENS,
    }
    if family not in families:
        way = "" if weight is None else f"give ('equal', {weight}) to compare as they are; "
        raise PlanError(
            f"the column {column} is a {kind}, which has no similarity", way + _way(kind)
        )
    measure = families[family].get(name)
    if measure is None:
        nouns = {"vector": "vectors", "text": "texts", "weighted": "weighted sets"}
        noun = nouns.get(family, "sets")
        known = list(families[family])
        if weight is not None:
            known = [
                *(own for own, found in families[family].items() if _has_place(own, found)),
                "equal",
            ]
        raise PlanError(
            f"the column {column} ({kind}) has no measure {name!r}",
            f"{did_you_mean(name, known)}the measures of {noun} are {', '.join(known)}",
        )
    if weight is not None and not _has_place(name, measure):
        what = "a distance" if measure.is_distance else "not bounded by 1"
        raise PlanError(
            f"the column {column} ({kind}) would have the measure {name}, which is {what}: a "
            "weighted sum is made of similarities",
            f"on={{{column!r}: ({measure.similarity!r}, {weight})}}",
        )
    is_similarity = weight is not None or options.at_least is not None
    if name == "cosine" and measure.family == "vector" and is_similarity:
        measure = _VECTORS["cosine_similarity"]
    return name, measure


def _has_place(name: str, measure: Measure) -> bool:
    """Tells whether a weighted sum takes the measure; ``cosine`` is a similarity there."""
    return measure.similarity is None or name == "cosine"


def _way(kind: str) -> str:
    """Gives a way to compare values of a type that has no similarity."""
    if "Boolean" in kind:
        return f"bits are compared by the places of the ones: {ON_BITS}"
    if "Binary" in kind:
        return (
            "bits packed into bytes are compared by the places of the ones: "
            "[np.flatnonzero(np.unpackbits(np.frombuffer(value, 'uint8'))) for value in column]"
        )
    return (
        "text is compared by its q-grams, lists of integers, text or binary as sets, lists of "
        "numbers as vectors"
    )


#: Rows of zeros and ones as the sets of the places of the ones.
ON_BITS = "[np.flatnonzero(row) for row in X]"


def only_bits(column: str) -> PlanError:
    """Gives the error for lists of zeros and ones that would be compared as sets."""
    return PlanError(
        f"the column {column} has lists of 0 and 1 alone, which as sets are the same: {{0, 1}}",
        f"give the places of the ones, {ON_BITS}, or compare vectors, by measure='euclidean'",
    )


def threshold_of(name: str, measure: Measure, options: Options) -> float:
    """Gives the bound of the measure's function, from whichever argument has the threshold."""
    keyword = measure.bound
    is_distance = keyword == "at_most"
    threshold, at_least, at_most = options.threshold, options.at_least, options.at_most
    wrong, right = (at_least, at_most) if is_distance else (at_most, at_least)
    if wrong is not None:
        if right is not None:
            raise PlanError("give the threshold as at_least or as at_most, not both")
        other = "at_least" if is_distance else "at_most"
        what = "a distance" if is_distance else "a similarity"
        way = "measure='cosine' takes at_least" if name == "euclidean" else None
        raise PlanError(f"{name} is {what}: give {keyword}, not {other}", way)
    if threshold is not None and right is not None:
        raise PlanError(f"give the threshold by its place or as {keyword}, not both")
    if threshold is not None and is_distance:
        raise _unnamed(name, measure, threshold)
    given = right if threshold is None else threshold
    if given is None:
        given = measure.threshold
    if given is None and measure.family == "weighted":
        raise PlanError(
            f"{name} has no default threshold",
            f"it adds products of weights, which is for nearest; {measure.similarity} is at most 1",
        )
    if given is None:
        raise PlanError(
            f"{name} has no default threshold",
            f"give {keyword}, such as {keyword}={_example(measure)}"
            + (", or at_least, such as at_least=0.9" if name == "cosine" else ""),
        )
    bound = number(given)
    if bound != bound:
        raise PlanError("the threshold is NaN, which no score reaches")
    return bound


def number(given: Any) -> float:
    """Gives a threshold of any type of numbers, those of NumPy among them, as one of Python's."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise PlanError(f"the threshold {given!r} is no number")
    return int(given) if isinstance(given, Integral) else float(given)


def _example(measure: Measure) -> str:
    """Gives a threshold that such values may have."""
    return "0.1" if measure.family == "vector" else "2"


def _unnamed(name: str, measure: Measure, threshold: object) -> PlanError:
    """Gives the error for a bound of a distance that does not say what it is."""
    ways = f"at_most={threshold!r} is the greatest distance"
    if name == "cosine":
        ways += f", at_least={threshold!r} the least similarity, 1 - distance"
    elif name == "levenshtein":
        ways += "; measure='levenshtein_similarity' takes at_least"
    return PlanError(
        f"{name} of {'vectors' if measure.family == 'vector' else 'texts'} is a distance: name its "
        "threshold",
        ways,
    )
