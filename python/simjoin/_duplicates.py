"""Joins of a data frame with itself, and what becomes of the pairs, in one call each."""

from __future__ import annotations

from typing import Any, Literal, overload

from ._compared import On, of_one
from ._context import Context
from ._errors import PlanError
from ._job import Condition, Job
from ._kinds import Output, kind_of
from ._measures import Options
from ._outputs import Columns, check_distinct, listed, pairs, scores, told
from ._sql import quoted
from ._verbs import Folds, folds, marks


def near_duplicates(
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
    id: str | None = None,
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the pairs of similar rows of a frame, each pair once.

    Args:
        data: A frame of any kind, the path of a file, a dictionary of columns, or a list.
        on: The column to compare: texts, lists (as sets), or lists of floats (as vectors). Or
            several columns by their weights, whose weighted sum is the score:
            ``{"name": 0.5, "street": ("levenshtein_similarity", 0.3), "phone": ("equal", 0.2)}``.
            A weight stands alone, behind a measure, or between a measure and a tokenizer:
            ``("jaccard", 0.5, "words")``. ``equal`` is 1 or 0, of any type. Missing values count
            as 0. Measures are similarities up to 1; ``cosine`` of vectors is one here.
        threshold: The least similarity, which ``at_least`` names. Similarities have the default
            0.8, Jaro's 0.9, except ``overlap``, which counts common elements. Distances have none,
            and take theirs by its name, ``at_most``. Weights have none: ``at_least`` is the least
            sum.
        measure: Of texts and sets ``jaccard`` (the default), ``dice``, ``cosine``,
            ``overlap_coefficient``, ``containment`` or ``overlap``, and ``tfidf``: the cosine of
            their tokens, weighted by their rarity among all rows of the call; of weighted sets, or
            of tokens weighted so, ``weighted_cosine``, ``weighted_jaccard``, ``weighted_dice``,
            ``weighted_containment`` or ``weighted_overlap``; of texts as they are
            ``levenshtein``, ``damerau_levenshtein``, ``hamming`` (distances),
            ``levenshtein_similarity``, ``indel_similarity``, ``jaro`` or ``jaro_winkler``; of
            vectors ``euclidean`` (the default; a distance), ``cosine`` (with ``at_most`` the
            distance, with ``at_least`` the similarity, 1 - distance), ``cosine_distance``,
            ``cosine_similarity`` or ``inner_product``.
        at_least: The least similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets: ``"qgrams:3"`` (the default; runs of 3 characters, case
            counts), ``"words"`` or ``"shingles:2"`` (runs of 2 words).
        keys: Columns that similar rows have in common; missing values are in common with none.
        fold: Spellings that do not count where texts are compared: ``"lower"``, ``"accents"``,
            ``"punctuation"``, ``"spaces"``, or several of them. Results have the texts as they are.
        id: The column that tells rows. By default they are told by their places, from 0, those of
            pandas by the labels of the index, which then have to differ.
        columns: Columns to give of both rows, with ``_left`` and ``_right`` behind their names.
        context: The context that runs the join; by default one that all calls share.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, in the order of
        the left rows, then of the right ones. Of several columns it also has the score of each,
        ``name_score``, which is missing where a value is. Of ``containment``, which is not
        symmetric, pairs come in both orders. Of paths and frames of simjoin it is a ``Frame``; of a
        dictionary, one; of a list, a list.

    >>> import simjoin
    >>> titles = ["The Art of War", "The art of war", "War and Peace", "The Art of War."]
    >>> simjoin.near_duplicates(titles, at_least=0.8)
    [{'left': 0, 'right': 3, 'score': 0.9230769230769231}]
    >>> simjoin.near_duplicates(titles, measure="levenshtein", at_most=2)
    [{'left': 0, 'right': 1, 'score': 2}, {'left': 0, 'right': 3, 'score': 1}]
    >>> people = {"name": ["Jane Doe", "Jane Do", "Joan Doe"], "phone": ["12", "12", None]}
    >>> simjoin.near_duplicates(people, {"name": 0.5, "phone": ("equal", 0.5)}, at_least=0.8)
    {'left': [0], 'right': [1], 'score': [0.9166666666666667], \
'name_score': [0.8333333333333334], 'phone_score': [1.0]}
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind = kind_of(data, job)
        compared, names = of_one(on, options, kind), listed(keys)
        table = job.table(kind, compared.lefts, names)
        outputs = pairs(kind, kind, compared, id, columns)
        condition = job.condition((table, table), compared, len(names))
        answer = job.run("pairs", condition, [table], fold=folds(fold))
        return kind.assemble(answer, {"left": kind, "right": kind}, outputs, labels=False)


def clusters(
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
    labels: Any = None,
    id: str | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the clusters of a frame: rows that similar pairs connect, over any number of pairs.

    The arguments are those of ``near_duplicates``; ``labels`` are pairs that are marked, as for
    ``deduplicate``, in which ``id`` tells the rows.

    Returns:
        The frame, in its order, with two more columns: ``cluster``, the place of the first row of
        the cluster (of pandas its label), and ``cluster_size``. A row without similar ones is a
        cluster of its own.

    >>> import simjoin
    >>> simjoin.clusters({"v": [[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]]}, "v", at_most=0.2)
    {'v': [[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]], 'cluster': [0, 0, 2], 'cluster_size': [2, 2, 1]}
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind = kind_of(data, job)
        compared, names = of_one(on, options, kind), listed(keys)
        others = None if labels is None or id is None else {"i": id}
        table = job.table(kind, compared.lefts, names, others)
        kind.check_labels()
        condition = job.condition((table, table), compared, len(names))
        given = {"fold": folds(fold), "texts": ["", "", id or "place"]}
        given |= marks(job, labels, id)
        run = job.run if labels is None else job.run_alone
        answer = run("groups", condition, [table], **given)
        outputs = [Output(name, name, "row") for name in kind.names()]
        outputs.append(Output("cluster", "cluster", label_of="row"))
        outputs.append(Output("cluster_size", "cluster_size"))
        check_distinct(outputs)
        return kind.assemble(answer, {"row": kind}, outputs, labels=True)


Keep = Literal["first", "last", "longest", "shortest"] | str


@overload
def deduplicate(
    data: Any,
    on: On = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: Literal[False] = False,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    fold: Folds | None = None,
    labels: Any = None,
    id: str | None = None,
    context: Context | None = None,
) -> Any: ...


@overload
def deduplicate(
    data: Any,
    on: On = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: Literal[True],
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    fold: Folds | None = None,
    labels: Any = None,
    id: str | None = None,
    context: Context | None = None,
) -> tuple[Any, Any]: ...


def deduplicate(
    data: Any,
    on: On = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: bool = False,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    fold: Folds | None = None,
    labels: Any = None,
    id: str | None = None,
    context: Context | None = None,
) -> Any:
    """Drops near-duplicates: no two rows of the result are similar.

    Rows are looked at in the order of ``keep``; one is kept unless it is similar to one that is
    kept already. Each dropped row is similar to a row that stays: there are no chains.

    Args:
        data: As for ``near_duplicates``, which has the other arguments too.
        on: The column to compare, or columns with weights.
        threshold: The least similarity.
        keep: Which of similar rows stays: the ``"first"``, the ``"last"``, the ``"longest"`` or the
            ``"shortest"`` (by the compared text or list, where it is one), or by another column:
            ``"max:year"``, ``"min:price"``, missing values last. Of equal ones, the first.
        audit: Whether to give a second frame, of what was dropped, and why.
        measure: The measure.
        at_least: The least similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        fold: Spellings that do not count.
        labels: Pairs that are marked, as a ``report`` exports them: ``left``, ``right`` and
            ``label``. Rows of a pair marked ``yes`` are similar, those of one marked ``no`` not.
        id: The column that tells rows in the audit and in the labels; by default their places,
            from 0, and in the audit of pandas the labels of its index.
        context: The context that runs the join.

    Returns:
        The frame without duplicates, in its order. With ``audit``, a pair: that frame, and one with
        ``dropped``, ``kept`` (of its similar rows that stayed, the most similar) and ``score``, of
        several columns also the score of each, in the order of the dropped rows.

    >>> import simjoin
    >>> names = ["Jane Doe", "Jane Doe jr", "John Roe"]
    >>> simjoin.deduplicate(names, at_least=0.6, keep="longest", audit=True)
    (['Jane Doe jr', 'John Roe'], [{'dropped': 0, 'kept': 1, 'score': 0.6666666666666666}])
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind = kind_of(data, job)
        compared, names = of_one(on, options, kind), listed(keys)
        column = keep.partition(":")[2]
        others = {"o": column} if column else {}
        if labels is not None and id is not None:
            others["i"] = id
        table = job.table(kind, compared.lefts, names, others)
        told_by = [*told(kind, kind, id, ("dropped", "kept")), *scores(compared)] if audit else []
        check_distinct(told_by)
        condition = job.condition((table, table), compared, len(names))
        _check_keep(keep, condition)
        order = keep.partition(":")[0] + (":o" if column else "")
        given = {"texts": [order, "", id or "place"], "fold": folds(fold)}
        given |= marks(job, labels, id)
        answer = job.run_alone("deduplicate", condition, [table], **given)
        answer._native.register(found := job.fresh())
        kept = job.context.sql(
            f"SELECT dropped_row AS row FROM {quoted(found)} WHERE is_kept ORDER BY row"
        )
        rows = [Output(name, name, "row") for name in kind.names()]
        result = kind.assemble(kept, {"row": kind}, rows, labels=True)
        if not audit:
            return result
        of_scores = ", ".join(output.column for output in scores(compared))
        dropped = job.context.sql(
            f"SELECT dropped_row AS dropped, kept_row AS kept, {of_scores} FROM {quoted(found)} "
            "WHERE NOT is_kept ORDER BY dropped"
        )
        sources = {"dropped": kind, "kept": kind}
        return result, kind.assemble(dropped, sources, told_by, labels=False)


def _check_keep(keep: Keep, condition: Condition) -> None:
    by, _, column = keep.partition(":")
    known = ("first", "last", "longest", "shortest", "max", "min")
    if by not in known or (by in ("max", "min")) != bool(column):
        raise PlanError(
            f"keep={keep!r} is no order",
            "keep is first, last, longest, shortest, max:column or min:column",
        )
    if by in ("longest", "shortest") and condition.is_weighted:
        raise PlanError(
            f"keep={keep!r} is by the length of the compared column, and on has weights",
            "keep is first or last, or by a column of its own: max:column, min:column",
        )
