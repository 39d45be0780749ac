"""The measures of texts as they are, against textbook programmes."""

from __future__ import annotations

import random

import pytest

import simjoin


def edits(a: str, b: str) -> int:
    """Gives the fewest insertions, deletions and replacements."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def texts(rng: random.Random, count: int) -> list[str]:
    """Gives random texts, some of them edited copies of others."""
    found = ["".join(rng.choices("abcé漢", k=rng.randrange(8))) for _ in range(count // 2)]
    for text in found[:]:
        place = rng.randrange(len(text) + 1)
        found.append(text[:place] + rng.choice("abx") + text[place + rng.randrange(2) :])
    return found


@pytest.mark.parametrize("at_most", [0, 1, 2, 4])
def test_distances_are_those_of_the_textbook(at_most: int) -> None:
    rng = random.Random(at_most)
    for _ in range(20):
        rows = texts(rng, 40)
        found = simjoin.near_duplicates(rows, measure="levenshtein", at_most=at_most)
        pairs = [
            {"left": i, "right": j, "score": edits(a, b)}
            for i, a in enumerate(rows)
            for j, b in enumerate(rows)
            if i < j and edits(a, b) <= at_most
        ]
        assert found == pairs


def test_similarities_are_those_of_the_textbook() -> None:
    rng = random.Random(7)
    for _ in range(20):
        rows = texts(rng, 40)
        found = simjoin.near_duplicates(rows, measure="levenshtein_similarity", at_least=0.75)
        pairs = []
        for i, a in enumerate(rows):
            for j, b in enumerate(rows[i + 1 :], i + 1):
                longer = max(len(a), len(b))
                score = 1.0 - edits(a, b) / longer if longer else 1.0
                if score >= 0.75:
                    pairs.append({"left": i, "right": j, "score": score})
        assert found == pairs


def test_names_are_linked() -> None:
    ours = {"name": ["Martha Dwayne", "Jon Smith", "Ann Poe"]}
    theirs = {"name": ["John Smith", "Marhta Duane"]}
    linked = simjoin.match(ours, theirs, "name", measure="jaro_winkler", at_least=0.85)
    assert linked["left"] == [0, 1]
    assert linked["right"] == [1, 0]
    kept = simjoin.deduplicate(["abcd", "abce", "xyz"], measure="damerau_levenshtein", at_most=1)
    assert kept == ["abcd", "xyz"]


def test_misuse_says_what_would_work() -> None:
    rows = ["a", "b"]
    with pytest.raises(simjoin.PlanError, match="no default threshold"):
        simjoin.near_duplicates(rows, measure="levenshtein")
    with pytest.raises(simjoin.PlanError, match="give at_most, not at_least"):
        simjoin.near_duplicates(rows, measure="levenshtein", at_least=1)
    with pytest.raises(simjoin.PlanError, match="takes no tokenizer"):
        simjoin.near_duplicates(rows, measure="levenshtein", at_most=1, tokenizer="words")
    with pytest.raises(simjoin.PlanError, match="has no measure 'levenshtein'"):
        simjoin.near_duplicates({"x": [[1, 2], [3]]}, "x", measure="levenshtein", at_most=1)
