"""Rows keep their order: in every sink, of every verb, for every kind of frame.

Tables have more than ten batches, and several threads read them.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import KINDS, make, rows_of

import simjoin

#: Rows of a table: twelve batches and a part.
ROWS = 100_000

#: Rows 0 … HALF - 1 have one similar row each, HALF rows later.
HALF = ROWS // 2

ORDERED = f"SELECT (value * 7919) % 100003 AS v FROM generate_series(1, {ROWS}) ORDER BY v"
EXPECTED = sorted((value * 7919) % 100003 for value in range(1, ROWS + 1))


def context(**options: Any) -> simjoin.Context:
    """Opens a context of four threads, which also read small files side by side."""
    given = {"datafusion.optimizer.repartition_file_min_size": 0, **options}
    return simjoin.connect(threads=4, options=given)


def _parquet(frame: simjoin.Frame, folder: Path) -> list[int]:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert frame.write(folder / "t.parquet") == ROWS
    return parquet.read_table(folder / "t.parquet")["v"].to_pylist()


def _csv(frame: simjoin.Frame, folder: Path) -> list[int]:
    assert frame.write_csv(folder / "t.csv") == ROWS
    with open(folder / "t.csv", newline="") as file:
        return [int(row["v"]) for row in csv.DictReader(file)]


def _registered(frame: simjoin.Frame, _: Path) -> list[int]:
    other = context()
    other.register("t", frame)
    other.sql("CREATE TABLE copied AS SELECT v FROM t WHERE v IS NOT NULL")
    other.sql("INSERT INTO copied SELECT v + 200000 FROM t")
    values = [row["v"] for row in other.table("copied").to_pylist()]
    assert [value - 200000 for value in values[ROWS:]] == values[:ROWS]
    return values[:ROWS]


def _named(frame: simjoin.Frame, _: Path) -> list[int]:
    frame.context.register("named", frame)
    return frame.context.table("named").to_arrow_table()["v"].to_pylist()


def _duckdb(frame: simjoin.Frame, _: Path) -> list[int]:
    duckdb = pytest.importorskip("duckdb")
    return [row[0] for row in duckdb.sql("SELECT v FROM frame").fetchall()]


def _extension(frame: simjoin.Frame, _: Path) -> list[int]:
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()
    session.from_arrow(frame.to_arrow_table(), name="t")
    extension = simjoin.Extension(threads=4)
    return extension.sql(session, "SELECT v FROM t ORDER BY v").to_pydict()["v"]


def _reader(frame: simjoin.Frame, _: Path) -> list[int]:
    batches = [batch["v"].to_pylist() for batch in frame.to_arrow_reader()]
    return list(itertools.chain.from_iterable(batches))


#: How the values of the column v of a frame are read.
SINKS: dict[str, Callable[[simjoin.Frame, Path], list[int]]] = {
    "pandas": lambda frame, _: frame.to_pandas()["v"].tolist(),
    "polars": lambda frame, _: frame.to_polars()["v"].to_list(),
    "arrow-table": lambda frame, _: frame.to_arrow_table()["v"].to_pylist(),
    "arrow-reader": _reader,
    "list": lambda frame, _: [row["v"] for row in frame.to_pylist()],
    "dict": lambda frame, _: frame.to_pydict()["v"],
    "rows": lambda frame, _: [row["v"] for row in frame],
    "cache": lambda frame, _: frame.cache().to_pydict()["v"],
    "cached-twice": lambda frame, _: frame.cache()[["v"]].cache().to_arrow_table()["v"].to_pylist(),
    "head": lambda frame, _: frame.head(ROWS - 1).to_pydict()["v"] + EXPECTED[-1:],
    "select": lambda frame, _: frame["v"].to_polars()["v"].to_list(),
    "stream": lambda frame, _: pytest.importorskip("polars").DataFrame(frame)["v"].to_list(),
    "duckdb": _duckdb,
    "parquet": _parquet,
    "csv": _csv,
    "registered": _registered,
    "named": _named,
    "extension": _extension,
}


@pytest.fixture(scope="module", params=["ordered", "cached", "table", "limited"])
def ordered(request: pytest.FixtureRequest) -> simjoin.Frame:
    """A query with an order, and frames that hold its rows."""
    ctx = context()
    if request.param == "limited":
        ctx = simjoin.connect(threads=4, memory_limit="1g")
    frame = ctx.sql(ORDERED)
    if request.param == "ordered":
        return frame
    if request.param == "cached":
        return frame.cache()
    ctx.sql(f"CREATE TABLE t AS {ORDERED}")
    return ctx.table("t")


@pytest.mark.parametrize("sink", list(SINKS))
def test_sinks_keep_the_order(ordered: simjoin.Frame, sink: str, tmp_path: Path) -> None:
    for library in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(library)
    assert SINKS[sink](ordered, tmp_path) == EXPECTED


def test_first_rows_of_cached_frames_are_the_first() -> None:
    frame = context().sql(f"{ORDERED} DESC").cache()
    assert frame.head(3).to_pydict()["v"] == EXPECTED[:-4:-1]
    assert frame["v"].limit(10_000).to_pydict()["v"] == EXPECTED[:-10_001:-1]


def test_columns_of_one_frame_belong_together() -> None:
    pandas = pytest.importorskip("pandas")
    ctx = context()
    frame = pandas.DataFrame({"v": range(ROWS), "text": [f"t{n % 1000}" for n in range(ROWS)]})
    ctx.register("t", frame)
    found = ctx.sql("SELECT text, v + 1 AS next FROM t WHERE v >= 10 AND text LIKE 't%'")
    for _ in range(3):
        rows = found.to_pandas()
        assert rows["next"].tolist() == list(range(11, ROWS + 1))
        assert rows["text"].tolist() == frame["text"].tolist()[10:]


def test_settings_are_shown_as_they_were_set() -> None:
    shown = context().sql("SHOW datafusion.execution.target_partitions").to_pylist()
    assert [row["value"] for row in shown] == ["4"]


def test_dbapi_keeps_the_order() -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("adbc_driver_manager")
    import simjoin.dbapi

    with simjoin.dbapi.connect(threads=4) as connection, connection.cursor() as cursor:
        cursor.execute(ORDERED)
        assert [row[0] for row in cursor.fetchall()] == EXPECTED
        cursor.execute(ORDERED)
        assert cursor.fetch_arrow_table()["v"].to_pylist() == EXPECTED
        cursor.adbc_ingest("t", context().sql(ORDERED).to_arrow_table(), mode="create")
        cursor.execute("SELECT v FROM t")
        assert cursor.fetch_arrow_table()["v"].to_pylist() == EXPECTED


def columns() -> dict[str, list]:
    """Gives rows of which each has one similar row, HALF rows before or after it."""
    groups = [(row * 7919) % HALF for row in range(ROWS)]
    return {"id": list(range(ROWS)), "s": [f"w{group}" for group in groups]}


def _batches(columns: dict[str, list]) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(columns)
    # Batches of uneven sizes.
    sizes = itertools.cycle([9000, 1000, 5, 20000])
    batches, start = [], 0
    while start < table.num_rows:
        size = next(sizes)
        batches += table.slice(start, size).combine_chunks().to_batches()
        start += size
    return pyarrow.RecordBatchReader.from_batches(table.schema, batches)


def _rows(columns: dict[str, list]) -> Any:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


INPUTS = [*KINDS, "reader", "rows", "parquet", "ndjson", "folder"]


@pytest.fixture(scope="module", params=INPUTS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """How a frame of a kind is made again and again."""
    made = columns()
    if request.param in ("parquet", "ndjson", "folder"):
        parquet = pytest.importorskip("pyarrow.parquet")
        table = _batches(made).read_all()
        folder = tmp_path_factory.mktemp("files")
        path = folder / f"t.{request.param}"
        if request.param == "parquet":
            parquet.write_table(table, path, row_group_size=3000)
        elif request.param == "ndjson":
            lines = (f'{{"id":{n},"s":"{s}"}}\n' for n, s in zip(*made.values(), strict=True))
            path.write_text("".join(lines))
        else:
            path = folder
            for part in range(7):
                rows = table.slice(part * 15_000, 15_000)
                parquet.write_table(rows, folder / f"{part}.parquet", row_group_size=3000)
        return lambda: path
    if request.param == "reader":
        return lambda: _batches(made)
    frame = _rows(made) if request.param == "rows" else make(request.param, made)
    return lambda: frame


def test_verbs_keep_the_order(source: Callable[[], Any]) -> None:
    ctx = context()
    options: dict[str, Any] = {"on": "s", "at_least": 1.0, "tokenizer": "words", "context": ctx}

    clustered = rows_of(simjoin.clusters(source(), **options))
    assert [row[0] for row in clustered] == list(range(ROWS))
    assert [row[2:] for row in clustered] == [(row % HALF, 2) for row in range(ROWS)]

    pairs = rows_of(simjoin.near_duplicates(source(), **options, columns="id"))
    assert pairs == [(row, row + HALF, 1.0, row, row + HALF) for row in range(HALF)]

    kept, audit = simjoin.deduplicate(source(), **options, keep="last", audit=True)
    assert [row[0] for row in rows_of(kept)] == list(range(HALF, ROWS))
    assert rows_of(audit) == [(row, row + HALF, 1.0) for row in range(HALF)]

    joined = rows_of(simjoin.join(source(), source(), **options, how="left"))
    both = [(row, other) for row in range(ROWS) for other in (row % HALF, row % HALF + HALF)]
    assert [(row[0], row[2]) for row in joined] == both

    linked = rows_of(simjoin.match(source(), source(), **options))
    assert [row[0] for row in linked] == list(range(ROWS))
    assert all((left - right) % HALF == 0 for left, right, _ in linked)

    near = rows_of(simjoin.nearest(source(), on="s", k=1, tokenizer="words", context=ctx))
    assert near == [(row, (row + HALF) % ROWS, 1.0) for row in range(ROWS)]


def test_a_column_of_clusters_fits_to_its_frame() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(columns())
    clustered = simjoin.clusters(frame, "s", 1.0, tokenizer="words", context=context())
    glued = frame.with_columns(cluster=clustered["cluster"])
    assert glued["cluster"].to_list() == [row % HALF for row in range(ROWS)]
