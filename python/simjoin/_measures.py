"""Measures and tokenizers of the one-liners, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import PlanError


@dataclass(frozen=True)
class Measure:
    """A function that compares two values."""

    function: str
    #: "set", "string" or "vector".
    family: str
    is_distance: bool = False
    #: The threshold where none is given.
    threshold: float | None = None
    #: measure(a, b) = measure(b, a).
    is_symmetric: bool = True

    @property
    def bound(self) -> str:
        """The name of the threshold's keyword."""
        return "at_most" if self.is_distance else "at_least"


_JACCARD = Measure("jaccard", "set", threshold=0.8)
_SETS = {
    "jaccard": _JACCARD,
    "dice": Measure("dice", "set", threshold=0.8),
    "cosine": Measure("set_cosine", "set", threshold=0.8),
    "set_cosine": Measure("set_cosine", "set", threshold=0.8),
    "overlap_coefficient": Measure("overlap_coefficient", "set", threshold=0.8),
    "containment": Measure("containment", "set", threshold=0.8, is_symmetric=False),
    "overlap": Measure("overlap", "set"),
}
_STRINGS = {
    "levenshtein": Measure("levenshtein", "string", is_distance=True),
    "damerau_levenshtein": Measure("damerau_levenshtein", "string", is_distance=True),
    "hamming": Measure("hamming", "string", is_distance=True),
    "levenshtein_similarity": Measure("levenshtein_similarity", "string", threshold=0.8),
    "indel_similarity": Measure("indel_similarity", "string", threshold=0.8),
    "jaro": Measure("jaro_similarity", "string", threshold=0.9),
    "jaro_similarity": Measure("jaro_similarity", "string", threshold=0.9),
    "jaro_winkler": Measure("jaro_winkler_similarity", "string", threshold=0.9),
    "jaro_winkler_similarity": Measure("jaro_winkler_similarity", "string", threshold=0.9),
}
_VECTORS = {
    "euclidean": Measure("array_distance", "vector", is_distance=True),
    "cosine": Measure("cosine_distance", "vector", is_distance=True),
    "cosine_distance": Measure("cosine_distance", "vector", is_distance=True),
    "inner_product": Measure("inner_product", "vector"),
}


def measure_of(name: str, family: str, column: str, kind: str) -> Measure:
    """Gives the measure of a name for a column of a family."""
    families = {"text": _SETS | _STRINGS, "set": _SETS, "vector": _VECTORS}
    if family == "integers":
        measure = _SETS.get(name) or _VECTORS.get(name)
        known = [*_SETS, *_VECTORS]
    elif family in families:
        measure, known = families[family].get(name), list(families[family])
    else:
        raise PlanError(
            f"the column {column} is a {kind}, which has no similarity",
            "text is compared by its q-grams, lists of integers, text or binary as sets, lists of "
            "numbers as vectors",
        )
    if measure is None:
        noun = {"vector": "vectors", "text": "texts"}.get(family, "sets")
        raise PlanError(
            f"the column {column} ({kind}) has no measure {name!r}",
            f"the measures of {noun} are {', '.join(known)}",
        )
    return measure


def threshold_of(
    measure: Measure, threshold: float | None, at_least: float | None, at_most: float | None
) -> float:
    """Gives the threshold, from whichever argument has it."""
    wrong = at_least if measure.is_distance else at_most
    if wrong is not None:
        other = "at_least" if measure.is_distance else "at_most"
        what = "a distance" if measure.is_distance else "a similarity"
        raise PlanError(f"{measure.function} is {what}: give {measure.bound}, not {other}")
    right = at_most if measure.is_distance else at_least
    if threshold is not None and right is not None:
        raise PlanError(f"give the threshold by its place or as {measure.bound}, not both")
    given = right if threshold is None else threshold
    if given is None:
        given = measure.threshold
    if given is None:
        raise PlanError(
            f"{measure.function} has no default threshold",
            f"give {measure.bound}, such as "
            f"{measure.bound}={'0.1' if measure.family == 'vector' else '2'}",
        )
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise PlanError(f"the threshold {given!r} is no number")
    return given


def tokens_of(tokenizer: str | None, value: str) -> str:
    """Gives the expression of a text's tokens."""
    name, _, length = (tokenizer or "qgrams:3").partition(":")
    if name in ("words", "word_tokens") and not length:
        return f"word_tokens({value})"
    if length.isdecimal() and int(length) > 0:
        if name == "qgrams":
            return f"qgrams({value}, {int(length)})"
        if name == "shingles":
            return f"shingles(word_tokens({value}), {int(length)})"
    raise PlanError(
        f"{tokenizer!r} is no tokenizer",
        "the tokenizers are 'qgrams:3' (runs of 3 characters), 'words' and 'shingles:2' (runs of 2 "
        "words); any length may stand behind the colon",
    )
