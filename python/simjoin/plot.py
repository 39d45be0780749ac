"""Plots of what joins found, with matplotlib: scores, what filters left, sizes of clusters.

Each function draws on ``axes``, or on new ones, and gives them.
"""

from __future__ import annotations

from typing import Any

from ._errors import PlanError, no_column
from ._frame import Frame, _library
from ._inputs import as_frame, columns_of, library, register


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    return _library("matplotlib.pyplot").subplots(layout="constrained")[1]


def _column(data: Any, name: str) -> list[Any]:
    """Gives a column of a frame of any kind as a list."""
    from ._context import default_context

    data = as_frame(data)
    columns = columns_of(data)
    if columns is not None and name in columns:
        return list(columns[name])
    if library(data) == "simjoin":
        frame: Frame = data
    else:
        context = default_context()
        table = context._fresh_name()
        register(context, table, data)
        try:
            frame = context.table(table).cache()
        finally:
            context.deregister(table)
    if name not in frame.columns:
        raise no_column(name, frame.columns)
    values: list[Any] = frame[name].to_pydict()[name]
    return values


def scores(
    pairs: Any, threshold: float | None = None, *, score: str = "score", axes: Any = None
) -> Any:
    """Draws how many pairs have which score, and the threshold.

    Args:
        pairs: Pairs of ``near_duplicates``, ``join`` or ``link``. Found with a lower threshold than
            the one to choose, they show where it may lie: between two hills.
        threshold: The threshold to mark.
        score: The column of scores.
        axes: The axes of matplotlib to draw on.
    """
    values = [value for value in _column(pairs, score) if value is not None]
    axes = _axes(axes)
    axes.hist(values, bins=40)
    axes.set_xlabel(score)
    axes.set_ylabel("pairs")
    if threshold is not None:
        kept = sum(value >= threshold for value in values)
        axes.axvline(threshold, color="black", linestyle="--")
        axes.set_title(f"{kept:,} of {len(values):,} pairs at {threshold} or above")
    return axes


#: The steps of a join, by the metrics that count what is left after them.
_STEPS = [
    ("postings", "pairs that an index or a signature touched"),
    ("candidates", "candidates after the filters"),
    ("verified", "candidates compared token by token"),
    ("matches", "similar pairs"),
]


def funnel(frame: Frame, *, axes: Any = None) -> Any:
    """Draws how many pairs were left after each step of a join. The query runs for that.

    Args:
        frame: A query with a similarity join, such as one of ``Context.sql``.
        axes: The axes of matplotlib to draw on.
    """
    operators = frame.explain(analyze=True).operators
    joins = [operator for operator in operators if "SimilarityJoin" in operator["operator"]]
    if not joins:
        raise PlanError("the query has no similarity join", "SIMJOIN makes sure that it has one")
    metrics = joins[0]["metrics"]
    all_pairs = metrics.get("build_rows", 0) * metrics.get("probe_rows", 0)
    steps = [("all pairs", all_pairs)]
    steps += [(words, metrics[name]) for name, words in _STEPS if metrics.get(name)]
    axes = _axes(axes)
    names, counts = zip(*reversed(steps), strict=True)
    bars = axes.barh(names, counts)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3)
    axes.set_xscale("log")
    # The labels stand behind the bars.
    axes.set_xlim(0.5, max(counts) ** 1.4 + 1)
    axes.set_xlabel("pairs")
    return axes


#: Labels that stand beside each other on an axis.
LABELS = 12


def cluster_sizes(clustered: Any, *, size: str = "cluster_size", axes: Any = None) -> Any:
    """Draws how many clusters have which size.

    Args:
        clustered: A frame of ``clusters``.
        size: The column of sizes.
        axes: The axes of matplotlib to draw on.
    """
    rows: dict[int, int] = {}
    for value in _column(clustered, size):
        rows[value] = rows.get(value, 0) + 1
    sizes = sorted(rows)
    axes = _axes(axes)
    bars = axes.bar([str(value) for value in sizes], [rows[value] // value for value in sizes])
    if len(sizes) <= LABELS:
        axes.bar_label(bars)
    else:
        axes.set_xticks(range(0, len(sizes), -(-len(sizes) // LABELS)))
    axes.set_yscale("log")
    axes.set_xlabel("rows in a cluster")
    axes.set_ylabel("clusters")
    return axes


def evaluation(evaluated: Any, *, axes: Any = None) -> Any:
    """Draws precision, recall and F1 by threshold, and marks the threshold of the best F1.

    Args:
        evaluated: A frame of ``evaluate`` with thresholds.
        axes: The axes of matplotlib to draw on.
    """
    thresholds = _column(evaluated, "threshold")
    axes = _axes(axes)
    for name in ("precision", "recall", "f1"):
        values = _column(evaluated, name)
        points = [(t, v) for t, v in zip(thresholds, values, strict=True) if v is not None]
        if points:
            axes.plot(*zip(*sorted(points), strict=True), label=name, marker=".")
    best = [
        (v, t) for t, v in zip(thresholds, _column(evaluated, "f1"), strict=True) if v == v and v
    ]
    if best:
        f1, threshold = max(best)
        axes.axvline(threshold, color="black", linestyle="--")
        axes.set_title(f"the best F1 is {f1:.3f}, at {threshold}")
    axes.set_xlabel("threshold")
    axes.set_ylim(0, 1.05)
    axes.legend()
    return axes
