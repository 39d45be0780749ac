"""Errors have a type, words and a hint."""

from __future__ import annotations

import pickle

import pytest

import simjoin
from simjoin import _native

FRAME = {"text": ["a", "b"], "n": [1, 2], "s": [[1], [2]], "v": [[0.5], [1.5]]}


@pytest.mark.parametrize(
    ("statement", "error", "message", "hint"),
    [
        ("SELEC 1", simjoin.SQLError, "Expected: an SQL statement", None),
        ("SELECT x FROM t", simjoin.PlanError, "No field named x", "n"),
        ("SELECT * FROM tt", simjoin.PlanError, "'datafusion.public.tt' not found", "SHOW TABLES"),
        ("SELECT jacard([1], [1])", simjoin.PlanError, "jaccard", "SHOW FUNCTIONS"),
        ("SELECT 1 / 0", simjoin.ExecutionError, "Divide by zero", None),
        ("SELECT * FROM 'missing.parquet'", simjoin.Error, "missing.parquet", None),
        ("SELECT * FROM t a SIMJOIN t b ON a.n = b.n", simjoin.PlanError, "similarity", None),
        ("SET simjoin.stratgy = 'auto'", simjoin.PlanError, "stratgy", None),
        ("", simjoin.PlanError, "no statement", None),
        ("SELECT $1", simjoin.Error, "", None),
    ],
)
def test_statements(statement: str, error: type, message: str, hint: str | None) -> None:
    context = simjoin.connect()
    context.register("t", FRAME)
    with pytest.raises(error) as raised:
        context.sql(statement).to_pylist()
    assert message in raised.value.message
    if hint is not None:
        assert raised.value.hint is not None and hint in raised.value.hint
        assert "--" not in raised.value.hint and "\\h" not in raised.value.hint
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (copied.message, copied.hint) == (raised.value.message, raised.value.hint)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simjoin.near_duplicates(FRAME, "txt"), "no column 'txt'"),
        (lambda: simjoin.near_duplicates(FRAME, "txt"), "did you mean text? its columns are"),
        (lambda: simjoin.near_duplicates(FRAME), "on is missing"),
        (lambda: simjoin.near_duplicates(FRAME, "n"), "Int64, which has no similarity"),
        (lambda: simjoin.near_duplicates(FRAME, "text", measure="euclidean"), "no measure"),
        (lambda: simjoin.near_duplicates(FRAME, ["text", "n"]), "names 2 columns, and one is"),
        (lambda: simjoin.near_duplicates(FRAME, ("text", "n")), "on={'text': 0.5, 'n': 0.5}"),
        (lambda: simjoin.join(FRAME, FRAME, ["text", "n"]), "names 2 columns, and one is"),
        (lambda: simjoin.join(FRAME, FRAME, ("text", "n", "s")), "names 3 columns, and one is"),
        (lambda: simjoin.clusters(FRAME, 0.8), "on=0.8 is no name of a column"),
        (lambda: simjoin.clusters(FRAME, "lower(text)"), "is an expression: make a column of it"),
        (lambda: simjoin.clusters(FRAME, "text.x"), "is a field of text: make a column of it"),
        (lambda: simjoin.near_duplicates(FRAME, "v", measure="jaccard"), "no measure 'jaccard'"),
        (lambda: simjoin.near_duplicates(FRAME, "v"), "euclidean has no default threshold"),
        (lambda: simjoin.near_duplicates(FRAME, "v", measure="cosine"), "no default threshold"),
        (lambda: simjoin.near_duplicates(FRAME, "text", at_most=0.9), "give at_least"),
        (lambda: simjoin.near_duplicates(FRAME, "text", 0.9, at_least=0.9), "not both"),
        (lambda: simjoin.near_duplicates(FRAME, "text", "0.9"), "no number"),
        (lambda: simjoin.near_duplicates(FRAME, "text", tokenizer="trigrams"), "no tokenizer"),
        (lambda: simjoin.near_duplicates(FRAME, "s", tokenizer="words"), "for texts"),
        (lambda: simjoin.near_duplicates(FRAME, "text", id="x"), "no column 'x'"),
        (lambda: simjoin.near_duplicates(FRAME, "text", keys=["x"]), "no column 'x'"),
        (lambda: simjoin.deduplicate(FRAME, "text", id="x", audit=True), "no column 'x'"),
        (lambda: simjoin.deduplicate(FRAME, "text", keep="best"), "no order"),
        (lambda: simjoin.deduplicate(FRAME, "text", keep="max:"), "no order"),
        (lambda: simjoin.join(FRAME, FRAME, "text", how="cross"), "no join"),
        (lambda: simjoin.join(FRAME, FRAME, left_on="text", right_on="s"), "do not compare"),
        (lambda: simjoin.join(FRAME, FRAME, "text", suffix=""), "two columns"),
        (lambda: simjoin.join(FRAME, FRAME, "text", score="n"), "two columns 'n'"),
        (lambda: simjoin.near_duplicates(FRAME, "text", 0.0), "above 0"),
        (lambda: simjoin.connect(memory_limit="much"), "much"),
        (lambda: simjoin.connect(device="gpu"), "gpu"),
        (lambda: simjoin.connect(options={"x; DROP TABLE t": 1}), "no name of an option"),
    ],
)
def test_calls(call, message: str) -> None:
    with pytest.raises(simjoin.PlanError) as raised:
        call()
    assert message in str(raised.value)


def test_objects_that_are_no_tables() -> None:
    context = simjoin.connect()
    for wrong in (object(), 7):
        with pytest.raises(TypeError, match="__arrow_c_stream__") as raised:
            context.register("t", wrong)
        assert isinstance(raised.value, simjoin.InputError)
    with pytest.raises(TypeError, match="by place"):
        context.sql("SELECT $1", 1, t=2)


def test_columns_of_several_types_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    mixed = ["a", 1, b"c"]
    for frame in (
        pandas.DataFrame({"good": [1, 2, 3], "bad": mixed}),
        polars.DataFrame({"good": [1, 2, 3], "bad": polars.Series(mixed, dtype=polars.Object)}),
        {"good": [1, 2, 3], "bad": mixed},
        [{"good": 1, "bad": value} for value in mixed],
    ):
        for call in (
            lambda frame=frame: simjoin.near_duplicates(frame, "bad"),
            lambda frame=frame: simjoin.join(frame, frame, "bad"),
            lambda frame=frame: simjoin.clusters(frame, "good", keys="bad"),
            lambda frame=frame: simjoin.connect().register("t", frame),
        ):
            with pytest.raises(simjoin.InputError, match="the column bad") as raised:
                call()
            assert isinstance(raised.value, simjoin.Error)
            assert isinstance(raised.value, ValueError) and isinstance(raised.value, TypeError)
    with pytest.raises(simjoin.InputError, match="the column value"):
        simjoin.deduplicate(mixed)


def test_missing_libraries_are_told_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import simjoin.dbapi

    for module in ("adbc_driver_manager.dbapi", "pandas", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install adbc-driver-manager pyarrow$"):
        simjoin.dbapi.connect()
    with pytest.raises(ImportError, match=r"pip install pandas; to_pylist\(\)"):
        simjoin.connect().sql("SELECT 1").to_pandas()
    with pytest.raises(ImportError, match=r"pip install matplotlib$"):
        simjoin.plot.scores({"score": [0.5]})


def test_limits_are_typed() -> None:
    context = simjoin.connect(memory_limit="1m")
    frame = context.sql(
        "SELECT value AS v FROM generate_series(1, 1000000) ORDER BY sin(value) LIMIT 900000"
    )
    context.sql("SET simjoin.spill = 'never'")
    join = context.sql(
        "WITH t AS (SELECT value AS id, [value, value + 1] AS s FROM generate_series(1, 300000)) "
        "SELECT a.id FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 0.5"
    )
    with pytest.raises(simjoin.ResourcesExhausted) as raised:
        join.to_pylist()
    assert isinstance(raised.value, MemoryError)
    assert raised.value.hint is not None and "memory_limit" in raised.value.hint
    assert "--memory-limit" not in str(raised.value)
    assert frame.columns == ["v"]


def test_mistakes_are_warned_of() -> None:
    context = simjoin.connect()
    context.register("t", {"s": [[1, 2], [1, 2]]})
    frame = context.sql("SELECT a.s FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 80")
    with pytest.warns(simjoin.SimjoinWarning, match="80% are 0.8") as warned:
        assert frame.to_pylist() == []
    assert warned[0].filename == __file__


def test_panics_are_exceptions() -> None:
    with pytest.raises(simjoin.InternalError, match="asked to"):
        _native.panic()


def test_changed_objects_are_refused() -> None:
    polars = pytest.importorskip("polars")
    context = simjoin.connect()
    frames = [polars.DataFrame({"a": [1]}), polars.DataFrame({"b": ["x"]})]
    context._session.register_lazy("t", frames[0], lambda: frames[0], False)
    assert context.table("t").to_pylist() == [{"a": 1}]
    context._session.register_lazy("t", frames[0], lambda: frames[1], False)
    with pytest.raises(simjoin.ExecutionError, match="have changed"):
        context.table("t").to_pylist()

    def fails():
        raise RuntimeError("no rows today")

    context._session.register_lazy("t", frames[0], fails, False)
    with pytest.raises(simjoin.ExecutionError, match="no rows today"):
        context.table("t").to_pylist()
