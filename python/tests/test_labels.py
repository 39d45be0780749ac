"""Rows of pandas are told by the labels of their index."""

from __future__ import annotations

import pytest

import simjoin

pandas = pytest.importorskip("pandas")

TEXTS = ["day shift", "night watch", "x", "night watch!", "day shift", "y"]


def frame(index: object = None) -> pandas.DataFrame:
    return pandas.DataFrame({"text": TEXTS, "n": range(len(TEXTS))}, index=index)


def test_a_part_of_a_frame_keeps_its_labels() -> None:
    df = frame()
    part = df[df.n > 0]
    pairs = simjoin.near_duplicates(part, "text", 0.8)
    assert pairs.values.tolist() == [[1, 3, 0.9]]
    assert df.loc[pairs.left, "text"].tolist() == ["night watch"]
    assert df.loc[pairs.right, "text"].tolist() == ["night watch!"]
    grouped = simjoin.clusters(part, "text", 0.8)
    assert list(grouped.index) == [1, 2, 3, 4, 5]
    assert grouped["cluster"].tolist() == [1, 2, 1, 4, 5]
    assert grouped["cluster_size"].tolist() == [2, 1, 2, 1, 1]
    kept, audit = simjoin.deduplicate(part, "text", 0.8, keep="last", audit=True)
    assert list(kept.index) == [2, 3, 4, 5]
    assert audit.values.tolist() == [[1, 3, 0.9]]
    linked = simjoin.match(part, df, "text", 0.95)
    assert linked.left.tolist() == [1, 2, 3, 4, 5]
    assert linked.right.tolist() == [1, 2, 3, 0, 5]
    near = simjoin.nearest(df[df.n == 4], part[part.n < 4], "text", how="left")
    assert near["left"].tolist() == [4] and near["right"].isna().all()


def test_labels_are_of_any_type() -> None:
    for index, label in [
        (list("abcdef"), "b"),
        (pandas.date_range("2026-01-01", periods=6), pandas.Timestamp("2026-01-02")),
        (pandas.Index([9.5, 8.5, 7.5, 6.5, 5.5, 4.5]), 8.5),
    ]:
        df = frame(index)
        pairs = simjoin.near_duplicates(df, "text", at_least=0.9)
        assert df.loc[pairs.left, "n"].tolist() == [0, 1]
        assert df.loc[pairs.right, "n"].tolist() == [4, 3]
        assert pairs["left"].iloc[1] == label
    series = frame(list("abcdef"))["text"]
    assert simjoin.near_duplicates(series, at_least=1.0).values.tolist() == [["a", "e", 1.0]]


def test_labels_of_several_levels_are_tuples() -> None:
    index = pandas.MultiIndex.from_product([["p", "q"], [1, 2, 3]])
    df = frame(index)
    pairs = simjoin.near_duplicates(df, "text", at_least=0.9)
    assert pairs.left.tolist() == [("p", 1), ("p", 2)]
    assert df.loc[pairs.left.tolist(), "n"].tolist() == [0, 1]
    assert df.loc[pairs.right.tolist(), "n"].tolist() == [4, 3]
    assert simjoin.clusters(df, "text")["cluster"].tolist()[3:5] == [("p", 2), ("p", 1)]


def test_labels_that_do_not_tell_rows_are_refused() -> None:
    df = frame([1, 2, 3, 1, 2, 3])
    for call in (
        lambda: simjoin.near_duplicates(df, "text"),
        lambda: simjoin.clusters(df, "text"),
        lambda: simjoin.match(frame(), df, "text"),
        lambda: simjoin.nearest(df, on="text"),
        lambda: simjoin.deduplicate(df, "text", audit=True),
    ):
        with pytest.raises(simjoin.PlanError, match="several have the label 1") as raised:
            call()
        assert "reset_index(drop=True)" in str(raised.value)
    # Nothing is told by labels here.
    assert simjoin.deduplicate(df, "text", 0.9)["n"].tolist() == [0, 1, 2, 5]
    assert simjoin.near_duplicates(df, "text", 1.0, id="n").values.tolist() == [[0, 4, 1.0]]
    assert len(simjoin.join(df, df, "text", 1.0, how="semi")) == len(df)
