"""Plots show the figures that the frames have."""

from __future__ import annotations

import itertools

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


def test_labels_of_many_sizes_stand_apart() -> None:
    sizes = {"cluster_size": [size for size in range(1, 61) for _ in range(size)]}
    axes = simjoin.plot.cluster_sizes(sizes)
    assert [bar.get_height() for bar in axes.patches] == [1] * 60
    axes.get_figure().canvas.draw()
    shown = [label for label in axes.get_xticklabels() if label.get_text()]
    assert [label.get_text() for label in shown] == [str(size) for size in range(1, 61, 5)]
    boxes = [label.get_window_extent() for label in [*shown, *axes.texts]]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))


def test_funnel() -> None:
    context = simjoin.connect(device="cpu", options={"simjoin.strategy": "ppjoin"})
    context.register("t", {"s": [[n // 4, n // 5, n // 6] for n in range(200)]})
    frame = context.sql("SELECT 1 FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 0.5")
    axes = simjoin.plot.funnel(frame)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    widths = dict(zip(labels, [bar.get_width() for bar in axes.patches], strict=True))
    assert widths["all pairs"] == 200 * 200
    assert 0 < widths["similar pairs"] < 200 * 200
    # Labels stay within the frame, those of the longest bar too.
    figure = axes.get_figure()
    figure.canvas.draw()
    right = axes.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right for text in axes.texts)
    assert "40,000" in [text.get_text() for text in axes.texts]
    with pytest.raises(simjoin.PlanError, match="no similarity join"):
        simjoin.plot.funnel(context.sql("SELECT 1"))


def test_columns_that_are_missing() -> None:
    with pytest.raises(simjoin.PlanError, match="no column 'points'"):
        simjoin.plot.scores(simjoin.near_duplicates(TEXTS, "text"), score="points")


def test_evaluations_are_drawn_by_threshold() -> None:
    links = {"left": [1, 2, 3], "right": [2, 3, 4], "score": [0.9, 0.8, 0.5]}
    evaluated = simjoin.evaluate(links, {"a": [1, 2], "b": [2, 3]}, [1.0, 0.9, 0.8, 0.5])
    axes = simjoin.plot.evaluation(evaluated)
    assert axes.get_title() == "the best F1 is 1.000, at 0.8"
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()[:3]}
    assert lines["recall"] == [1.0, 1.0, 0.5, 0.0]
    # Of no link there is no precision.
    assert lines["precision"] == [2 / 3, 1.0, 1.0]
