"""Records are linked by several columns: weighted sums against nested loops, bit for bit."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import pytest
from conftest import (
    CASES,
    HOWS,
    KINDS,
    components,
    joined,
    make,
    one_to_one,
    random_set,
    random_text,
    representatives,
    rows_of,
)

import simjoin
from simjoin import _verbs

#: Weights whose sums are rounded, and some that are whole.
WEIGHTS = [(0.5, 0.3, 0.2), (0.6, 0.3, 0.1), (0.4, 0.4, 0.2), (3, 2, 1), (0.7, 0.2, 0.1), (1, 1, 1)]

#: By columns: measures with their functions, of the columns ``a`` and ``b``.
MEASURES: dict[str, list[tuple[Any, str]]] = {
    "name": [
        (None, "jaccard(qgrams({a}, 3), qgrams({b}, 3))"),
        (("dice", "qgrams:2"), "dice(qgrams({a}, 2), qgrams({b}, 2))"),
        (("overlap_coefficient", "words"), "overlap_coefficient({a_words}, {b_words})"),
        (("containment", "words"), "containment({a_words}, {b_words})"),
        (("cosine", "shingles:2"), "set_cosine(shingles({a_words}, 2), shingles({b_words}, 2))"),
        ("levenshtein_similarity", "levenshtein_similarity({a}, {b})"),
        ("indel_similarity", "indel_similarity({a}, {b})"),
        ("jaro", "jaro_similarity({a}, {b})"),
        ("jaro_winkler", "jaro_winkler_similarity({a}, {b})"),
    ],
    "tags": [(None, "jaccard({a}, {b})"), ("cosine", "set_cosine({a}, {b})")],
    "place": [
        ("cosine", "1 - cosine_distance({a}, {b})"),
        ("cosine_similarity", "1 - cosine_distance({a}, {b})"),
    ],
    "phone": [("equal", "")],
}
MEASURES["street"] = MEASURES["name"]


@functools.cache
def _context() -> simjoin.Context:
    """Opens the context that computes the functions of all pairs."""
    return simjoin.connect(device="cpu")


class Case:
    """Frames of random records, columns with weights, and the scores of all pairs."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.a, self.b = self.draw(rng), self.draw(rng)
        self.how = rng.choice(HOWS)
        self.kind = rng.choice([kind for kind in KINDS if kind not in ("duckdb", "ibis")])
        self.keys = rng.choice([None, None, "k"])
        names = rng.sample(list(MEASURES), rng.choice([1, 2, 3, 3]))
        if names == ["phone"]:
            names.append("name")
        self.names = names
        self.on: dict[Any, Any] = {}
        self.functions: list[str] = []
        self.weights: list[float] = list(rng.choice(WEIGHTS)[: len(names)])
        rng.shuffle(self.weights)
        for name, weight in zip(names, self.weights, strict=True):
            measure, function = rng.choice(MEASURES[name])
            self.functions.append(function)
            if isinstance(measure, tuple):
                self.on[name] = (measure[0], weight, measure[1])
            else:
                self.on[name] = weight if measure is None else (measure, weight)
        self.at_least = self.draw_bound(rng)

    def draw(self, rng: random.Random) -> dict[str, list]:
        rows = rng.randrange(1, 20)
        columns: dict[str, list] = {
            "name": [random_text(rng) for _ in range(rows)],
            "street": [random_text(rng) for _ in range(rows)],
            "tags": [random_set(rng) for _ in range(rows)],
            "place": [
                None if rng.random() < 0.1 else [rng.choice([0.0, 0.5, -1.0, 2.0]) for _ in "xy"]
                for _ in range(rows)
            ],
            "phone": [rng.choice(["1", "2", "3", None]) for _ in range(rows)],
            "k": [rng.choice([1, 2, None]) for _ in range(rows)],
        }
        # The type of a column without values is unknown to a dictionary.
        for name, value in [
            ("name", "x"), ("street", "y"), ("tags", [1, 2]), ("place", [1.0, 0.0]), ("phone", "1"),
            ("k", 1),
        ]:  # fmt: skip
            columns[name].append(value)
        for _ in range(rng.randrange(3)):
            twin = rng.randrange(rows)
            for values in columns.values():
                values.append(values[twin])
        return columns

    def draw_bound(self, rng: random.Random) -> float:
        """Gives a bound: often a sum that some pair has, or a number beside it."""
        greatest = 0.0
        for weight in self.weights:
            greatest += weight
        attained = [pair[2] for pair in self.scored(self.a, self.b) if 0 < pair[2] <= greatest]
        if not attained or rng.random() < 0.3:
            return rng.choice([0.1, 0.3, 0.5, 0.8, 1.0]) * greatest
        bound = rng.choice(attained)
        if rng.random() < 0.2:
            return min(math.nextafter(bound, 9), greatest)
        return bound

    def scored(self, a: dict[str, list], b: dict[str, list]) -> list[tuple]:
        """Gives all pairs with the sum and the parts, from the functions of the engine."""
        context = _context()
        for name, columns in (("a", a), ("b", b)):
            context.register(name, {**columns, "r": list(range(len(columns["k"])))})
        scores = []
        for place, (name, function) in enumerate(zip(self.names, self.functions, strict=True)):
            left, right = f"a.{name}", f"b.{name}"
            words = {"a_words": f"word_tokens({left})", "b_words": f"word_tokens({right})"}
            function = function.format(a=left, b=right, **words) or "0.0"
            scores.append(f"{function} AS s{place}")
        rows = context.sql(
            f"SELECT a.r AS i, b.r AS j, {', '.join(scores)} FROM a CROSS JOIN b ORDER BY i, j"
        ).to_pydict()
        pairs = []
        for row in zip(*rows.values(), strict=True):
            i, j, parts = row[0], row[1], list(row[2:])
            if "phone" in self.names:
                both = (a["phone"][i], b["phone"][j])
                equal = None if None in both else float(both[0] == both[1])
                parts[self.names.index("phone")] = equal
            total = None
            for weight, part in zip(self.weights, parts, strict=True):
                term = weight * (part or 0.0)
                total = term if total is None else total + term
            pairs.append((i, j, total, *parts))
        return pairs

    def matches(self, a: dict[str, list], b: dict[str, list]) -> list[tuple]:
        """Gives the pairs that reach the bound."""
        found = []
        for pair in self.scored(a, b):
            keys = (a["k"][pair[0]], b["k"][pair[1]])
            if self.keys and (None in keys or keys[0] != keys[1]):
                continue
            if pair[2] >= self.at_least:
                found.append(pair)
        return found

    def options(self) -> dict[str, Any]:
        return {"on": self.on, "at_least": self.at_least, "keys": self.keys}

    @property
    def is_symmetric(self) -> bool:
        return not any("containment" in function for function in self.functions)


@pytest.mark.parametrize("chunk", range(5))
def test_two_frames_equal_nested_loops(chunk: int) -> None:
    total = 0
    for seed in range(chunk, CASES // 4, 5):
        case = Case(seed)
        told = (seed, vars(case))
        a, b = make(case.kind, case.a), make(case.kind, case.b)
        pairs = case.matches(case.a, case.b)
        expected = joined(
            case.how, len(case.a["k"]), len(case.b["k"]), pairs, scores=1 + len(case.on)
        )
        found = rows_of(simjoin.link(a, b, how=case.how, **case.options()))
        assert found == expected, told
        answer = rows_of(simjoin.join(a, b, how=case.how, **case.options()))
        if case.how in ("semi", "anti"):
            assert len(answer) == len(expected), told
        else:
            assert [row[2 * len(case.a) :] for row in answer] == [r[2:] for r in expected], told
        assert rows_of(simjoin.match(a, b, **case.options())) == one_to_one(pairs), told
        total += len(pairs)
    assert total > 0


@pytest.mark.parametrize("chunk", range(5))
def test_one_frame_equals_nested_loops(chunk: int) -> None:
    for seed in range(chunk, CASES // 4, 5):
        case = Case(seed + 1_000_000)
        told = (seed, vars(case))
        frame = make(case.kind, case.a)
        rows = len(case.a["k"])
        pairs = [pair for pair in case.matches(case.a, case.a) if pair[0] != pair[1]]
        once = [pair for pair in pairs if pair[0] < pair[1]] if case.is_symmetric else pairs
        assert rows_of(simjoin.near_duplicates(frame, **case.options())) == once, told

        label = components(rows, pairs)
        clustered = rows_of(simjoin.clusters(frame, **case.options()))
        assert [row[-2:] for row in clustered] == [(n, label.count(n)) for n in label], told

        order = list(range(rows))
        if seed % 2:
            order.reverse()
        kept, dropped = representatives(order, pairs)
        result, audit = simjoin.deduplicate(
            frame, keep="last" if seed % 2 else "first", audit=True, **case.options()
        )
        assert len(rows_of(result)) == len(kept), told
        assert rows_of(audit) == dropped, told


@pytest.mark.parametrize("chunk", range(5))
def test_nearest_rows_equal_nested_loops(chunk: int) -> None:
    total = 0
    for seed in range(chunk, CASES // 4, 5):
        case = Case(seed + 2_000_000)
        told = (seed, vars(case))
        k, alone, bounded = 1 + seed % 3, seed % 4 == 0, seed % 3 == 0
        b = case.a if alone else case.b
        least = case.at_least if bounded else 0.0
        candidates: dict[int, list[tuple]] = {}
        for pair in case.scored(case.a, b):
            keys = (case.a["k"][pair[0]], b["k"][pair[1]])
            if case.keys and (None in keys or keys[0] != keys[1]):
                continue
            if pair[2] < least or pair[2] == 0.0 or (alone and pair[0] == pair[1]):
                continue
            candidates.setdefault(pair[0], []).append(pair)
        expected = []
        for row in range(len(case.a["k"])):
            of_row = sorted(candidates.get(row, []), key=lambda pair: (-pair[2], pair[1]))
            last = of_row[:k][-1][2] if of_row else 0.0
            expected += [pair for pair in of_row if pair[2] >= last]
            if not of_row and case.how == "left":
                expected.append((row, *[None] * (2 + len(case.on))))
        how = "left" if case.how == "left" else "inner"
        options = {"with_ties": True, "how": how, "keys": case.keys}
        if bounded:
            options["at_least"] = case.at_least
        frames = make(case.kind, case.a), None if alone else make(case.kind, b)
        found = simjoin.nearest(*frames, case.on, k, **options)  # type: ignore[arg-type]
        assert rows_of(found) == expected, told
        total += len(expected)
    assert total > 0


RECORDS = {
    "id": [10, 20, 30, 40],
    "name": ["Jane Doe", "John Roe", None, "Jane Doe"],
    "street": ["Main street 1", "High road", None, "Main street 11"],
    "phone": ["12", "34", "56", None],
}
OTHERS = {
    "number": ["A", "B", "C"],
    "name": ["Jane Do", "J. Roe", "Ann Poe"],
    "road": ["Main street 1", None, "Low road"],
    "phone": ["12", "34", "56"],
}
ON: dict[Any, Any] = {
    "name": 0.5,
    ("street", "road"): ("levenshtein_similarity", 0.3),
    "phone": ("equal", 0.2),
}
NAMES = ["score", "name_score", "street_road_score", "phone_score"]


def test_every_kind_of_frame(kind: str) -> None:
    a, b = make(kind, RECORDS), make(kind, OTHERS)
    linked = simjoin.link(a, b, ON, 0.3, id=("id", "number"), columns="name")
    assert type(linked) is type(a)
    assert rows_of(linked) == [
        (10, "A", 0.9166666666666667, 0.8333333333333334, 1.0, 1.0, "Jane Doe", "Jane Do"),
        (20, "B", 0.325, 0.25, None, 1.0, "John Roe", "J. Roe"),
        (40, "A", 0.6952380952380952, 0.8333333333333334, 0.9285714285714286, None, "Jane Doe",
         "Jane Do"),
    ]  # fmt: skip
    outer = simjoin.link(a, b, ON, at_least=0.3, id=("id", "number"), how="full")
    assert [row[:3] for row in rows_of(outer)] == [
        (10, "A", 0.9166666666666667),
        (20, "B", 0.325),
        (30, None, None),
        (40, "A", 0.6952380952380952),
        (None, "C", None),
    ]
    anti = simjoin.link(a, b, ON, at_least=0.3, id=("id", "number"), how="anti", columns="name")
    assert rows_of(anti) == [(30, None)]
    matched = simjoin.match(a, b, ON, at_least=0.3, id=("id", "number"))
    assert [row[:2] for row in rows_of(matched)] == [(10, "A"), (20, "B")]
    found = simjoin.join(a, b, ON, at_least=0.3, score="sum")
    assert rows_of(found)[1][8:] == (0.325, 0.25, None, 1.0)
    assert len(rows_of(simjoin.join(a, b, ON, at_least=0.3, score=None))[0]) == 8
    both = simjoin.link(a, make(kind, RECORDS), {"phone": ("equal", 1), "name": 1}, at_least=2)
    assert [row[:3] for row in rows_of(both)] == [(0, 0, 2.0), (1, 1, 2.0)]


def test_names_of_columns() -> None:
    linked = simjoin.link(RECORDS, OTHERS, ON, at_least=0.3)
    assert list(linked) == ["left", "right", *NAMES]
    joined = simjoin.join(RECORDS, OTHERS, ON, at_least=0.3, score="s")
    assert list(joined)[-4:] == ["s", "name_s", "street_road_s", "phone_s"]
    _, audit = simjoin.deduplicate(RECORDS, {"name": 1}, at_least=0.5, audit=True)
    assert audit == {"dropped": [3], "kept": [0], "score": [1.0], "name_score": [1.0]}
    assert simjoin.link(RECORDS, OTHERS, ON, at_least=0.3, how="semi") == {"left": [0, 1, 3]}


def test_lists_and_labels() -> None:
    records = [{"n": "Jane Doe", "p": 1}, {"n": "Jane Do", "p": 1}]
    pair = {"left": 0, "right": 1, "score": 0.9166666666666667}
    scores = {"n_score": 0.8333333333333334, "p_score": 1.0}
    assert simjoin.near_duplicates(records, {"n": 0.5, "p": ("equal", 0.5)}, 0.9) == [pair | scores]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(records, index=["r1", "r2"])
    linked = simjoin.link(frame, frame, {"n": 0.5, "p": ("equal", 0.5)}, at_least=0.9, how="left")
    assert linked["left"].tolist() == ["r1", "r1", "r2", "r2"]
    assert linked["right"].tolist() == ["r1", "r2", "r1", "r2"]


def test_columns_of_two_names() -> None:
    for call in (simjoin.link, simjoin.match):
        named = call(RECORDS, OTHERS, left_on="street", right_on="road", at_least=0.95)
        assert named == {"left": [0], "right": [0], "score": [1.0]}
    joined = simjoin.join(RECORDS, OTHERS, left_on="street", right_on="road", at_least=0.95)
    assert joined["id"] == [10]
    near = simjoin.nearest(RECORDS, OTHERS, left_on="street", right_on="road", at_least=0.95)
    assert near == {"left": [0], "right": [0], "score": [1.0]}


def test_a_vector_that_is_no_number_is_missing() -> None:
    rows = {"name": ["Jane Doe", "Jane Doe"], "v": [[1.0, math.nan], [0.0, 0.0]]}
    linked = simjoin.link(rows, rows, {"name": 0.6, "v": ("cosine", 0.4)}, at_least=0.6)
    assert linked["score"] == [0.6] * 4
    assert linked["v_score"] == [None] * 4


@pytest.mark.parametrize(
    ("weights", "greatest"), [((0.5, 0.3, 0.2), 1.0), ((0.6, 0.3, 0.1), 0.9999999999999999)]
)
def test_equal_rows_reach_the_greatest_sum(weights: tuple, greatest: float) -> None:
    names = [("name", None), ("street", None), ("phone", "equal")]
    on: dict[str, Any] = {
        name: weight if measure is None else (measure, weight)
        for (name, measure), weight in zip(names, weights, strict=True)
    }
    found = simjoin.link(RECORDS, RECORDS, on, at_least=greatest)
    assert found["left"] == found["right"] == [0, 1]
    assert found["score"] == [greatest] * 2
    with pytest.raises(simjoin.PlanError, match="above the greatest sum") as raised:
        simjoin.link(RECORDS, RECORDS, on, at_least=math.nextafter(greatest, 2))
    assert f"at_least={greatest} is reached" in str(raised.value.hint)


#: Calls that are refused: of link where a dictionary is given, and the words of the error.
REFUSED: list[tuple[Any, list[str]]] = [
    ({"on": {"nam": 1}}, ["no column 'nam'", "did you mean name?"]),
    ({"on": {("name", "nam"): 1}}, ["no column 'nam'", "did you mean name?"]),
    ({"on": {"name": ("jacard", 1)}}, ["no measure 'jacard'", "did you mean jaccard?", "equal"]),
    ({"on": {"name": "jaccard"}}, ["weight of 'name' is 'jaccard'", "('jaccard', 0.5)"]),
    ({"on": {"name": (0.5, "jaccard")}}, ["on['name'] is (0.5, 'jaccard')", "('jaccard', 0.5)"]),
    ({"on": {"name": ("jaccard", 0.5, 3)}}, ["on['name'] is", "('jaccard', 0.5, 'words')"]),
    ({"on": {"name": ("jaccard",)}}, ["weight of 'name' is ('jaccard',)"]),
    ({"on": {"name": ("jaccard", 0.5, "trigrams")}}, ["no tokenizer", "words and shingles:2"]),
    ({"on": {"name": ("jaro", 0.5, "words")}}, ["takes no tokenizer"]),
    ({"on": {"phone": ("equal", 0.5, "words")}}, ["takes no tokenizer"]),
    ({"on": {"tags": ("jaccard", 0.5, "words")}}, ["is a list: a tokenizer is for texts"]),
    ({"on": {"name": True}}, ["weight of 'name' is True, which is no number"]),
    ({"on": {"name": math.nan}}, ["weight of 'name' is nan", "above 0"]),
    ({"on": {"name": math.inf}}, ["weight of 'name' is inf"]),
    ({"on": {"name": -1}}, ["weight of 'name' is -1.0", "leave out"]),
    ({"on": {"name": 0, "phone": 0}}, ["weight of 'name' is 0.0", "leave out"]),
    ({"on": {}}, ["on={} has no columns"]),
    ({"on": {7: 1}}, ["on has the key 7", "('title', 'name')"]),
    ({"on": {("name", "street", "phone"): 1}}, ["on has the key ('name', 'street', 'phone')"]),
    ({"at_least": None}, ["at_least is missing", "at most 1.0: at_least=0.8"]),
    ({"at_least": 1.2}, ["above the greatest sum that rows can reach, 1.0"]),
    ({"at_least": 0}, ["at_least=0 is no bound"]),
    ({"at_least": math.nan}, ["at_least=nan is no bound"]),
    ({"at_least": "0.8"}, ["the threshold '0.8' is no number"]),
    ({"at_least": None, "at_most": 0.2}, ["give at_least, not at_most"]),
    ({"threshold": 0.5}, ["by its place or as at_least, not both"]),
    ({"measure": "dice"}, ["measure='dice' is for one column", "('jaccard', 0.5)"]),
    ({"tokenizer": "words"}, ["tokenizer='words' is for one column", "'words'"]),
    ({"on": {"name": ("levenshtein", 0.5)}}, ["levenshtein, which is a distance",
                                              "on={'name': ('levenshtein_similarity', 0.5)}"]),
    ({"on": {"tags": ("overlap", 0.5)}}, ["not bounded by 1", "('overlap_coefficient', 0.5)"]),
    ({"on": {"v": 0.5}}, ["euclidean, which is a distance", "('cosine_similarity', 0.5)"]),
    ({"on": {"v": ("cosine_distance", 0.5)}}, ["a distance", "('cosine_similarity', 0.5)"]),
    ({"on": {"v": ("inner_product", 0.5)}}, ["not bounded by 1", "('cosine_similarity', 0.5)"]),
    ({"on": {"id": 0.5}}, ["is a Int64, which has no similarity", "('equal', 0.5)"]),
    ({"on": {"phone": ("equal", 1)}, "at_least": 1}, ["no column by a similarity", "keys"]),
    ({"on": {("name", "tags"): 1}}, ["do not compare"]),
    ({"on": {"name": 1, ("name", "name"): 1}}, ["two columns 'name_score'"]),
    ({"on": "name", "left_on": "name"}, ["on and left_on are both given"]),
    ({"left_on": "name"}, ["on and left_on are both given"]),
    ({"on": None, "left_on": "name"}, ["right_on is missing"]),
    ({"on": None, "right_on": "name"}, ["left_on is missing"]),
    ({"on": None, "left_on": {"name": 1}, "right_on": "name"}, ["left_on is one column"]),
    ({"on": None, "left_on": ["name", "phone"], "right_on": "name"}, ["left_on=['name', 'phone']"]),
    ({"on": ("name", "phone")}, ["left_on='name', right_on='phone'",
                                 "on={'name': 0.5, 'phone': 0.5}"]),
    ({"on": ["name", "phone", "street"]}, ["names 3 columns", "'street': 0.33"]),
    ({"on": ["name"]}, ["on='name' names a column"]),
    ({"id": ("id", "name", "phone")}, ["does not tell rows by one column"]),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), REFUSED)
def test_what_is_wrong_is_named(wrong: dict[str, Any], words: list[str]) -> None:
    frame = {**RECORDS, "tags": [[1, 5]] * 4, "v": [[0.5, 0.1]] * 4}
    options: dict[str, Any] = {"on": {"name": 0.5, "phone": ("equal", 0.5)}, "at_least": 0.5}
    calls = [simjoin.link, simjoin.join, simjoin.match]
    if "id" in wrong:
        calls = [simjoin.link, simjoin.match]
    for call in calls:
        with pytest.raises(simjoin.PlanError) as raised:
            call(frame, frame, **{**options, **wrong})
        for text in words:
            assert text in str(raised.value)


def test_one_frame_has_no_pairs_of_columns() -> None:
    for call in (simjoin.near_duplicates, simjoin.clusters, simjoin.deduplicate):
        with pytest.raises(simjoin.PlanError, match="pairs are for two frames"):
            call(RECORDS, {("name", "street"): 1}, at_least=0.5)
        with pytest.raises(simjoin.PlanError, match="names 2 columns") as raised:
            call(RECORDS, ("name", "street"), at_least=0.5)
        assert "left_on" not in str(raised.value)
    with pytest.raises(simjoin.PlanError, match="does not tell rows by one column"):
        simjoin.near_duplicates(RECORDS, "name", 0.5, id=("id", "phone"))  # type: ignore[arg-type]
    with pytest.raises(simjoin.PlanError, match="by the length of the compared column"):
        simjoin.deduplicate(RECORDS, {"name": 1}, at_least=0.5, keep="longest")
    with pytest.raises(simjoin.PlanError, match="above the greatest sum"):
        simjoin.nearest(RECORDS, OTHERS, ON, at_least=2)
    with pytest.raises(simjoin.PlanError, match="give at_least, not at_most"):
        simjoin.nearest(RECORDS, OTHERS, ON, at_most=0.5)


#: Columns with weights, least sums, and whether one bound finds the pairs, or each of several some.
PLANS: list[tuple[dict[Any, Any], float, bool]] = [
    ({"name": 0.5, "street": ("levenshtein_similarity", 0.3), "phone": ("equal", 0.2)}, 0.8, False),
    ({"name": 0.5, "street": ("levenshtein_similarity", 0.3), "phone": ("equal", 0.2)}, 0.4, True),
    ({"name": 0.5, "street": ("levenshtein_similarity", 0.3), "phone": ("equal", 0.2)}, 0.2, True),
    ({"name": ("jaro_winkler", 2), "street": ("dice", 1, "words")}, 2.4, False),
    ({"name": ("jaro", 0.6), "phone": ("equal", 0.4)}, 0.9, False),
    ({"name": 1 / 3, "street": 1 / 3, "tags": 1 / 3}, 0.9, False),
    ({"name": 1 / 3, "street": 1 / 3, "tags": 1 / 3}, 0.3, True),
    ({"name": 0.5, "v": ("cosine", 0.5)}, 0.8, False),
    ({"name": 0.5, "v": ("cosine", 0.5)}, 0.4, True),
    ({"name": 1}, 0.7, False),
]


@pytest.mark.parametrize(("on", "at_least", "is_union"), PLANS)
def test_plans_are_similarity_joins(
    on: dict[Any, Any], at_least: float, is_union: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    rows = 200
    frame = {
        "name": [random_text(rng) for _ in range(rows)],
        "street": [random_text(rng) for _ in range(rows)],
        "phone": [str(rng.randrange(50)) for _ in range(rows)],
        "tags": [random_set(rng) for _ in range(rows)],
        "v": [[rng.random(), rng.random()] for _ in range(rows)],
    }
    plans: list[str] = []
    run = _verbs.planned

    def explained(context: simjoin.Context, verb: str, given: dict[str, Any]) -> simjoin.Frame:
        answer = run(context, verb, given)
        plans.append(str(answer.explain()))
        return answer

    monkeypatch.setattr(_verbs, "planned", explained)
    simjoin.link(frame, frame, on, at_least=at_least)
    assert (plans[0].count("JoinExec") > 1) == is_union, plans[0]
    for how in HOWS[1:]:
        simjoin.link(frame, frame, on, at_least=at_least, how=how)
    simjoin.match(frame, frame, on, at_least=at_least)
    simjoin.near_duplicates(frame, on, at_least=at_least)
    simjoin.clusters(frame, on, at_least=at_least)
    assert len(plans) == 9
    for plan in plans:
        assert "SetSimilarityJoinExec" in plan
        assert "NestedLoopJoinExec" not in plan and "CrossJoinExec" not in plan, plan
