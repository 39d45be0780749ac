"""Verbs of the engine in Python: thresholds, evaluations, comparisons, pages, and spellings."""

from __future__ import annotations

import json
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import simjoin

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

NAMES = [
    "Jane Doe", "JANE  DOE", "Jané Doe", "Jane Do", "Jon Roe", "john roe", "John Roe jr", None,
    "Ann-Poe", "ann poe", "Anne Poe", "", "Łukasz Żak", "lukasz zak",
]  # fmt: skip


def frame(rows: int = 60, seed: int = 1) -> dict[str, list[Any]]:
    rng = random.Random(seed)
    names = [rng.choice(NAMES) for _ in range(rows)]
    return {
        "id": [1000 + place for place in range(rows)],
        "name": names,
        "city": [rng.choice(["Oslo", "Bonn", None]) for _ in range(rows)],
    }


def folded(name: str | None) -> str | None:
    """Gives the text as ``lower,accents,punctuation,spaces`` leaves it, of these names."""
    if name is None:
        return None
    name = name.lower().translate(str.maketrans("éłż", "elz"))
    return " ".join(re.sub(r"[^\w\s]+", " ", name).split())


FOLD = "lower,accents,punctuation,spaces"


def test_thresholds_are_those_of_pairs_and_clusters() -> None:
    data = frame()
    rows = simjoin.thresholds(data, "name", at_least=0.4, step=0.2, keys="city")
    assert rows["threshold"] == [1.0, 0.8, 0.6, 0.4]
    before = 0
    for place, threshold in enumerate(rows["threshold"]):
        pairs = simjoin.near_duplicates(data, "name", at_least=threshold, keys="city")["left"]
        sizes = simjoin.clusters(data, "name", at_least=threshold, keys="city")
        grouped = [size for size in sizes["cluster_size"] if size > 1]
        groups = {
            cluster
            for cluster, size in zip(sizes["cluster"], sizes["cluster_size"], strict=True)
            if size > 1
        }
        assert rows["pairs"][place] == len(pairs)
        assert rows["added"][place] == len(pairs) - before
        assert rows["rows_in_groups"][place] == len(grouped)
        assert rows["groups"][place] == len(groups)
        if grouped:
            assert rows["largest_group"][place] == max(grouped)
        before = len(pairs)


def test_thresholds_of_every_kind_of_frame(tmp_path: Path) -> None:
    data = frame(20)
    expected = simjoin.thresholds(data, "name", 0.5)
    assert (
        simjoin.thresholds(polars.DataFrame(data), "name", 0.5).to_dict(as_series=False) == expected
    )
    labelled = pandas.DataFrame(data, index=[f"r{place}" for place in range(20)])
    found = simjoin.thresholds(labelled, "name", 0.5)
    assert found["pairs"].tolist() == expected["pairs"]
    file = tmp_path / "names.parquet"
    polars.DataFrame(data).write_parquet(file)
    assert simjoin.thresholds(file, "name", 0.5).to_pydict() == expected
    assert (
        simjoin.thresholds(polars.DataFrame(data).to_arrow(), "name", 0.5).to_pydict() == expected
    )


def test_a_suggestion_names_its_reason() -> None:
    steps = pandas.DataFrame(
        {"threshold": [0.9, 0.8, 0.7], "added": [4, 5, 60], "largest_group": [2, 3, 40]}
    )
    threshold, why = simjoin.suggest(steps) or (None, "")
    assert threshold == 0.8 and "one group of 40 rows" in why
    assert simjoin.suggest({"threshold": [], "added": [], "largest_group": []}) is None


def test_folded_texts_are_compared_as_folded_copies() -> None:
    data, copy = frame(), frame()
    copy["name"] = [folded(name) for name in copy["name"]]
    pairs = simjoin.near_duplicates(data, "name", 0.6, fold=FOLD)
    assert pairs == simjoin.near_duplicates(copy, "name", 0.6)
    assert len(pairs["left"]) > len(simjoin.near_duplicates(data, "name", 0.6)["left"])
    own, of_copy = (
        simjoin.clusters(data, "name", 0.6, fold=FOLD),
        simjoin.clusters(copy, "name", 0.6),
    )
    assert own["cluster"] == of_copy["cluster"]
    assert own["name"] == data["name"]
    kept = simjoin.deduplicate(data, "name", 0.6, fold=FOLD.split(","))
    assert kept["id"] == simjoin.deduplicate(copy, "name", 0.6)["id"]
    other, other_copy = frame(40, 2), frame(40, 2)
    other_copy["name"] = [folded(name) for name in other_copy["name"]]
    for verb in (simjoin.link, simjoin.match):
        assert verb(data, other, "name", 0.6, fold=FOLD) == verb(copy, other_copy, "name", 0.6)
    nearest = simjoin.nearest(data, other, "name", k=1, with_ties=True, fold=FOLD)
    assert nearest == simjoin.nearest(copy, other_copy, "name", k=1, with_ties=True)
    joined = simjoin.join(data, other, "name", 0.6, fold=FOLD)
    assert joined["id"] == simjoin.join(copy, other_copy, "name", 0.6)["id"]
    assert set(joined["name"]) <= set(data["name"])
    as_category = pandas.DataFrame(data).astype({"name": "category"})
    of_category = simjoin.near_duplicates(
        as_category, "name", 0.6, fold="spaces,lower,accents,punctuation"
    )
    assert of_category["left"].tolist() == pairs["left"]
    weights = {"name": 0.7, "city": ("equal", 0.3)}
    by_weights = simjoin.near_duplicates(data, weights, at_least=0.7, fold=FOLD)
    assert by_weights == simjoin.near_duplicates(copy, weights, at_least=0.7)


def test_evaluations_count_true_links() -> None:
    rng = random.Random(3)
    links = {(rng.randrange(9), rng.randrange(9)): rng.choice([0.5, 0.7, 0.9]) for _ in range(30)}
    truth = {(rng.randrange(9), rng.randrange(9)) for _ in range(20)}
    table = {
        "left": [left for left, _ in links],
        "right": [right for _, right in links],
        "score": list(links.values()),
    }
    true = {"a": [left for left, _ in truth], "b": [right for _, right in truth]}
    rows = simjoin.evaluate(polars.DataFrame(table), true, [0.9, 0.6])
    for row in rows.to_dicts():
        within = {pair for pair, score in links.items() if score >= row["threshold"]}
        assert (row["links"], row["true_links"]) == (len(within), len(within & truth))
        assert row["precision"] == len(within & truth) / len(within)
        assert row["recall"] == len(within & truth) / len(truth)
    both = {tuple(sorted(pair)) for pair in links}
    found = simjoin.evaluate(table, true, [0.0], unordered=True)
    assert found["true_links"] == [len(both & {tuple(sorted(pair)) for pair in truth})]
    plain = simjoin.evaluate({"l": [1, 2], "r": [2, 3]}, {"a": [1], "b": [2]})
    assert plain["precision"] == [0.5] and "threshold" not in plain
    groups = {"row": [1, 2, 3, 4], "of": ["x", "x", "y", "y"]}
    assert simjoin.evaluate({"l": [2], "r": [1]}, groups, groups="truth")["recall"] == [0.5]
    marks = {"left": [1, 2], "right": [2, 3], "label": ["yes", "no"]}
    assert simjoin.evaluate({"l": [1, 2, 7], "r": [2, 3, 8]}, marks)["links"] == [2]


def test_missed_pairs_have_reasons() -> None:
    people = {
        "id": [1, 2, 3, 4],
        "name": ["Jane Doe", "Jon Roe", None, "jane doe"],
        "city": list("aabb"),
    }
    truth = {"a": [1, 1, 1, 9], "b": [2, 3, 4, 1]}
    none: dict[str, list[int]] = {"left": [0], "right": [0]}
    found = simjoin.missed(none, truth, people, "name", 0.8, keys="city", fold="lower", id="id")
    assert found["reason"] == [
        "jaccard of name is 0.0, below 0.8",
        "city differs; jaccard of name is missing",
        "city differs",
        "no row of the frame",
    ]
    assert found["left"] == ["1", "1", "1", "9"] and found["score"][2] == 1.0
    two = simjoin.missed(none, truth, (people, people), "name", 0.8, id=("id", "id"))
    assert len(two["reason"]) == 4
    assert simjoin.missed(none, truth)["reason"] == ["no link"] * 4


def test_comparisons_tell_why() -> None:
    data = pandas.DataFrame(frame(10), index=list("abcdefghij"))
    data.loc["a", "name"], data.loc["b", "name"] = "Jane <Doe>", "Jane <Do>"
    data.loc[["a", "b"], "city"] = "Oslo"
    found = simjoin.compare(data, "a", "b", "name", at_least=0.9, keys="city")
    assert not found.similar and found.reason is not None
    assert found.reason.startswith("jaccard of name is 0.")
    assert "✗" in repr(found) and "city: key: equal ✓" in repr(found)
    page = found._repr_html_()
    assert "Jane &lt;Do<del>e</del>&gt;" in page and "<Do" not in page
    assert simjoin.compare(data, "a", "b", "name", at_least=0.5).similar
    ids = simjoin.compare(data, 1000, 1001, "name", id="id")
    assert ids.rows[1]["left"] == "Jane <Doe>"
    vectors = {"v": [[0.0, 3.0], [4.0, 0.0]]}
    by_vectors = simjoin.compare(vectors, 0, 1, "v", measure="cosine", at_most=0.5)
    assert by_vectors.reason == "cosine_distance of v is 1.0, above 0.5"
    weights = simjoin.compare(data, "a", "c", {"name": 0.5, "city": ("equal", 0.5)}, at_least=0.9)
    assert any(row["what"] == "weighted sum >= 0.9" for row in weights.rows)
    with pytest.raises(simjoin.PlanError, match="no row with the label 'z'"):
        simjoin.compare(data, "a", "z", "name")
    with pytest.raises(simjoin.PlanError, match="places count from 0"):
        simjoin.compare({"n": ["a"]}, "x", 0, "n")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_pages_have_the_pairs(tmp_path: Path) -> None:
    data = frame()
    page = simjoin.report(data, on="name", at_least=0.8, down_to=0.5, id="id", title="Names & <b>")
    found = data_of(page.html)
    pairs = simjoin.near_duplicates(data, "name", at_least=0.5, id="id")
    ids = found["tables"][0]["ids"]
    shown = {
        (ids[left], ids[right]): score
        for left, right, score in zip(
            *(found["pairs"][n] for n in ("left", "right", "score")), strict=True
        )
    }
    wanted = zip(zip(pairs["left"], pairs["right"], strict=True), pairs["score"], strict=True)
    assert shown == dict(wanted)
    assert found["pairs"]["score"] == sorted(found["pairs"]["score"], reverse=True)
    assert (found["at"], found["weakest"], found["title"]) == (0.8, 0.5, "Names & <b>")
    assert "<iframe" in page._repr_html_() and "<b>" not in page.html
    marks = {"left": [1000], "right": [1001], "label": ["yes"]}
    two = simjoin.report(
        polars.DataFrame(data),
        polars.DataFrame(frame(30, 5)),
        {"name": 0.6, "city": ("equal", 0.4)},
        at_least=0.7,
        most=5,
        labels=marks,
        columns=["id"],
        path=tmp_path / "page.html",
    )
    found = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert two.html == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(found["tables"]) == 2 and len(found["pairs"]["score"]) == 5
    assert found["left_out"] > 0 and found["labels"] == [[1000, 1001, "yes"]]
    assert set(found["pairs"]["parts"]) == {"name", "city"}
    assert found["tables"][0]["columns"] == ["name", "city", "id"]


def test_marks_join_and_part_rows() -> None:
    data = {"id": [10, 11, 12, 13], "name": ["alpha one", "omega two", "omega two", "omega two"]}
    marks = {"left": [1, 1, 3], "right": [2, 3, 0], "label": ["no", "No", "yes"]}
    kept = simjoin.deduplicate(data, "name", 0.9, labels=marks)
    assert kept["id"] == [10, 11, 12]
    by_id = {"left": [11, 11, 13], "right": [12, 13, 10], "label": marks["label"]}
    by_id["told_by"] = ["id"] * 3
    kept, audit = simjoin.deduplicate(data, "name", 0.9, labels=by_id, id="id", audit=True)
    assert kept["id"] == [10, 11, 12] and audit["dropped"] == [13]
    parted = {"left": [1, 1, 2], "right": [2, 3, 3], "label": ["no", "no", "no"]}
    assert simjoin.clusters(data, "name", 0.9, labels=parted)["cluster_size"] == [1] * 4
    assert simjoin.clusters(data, "name", 0.9, labels=by_id, id="id")["cluster"] == [0, 1, 0, 0]
    page = data_of(simjoin.report(data, on="name", at_least=0.9, labels=marks).html)
    assert page["told_by"] == "place" and [int(x) for x in page["labels"][0][:2]] == [1, 2]
    for labels, words in [
        (by_id, "tells rows by the column id, and here the places of rows"),
        (marks | {"label": ["y", "n", "no"]}, "the frame of labels has the label n"),
        ({"left": [1], "right": [2]}, "has no column label"),
    ]:
        with pytest.raises(simjoin.PlanError, match=words):
            simjoin.deduplicate(data, "name", 0.9, labels=labels)


def test_thresholds_of_two_frames_are_those_of_links() -> None:
    data, other = frame(), frame(40, 2)
    rows = simjoin.thresholds(data, "name", at_least=0.5, step=0.25, other=other, keys="city")
    for place, threshold in enumerate(rows["threshold"]):
        links = simjoin.link(data, other, "name", at_least=threshold, keys="city")
        assert rows["pairs"][place] == len(links["left"])
        ends = {("a", left) for left in links["left"]} | {("b", right) for right in links["right"]}
        assert rows["rows_in_groups"][place] == len(ends)


def test_mistakes_are_told_in_words_of_python() -> None:
    data, one = frame(5), {"a": [1], "b": [1]}
    for call, words in [
        (lambda: simjoin.thresholds(data, "nam", 0.5), "the frame has no column nam"),
        (lambda: simjoin.thresholds(data, "name", at_most=2), "give at_least, not at_most"),
        (lambda: simjoin.report(data, on="name", at_least=0.8, down_to=0.9), "0.9 is not weaker"),
        (lambda: simjoin.near_duplicates(data, "name", fold="upper"), 'fold has "upper"'),
        (lambda: simjoin.clusters(data, "name", fold=True), "fold=True names no spellings"),
        (lambda: simjoin.evaluate({"a": [1]}, {"a": [1], "b": [2]}), "links has one column"),
        (lambda: simjoin.evaluate(one, one, groups="x"), "groups is truth"),
    ]:  # fmt: skip
        with pytest.raises(simjoin.PlanError, match=re.escape(words)):
            call()


def test_threads_share_a_context() -> None:
    context = simjoin.connect()
    data, found = frame(), []

    def look() -> None:
        found.append(simjoin.thresholds(data, "name", 0.5, context=context))

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and all(rows == found[0] for rows in found)
    assert context._session.tables() == []
