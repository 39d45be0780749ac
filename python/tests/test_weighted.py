"""Texts are compared by the rarity of their tokens: one scale for all rows that take part."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from typing import Any

import pytest

import simjoin

OURS = [
    "Acme Trading Company",
    "Born & Söhne Company",
    None,
    "Café Müller Company",
    "acme trading company ltd",
    "東京 Trading 会社",
    "",
]
THEIRS = ["ACME Trading Company", "Company", None, "Café Müller", "Born Company", "東京 会社"]


def _words(text: str) -> list[str]:
    """Cuts a text of these tests as the engine does: runs of letters and digits, in lower case."""
    spaced = "".join(c.lower() if unicodedata.category(c)[0] in "LNM" else " " for c in text)
    return spaced.split()


def _qgrams(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(len(text) - 2)] or ([text] if text else [])


TOKENIZERS: dict[str, Any] = {"words": _words, "qgrams:3": _qgrams}


def _cosines(left: list[str | None], right: list[str | None], cut: Any) -> dict[Any, float]:
    """Computes the cosines of all pairs in floating point, by the rarity in the texts of both."""
    both = left if left is right else left + right
    known = [Counter(cut(text)) for text in both if text is not None]
    frequencies = Counter(token for bag in known for token in bag)

    def weigh(text: str | None) -> dict[str, float] | None:
        if text is None:
            return None
        return {
            token: count * (math.log((1 + len(known)) / (1 + frequencies[token])) + 1)
            for token, count in Counter(cut(text)).items()
        }

    bags = [list(map(weigh, side)) for side in (left, right)]
    cosines = {}
    for place, a in enumerate(bags[0]):
        for other, b in enumerate(bags[1]):
            if a and b:
                lengths = [math.sqrt(sum(w * w for w in bag.values())) for bag in (a, b)]
                common = sum(weight * b.get(token, 0.0) for token, weight in a.items())
                cosines[place, other] = common / (lengths[0] * lengths[1])
    return cosines


def _found(answer: dict[str, list[Any]]) -> dict[Any, float]:
    rows = zip(answer["left"], answer["right"], answer["score"], strict=True)
    return {(left, right): score for left, right, score in rows}


def _same(found: dict[Any, float], expected: dict[Any, float]) -> None:
    # Weights of the engine are whole numbers.
    assert found == pytest.approx(expected, abs=1e-4)
    assert found


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_pairs_of_one_frame(tokenizer: str) -> None:
    cosines = _cosines(OURS, OURS, TOKENIZERS[tokenizer])
    found = simjoin.near_duplicates(
        {"name": OURS}, "name", 0.12, measure="tfidf", tokenizer=tokenizer
    )
    _same(_found(found), {p: s for p, s in cosines.items() if p[0] < p[1] and s >= 0.12})


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_two_frames_have_one_scale(tokenizer: str) -> None:
    cosines = _cosines(OURS, THEIRS, TOKENIZERS[tokenizer])
    ours, theirs = {"name": OURS}, {"title": THEIRS}
    options: dict[str, Any] = {
        "left_on": "name",
        "right_on": "title",
        "measure": "tfidf",
        "tokenizer": tokenizer,
    }
    expected = {pair: score for pair, score in cosines.items() if score >= 0.12}
    found = simjoin.link(ours, theirs, at_least=0.12, **options)
    _same(_found(found), expected)
    joined = simjoin.join(ours, theirs, at_least=0.12, **options)
    assert joined["score"] == found["score"]
    assert joined["name"] == [OURS[place] for place in found["left"]]
    matched = _found(simjoin.match(ours, theirs, at_least=0.12, **options))
    assert matched.items() <= _found(found).items()
    best = {}
    for (left, right), score in cosines.items():
        if score > 0 and score > best.get(left, (0.0,))[0] + 1e-6:
            best[left] = (score, right)
    nearest = _found(simjoin.nearest(ours, theirs, k=1, **options))
    _same(
        {left: score for (left, _), score in nearest.items()},
        {left: score for left, (score, _) in best.items()},
    )


def test_missing_and_empty_texts_have_no_partner() -> None:
    found = simjoin.link(OURS, THEIRS, at_least=1e-9, measure="tfidf", how="full")
    alone = [row["left"] for row in found if row["right"] is None]
    assert {2, 6} <= set(alone)
    assert 2 in [row["right"] for row in found if row["left"] is None]


def test_kept_rows_and_groups() -> None:
    options: dict[str, Any] = {"measure": "tfidf", "tokenizer": "words"}
    kept, audit = simjoin.deduplicate(OURS, at_least=0.6, keep="longest", audit=True, **options)
    assert kept == [text for text in OURS if text != OURS[0]]
    pairs = simjoin.near_duplicates(OURS, at_least=0.6, **options)
    assert [row["score"] for row in audit] == [row["score"] for row in pairs]
    groups = simjoin.clusters({"name": OURS}, "name", 0.6, **options)
    assert groups["cluster"] == [0, 1, 2, 3, 0, 5, 6]
    steps = simjoin.thresholds({"name": OURS}, "name", at_least=0.6, step=0.2, **options)
    assert steps["pairs"][-1] == 1
    told = simjoin.compare({"name": OURS}, 0, 1, "name", at_least=0.6, **options)
    assert told.reason.startswith("tfidf of name is 0.")
    assert simjoin.report({"name": OURS}, on="name", at_least=0.6, **options) is not None


def test_tables_of_a_call_are_gone() -> None:
    with_tables = simjoin.connect()
    for _ in range(2):
        simjoin.link(OURS, THEIRS, at_least=0.5, measure="tfidf", context=with_tables)
    tables = with_tables.sql("SELECT table_name FROM information_schema.tables").to_pylist()
    assert not [table for table in tables if "weigh" in table["table_name"]]


def test_a_part_of_a_sum() -> None:
    frame = {"name": OURS, "city": ["a", "b", "c", "d", "a", "e", "f"]}
    on = {"name": ("tfidf", 0.5, "words"), "city": ("equal", 0.5)}
    found = simjoin.near_duplicates(frame, on, at_least=0.8)
    alone = simjoin.near_duplicates(frame, "name", 0.6, measure="tfidf", tokenizer="words")
    assert found["name_score"] == alone["score"]
    assert found["score"] == [0.5 * alone["score"][0] + 0.5]


def test_other_measures_are_those_of_sql() -> None:
    ctx = simjoin.connect()
    ctx.register("ours", {"n": list(range(len(OURS))), "t": OURS})
    ctx.sql("CREATE TABLE w AS SELECT n, tfidf(qgrams(t, 3)) OVER () AS w FROM ours")
    for measure in ("jaccard", "dice", "cosine", "containment"):
        function = f"weighted_{measure}"
        order = "<>" if measure == "containment" else "<"
        expected = ctx.sql(
            f"SELECT a.n AS left, b.n AS right, {function}(a.w, b.w) AS score FROM w a, w b "
            f"WHERE {function}(a.w, b.w) >= 0.15 AND a.n {order} b.n ORDER BY 1, 2"
        )
        found = simjoin.near_duplicates({"t": OURS}, "t", 0.15, measure=function)
        assert found == expected.to_pydict()
    overlap = simjoin.nearest({"t": OURS}, on="t", measure="weighted_overlap")
    assert overlap["score"][0] > 1


def test_weighted_sets_are_taken_as_they_are() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    bags = [
        [{"token": "a", "weight": 3}, {"token": "b", "weight": 1}],
        [{"token": "a", "weight": 3}],
        None,
    ]
    table = pyarrow.table({"bag": bags, "text": ["a", "b", "c"]})
    found = simjoin.near_duplicates(table, "bag", 0.5, measure="weighted_jaccard")
    assert found.to_pydict() == {"left": [0], "right": [1], "score": [0.75]}
    assert simjoin.near_duplicates(table, "bag", 0.5).num_rows == 1
    with pytest.raises(simjoin.PlanError, match="do not compare"):
        simjoin.link(table, table, left_on="bag", right_on="text")
    with pytest.raises(simjoin.PlanError) as error:
        simjoin.near_duplicates(table, "bag", 0.5, measure="tfidf")
    assert "the measures of weighted sets are weighted_jaccard" in (error.value.hint or "")


def test_mistakes_are_told() -> None:
    with pytest.raises(simjoin.PlanError) as error:
        simjoin.near_duplicates(OURS, measure="tfidff")
    assert (error.value.hint or "").startswith("did you mean tfidf? ")
    with pytest.raises(simjoin.PlanError) as error:
        simjoin.near_duplicates(OURS, measure="weighted_overlap")
    assert "nearest" in (error.value.hint or "")
    with pytest.raises(simjoin.PlanError, match="has no measure 'tfidf'"):
        simjoin.near_duplicates({"v": [[0.5], [1.5]]}, "v", measure="tfidf")
    pyarrow = pytest.importorskip("pyarrow")
    ours = pyarrow.table({"own": pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int32()))})
    theirs = pyarrow.table({"other": pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int64()))})
    with pytest.raises(simjoin.PlanError, match=r"tokens of own .* of other .* of two types"):
        simjoin.link(ours, theirs, left_on="own", right_on="other", measure="tfidf")
