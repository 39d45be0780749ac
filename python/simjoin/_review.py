"""Before and after a join: which threshold, how two rows compare, a page to review, evaluations."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._compared import On, OnBoth
from ._errors import PlanError
from ._job import Job
from ._kinds import Kind, kind_of
from ._measures import Options
from ._outputs import Columns, listed
from ._verbs import Folds, like, one_or_two, run, table_of, words

if TYPE_CHECKING:
    from ._context import Context


def thresholds(
    data: Any,
    on: On = None,
    threshold: float | None = None,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    fold: Folds | None = None,
    other: Any = None,
    step: float | None = None,
    context: Context | None = None,
) -> Any:
    """Shows what each threshold would give, to choose one, by one join at the weakest.

    Args:
        data: A frame of any kind, as for ``near_duplicates``.
        on: The column to compare, or several by their weights.
        threshold: The weakest similarity worth a look.
        measure: The measure.
        at_least: The weakest similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        fold: Spellings that do not count: ``"lower"``, ``"accents"``, ``"punctuation"``,
            ``"spaces"``, or several of them.
        other: A second frame, whose rows are linked with those of the first.
        step: The difference of two thresholds.
        context: The context that runs the join.

    Returns:
        A frame of the kind that came in, a row for each threshold from the strictest on:
        ``threshold``, ``pairs`` within it, ``added`` (those that only this step adds),
        ``rows_in_groups``, ``groups``, ``largest_group``, and ``examples``, the weakest of the
        added pairs. ``suggest`` names a threshold that may be the one.

    >>> import simjoin
    >>> names = ["Jane Doe", "Jane Do", "Jane Doe jr", "John Roe", "Jon Roe"]
    >>> for row in simjoin.thresholds(names, at_least=0.5, step=0.25):
    ...     print(row["threshold"], row["pairs"], row["examples"])
    1.0 0 None
    0.75 1 Jane Doe ~ Jane Do
    0.5 3 Jane Do ~ Jane Doe jr; Jane Doe ~ Jane Doe jr
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        asked = one_or_two(job, data, other, (on, None, None), options, keys, fold)
        numbers = [] if step is None else [float(step)]
        rows, _ = run(job.context, "thresholds", asked.words(numbers=numbers))
        assert rows is not None
        return like(asked.kinds[0], rows)


def suggest(steps: Any) -> tuple[float, str] | None:
    """Names a threshold that may be the one, and why: from the frame that ``thresholds`` gives.

    The step below it makes one group of many, or adds many more pairs than the one before. None
    where no step stands out.

    >>> import simjoin
    >>> steps = {"threshold": [0.9, 0.8, 0.7], "added": [4, 5, 60], "largest_group": [2, 3, 40]}
    >>> simjoin.suggest(steps)
    (0.8, 'the step to 0.7 makes one group of 40 rows, where the largest had 3')
    """
    from .plot import _column

    columns = [_column(steps, name) for name in ("threshold", "added", "largest_group")]
    rows = zip(*columns, strict=True)
    found: tuple[float, str] | None = _native.suggest(
        [(float(t), int(a), int(g)) for t, a, g in rows]
    )
    return found


def evaluate(
    links: Any,
    truth: Any,
    thresholds: Sequence[float] | None = None,
    *,
    unordered: bool = False,
    distance: bool = False,
    groups: Literal["truth", "links", "both"] | None = None,
    context: Context | None = None,
) -> Any:
    """Holds links against true pairs: precision, recall and F1, by threshold.

    Args:
        links: Pairs, as ``link`` gives them: the first two columns tell the rows, and ``score`` is
            the score, where there is one.
        truth: The true pairs, whose first two columns tell the rows as the links do. With a column
            ``label`` pairs that are marked: ``yes`` and ``no`` are known, others are not judged.
        thresholds: The thresholds; by default some between the scores.
        unordered: Whether 1, 2 and 2, 1 are one pair, as of one table.
        distance: Whether lesser scores are better.
        groups: Which of both has a row and its group in place of pairs; as of ``clusters``, the
            column ``cluster`` is the group.
        context: The context that counts.

    Returns:
        A frame of the kind of the links: ``threshold``, ``links``, ``true_links``, ``true_pairs``,
        ``precision``, ``recall`` and ``f1``; without scores one row, without ``threshold``.

    >>> import simjoin
    >>> links = {"left": [1, 1, 4], "right": [4, 6, 6], "score": [0.8, 0.6, 0.5]}
    >>> simjoin.evaluate(links, {"a": [1, 2], "b": [4, 5]}, [0.8, 0.5])["f1"]
    [0.6666666666666666, 0.4]
    """
    numbers = [float(number) for number in thresholds or ()]
    with Job(context) as job:
        kind, given = _pairs(job, links, truth, [unordered, *_groups(groups), False, distance])
        rows, _ = run(job.context, "evaluate", words(**given, numbers=numbers))
        assert rows is not None
        return like(kind, rows)


def missed(
    links: Any,
    truth: Any,
    of: Any = None,
    on: OnBoth = None,
    threshold: float | None = None,
    *,
    left_on: str | None = None,
    right_on: str | None = None,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    fold: Folds | None = None,
    id: str | tuple[str, str] | None = None,
    unordered: bool = False,
    groups: Literal["truth", "links", "both"] | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the true pairs that are no links, each with the reason.

    Args:
        links: Pairs, as for ``evaluate``.
        truth: The true pairs.
        of: The frame whose rows were linked, or a pair of two; with it the reasons are told: the
            score is below the threshold, a key differs, a value is missing, there is no such row,
            or the rows are similar, and are no link all the same.
        on: The column that was compared, or several by their weights.
        threshold: The least similarity.
        left_on: The column of the first frame, instead of ``on``.
        right_on: The column of the second frame.
        measure: The measure.
        at_least: The least similarity; of several columns the least weighted sum.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        fold: Spellings that do not count.
        id: The column that tells rows, or a pair, one of each frame; by default their places.
        unordered: Whether 1, 2 and 2, 1 are one pair.
        groups: Which of both has groups.
        context: The context that runs the join.

    Returns:
        A frame of the kind of the links: ``left``, ``right``, ``reason``, and with ``of`` also
        ``score``, ``left_value`` and ``right_value``.

    >>> import simjoin
    >>> people = {"id": [1, 2, 3], "name": ["John Roe", "Jon Roe", None]}
    >>> links, truth = {"a": [9], "b": [9]}, {"a": [1, 2], "b": [2, 3]}
    >>> simjoin.missed(links, truth, people, "name", at_least=0.5, id="id")["reason"]
    ['jaccard of name is 0.375, below 0.5', 'jaccard of name is missing']
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind, given = _pairs(job, links, truth, [unordered, *_groups(groups), True])
        if of is None:
            rows, _ = run(job.context, "evaluate", words(**given))
        else:
            data, other = of if isinstance(of, tuple) and len(of) == 2 else (of, None)
            asked = one_or_two(job, data, other, (on, left_on, right_on), options, keys, fold)
            told = (id, id) if isinstance(id, str) else id
            rows, _ = run(job.context, "evaluate", asked.words(**given, id=told))
        assert rows is not None
        return like(kind, rows)


def _groups(groups: str | None) -> list[bool]:
    if groups not in (None, "truth", "links", "both"):
        raise PlanError(f"groups={groups!r} is none of the two", "groups is truth, links or both")
    return [groups in ("links", "both"), groups in ("truth", "both")]


def _pairs(job: Job, links: Any, truth: Any, flags: list[bool]) -> tuple[Kind, dict[str, Any]]:
    """Gives the kind of the links, and the words for links and true pairs."""
    kinds = [kind_of(links, job), kind_of(truth, job)]
    tables = [(table_of(job, kind), told) for kind, told in zip(kinds, _PAIRS, strict=True)]
    return kinds[0], {"pairs": tables, "flags": flags}


_PAIRS = ("the frame of links", "the frame of truth")


class PairComparison:
    """How two rows compare: ``similar``, the ``reason`` where they are not, and ``rows`` with all.

    Each of ``rows`` is a dictionary with ``part`` (a column or a key), ``what``, ``left``,
    ``right``, ``value`` and ``holds``, which tells whether a part of the condition holds.
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        verdict = rows[0]["value"] or ""
        self.similar = verdict == "yes"
        self.reason = verdict.removeprefix("no: ") if verdict.startswith("no: ") else None

    def __repr__(self) -> str:
        lines = [f"similar: {self.rows[0]['value']}"]
        for row in self.rows[1:]:
            cells = [cell for cell in (row["left"], row["right"]) if cell is not None]
            text = " ~ ".join(cells) if len(cells) == 2 else "".join(cells)
            value = "" if row["value"] is None else f" {row['value']}"
            holds = "" if row["holds"] is None else (" ✓" if row["holds"] else " ✗")
            lines.append(f"{row['part'] or 'all'}: {row['what']}:{value}{holds} {text}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = []
        for row in self.rows:
            value = html.escape("" if row["value"] is None else row["value"])
            if row["what"].startswith("changes"):
                value = re.sub(r"\[-(.*?)-\]", r"<del>\1</del>", value, flags=re.DOTALL)
                value = re.sub(r"\{\+(.*?)\+\}", r"<ins>\1</ins>", value, flags=re.DOTALL)
            cells = [html.escape(row[name] or "") for name in ("part", "what", "left", "right")]
            mark = "" if row["holds"] is None else ("✓" if row["holds"] else "✗")
            cells += [value, mark]
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        heads = "".join(f"<th>{head}</th>" for head in ("", "", "left", "right", "value", "holds"))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def compare(
    data: Any,
    left: Any,
    right: Any,
    on: OnBoth = None,
    threshold: float | None = None,
    *,
    other: Any = None,
    left_on: str | None = None,
    right_on: str | None = None,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    fold: Folds | None = None,
    id: str | tuple[str, str] | None = None,
    context: Context | None = None,
) -> PairComparison:
    """Shows how two rows compare: what they share, what differs, why they are similar or not.

    Args:
        data: A frame of any kind.
        left: The row, by its place, of pandas by its label, or by the value of ``id``.
        right: The other row.
        on: The column to compare, or several by their weights.
        threshold: The least similarity.
        other: The frame of the right row, where it is another one.
        left_on: The column of the first frame, instead of ``on``.
        right_on: The column of the second frame.
        measure: The measure.
        at_least: The least similarity; of several columns the least weighted sum.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        fold: Spellings that do not count.
        id: The column that tells rows, or a pair.
        context: The context that compares.

    >>> import simjoin
    >>> people = {"name": ["Jane Doe", "Jon Doe"], "city": ["Oslo", "Bonn"]}
    >>> found = simjoin.compare(people, 0, 1, "name", at_least=0.8, keys="city")
    >>> found.reason
    'city differs; jaccard of name is 0.2222222222222222, below 0.8'
    >>> [row["value"] for row in found.rows if row["what"].startswith("changes")]
    ['J[-a-]{+o+}n[-e-] Doe']
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        of = (on, left_on, right_on)
        asked = one_or_two(job, data, other, of, options, keys, fold, needs_bound=False)
        told = (id, id) if isinstance(id, str) else id
        rows = [left, right]
        if told is None:
            kinds = (asked.kinds[0], asked.kinds[-1])
            rows = [_place(kind, row) for kind, row in zip(kinds, rows, strict=True)]
        texts = [str(row) for row in rows]
        answer, _ = run(job.context, "compare", asked.words(id=told, texts=texts))
        assert answer is not None
        found = answer.to_pylist()
        if len(found) == 0:
            raise PlanError(f"there is no row {left!r}, or no row {right!r}")
        return PairComparison(found)


def _place(kind: Kind, row: Any) -> int:
    """Gives the place of a row, of pandas by its label."""
    if type(kind).__name__ == "Pandas":
        kind.check_labels()
        try:
            return int(kind.frame.index.get_loc(row))
        except KeyError as error:
            raise PlanError(f"the frame has no row with the label {row!r}") from error
    if isinstance(row, bool) or not isinstance(row, int) or row < 0:
        raise PlanError(f"{row!r} is no place of a row", "places count from 0; id names a column")
    return row


class Report:
    """A page to review, as ``html``. Notebooks show it; ``save`` writes it into a file."""

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page into a file of HTML, which a browser opens without network."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"simjoin.Report({len(self.html):,} characters of HTML; save(path) writes it)"

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" title="Similar pairs to review" '
            'style="width: 100%; height: 720px; border: 0"></iframe>'
        )


def report(
    data: Any,
    other: Any = None,
    on: OnBoth = None,
    threshold: float | None = None,
    *,
    left_on: str | None = None,
    right_on: str | None = None,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    fold: Folds | None = None,
    down_to: float | None = None,
    most: int = 100_000,
    labels: Any = None,
    id: str | tuple[str, str] | None = None,
    columns: Columns | None = None,
    title: str = "Similar rows",
    path: str | os.PathLike[str] | None = None,
    context: Context | None = None,
) -> Report:
    """Makes a page to review similar pairs: one file of HTML, which needs no network.

    It has the scores with a slider, the pairs at the border with their differences, the groups with
    what holds them together, and marks of yes, no and unsure, which it exports as a file that
    ``evaluate`` reads, and ``simjoin dedupe --labels``.

    Args:
        data: A frame of any kind.
        other: A second frame, whose rows are linked with those of the first.
        on: The column to compare, or several by their weights.
        threshold: The least similarity, at which the slider begins.
        left_on: The column of the first frame, instead of ``on``.
        right_on: The column of the second frame.
        measure: The measure.
        at_least: The least similarity; of several columns the least weighted sum.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        fold: Spellings that do not count.
        down_to: The weakest score to look at, beyond the threshold.
        most: The most pairs on the page, the best ones.
        labels: Pairs that were marked before: ``left``, ``right``, ``label``.
        id: The column that tells rows, or a pair; by default their places, from 0.
        columns: The columns on the page; by default all.
        title: The title.
        path: The file to write, too.
        context: The context that runs the join.

    >>> import simjoin
    >>> simjoin.report(["Jane Doe", "Jane Do", "John Roe"], at_least=0.7).html[:15]
    '<!DOCTYPE html>'
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        of = (on, left_on, right_on)
        asked = one_or_two(job, data, other, of, options, keys, fold)
        numbers = [float(most)] + ([] if down_to is None else [float(down_to)])
        pairs = []
        if labels is not None:
            pairs.append((table_of(job, kind_of(labels, job)), "the labels"))
        given: Mapping[str, Any] = {
            "id": (id, id) if isinstance(id, str) else id,
            "show": None if columns is None else listed(columns),
            "pairs": pairs,
            "numbers": numbers,
            "texts": [title, "simjoin.report(…)", id if isinstance(id, str) else "place"],
        }
        _, page = run(job.context, "report", asked.words(**given))
        assert page is not None
    made = Report(page)
    if path is not None:
        made.save(path)
    return made
