"""Joins by similarity of data frames, and what becomes of the pairs, in one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from ._context import Context
from ._errors import PlanError, no_column
from ._job import Condition, Job
from ._kinds import ROW, Kind, Output, kind_of, same_kind
from ._measures import Options, threshold_of
from ._sql import quoted

How = Literal["inner", "left", "right", "full", "outer", "semi", "anti"]
Columns = str | Sequence[str]


def _listed(columns: Columns | None) -> list[str]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def _on(on: object, kind: Kind) -> str:
    """Gives the compared column; frames of one column need not name it."""
    if isinstance(on, str):
        return on
    names = kind.names()
    if on is None:
        if len(names) == 1:
            return names[0]
        raise PlanError("on is missing: name the column to compare", f"one of {', '.join(names)}")
    if isinstance(on, list | tuple) and all(isinstance(name, str) for name in on):
        raise PlanError(
            f"on={on!r} names {len(on)} columns, and one is compared",
            "make one column of them, or join by a condition for each in SQL: "
            'simjoin.connect().sql("SELECT … FROM a SIMJOIN b ON jaccard(qgrams(a.title, 3), '
            'qgrams(b.title, 3)) >= 0.8 AND jaro_winkler_similarity(a.author, b.author) >= 0.9")',
        )
    raise PlanError(
        f"on={on!r} is no name of a column",
        "on is the column to compare; at_least and at_most are the threshold",
    )


def _both(on: object, a: Kind, b: Kind) -> tuple[str, str]:
    """Gives the compared columns: one name for both frames, or a pair of names as a tuple."""
    if isinstance(on, tuple) and len(on) == 2:
        return _on(on[0], a), _on(on[1], b)
    return _on(on, a), _on(on, b)


def _columns(on: str, keys: list[str], others: dict[str, str] | None = None) -> dict[str, str]:
    """Gives the columns of a table of the engine by their names there."""
    return {"x": on, **{f"k{place}": key for place, key in enumerate(keys)}, **(others or {})}


def _compare(condition: Condition) -> str:
    """Gives the condition that a pair of rows of one table comes once."""
    return f"a.{ROW} {'<' if condition.measure.is_symmetric else '<>'} b.{ROW}"


def near_duplicates(
    data: Any,
    on: str | None = None,
    threshold: float | None = None,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    id: str | None = None,
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the pairs of similar rows of a frame, each pair once.

    Args:
        data: A frame of any kind, the path of a file, a dictionary of columns, or a list.
        on: The column to compare: texts, lists (as sets), or lists of floats (as vectors).
        threshold: The least similarity, which ``at_least`` names. Similarities have the default
            0.8, Jaro's 0.9, except ``overlap``, which counts common elements. Distances have none,
            and take theirs by its name, ``at_most``.
        measure: Of texts and sets ``jaccard`` (the default), ``dice``, ``cosine``,
            ``overlap_coefficient``, ``containment`` or ``overlap``; of texts as they are
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
        id: The column that tells rows. By default they are told by their places, from 0, those of
            pandas by the labels of the index, which then have to differ.
        columns: Columns to give of both rows, with ``_left`` and ``_right`` behind their names.
        context: The context that runs the join; by default one that all calls share.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, in the order of
        the left rows, then of the right ones. Of ``containment``, which is not symmetric, pairs
        come in both orders. Of paths and frames of simjoin it is a ``Frame``; of a dictionary, one;
        of a list, a list.

    >>> import simjoin
    >>> titles = ["The Art of War", "The art of war", "War and Peace", "The Art of War."]
    >>> simjoin.near_duplicates(titles, at_least=0.8)
    [{'left': 0, 'right': 3, 'score': 0.9230769230769231}]
    >>> simjoin.near_duplicates(titles, measure="levenshtein", at_most=2)
    [{'left': 0, 'right': 1, 'score': 2}, {'left': 0, 'right': 3, 'score': 1}]
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind = kind_of(data, job)
        on, names = _on(on, kind), _listed(keys)
        table = job.table(kind, _columns(on, names))
        outputs = _pairs(kind, kind, id, columns)
        condition = job.condition((table, table), (on, on), len(names), options)
        answer = job.context.sql(
            f'SELECT a.{ROW} AS "left", b.{ROW} AS "right", '
            f"{condition.shown(condition.score)} AS score "
            f"FROM {quoted(table)} a SIMJOIN {quoted(table)} b "
            f'ON {condition.text} AND {_compare(condition)} ORDER BY "left", "right"',
            t=condition.threshold,
        )
        return kind.assemble(answer, {"left": kind, "right": kind}, outputs, labels=False)


def _pairs(
    a: Kind, b: Kind, id: str | tuple[str, str] | None, columns: Columns | None
) -> list[Output]:
    """Gives the columns of pairs."""
    outputs = _told(a, b, id, ("left", "right"))
    outputs.append(Output("score", "score"))
    for column in _listed(columns):
        outputs.append(Output(f"{column}_left", column, "left"))
        outputs.append(Output(f"{column}_right", column, "right"))
    for output in outputs:
        known = (a if output.rows == "left" else b).names()
        if output.rows is not None and output.column not in known:
            raise no_column(output.column, known)
    return outputs


def _told(
    a: Kind, b: Kind, id: str | tuple[str, str] | None, names: tuple[str, str]
) -> list[Output]:
    """Gives the columns that tell the rows of a pair: those of ``id``, or labels and places."""
    if id is not None:
        columns = (id, id) if isinstance(id, str) else id
        for kind, column in zip((a, b), columns, strict=True):
            if column not in kind.names():
                raise no_column(column, kind.names())
        return [Output(name, column, name) for name, column in zip(names, columns, strict=True)]
    for kind in (a, b):
        kind.check_labels()
    return [Output(name, name, label_of=name) for name in names]


def clusters(
    data: Any,
    on: str | None = None,
    threshold: float | None = None,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Finds the clusters of a frame: rows that similar pairs connect, over any number of pairs.

    The arguments are those of ``near_duplicates``.

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
        on, names = _on(on, kind), _listed(keys)
        table = job.table(kind, _columns(on, names))
        kind.check_labels()
        condition = job.condition((table, table), (on, on), len(names), options)
        answer = job.context.sql(
            "SELECT node AS row, component AS cluster, size AS cluster_size FROM "
            f"connected_components((SELECT a.{ROW}, b.{ROW} FROM {quoted(table)} a "
            f"LEFT SIMJOIN {quoted(table)} b ON {condition.text} AND {_compare(condition)})) "
            "ORDER BY row",
            t=condition.threshold,
        )
        outputs = [Output(name, name, "row") for name in kind.names()]
        outputs.append(Output("cluster", "cluster", label_of="row"))
        outputs.append(Output("cluster_size", "cluster_size"))
        _distinct(outputs)
        return kind.assemble(answer, {"row": kind}, outputs, labels=True)


Keep = Literal["first", "last", "longest", "shortest"] | str


@overload
def deduplicate(
    data: Any,
    on: str | None = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: Literal[False] = False,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    id: str | None = None,
    context: Context | None = None,
) -> Any: ...


@overload
def deduplicate(
    data: Any,
    on: str | None = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: Literal[True],
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    id: str | None = None,
    context: Context | None = None,
) -> tuple[Any, Any]: ...


def deduplicate(
    data: Any,
    on: str | None = None,
    threshold: float | None = None,
    *,
    keep: Keep = "first",
    audit: bool = False,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | None = None,
    id: str | None = None,
    context: Context | None = None,
) -> Any:
    """Drops near-duplicates: no two rows of the result are similar.

    Rows are looked at in the order of ``keep``; one is kept unless it is similar to one that is
    kept already. Each dropped row is similar to a row that stays: there are no chains.

    Args:
        data: As for ``near_duplicates``, which has the other arguments too.
        on: The column to compare.
        threshold: The least similarity.
        keep: Which of similar rows stays: the ``"first"``, the ``"last"``, the ``"longest"`` or the
            ``"shortest"`` (by the compared text or list), or by another column: ``"max:year"``,
            ``"min:price"``, missing values last. Of equal ones, the first.
        audit: Whether to give a second frame, of what was dropped, and why.
        measure: The measure.
        at_least: The least similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that similar rows have in common.
        id: The column that tells rows in the audit; by default their places, from 0, or labels.
        context: The context that runs the join.

    Returns:
        The frame without duplicates, in its order. With ``audit``, a pair: that frame, and one with
        ``dropped``, ``kept`` (of its similar rows that stayed, the most similar) and ``score``, in
        the order of the dropped rows.

    >>> import simjoin
    >>> names = ["Jane Doe", "Jane Doe jr", "John Roe"]
    >>> simjoin.deduplicate(names, at_least=0.6, keep="longest", audit=True)
    (['Jane Doe jr', 'John Roe'], [{'dropped': 0, 'kept': 1, 'score': 0.6666666666666666}])
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        kind = kind_of(data, job)
        on, names = _on(on, kind), _listed(keys)
        column = keep.partition(":")[2]
        columns = _columns(on, names, {"o": column} if column else None)
        table = job.table(kind, columns)
        told = (
            [*_told(kind, kind, id, ("dropped", "kept")), Output("score", "score")] if audit else []
        )
        condition = job.condition((table, table), (on, on), len(names), options)
        ranked = _ranked(job, table, keep, len(names))
        compared = _compare(condition).replace(ROW, "n")
        answer = job.context.sql(
            f"SELECT d.{ROW} AS row, k.{ROW} AS kept_row, r.kept AS kept, "
            f"{condition.shown('r.score')} AS score FROM "
            f"representatives((SELECT a.n, b.n, {condition.score} FROM {ranked} a "
            f"LEFT SIMJOIN {ranked} b ON {condition.text} AND {compared}){condition.order}) r "
            f"JOIN {ranked} d ON d.n = r.node JOIN {ranked} k ON k.n = r.representative",
            t=condition.threshold,
        ).cache()
        answer._native.register(found := job.fresh())
        kept = job.context.sql(f"SELECT row FROM {quoted(found)} WHERE kept ORDER BY row")
        dropped = job.context.sql(
            f"SELECT row AS dropped, kept_row AS kept, score FROM {quoted(found)} WHERE NOT kept "
            "ORDER BY dropped"
        )
        rows = [Output(name, name, "row") for name in kind.names()]
        result = kind.assemble(kept, {"row": kind}, rows, labels=True)
        if not audit:
            return result
        sources = {"dropped": kind, "kept": kind}
        return result, kind.assemble(dropped, sources, told, labels=False)


def _ranked(job: Job, table: str, keep: Keep, keys: int) -> str:
    """Gives a table with the place ``n`` of each row in the order of ``keep``."""
    by, _, column = keep.partition(":")
    length = "length(x)"
    if job.context.table(table)._native.families()[0] != "text":
        length = "array_length(x)"
    orders = {
        "first": ROW,
        "last": f"{ROW} DESC",
        "longest": f"{length} DESC NULLS LAST, {ROW}",
        "shortest": f"{length} NULLS LAST, {ROW}",
        "max": f"o DESC NULLS LAST, {ROW}",
        "min": f"o NULLS LAST, {ROW}",
    }
    if by not in orders or (by in ("max", "min")) != bool(column):
        raise PlanError(
            f"keep={keep!r} is no order",
            "keep is first, last, longest, shortest, max:column or min:column",
        )
    columns = ", ".join(["x", ROW, *(f"k{key}" for key in range(keys))])
    ranked = quoted(job.fresh())
    if by == "first":
        job.context.sql(
            f"CREATE VIEW {ranked} AS SELECT {columns}, {ROW} AS n FROM {quoted(table)}"
        )
    else:
        job.context.sql(
            f"CREATE TABLE {ranked} AS SELECT {columns}, "
            f"row_number() OVER (ORDER BY {orders[by]}) AS n FROM {quoted(table)}"
        )
    return ranked


def join(
    a: Any,
    b: Any,
    on: str | tuple[str, str] | None = None,
    threshold: float | None = None,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    how: How = "inner",
    suffix: str = "_right",
    score: str | None = "score",
    context: Context | None = None,
) -> Any:
    """Joins two frames where rows are similar.

    Args:
        a: A frame of any kind, as for ``near_duplicates``.
        b: Another frame.
        on: The column to compare, or a pair of columns, one of each frame.
        threshold: The least similarity.
        measure: The measure, as for ``near_duplicates``.
        at_least: The least similarity.
        at_most: The greatest distance.
        tokenizer: How texts become sets.
        keys: Columns that are equal in both rows.
        how: ``inner``, ``left``, ``right``, ``full`` (or ``outer``), ``semi`` (the rows of ``a``
            with a similar row) or ``anti`` (the rows without one).
        suffix: What stands behind the names of columns of ``b`` that ``a`` has too.
        score: The name of the column of scores; None for no such column.
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
    joins = {
        "inner": "SIMJOIN",
        "left": "LEFT SIMJOIN",
        "right": "RIGHT SIMJOIN",
        "full": "FULL SIMJOIN",
        "outer": "FULL SIMJOIN",
        "semi": "LEFT SEMI SIMJOIN",
        "anti": "LEFT ANTI SIMJOIN",
    }
    if how not in joins:
        raise PlanError(f"how={how!r} is no join", f"how is one of {', '.join(joins)}")
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        first, second = same_kind(a, b, job)
        left, right = _both(on, first, second)
        left_keys, right_keys = _keys(keys)
        tables = (
            job.table(first, _columns(left, left_keys)),
            job.table(second, _columns(right, right_keys)),
        )
        condition = job.condition(tables, (left, right), len(left_keys), options)
        from_both = (
            f"FROM {quoted(tables[0])} a {joins[how]} {quoted(tables[1])} b ON {condition.text}"
        )
        outputs = [Output(name, name, "left") for name in first.names()]
        if how in ("semi", "anti"):
            answer = job.context.sql(
                f'SELECT a.{ROW} AS "left" {from_both} ORDER BY "left"', t=condition.threshold
            )
            return first.assemble(answer, {"left": first}, outputs, labels=True)
        taken = set(first.names())
        for name in second.names():
            outputs.append(Output(name + suffix if name in taken else name, name, "right"))
        if score is not None:
            outputs.append(Output(score, "score"))
        _distinct(outputs)
        answer = job.context.sql(
            f'SELECT a.{ROW} AS "left", b.{ROW} AS "right", '
            f"{condition.shown(condition.score)} AS score "
            f'{from_both} ORDER BY "left" NULLS LAST, "right"',
            t=condition.threshold,
        )
        return first.assemble(answer, {"left": first, "right": second}, outputs, labels=False)


def _keys(keys: Columns | tuple[Columns, Columns] | None) -> tuple[list[str], list[str]]:
    """Gives the keys of both frames: one list, or a pair of lists."""
    if isinstance(keys, tuple) and len(keys) == 2 and not all(isinstance(k, str) for k in keys):
        left, right = _listed(keys[0]), _listed(keys[1])
        if len(left) != len(right):
            raise PlanError(
                f"keys are {len(left)} columns of one frame and {len(right)} of the other"
            )
        return left, right
    names = [keys] if isinstance(keys, str) else [str(key) for key in keys or ()]
    return names, names


def _distinct(outputs: list[Output]) -> None:
    seen: set[str] = set()
    for output in outputs:
        if output.name in seen:
            raise PlanError(
                f"the result would have two columns {output.name!r}",
                "rename the column, or give another suffix or score",
            )
        seen.add(output.name)


def link(
    a: Any,
    b: Any,
    on: str | tuple[str, str] | None = None,
    threshold: float | None = None,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
    id: str | tuple[str, str] | None = None,
    columns: Columns | None = None,
    context: Context | None = None,
) -> Any:
    """Links two frames one to one: each row has at most one partner.

    Pairs are taken from the most similar one on, so that no two rows would both rather have each
    other than the partners that they got. The arguments are those of ``near_duplicates``; ``on``,
    ``id`` and ``keys`` may be pairs, one for each frame.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, in the order of
        the rows of ``a``.

    >>> import simjoin
    >>> simjoin.link(["Jane Doe", "Jane Do"], ["Jane Doe", "Jane D"], at_least=0.5)
    [{'left': 0, 'right': 0, 'score': 1.0}, {'left': 1, 'right': 1, 'score': 0.8}]
    """
    options = Options(measure, tokenizer, threshold, at_least, at_most)
    with Job(context) as job:
        first, second = same_kind(a, b, job)
        left, right = _both(on, first, second)
        left_keys, right_keys = _keys(keys)
        tables = (
            job.table(first, _columns(left, left_keys)),
            job.table(second, _columns(right, right_keys)),
        )
        outputs = _pairs(first, second, id, columns)
        condition = job.condition(tables, (left, right), len(left_keys), options)
        answer = job.context.sql(
            f'SELECT "left", "right", {condition.shown("score")} AS score FROM one_to_one(('
            f"SELECT a.{ROW}, b.{ROW}, {condition.score} "
            f"FROM {quoted(tables[0])} a SIMJOIN {quoted(tables[1])} b "
            f'ON {condition.text}){condition.order}) ORDER BY "left"',
            t=condition.threshold,
        )
        return first.assemble(answer, {"left": first, "right": second}, outputs, labels=False)


def nearest(
    a: Any,
    b: Any = None,
    on: str | tuple[str, str] | None = None,
    k: int = 1,
    *,
    measure: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    tokenizer: str | None = None,
    keys: Columns | tuple[Columns, Columns] | None = None,
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
        on: The column to compare, or a pair of columns, one of each frame.
        k: How many rows to find for each.
        measure: The measure, as for ``near_duplicates``; by default ``euclidean`` of vectors and
            ``jaccard`` of texts and sets. Sets without a common element are no neighbours.
        at_least: The least similarity of a neighbour; by default any. With it, ``cosine`` of
            vectors is a similarity.
        at_most: The greatest distance of a neighbour; by default any.
        tokenizer: How texts become sets.
        keys: Columns that neighbours have in common.
        with_ties: Whether rows as near as the last one are given too. Without it, which of them
            are given is not specified.
        how: ``inner``, or ``left``: then rows without a neighbour are in the result.
        id: The column that tells rows, or a pair; by default their places, from 0, or labels.
        columns: Columns to give of both rows, with ``_left`` and ``_right`` behind their names.
        context: The context that runs the join.

    Returns:
        A frame of the kind that came in, with ``left``, ``right`` and ``score``, in the order of
        the rows of ``a``, the nearest row first.

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
        if b is None:
            first = second = kind_of(a, job)
        else:
            first, second = same_kind(a, b, job)
        left, right = _both(on, first, second)
        left_keys, right_keys = _keys(keys)
        left_table = job.table(first, _columns(left, left_keys))
        is_self = b is None and (left, left_keys) == (right, right_keys)
        right_table = left_table if is_self else job.table(second, _columns(right, right_keys))
        tables = (left_table, right_table)
        outputs = _pairs(first, second, id, columns)
        score, name, found = job.score(tables, (left, right), options)
        conditions = [f"a.k{key} = b.k{key}" for key in range(len(left_keys))]
        parameters = {}
        if at_least is not None or at_most is not None:
            parameters["t"] = threshold_of(name, found, options)
            conditions.append(f"{score} {'<=' if found.is_distance else '>='} $t")
        if b is None:
            conditions.append(f"a.{ROW} <> b.{ROW}")
        answer = job.context.sql(
            f'SELECT "left", "right", {found.shown("value")} AS score FROM ('
            f'SELECT a.{ROW} AS "left", b.{ROW} AS "right", {score} AS value '
            f"FROM {quoted(left_table)} a {how} SIMJOIN {quoted(right_table)} b "
            f"NEAREST {k}{' WITH TIES' if with_ties else ''} "
            f"BY {'DISTANCE' if found.is_distance else 'SIMILARITY'} {score}"
            f"{' ON ' + ' AND '.join(conditions) if conditions else ''}) "
            f'ORDER BY "left", value{"" if found.is_distance else " DESC"}, "right"',
            **parameters,
        )
        return first.assemble(answer, {"left": first, "right": second}, outputs, labels=False)
