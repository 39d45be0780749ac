"""Frames of every kind, and joins by nested loops that share no code with the package."""

from __future__ import annotations

import math
import os
import random
import re
from typing import Any

import pytest

import simjoin

#: Random joins of a differential test.
CASES = int(os.environ.get("SIMJOIN_TEST_CASES", "200"))


def _pandas(columns: dict[str, list]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def _polars(columns: dict[str, list]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


def _lazy(columns: dict[str, list]) -> Any:
    return _polars(columns).lazy()


def _pyarrow(columns: dict[str, list]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def _duckdb(columns: dict[str, list]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(_pyarrow(columns))


def _ibis(columns: dict[str, list]) -> Any:
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("pyarrow_hotfix")
    return ibis.memtable(_pyarrow(columns))


def _frame(columns: dict[str, list]) -> Any:
    context = simjoin.connect()
    context.register("t", columns)
    return context.table("t")


#: How rows are joined.
HOWS = ["inner", "left", "right", "full", "semi", "anti"]

#: How each kind of frame is made of columns.
KINDS = {
    "pandas": _pandas,
    "polars": _polars,
    "polars-lazy": _lazy,
    "pyarrow": _pyarrow,
    "duckdb": _duckdb,
    "ibis": _ibis,
    "simjoin": _frame,
    "dict": dict,
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def make(kind: str, columns: dict[str, list]) -> Any:
    """Makes a frame of a kind."""
    return KINDS[kind](columns)


def rows_of(frame: Any) -> list[tuple]:
    """Gives the rows of a frame of any kind, with None for missing values."""
    if isinstance(frame, dict):
        columns = list(frame.values())
    elif isinstance(frame, list):
        return [tuple(row.values()) for row in frame]
    elif isinstance(frame, simjoin.Frame):
        columns = list(frame.to_pydict().values())
    elif type(frame).__module__.startswith("pandas"):
        columns = [
            [None if _is_missing(value) else value for value in frame.iloc[:, place].tolist()]
            for place in range(frame.shape[1])
        ]
    elif hasattr(frame, "collect"):
        return frame.collect().rows()
    elif type(frame).__module__.startswith("polars"):
        return frame.rows()
    elif hasattr(frame, "to_pyarrow"):
        columns = list(frame.to_pyarrow().to_pydict().values())
    elif hasattr(frame, "to_arrow_table"):
        columns = list(frame.to_arrow_table().to_pydict().values())
    elif hasattr(frame, "fetchall"):
        return frame.fetchall()
    else:
        columns = list(frame.to_pydict().values())
    return list(zip(*columns, strict=True))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def tokens(text: Any, tokenizer: str) -> set | None:
    """Gives the tokens of a text, by the definition in the manual."""
    if text is None:
        return None
    if not isinstance(text, str):
        return {token for token in text if token is not None}
    name, _, length = tokenizer.partition(":")
    if name == "words":
        return set(re.findall(r"[^\W_]+", text.lower()))
    if name == "shingles":
        words, k = re.findall(r"[^\W_]+", text.lower()), int(length)
        if not words:
            return set()
        return {" ".join(words[i : i + k]) for i in range(max(1, len(words) - k + 1))}
    q = int(length)
    if not text:
        return set()
    return {text[i : i + q] for i in range(max(1, len(text) - q + 1))}


MEASURES = {
    "jaccard": lambda o, a, b: o / (a + b - o),
    "dice": lambda o, a, b: 2 * o / (a + b),
    "cosine": lambda o, a, b: o / math.sqrt(a * b),
    "overlap_coefficient": lambda o, a, b: o / min(a, b),
    "containment": lambda o, a, b: o / a,
    "overlap": lambda o, a, b: o,
}


def score(measure: str, a: set | None, b: set | None) -> float | None:
    """Gives the similarity of two sets; None for a missing one."""
    if a is None or b is None:
        return None
    common = len(a & b)
    return MEASURES[measure](common, len(a), len(b)) if common else 0


def random_text(rng: random.Random) -> str | None:
    """Gives a text that is similar to others of this function, or none."""
    if rng.random() < 0.05:
        return None
    words = ["night", "watch", "Night", "day", "shift", "ünïcode", "a", "watcher", "日本", "x-y"]
    text = " ".join(rng.choice(words) for _ in range(rng.randrange(0, 6)))
    if text and rng.random() < 0.3:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice("abc ") + text[place + 1 :]
    return text


def random_set(rng: random.Random) -> list | None:
    """Gives a list of a few of few numbers, with repeats and missing ones, or none."""
    if rng.random() < 0.05:
        return None
    values = [rng.randrange(12) for _ in range(rng.randrange(0, 8))]
    return [None if rng.random() < 0.05 else value for value in values]


def joined(how: str, lefts: int, rights: int, pairs: list[tuple], scores: int = 1) -> list[tuple]:
    """Gives the rows of a join of which the pairs, with scores, are known, in the verbs' order."""
    matched, partners = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    if how == "semi":
        return [(i,) for i in range(lefts) if i in matched]
    if how == "anti":
        return [(i,) for i in range(lefts) if i not in matched]
    rows = list(pairs)
    missing = (None,) * scores
    if how in ("left", "full"):
        rows += [(i, None, *missing) for i in range(lefts) if i not in matched]
    if how in ("right", "full"):
        rows += [(None, j, *missing) for j in range(rights) if j not in partners]
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, row[1] or 0))


def components(count: int, pairs: list[tuple]) -> list[int]:
    """Gives the least row that pairs connect with each row."""
    label = list(range(count))
    changed = True
    while changed:
        changed = False
        for i, j, *_ in pairs:
            least = min(label[i], label[j])
            changed |= label[i] != least or label[j] != least
            label[i] = label[j] = least
    return label


def representatives(order: list[int], pairs: list[tuple]) -> tuple[list[int], list[tuple]]:
    """Gives the rows that stay, and for each other one the pair with the row it goes for.

    Rows are looked at in the order that is given.
    """
    partner: dict[int, dict[int, tuple]] = {}
    for i, j, *scores in pairs:
        for row, other in ((i, j), (j, i)):
            best = partner.setdefault(row, {}).get(other)
            # Of two scores that are equal, that of the row with the other one.
            if best is None or scores[0] > best[0] or (scores[0] == best[0] and row == i):
                partner[row][other] = tuple(scores)
    kept: list[int] = []
    told = []
    for i in order:
        similar = [k for k in kept if k in partner.get(i, {})]
        if similar:
            first = max(similar, key=lambda k: partner[i][k][0])
            told.append((i, first, *partner[i][first]))
        else:
            kept.append(i)
    return sorted(kept), sorted(told)


def one_to_one(pairs: list[tuple]) -> list[tuple]:
    """Gives the pairs that are left where each row has one partner, from the best pair on."""
    lefts: set[int] = set()
    rights: set[int] = set()
    found = []
    for pair in sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1])):
        if pair[0] not in lefts and pair[1] not in rights:
            lefts.add(pair[0])
            rights.add(pair[1])
            found.append(pair)
    return sorted(found)
