"""Nearest rows, against nested loops."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from conftest import CASES

import simjoin


def jaccard(a: list[int] | None, b: list[int] | None) -> float | None:
    """Gives the similarity of two lists as sets; None where one is missing."""
    if a is None or b is None:
        return None
    common, union = set(a) & set(b), set(a) | set(b)
    return len(common) / len(union) if common else 0.0


def distance(a: list[float] | None, b: list[float] | None) -> float | None:
    """Gives the distance of two vectors; None where one is missing."""
    if a is None or b is None:
        return None
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def neighbours(scores: list[list[float | None]], k: int, sign: int, ties: bool) -> list[Any]:
    """Gives (row, score) of the k best of each row; with ties, those as good as the last one."""
    found = []
    for row, of_row in enumerate(scores):
        ranked = sorted((sign * s, s) for s in of_row if s is not None)
        last = ranked[min(k, len(ranked)) - 1][0] if ranked else 0
        kept = [s for rank, s in ranked if rank <= last] if ties else [s for _, s in ranked[:k]]
        found += [(row, s) for s in kept]
    return found


@pytest.mark.parametrize("seed", range(CASES // 4))
def test_sets_and_vectors_have_the_neighbours_of_a_nested_loop(seed: int) -> None:
    rng = random.Random(seed)
    is_set = rng.random() < 0.5
    k, ties, alone = rng.choice([1, 2, 5, 50]), rng.random() < 0.5, rng.random() < 0.4

    def value() -> list[Any] | None:
        if rng.random() < 0.1:
            return None
        if is_set:
            return [rng.randrange(9) for _ in range(rng.randrange(6))]
        return [float(rng.randrange(-3, 4)) for _ in range(3)]

    a = [value() for _ in range(rng.randrange(1, 30))]
    b = a if alone else [value() for _ in range(rng.randrange(1, 30))]
    if is_set and (all(not v for v in a) or all(not v for v in b)):
        return
    if not is_set and (all(v is None for v in a) or all(v is None for v in b)):
        return
    score = jaccard if is_set else distance
    scores: list[list[float | None]] = []
    for i, x in enumerate(a):
        of_row = [None if alone and i == j else score(x, y) for j, y in enumerate(b)]
        # Sets without a common element are no neighbours.
        scores.append([s if s != 0.0 or not is_set else None for s in of_row])
    found = simjoin.nearest({"v": a}, None if alone else {"v": b}, "v", k, with_ties=ties)
    expected = neighbours(scores, k, -1 if is_set else 1, ties)
    assert list(zip(found["left"], found["score"], strict=True)) == expected
    for left, right, of_pair in zip(found["left"], found["right"], found["score"], strict=True):
        assert scores[left][right] == of_pair


def test_kinds_keys_and_columns() -> None:
    a = {"name": ["Jane Doe", "John Roe"], "city": ["Oslo", "Bonn"], "id": [7, 8]}
    b = {
        "name": ["Jane Do", "Jon Roe", "Jane Doe"],
        "city": ["Bonn", "Bonn", "Rome"],
        "id": [1, 2, 3],
    }
    found = simjoin.nearest(a, b, "name", keys="city", how="left", id="id", columns="name")
    assert found == {
        "left": [7, 8],
        "right": [None, 2],
        "score": [None, 0.375],
        "name_left": ["Jane Doe", "John Roe"],
        "name_right": [None, "Jon Roe"],
    }
    words = simjoin.nearest(["colour"], ["color", "colours", "cool"], k=2, measure="levenshtein")
    assert [row["score"] for row in words] == [1, 1]


def test_misuse_says_what_would_work() -> None:
    with pytest.raises(simjoin.PlanError, match="whole number from 1 on"):
        simjoin.nearest(["a"], ["b"], k=0)
    with pytest.raises(simjoin.PlanError, match="how is inner or left"):
        simjoin.nearest(["a"], ["b"], how="full")  # type: ignore[arg-type]
    with pytest.raises(simjoin.PlanError, match="give at_least, not at_most"):
        simjoin.nearest(["a"], ["b"], at_most=2)


def test_prepared_statements_keep_the_conditions_of_a_side() -> None:
    ctx = simjoin.connect()
    rows = [(1, "anna", 2), (2, "anna", 2), (3, "bert", 1)]
    ctx.register("a", {"id": [1, 2, 3], "s": [s for _, s, _ in rows], "k": [k for *_, k in rows]})
    query = (
        "SELECT a.id, b.id AS o FROM a SIMJOIN a b NEAREST 1 BY DISTANCE levenshtein(a.s, b.s) "
        "ON a.id <> b.id WHERE b.k = {k} AND a.id = 2"
    )
    expected = [
        {"id": a, "o": b}
        for a, text, _ in rows[1:2]
        for b, other, k in rows
        if a != b and k == 2 and text == other
    ]
    assert ctx.sql(query.format(k=2)).to_pylist() == expected
    ctx.sql("PREPARE constant AS " + query.format(k=2))
    assert ctx.sql("EXECUTE constant").to_pylist() == expected
    ctx.sql("PREPARE with_value(BIGINT) AS " + query.format(k="$1"))
    assert ctx.sql("EXECUTE with_value(2)").to_pylist() == expected
    # The nearest row is not one that the condition drops.
    assert ctx.sql("EXECUTE with_value(1)").to_pylist() == []
