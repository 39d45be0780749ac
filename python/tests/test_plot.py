"""Plots show the figures that the frames have."""

from __future__ import annotations

import pytest
from conftest import KINDS, make

import simjoin

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

TEXTS = {"text": ["night watch", "night watch!", "night watch", "day shift"]}


@pytest.mark.parametrize("kind", list(KINDS))
def test_scores_and_sizes(kind: str) -> None:
    frame = make(kind, TEXTS)
    axes = simjoin.plot.scores(simjoin.near_duplicates(frame, "text", 0.5), 0.95)
    assert axes.get_title() == "1 of 3 pairs at 0.95 or above"
    assert sum(bar.get_height() for bar in axes.patches) == 3
    axes = simjoin.plot.cluster_sizes(simjoin.clusters(frame, "text", 0.8))
    heights = [bar.get_height() for bar in axes.patches]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert (labels, heights) == (["1", "3"], [1, 1])


def test_funnel() -> None:
    context = simjoin.connect(device="cpu", options={"simjoin.strategy": "ppjoin"})
    context.register("t", {"s": [[n // 4, n // 5, n // 6] for n in range(200)]})
    frame = context.sql("SELECT 1 FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 0.5")
    axes = simjoin.plot.funnel(frame)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    widths = dict(zip(labels, [bar.get_width() for bar in axes.patches], strict=True))
    assert widths["all pairs"] == 200 * 200
    assert 0 < widths["similar pairs"] < 200 * 200
    with pytest.raises(simjoin.PlanError, match="no similarity join"):
        simjoin.plot.funnel(context.sql("SELECT 1"))


def test_columns_that_are_missing() -> None:
    with pytest.raises(simjoin.PlanError, match="no column 'points'"):
        simjoin.plot.scores(simjoin.near_duplicates(TEXTS, "text"), score="points")
