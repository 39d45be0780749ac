"""Random joins against nested loops."""

from __future__ import annotations

import random

import pytest
from conftest import (
    CASES,
    HOWS,
    KINDS,
    MEASURES,
    components,
    joined,
    make,
    one_to_one,
    random_set,
    random_text,
    representatives,
    rows_of,
    score,
    tokens,
)

import simjoin

TOKENIZERS = ["qgrams:1", "qgrams:2", "qgrams:3", "words", "shingles:2"]


class Case:
    """A random join."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.measure = rng.choice(list(MEASURES))
        self.is_text = rng.random() < 0.6
        self.tokenizer = rng.choice(TOKENIZERS) if self.is_text else None
        self.threshold = (
            rng.choice([1, 2, 3])
            if self.measure == "overlap"
            else rng.choice([0.2, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1.0])
        )
        self.keys = [None, "k"][rng.random() < 0.3]
        self.how = rng.choice(HOWS)
        self.kind = rng.choice([kind for kind in KINDS if kind not in ("duckdb", "ibis")])
        self.strategy = rng.choice(
            ["auto", "auto", "allpairs", "ppjoin", "bitmap", "bitsliced", "scancount", "rising"]
        )
        self.a, self.b = self.draw(rng), self.draw(rng)

    def draw(self, rng: random.Random) -> dict[str, list]:
        rows = rng.randrange(0, 25)
        value = random_text if self.is_text else random_set
        values = [value(rng) for _ in range(rows)]
        if not self.is_text or all(v is None for v in values):
            # The type of a column without values is unknown to a dictionary.
            values.append("x" if self.is_text else [1, 2])
        keys = [rng.choice([1, 2, None]) for _ in values]
        if all(key is None for key in keys):
            keys[0] = 1
        return {"v": values, "k": keys, "n": list(range(100, 100 + len(values)))}

    def sets(self, frame: dict[str, list]) -> list[set | None]:
        return [tokens(value, self.tokenizer or "") for value in frame["v"]]

    def options(self) -> dict:
        return {
            "measure": self.measure,
            "at_least": self.threshold,
            "tokenizer": self.tokenizer,
            "keys": self.keys,
        }

    def matches(self, a: dict, b: dict) -> list[tuple[int, int, float]]:
        """Gives the pairs of similar rows, by comparing all."""
        pairs = []
        lefts, rights = self.sets(a), self.sets(b)
        for i, left in enumerate(lefts):
            for j, right in enumerate(rights):
                value = score(self.measure, left, right)
                if value is None or value < self.threshold:
                    continue
                if self.keys and (a["k"][i] is None or a["k"][i] != b["k"][j]):
                    continue
                pairs.append((i, j, value))
        return pairs


def contexts() -> dict[str, simjoin.Context]:
    strategies = ["auto", "allpairs", "ppjoin", "bitmap", "bitsliced", "scancount", "rising"]
    return {
        name: simjoin.connect(device="cpu", options={"simjoin.strategy": name})
        for name in strategies
    }


CONTEXTS: dict[str, simjoin.Context] = {}


def context(name: str) -> simjoin.Context:
    if not CONTEXTS:
        CONTEXTS.update(contexts())
    return CONTEXTS[name]


def expected_join(case: Case) -> list[tuple]:
    a, b = case.a["n"], case.b["n"]
    rows = joined(case.how, len(a), len(b), case.matches(case.a, case.b))
    if case.how in ("semi", "anti"):
        return [(a[i],) for (i,) in rows]
    return [
        (None if i is None else a[i], None if j is None else b[j], *scores)
        for i, j, *scores in rows
    ]


def ordered(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=lambda row: [(value is None, value or 0) for value in row])


@pytest.mark.parametrize("chunk", range(10))
def test_joins_equal_nested_loops(chunk: int) -> None:
    total = 0
    for seed in range(chunk, CASES, 10):
        case = Case(seed)
        expected = expected_join(case)
        answer = simjoin.join(
            make(case.kind, case.a),
            make(case.kind, case.b),
            "v",
            how=case.how,
            context=context(case.strategy),
            **case.options(),
        )
        # The columns of a, those of b and the score.
        rows = [
            (row[2],) if case.how in ("semi", "anti") else (row[2], row[5], row[6])
            for row in rows_of(answer)
        ]
        assert ordered(rows) == ordered(expected), (seed, vars(case))
        total += len(rows)
    assert total > 0 or CASES < 100


@pytest.mark.parametrize("chunk", range(10))
def test_results_equal_nested_loops(chunk: int) -> None:
    for seed in range(chunk, CASES, 10):
        case = Case(seed + 1_000_000)
        frame = make(case.kind, case.a)
        run = {"context": context(case.strategy), **case.options()}
        pairs = [(i, j, value) for i, j, value in case.matches(case.a, case.a) if i != j]
        once = pairs if case.measure == "containment" else [p for p in pairs if p[0] < p[1]]

        found = rows_of(simjoin.near_duplicates(frame, "v", **run))
        assert found == sorted(once), (seed, vars(case))

        label = components(len(case.a["n"]), pairs)
        clustered = rows_of(simjoin.clusters(frame, "v", **run))
        expected = [(case.a["n"][i], label[i], label.count(label[i])) for i in range(len(label))]
        assert [row[2:] for row in clustered] == expected, (seed, vars(case))

        order = list(range(len(label)))
        if seed % 2:
            order.reverse()
        kept, told = representatives(order, pairs)
        result, audit = simjoin.deduplicate(
            frame, "v", keep="last" if seed % 2 else "first", audit=True, **run
        )
        assert [row[2] for row in rows_of(result)] == [case.a["n"][i] for i in kept], seed
        assert rows_of(audit) == told, (seed, vars(case))

        answer = simjoin.match(frame, make(case.kind, case.b), "v", **run)
        assert rows_of(answer) == one_to_one(case.matches(case.a, case.b)), (seed, vars(case))


def test_vectors_equal_nested_loops() -> None:
    rng = random.Random(7)
    for _ in range(max(CASES // 10, 20)):
        points = [[rng.randrange(6) / 2 for _ in range(3)] for _ in range(rng.randrange(1, 40))]
        limit = rng.choice([0.5, 1.0, 1.5])
        expected = []
        for i, a in enumerate(points):
            for j in range(i + 1, len(points)):
                squares = [(x - y) ** 2 for x, y in zip(a, points[j], strict=True)]
                distance = (squares[0] + squares[1] + squares[2]) ** 0.5
                if distance <= limit:
                    expected.append((i, j, distance))
        frame = {"v": points}
        found = simjoin.near_duplicates(frame, "v", measure="euclidean", at_most=limit)
        assert rows_of(found) == expected
