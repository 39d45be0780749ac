"""Joins of two data frames by similarity, in one call each."""

from __future__ import annotations

from typing import Any, Literal

from ._compared import OnBoth, of_both
from ._context import Context
from ._errors import PlanError
from ._frame import Frame
from ._job import Condition, Job
from ._kinds import Output, kind_of, same_kind
from ._measures import Options
from ._outputs import Columns, check_distinct, listed, pairs, scores
from ._verbs import Folds, folds

How = Literal["inner", "left", "right", "full", "outer", "semi", "anti"]


def join(
    a: Any,
    b: Any,
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
    how: How = "inner",
    suffix: str = "_right",
    score: str | None = "score",
    context: Context | None = None,
) -> Any:
    """Joins two frames where rows are similar.

    Args:
        a: A frame of any kind, as for ``near_duplicates``.
        b: Another frame.
        on: The column to compare, or several by their weights, as for ``near_duplicates``. A key
            may be a pair of columns, one of each frame: ``{("title", "name"): 0.5}``.
        threshold: The least similarity.
        left_on: The column of ``a`` to compare, instead of ``on``.
        right_on: The column of ``b`` to compare with it.
        measure: The measure, as for ``near_duplicates``.
        at_least: The least similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that are equal in both rows, or a pair of lists of columns, one of each
            frame: ``(["city", "year"], ["town", "since"])``.
        fold: Spellings that do not count, as for ``near_duplicates``.
        how: ``inner``, ``left``, ``right``, ``full`` (or ``outer``), ``semi`` (the rows of ``a``
            with a similar row) or ``anti`` (the rows without one).
        suffix: What stands behind the names of columns of ``b`` that ``a`` has too.
        score: The name of the column of scores; None for no such column. Of several columns the
            score of each is behind it, ``name_score``, missing where a value is.
        context: The context that runs the join.

    Returns:
        A frame of the kind that came in, in the order of the rows of ``a``, then of ``b``; rows of
        ``b`` alone come last. Of two kinds, a ``Frame``.

    >>> import simjoin
    >>> ours, theirs = {"n": ["Jane Doe", "John Roe"]}, {"n": ["Jane Do"], "age": [40]}
    >>> simjoin.join(ours, theirs, "n", 0.8, how="left")
    {'n': ['Jane Doe', 'John Roe'], 'n_right': ['Jane Do', None], 'age': [40, None], 'score': \
[0.8333333333333334, None]}
    """
    _check_how(how)
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        both = _Both(job, a, b, of=(on, left_on, right_on), keys=keys, options=options, fold=fold)
        outputs = [Output(name, name, "left") for name in both.first.names()]
        if how in ("semi", "anti"):
            return both.assemble(both.joined(how), outputs, labels=True)
        taken = set(both.first.names())
        for name in both.second.names():
            outputs.append(Output(name + suffix if name in taken else name, name, "right"))
        if score is not None:
            outputs += scores(both.compared, score)
        check_distinct(outputs)
        return both.assemble(both.joined(how), outputs)


def link(
    a: Any,
    b: Any,
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
    how: How = "inner",
    id: str | tuple[str, str] | None = None,
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Links the similar rows of two frames: a row has each of its partners.

    ``match`` gives each row one at most, ``join`` the columns of both frames. The arguments are
    those of ``near_duplicates`` and of ``join``.

    Args:
        a: A frame of any kind.
        b: Another frame.
        on: The column to compare, or several by their weights, with keys as for ``join``.
        threshold: The least similarity.
        left_on: The column of ``a`` to compare, instead of ``on``.
        right_on: The column of ``b`` to compare with it.
        measure: The measure.
        at_least: The least similarity; of several columns the least weighted sum.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that are equal in both rows.
        fold: Spellings that do not count, as for ``near_duplicates``.
        how: As for ``join``: rows without a partner are in the result of outer joins; those of
            ``semi`` and ``anti`` have ``left`` alone.
        id: The column that tells rows, or a pair, one of each frame.
        columns: Columns to give of both rows, with ``_left`` and ``_right`` behind their names.
        context: The context that runs the join.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, of several columns
        also the score of each, ``name_score``, in the order of the rows of ``a``, then of ``b``;
        rows of ``b`` alone come last.

    >>> import simjoin
    >>> ours = {"name": ["Jane Doe", "John Roe"], "city": ["Oslo", None], "phone": ["12", "34"]}
    >>> theirs = {"name": ["Jane Do", "J. Roe"], "city": ["Oslo", "Bonn"], "phone": ["12", "34"]}
    >>> weights = {"name": 0.5, "city": ("levenshtein_similarity", 0.3), "phone": ("equal", 0.2)}
    >>> simjoin.link(ours, theirs, on=weights, at_least=0.8)
    {'left': [0], 'right': [0], 'score': [0.9166666666666667], 'name_score': \
[0.8333333333333334], 'city_score': [1.0], 'phone_score': [1.0]}
    """
    _check_how(how)
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        both = _Both(job, a, b, of=(on, left_on, right_on), keys=keys, options=options, fold=fold)
        outputs = pairs(both.first, both.second, both.compared, id, columns)
        if how in ("semi", "anti"):
            outputs = [o for o in outputs if "left" in (o.rows, o.label_of)]
        return both.assemble(both.joined(how), outputs)


def match(
    a: Any,
    b: Any,
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
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Matches two frames one to one: each row has at most one partner.

    Pairs are taken from the most similar one on, so that no two rows would both rather have each
    other than the partners that they got. The arguments are those of ``link``.

    Returns:
        A frame of the kind that came in, with the columns of ``link``, in the order of the rows of
        ``a``.

    >>> import simjoin
    >>> simjoin.match(["Jane Doe", "Jane Do"], ["Jane Doe", "Jane D"], at_least=0.5)
    [{'left': 0, 'right': 0, 'score': 1.0}, {'left': 1, 'right': 1, 'score': 0.8}]
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        both = _Both(job, a, b, of=(on, left_on, right_on), keys=keys, options=options, fold=fold)
        outputs = pairs(both.first, both.second, both.compared, id, columns)
        answer = job.run("match", both.condition(), both.names, fold=both.fold)
        return both.assemble(answer, outputs)


def nearest(
    a: Any,
    b: Any = None,
    on: OnBoth = None,
    k: int = 1,
    *,
    left_on: str | None = None,
    right_on: str | None = None,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    fold: Folds | None = None,
    with_ties: bool = False,
    how: Literal["inner", "left"] = "inner",
    id: str | tuple[str, str] | None = None,
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the ``k`` nearest rows of a frame for each row of another: exactly, without an index.

    Args:
        a: A frame of any kind, as for ``near_duplicates``.
        b: The frame whose rows are found; by default ``a`` itself, where a row is not its own
            neighbour.
        on: The column to compare, or several by their weights, with keys as for ``join``. Rows
            whose weighted sum is 0 are no neighbours.
        k: How many rows to find for each.
        left_on: The column of ``a`` to compare, instead of ``on``.
        right_on: The column of ``b`` to compare with it.
        measure: The measure, as for ``near_duplicates``; by default ``euclidean`` of vectors and
            ``jaccard`` of texts and sets. Sets without a common element are no neighbours.
        at_least: The least similarity of a neighbour; by default any. With it, ``cosine`` of
            vectors is a similarity.
        at_most: The greatest distance of a neighbour; by default any.
        tokenizer: How texts become sets.
        keys: Columns that neighbours have in common.
        fold: Spellings that do not count, as for ``near_duplicates``.
        with_ties: Whether rows as near as the last one are given too. Without it, which of them
            are given is not specified.
        how: ``inner``, or ``left``: then rows without a neighbour are in the result.
        id: The column that tells rows, or a pair; by default their places, from 0, or labels.
        columns: Columns to give of both rows, with ``_left`` and ``_right`` behind their names.
        context: The context that runs the join.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, of several columns
        also the score of each, ``name_score``, in the order of the rows of ``a``, the nearest row
        first.

    >>> import simjoin
    >>> simjoin.nearest(["Jane Doe", "John Roe"], ["Jon Roe", "Jane Do", "Joan Roe"], k=1)
    [{'left': 0, 'right': 1, 'score': 0.8333333333333334}, \
{'left': 1, 'right': 0, 'score': 0.375}]
    >>> points = {"v": [[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]}
    >>> simjoin.nearest(points, on="v")
    {'left': [0, 1, 2], 'right': [1, 2, 1], 'score': [5.0, 1.0, 1.0]}
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise PlanError(f"k={k!r} is no number of neighbours", "k is a whole number from 1 on")
    if how not in ("inner", "left"):
        raise PlanError(f"how={how!r} is no join of neighbours", "how is inner or left")
    options = Options(measure, tokenizer, None, at_least, at_most)
    with Job(context) as job:
        of = (on, left_on, right_on)
        both = _Both(
            job, a, b, of=of, keys=keys, options=options, fold=fold, is_one=b is None, ranks=True
        )
        outputs = pairs(both.first, both.second, both.compared, id, columns)
        answer = job.run(
            "nearest",
            both.condition(needs_bound=False),
            both.names,
            fold=both.fold,
            numbers=[float(k)],
            flags=[with_ties, b is None],
            texts=[how],
        )
        return both.assemble(answer, outputs)


_JOINS = ("inner", "left", "right", "full", "outer", "semi", "anti")


def _check_how(how: str) -> None:
    if how not in _JOINS:
        raise PlanError(f"how={how!r} is no join", f"how is one of {', '.join(_JOINS)}")


class _Both:
    """Two frames as tables of a job, or one and itself, and what is compared of them."""

    def __init__(
        self,
        job: Job,
        a: Any,
        b: Any,
        *,
        of: tuple[object, object, object],
        keys: Columns | tuple[Columns, Columns] | None,
        options: Options,
        fold: Folds | None = None,
        is_one: bool = False,
        ranks: bool = False,
    ) -> None:
        self._job, self._options = job, options
        if is_one:
            self.first = self.second = kind_of(a, job)
        else:
            self.first, self.second = same_kind(a, b, job)
        self.compared = of_both(*of, options, self.first, self.second, needs_bound=not ranks)
        left_keys, right_keys = _keys(keys)
        self.keys = len(left_keys)
        left = (self.compared.lefts, left_keys)
        right = (self.compared.rights, right_keys)
        self.fold = folds(fold)
        first = job.table(self.first, *left)
        is_self = is_one and left == right
        self.names = (first, first if is_self else job.table(self.second, *right))

    def condition(self, *, needs_bound: bool = True) -> Condition:
        """Gives the condition that makes two rows similar."""
        return self._job.condition(self.names, self.compared, self.keys, needs_bound=needs_bound)

    def joined(self, how: str) -> Frame:
        """Gives the numbers of the rows of a join, with their scores; of half joins without."""
        given = {"fold": self.fold, "texts": [how]}
        return self._job.run("link", self.condition(), self.names, **given)

    def assemble(self, answer: Frame, outputs: list[Output], *, labels: bool = False) -> Any:
        """Gives the result; its sources are those that the answer numbers the rows of."""
        sources = {"left": self.first, "right": self.second}
        sources = {name: kind for name, kind in sources.items() if name in answer.columns}
        return self.first.assemble(answer, sources, outputs, labels=labels)


def _keys(keys: Columns | tuple[Columns, Columns] | None) -> tuple[list[str], list[str]]:
    """Gives the keys of both frames: one list, or a pair of lists."""
    if isinstance(keys, tuple) and len(keys) == 2 and not all(isinstance(k, str) for k in keys):
        left, right = listed(keys[0]), listed(keys[1])
        if len(left) != len(right):
            raise PlanError(
                f"keys are {len(left)} columns of one frame and {len(right)} of the other"
            )
        return left, right
    names = [keys] if isinstance(keys, str) else [str(key) for key in keys or ()]
    return names, names
