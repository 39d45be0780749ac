"""Every kind of frame, in and out."""

from __future__ import annotations

import datetime

import pytest
from conftest import make, rows_of

import simjoin

COLUMNS = {
    "id": [10, 20, 30, 40],
    "text": ["night watch", "night watch!", "day shift", None],
    "lang": ["en", "en", "en", "de"],
}


def test_the_kind_that_came_in_is_given_back(kind: str) -> None:
    frame = make(kind, COLUMNS)
    pairs = simjoin.near_duplicates(frame, "text", 0.8, id="id", columns="text")
    kept, audit = simjoin.deduplicate(frame, "text", 0.8, keep="longest", audit=True, id="id")
    clustered = simjoin.clusters(frame, "text", 0.8)
    linked = simjoin.match(frame, make(kind, COLUMNS), "text", 0.8, keys="lang", id="id")
    joined = simjoin.join(frame, make(kind, COLUMNS), "text", 0.8, how="left")
    for result in (pairs, kept, audit, clustered, linked, joined):
        assert type(result) is type(frame), kind
    assert rows_of(pairs) == [(10, 20, 0.9, "night watch", "night watch!")]
    assert rows_of(kept) == [
        (20, "night watch!", "en"),
        (30, "day shift", "en"),
        (40, None, "de"),
    ]
    assert rows_of(audit) == [(10, 20, 0.9)]
    assert [row[3:] for row in rows_of(clustered)] == [(0, 2), (0, 2), (2, 1), (3, 1)]
    assert rows_of(linked) == [(10, 10, 1.0), (20, 20, 1.0), (30, 30, 1.0)]
    assert [(row[0], row[3], row[6]) for row in rows_of(joined)] == [
        (10, 10, 1.0),
        (10, 20, 0.9),
        (20, 10, 0.9),
        (20, 20, 1.0),
        (30, 30, 1.0),
        (40, None, None),
    ]


def test_a_context_reads_every_kind(kind: str) -> None:
    context = simjoin.connect()
    context.register("t", make(kind, COLUMNS))
    query = (
        "SELECT a.id, b.id AS other FROM t a SIMJOIN t b "
        "ON jaccard(qgrams(a.text, 3), qgrams(b.text, 3)) >= $t AND a.id < b.id"
    )
    for _ in range(2):
        assert context.sql(query, t=0.8).to_pylist() == [{"id": 10, "other": 20}]
    assert context.tables() == ["t"]
    assert context.deregister("t") and not context.deregister("t")


def test_pandas_keeps_types_and_labels() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "text": ["a b c", "a b c", "x"],
            "kind": pandas.Categorical(["p", "q", "p"]),
            "when": pandas.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
            7: [1, 2, 3],
        },
        index=["r1", "r2", "r3"],
    )
    kept = simjoin.deduplicate(frame, "text", 0.8)
    assert list(kept.index) == ["r1", "r3"]
    assert list(kept.columns) == list(frame.columns)
    assert dict(kept.dtypes) == dict(frame.dtypes)
    clustered = simjoin.clusters(frame, "text", tokenizer="words")
    assert list(clustered.index) == list(frame.index)
    assert clustered["cluster"].tolist() == ["r1", "r1", "r3"]
    found = simjoin.near_duplicates(frame["text"], at_least=0.8)
    assert found.values.tolist() == [["r1", "r2", 1.0]]


def test_missing_scores_are_missing(kind: str) -> None:
    a, b = make(kind, {"s": [[1, 2, 3], [7]]}), make(kind, {"s": [[1, 2, 9]]})
    for measure, at_least, score in (("overlap", 2, 2), ("dice", 0.5, 2 / 3)):
        joined = simjoin.join(a, b, "s", measure=measure, at_least=at_least, how="left")
        assert [row[2] for row in rows_of(joined)] == [score, None]


def test_lists_and_paths(tmp_path) -> None:
    assert simjoin.deduplicate(["aaaa", "aaaa", "bbbb"]) == ["aaaa", "bbbb"]
    assert simjoin.deduplicate([{"t": "aaaa", "n": 1}, {"t": "aaaa", "n": 2}], "t") == [
        {"t": "aaaa", "n": 1}
    ]
    assert simjoin.near_duplicates([[1, 2, 3], (1, 2, 3), {9}], at_least=0.5) == [
        {"left": 0, "right": 1, "score": 1.0}
    ]
    path = tmp_path / "it's.parquet"
    context = simjoin.connect()
    context.register("t", COLUMNS)
    assert context.table("t").write_parquet(path) == 4
    found = simjoin.near_duplicates(path, "text", 0.8)
    assert isinstance(found, simjoin.Frame)
    assert found.to_pylist() == [{"left": 0, "right": 1, "score": 0.9}]
    context.register("file", path)
    assert context.table("file").count() == 4
    assert context.table(str(path)).count() == 4
    for name in ("t.csv", "t.json", "t.arrow"):
        assert context.table("t").write(tmp_path / name) == 4
        assert context.table(str(tmp_path / name)).count() == 4
    with pytest.raises(simjoin.PlanError, match="format"):
        context.table("t").write(tmp_path / "t.xyz")


def test_empty_frames() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    frame = pyarrow.table({"text": pyarrow.array([], pyarrow.string())})
    assert simjoin.near_duplicates(frame, "text").num_rows == 0
    assert simjoin.deduplicate(frame, "text").num_rows == 0
    assert simjoin.clusters(frame, "text").column_names == ["text", "cluster", "cluster_size"]


def test_vectors_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    for kind in ("float64", "float32", "float16"):
        vectors = numpy.array([[0, 0], [0.5, 0], [9, 9]], dtype=kind)
        found = simjoin.near_duplicates({"v": vectors}, "v", measure="euclidean", at_most=0.5)
        assert found == {"left": [0], "right": [1], "score": [0.5]}
        # Columns of a matrix do not lie side by side.
        turned = numpy.asfortranarray(vectors)
        assert simjoin.near_duplicates({"v": turned}, measure="euclidean", at_most=0.5) == found
    vectors = numpy.array([[1.0, 0], [1, 0.1], [0, 1]])
    assert rows_of(simjoin.clusters({"v": vectors}, "v", measure="cosine", at_most=0.01)) == [
        ([1.0, 0.0], 0, 2),
        ([1.0, 0.1], 0, 2),
        ([0.0, 1.0], 2, 1),
    ]


def test_values_of_python() -> None:
    context = simjoin.connect()
    columns = {
        "b": [True, None],
        "i": [1, -2],
        "u": [2**63, None],
        "f": [1.5, 2],
        "s": ["ä", None],
        "y": [b"\x00", None],
        "d": [datetime.date(2020, 2, 29), None],
        "t": [datetime.datetime(1969, 12, 31, 23, 59, 59, 5), None],
        "l": [[1, None], None],
        "n": [None, None],
    }
    context.register("t", columns)
    assert context.table("t").to_pydict() == columns
    zoned = datetime.datetime(2020, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    row = context.sql("SELECT $1 AS a, $2 AS b, $3 AS c", 1, None, zoned).to_pylist()[0]
    assert row == {"a": 1, "b": None, "c": datetime.datetime(2020, 1, 1)}
    for wrong, message in [
        ({"a": [1, "x"]}, "several types"),
        ({"a": [1], "b": [1, 2]}, "differ in length"),
        ({"a": [2**64]}, "beyond 64 bits"),
        ({"a": [object()]}, "no number"),
        ({"a": 1}, "not a list"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            context.register("wrong", wrong)


def test_streams_and_schemas() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    context = simjoin.connect(batch_size=100)
    frame = context.sql("SELECT value, cast(value AS VARCHAR) AS t FROM generate_series(1, 1000)")
    reader = frame.to_arrow_reader()
    assert reader.schema.names == ["value", "t"]
    assert reader.read_all().num_rows == 1000
    wanted = pyarrow.schema([("value", pyarrow.int32()), ("t", pyarrow.large_string())])
    cast = pyarrow.RecordBatchReader.from_stream(frame, wanted)
    assert cast.schema == wanted and cast.read_all().num_rows == 1000
    assert pyarrow.schema(frame.schema).names == ["value", "t"]
    assert frame.to_arrow_table().num_rows == 1000
    # A reader that is dropped early cancels its query.
    partial = frame.to_arrow_reader()
    partial.read_next_batch()
    del partial
    assert frame.count() == 1000
    assert context.sql("SELECT 1 AS x WHERE false").to_arrow_table().num_rows == 0


def test_other_libraries_read_frames() -> None:
    frame = simjoin.connect().sql("SELECT 1 AS a, 'x' AS b")
    assert pytest.importorskip("polars").DataFrame(frame).rows() == [(1, "x")]
    assert pytest.importorskip("pandas").DataFrame.from_arrow(frame).values.tolist() == [[1, "x"]]
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT * FROM frame").fetchall() == [(1, "x")]
    assert frame.to_polars().rows() == [(1, "x")]
    assert frame.to_pandas().values.tolist() == [[1, "x"]]


def test_frames_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    context = simjoin.connect()
    context.register("t", {"id": [1, 2, 3], "text": ["<b>", "y", None]})
    frame = context["t"]
    assert repr(frame) == "Frame[id: Int64, text: Utf8]"
    assert repr(frame.schema) == "id: Int64\ntext: Utf8"
    assert frame._ipython_key_completions_() == ["id", "text"]
    assert context._ipython_key_completions_() == ["t"]
    assert frame["id"].to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert frame[["text", "id"]].columns == ["text", "id"]
    assert frame.head(2).count() == 2
    page = frame._repr_html_()
    assert "&lt;b&gt;" in page and page.count("<tr>") == 4
    frame.show(2)
    shown = capsys.readouterr().out
    assert "| 1  | <b>  |" in shown and "first 2 rows" in shown
    assert list(frame) == frame.to_pylist()


def test_plans_are_text_and_data() -> None:
    context = simjoin.connect()
    context.register("t", {"id": [1, 2], "s": [[1, 2], [1, 2]]})
    frame = context.sql("SELECT a.id FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 0.5")
    plan = frame.explain()
    assert "SetSimilarityJoinExec" in plan
    assert all(not operator["metrics"] for operator in plan.operators)
    assert plan.summary is None
    analyzed = frame.explain(analyze=True)
    assert analyzed.summary is not None and "of work on all threads" in analyzed.summary
    assert analyzed.startswith(analyzed.summary)
    # One counter a line, as the command line has it.
    assert max(len(line) for line in analyzed.splitlines() if "output_rows" in line) < 60
    verbose = frame.explain(analyze=True, verbose=True)
    assert verbose.summary is not None and "output_rows{partition=0}" in verbose
    assert context.sql("SELECT 1").explain(analyze=True).summary is None
    join = next(o for o in analyzed.operators if o["operator"] == "SetSimilarityJoinExec")
    assert join["metrics"]["output_rows"] == 4
    assert analyzed.operators[0]["depth"] == 0


def test_statements_run_at_once(tmp_path) -> None:
    context = simjoin.connect()
    context.sql("CREATE TABLE t AS VALUES (1), (2); INSERT INTO t VALUES (3)")
    assert context.table("t").count() == 3
    inserted = context.sql("INSERT INTO t VALUES (4), (5)").to_pylist()
    assert inserted == [{"count": 2}]
    path = tmp_path / "t.parquet"
    context.sql(f"COPY t TO '{path}'")
    assert context.sql(f"SELECT count(*) AS n FROM '{path}'").to_pylist() == [{"n": 5}]
    context.set("simjoin.strategy", "ppjoin")
    assert context.sql("SHOW simjoin.strategy").to_pylist()[0]["value"] == "ppjoin"
    context.sql("RESET simjoin.strategy")
    assert context.sql("SHOW simjoin.strategy").to_pylist()[0]["value"] == "auto"
    assert "Unbounded" not in context.sql("EXPLAIN SELECT 1").to_pylist()[0]["plan"]


def test_frames_of_a_context_join() -> None:
    context = simjoin.connect()
    frame = context.sql("SELECT value AS id, [value / 3] AS s FROM generate_series(1, 9)")
    found = simjoin.near_duplicates(frame, "s", 0.5, id="id", context=context)
    assert found.count() == 7
    assert context.tables() == []
    assert context._session.tables() == []
