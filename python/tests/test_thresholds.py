"""Thresholds say what they bound, and cosines of vectors are exact as similarities."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import simjoin

VECTORS = {"v": [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [1.0, 1.0]]}
WORDS = {"w": ["night", "nights", "knight", "day"]}

#: Each verb over one frame, or over one and itself.
VERBS = {
    "near_duplicates": simjoin.near_duplicates,
    "clusters": simjoin.clusters,
    "deduplicate": simjoin.deduplicate,
    "join": lambda data, *rest, **named: simjoin.join(data, data, *rest, **named),
    "link": lambda data, *rest, **named: simjoin.link(data, data, *rest, **named),
    "match": lambda data, *rest, **named: simjoin.match(data, data, *rest, **named),
}


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_distance_names_its_threshold(verb: str) -> None:
    call = VERBS[verb]
    for data, column, threshold, measure, ways in [
        (VECTORS, "v", 0.95, "cosine", ["at_most=0.95", "at_least=0.95 the least similarity"]),
        (VECTORS, "v", 0.95, "cosine_distance", ["at_most=0.95"]),
        (VECTORS, "v", 3.0, "euclidean", ["at_most=3.0"]),
        (VECTORS, "v", 3.0, None, ["at_most=3.0"]),
        (WORDS, "w", 2, "levenshtein", ["at_most=2", "levenshtein_similarity"]),
        (WORDS, "w", 2, "hamming", ["at_most=2"]),
    ]:
        with pytest.raises(simjoin.PlanError, match="is a distance: name its threshold") as raised:
            call(data, column, threshold, measure=measure)
        for way in ways:
            assert way in str(raised.value)
    for wrong, message in [
        ({"at_least": 0.9, "measure": "euclidean"}, "euclidean is a distance: give at_most"),
        ({"at_least": 0.9, "measure": "cosine_distance"}, "give at_most"),
        ({"at_most": 0.9, "measure": "cosine_similarity"}, "give at_least"),
        ({"at_least": 0.9, "at_most": 0.1, "measure": "cosine"}, "not both"),
        ({"measure": "cosine"}, "at_least=0.9"),
    ]:
        with pytest.raises(simjoin.PlanError, match=message):
            call(VECTORS, "v", **wrong)


def test_cosines_of_vectors_are_similarities_with_at_least() -> None:
    near = [{"left": 0, "right": 1, "score": 1 - distance([1.0, 0.0], [1.0, 0.1])}]
    columns = {name: [row[name] for row in near] for name in near[0]}
    found = simjoin.near_duplicates(VECTORS, "v", measure="cosine", at_least=0.95)
    assert found == columns and found["score"][0] > 0.99
    assert simjoin.near_duplicates(VECTORS, "v", 0.95, measure="cosine_similarity") == columns
    assert simjoin.clusters(VECTORS, "v", measure="cosine", at_least=0.95)["cluster"] == [
        0,
        0,
        2,
        3,
    ]
    kept, audit = simjoin.deduplicate(VECTORS, "v", measure="cosine", at_least=0.95, audit=True)
    assert kept["v"] == [VECTORS["v"][n] for n in (0, 2, 3)]
    assert audit == {"dropped": [1], "kept": [0], "score": columns["score"]}
    one, other = {"v": VECTORS["v"][:1]}, {"v": VECTORS["v"][1:]}
    joined = simjoin.join(one, other, "v", measure="cosine", at_least=0.95)
    assert joined["score"] == columns["score"]
    assert (
        simjoin.match(one, other, "v", measure="cosine", at_least=0.95)["score"] == joined["score"]
    )
    nearest = simjoin.nearest(one, other, "v", k=2, measure="cosine", at_least=0.5)
    assert nearest["right"] == [0, 2]
    assert nearest["score"] == [1 - distance([1.0, 0.0], v) for v in ([1.0, 0.1], [1.0, 1.0])]
    as_distance = simjoin.nearest(one, other, "v", k=2, measure="cosine", at_most=0.5)
    assert as_distance["score"] == [distance([1.0, 0.0], v) for v in ([1.0, 0.1], [1.0, 1.0])]
    by_name = simjoin.nearest(one, other, "v", k=1, measure="cosine_similarity")
    assert by_name["score"] == nearest["score"][:1]


def distance(a: list[float], b: list[float]) -> float:
    """Gives the engine's cosine distance of two vectors."""
    rows = simjoin.connect().sql("SELECT cosine_distance($1, $2) AS d", a, b).to_pylist()
    value: float = rows[0]["d"]
    return value


def test_vectors_have_a_measure_by_themselves() -> None:
    numpy = pytest.importorskip("numpy")
    vectors = numpy.array([[0.0, 0.0], [0.0, 3.0], [9.0, 9.0]])
    expected = {"left": [0], "right": [1], "score": [3.0]}
    assert simjoin.near_duplicates({"v": vectors}, at_most=3.0) == expected
    assert simjoin.near_duplicates({"v": vectors}, at_most=numpy.float32(3)) == expected
    assert simjoin.clusters({"v": vectors}, "v", at_most=3)["cluster_size"] == [2, 2, 1]


@pytest.mark.parametrize("seed", range(3))
def test_similarities_at_the_bound_are_found(seed: int) -> None:
    rng = random.Random(seed)
    rows: list[Any] = [[rng.gauss(0, 1) for _ in range(3)] for _ in range(120)]
    context = simjoin.connect()
    context.register("t", {"id": list(range(len(rows))), "v": rows})
    scored = context.sql(
        "SELECT a.id AS left, b.id AS right, 1 - cosine_distance(a.v, b.v) AS score "
        "FROM t a JOIN t b ON a.id < b.id ORDER BY 1, 2"
    ).to_pylist()
    # A similarity that some pair has, and the doubles beside it.
    attained = [rng.choice(scored)["score"] for _ in range(4)]
    for score in attained:
        for bound in (math.nextafter(score, -2), score, math.nextafter(score, 2)):
            expected = [row for row in scored if row["score"] >= bound]
            found = simjoin.near_duplicates({"v": rows}, "v", measure="cosine", at_least=bound)
            names = ("left", "right", "score")
            assert found == {name: [row[name] for row in expected] for name in names}


@pytest.mark.filterwarnings("ignore::simjoin.SimjoinWarning")
@pytest.mark.parametrize(
    "similarity",
    [0.95, 0.1, 1.0, 1, 0.0, -0.3, -1.0, 1.0 - 2**-53, 2.0, -5e-324, 1e300, math.inf, -math.inf],
)
def test_similarities_of_any_size_are_bounds(similarity: float) -> None:
    vectors = [*VECTORS["v"], [-1.0, 0.0], [0.0, -2.0], [2.0, 0.0]]
    scores = {
        (a, b): 1 - distance(vectors[a], vectors[b]) for b in range(len(vectors)) for a in range(b)
    }
    expected = {pair: score for pair, score in scores.items() if score >= similarity}
    found = simjoin.near_duplicates({"v": vectors}, "v", measure="cosine", at_least=similarity)
    pairs = zip(found["left"], found["right"], strict=True)
    assert dict(zip(pairs, found["score"], strict=True)) == expected


@pytest.mark.parametrize("verb", list(VERBS))
def test_nothing_reaches_a_nan(verb: str) -> None:
    for measure in ("cosine", "cosine_similarity", "inner_product"):
        with pytest.raises(simjoin.PlanError, match="NaN, which no score reaches"):
            VERBS[verb](VECTORS, "v", measure=measure, at_least=math.nan)
