"""Sessions of the package datafusion with the extension."""

from __future__ import annotations

import importlib.metadata
import random
import threading
from typing import Any

import pytest
from conftest import random_set, score

import simjoin

DOCS = {
    "id": [1, 2, 3, 4],
    "text": ["night watch", "night watch!", "day shift", None],
    "tokens": [[1, 2, 3, 4], [1, 2, 3], [9], None],
}
PAIRS = (
    "SELECT a.id, b.id AS other, jaccard(a.tokens, b.tokens) AS score FROM docs a SIMJOIN docs b "
    "ON jaccard(a.tokens, b.tokens) >= {} AND a.id < b.id"
)
FOUND = {"id": [1], "other": [2], "score": [0.75]}


def session(**options: Any) -> Any:
    """Gives a session with the extension and a table."""
    datafusion = pytest.importorskip("datafusion")
    ctx = datafusion.SessionContext().with_extensions(simjoin.Extension(**options))
    ctx.from_pydict(DOCS, name="docs")
    return ctx


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("54.1.0", "56.0.0", "5.5"):
        monkeypatch.setattr(importlib.metadata, "version", lambda _, found=version: found)
        with pytest.raises(simjoin.PlanError, match=version) as refused:
            simjoin.Extension()
        assert refused.value.hint == "pip install 'datafusion>=55,<56'"


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(simjoin.PlanError, match="needs the package datafusion"):
        simjoin.Extension()


def test_a_query_with_simjoin_is_a_table() -> None:
    ctx = session()
    query = f"SELECT * FROM simjoin($${PAIRS.format(0.7)}$$)"
    frame = ctx.sql(query)
    # It runs for each reading.
    assert frame.to_pydict() == frame.to_pydict() == FOUND
    assert (
        ctx.sql(f"SELECT other FROM simjoin($${PAIRS.format(0.7)}$$) WHERE score < 0.7").count()
        == 0
    )
    assert ctx.sql(f"SELECT count(*) AS n FROM simjoin($${PAIRS.format(0.7)}$$)").to_pydict() == {
        "n": [1]
    }
    assert ctx.sql(f"SELECT other FROM simjoin($${PAIRS.format(0.1)}$$) LIMIT 1").count() == 1


def test_values_take_the_places_of_parameters() -> None:
    ctx = session()
    query = f"SELECT * FROM simjoin($${PAIRS.format('$1')}$$, {{}})"
    assert ctx.sql(query.format(0.7)).to_pydict() == FOUND
    assert ctx.sql(query.format(0.8)).count() == 0


def test_a_query_is_a_frame() -> None:
    datafusion = pytest.importorskip("datafusion")
    ctx, extension = datafusion.SessionContext(), simjoin.Extension()
    ctx.from_pydict(DOCS, name="docs")
    frame = extension.sql(ctx, PAIRS.format("$t"), t=0.7)
    assert frame.to_pydict() == FOUND
    assert frame.filter(datafusion.col("other") > 2).count() == 0
    # A plain JOIN in the text is a join by similarity too.
    plain = extension.sql(ctx, "EXPLAIN " + PAIRS.format(0.7).replace("SIMJOIN", "JOIN"))
    assert "SetSimilarityJoinExec" in str(plain.to_pydict())


def test_the_answers_are_those_of_the_functions() -> None:
    datafusion = pytest.importorskip("datafusion")
    rng, extension = random.Random(28), simjoin.Extension()
    for case in range(30):
        ctx = datafusion.SessionContext().with_extensions(extension)
        sides = [[random_set(rng) for _ in range(rng.randrange(1, 40))] for _ in range(2)]
        for name, sets in zip("ab", sides, strict=True):
            ctx.from_arrow(_sets(sets), name=name)
        least = rng.choice([0.2, 0.5, 0.75, 1.0])
        on = f"jaccard(a.s, b.s) >= {least}"
        fast = ctx.sql(
            f"SELECT * FROM simjoin($$SELECT a.i AS a, b.i AS b FROM a SIMJOIN b ON {on}$$)"
        )
        slow = ctx.sql(f"SELECT a.i AS a, b.i AS b FROM a JOIN b ON {on}")
        expected = sorted(
            (i, j)
            for i, a in enumerate(sides[0])
            for j, b in enumerate(sides[1])
            if (value := score("jaccard", _set(a), _set(b))) is not None and value >= least
        )
        assert sorted(_rows(fast)) == sorted(_rows(slow)) == expected, case


def _sets(sets: list) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.array(sets, pyarrow.list_(pyarrow.int64()))
    return pyarrow.table({"i": pyarrow.array(range(len(sets))), "s": column})


def _set(values: list | None) -> set | None:
    return None if values is None else {value for value in values if value is not None}


def _rows(frame: Any) -> list[tuple]:
    return list(zip(*frame.to_pydict().values(), strict=True))


def test_functions_are_registered() -> None:
    ctx = session()
    row = ctx.sql(
        "SELECT jaccard([1, 2], [1]) AS j, list_jaccard([1], [1]) AS alias, "
        "qgrams('abcd', 3) AS q, damerau_levenshtein('ab', 'ba') AS d, overlap([1], NULL) AS o"
    ).to_pylist()
    assert row == [{"j": 0.5, "alias": 1.0, "q": ["abc", "bcd"], "d": 1, "o": None}]


def test_tables_are_read_by_any_name() -> None:
    ctx = session()
    ctx.sql("CREATE SCHEMA other").collect()
    ctx.sql("CREATE TABLE other.docs AS SELECT * FROM docs WHERE id < 3").collect()
    ctx.sql('CREATE VIEW "My docs" AS SELECT * FROM docs').collect()
    extension = simjoin.Extension()
    on = "ON jaccard(a.tokens, b.tokens) >= 0.7"
    for names in (
        "docs a SIMJOIN public.docs b",
        "datafusion.public.docs a SIMJOIN docs b",
        "other.docs a SIMJOIN docs b",
        '"My docs" a SIMJOIN docs b',
        "(SELECT * FROM other.docs) a SIMJOIN docs b",
    ):
        count = extension.sql(ctx, f"SELECT count(*) AS n FROM {names} {on}").to_pydict()["n"]
        expected = [4] if "other" in names else [5]
        assert count == expected, names
    # The extension keeps no table of a session.
    assert extension._context.tables() == []
    with pytest.raises(simjoin.PlanError, match="docs"):
        extension.sql(datafusion_session(), f"SELECT a.id FROM docs a SIMJOIN docs b {on}")


def datafusion_session() -> Any:
    return pytest.importorskip("datafusion").SessionContext()


def test_a_table_is_read_anew() -> None:
    datafusion = pytest.importorskip("datafusion")
    ctx, extension = session(), simjoin.Extension()
    ctx.sql("CREATE TABLE grows AS SELECT * FROM docs").collect()
    count = extension.sql(
        ctx, "SELECT count(*) AS n FROM grows a SIMJOIN docs b ON jaccard(a.tokens, b.tokens) >= 1"
    )
    assert count.to_pydict() == {"n": [3]}
    ctx.sql("INSERT INTO grows SELECT * FROM docs").collect()
    assert count.to_pydict() == {"n": [6]}
    assert isinstance(count, datafusion.DataFrame)


def test_errors_keep_their_words() -> None:
    ctx, extension = session(), simjoin.Extension()
    with pytest.raises(simjoin.PlanError) as refused:
        extension.sql(ctx, "SELECT jacard(tokens, tokens) FROM docs")
    assert "Did you mean 'jaccard'" in refused.value.message
    assert refused.value.hint == "SHOW FUNCTIONS lists the functions"
    with pytest.raises(simjoin.PlanError, match="several columns id"):
        extension.sql(ctx, "SELECT a.id, b.id FROM docs a, docs b")
    for text in ("CREATE TABLE t AS SELECT 1", "SELECT 1; SELECT 2", "SET a = 1"):
        with pytest.raises(simjoin.PlanError, match="one query"):
            extension.sql(ctx, text)
    with pytest.raises(Exception, match="takes the text of a query"):
        ctx.sql("SELECT * FROM simjoin(1)")
    with pytest.raises(Exception, match="needs a similarity predicate"):
        ctx.sql(
            "SELECT * FROM simjoin($$SELECT a.id FROM docs a SIMJOIN docs b ON a.id = b.id$$)"
        ).collect()


def test_the_limits_are_those_of_the_extension() -> None:
    datafusion = pytest.importorskip("datafusion")
    ctx = datafusion.SessionContext()
    ctx.sql("CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 300000)").collect()
    sort = "SELECT v FROM t ORDER BY sin(v)"
    assert simjoin.Extension().sql(ctx, sort).count() == 300_000
    small = simjoin.Extension(memory_limit="1m", disk_limit="1m").sql(ctx, sort)
    # The sort may run out of either.
    with pytest.raises(Exception, match=r"memory_limit|max_temp_directory_size"):
        small.collect()


def test_threads_share_an_extension() -> None:
    extension = simjoin.Extension()
    contexts = []
    for place in range(4):
        ctx = datafusion_session()
        ctx.from_pydict({"i": [place] * (place + 1)}, name="t")
        contexts.append(ctx.with_extensions(extension))
    results: list = [None] * len(contexts)

    def run(place: int) -> None:
        for _ in range(10):
            frame = contexts[place].sql("SELECT * FROM simjoin('SELECT i FROM t')")
            results[place] = frame.to_pydict()["i"]
            assert results[place] == [place] * (place + 1)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(contexts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[place] * (place + 1) for place in range(len(contexts))]
