"""The driver of ADBC, by way of adbc_driver_manager."""

from __future__ import annotations

import threading
import time

import pytest
from test_processes import LONG

import simjoin.dbapi

manager = pytest.importorskip("adbc_driver_manager")
pyarrow = pytest.importorskip("pyarrow")

SIMILAR = (
    "SELECT a.id, b.id AS other FROM docs a SIMJOIN docs b "
    "ON jaccard(a.s, b.s) >= $1 AND a.id < b.id ORDER BY 1, 2"
)


@pytest.fixture
def connection():
    with simjoin.dbapi.connect(memory_limit="1g", device="cpu") as opened:
        with opened.cursor() as cursor:
            docs = pyarrow.table({"id": [1, 2, 3], "s": [[1, 2, 3, 4], [1, 2, 3], [9]]})
            assert cursor.adbc_ingest("docs", docs) == 3
        yield opened


def test_queries_and_parameters(connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SIMILAR, (0.7,))
        assert cursor.fetchall() == [(1, 2)]
        cursor.execute(SIMILAR, (0.8,))
        assert cursor.fetchall() == []
        cursor.execute("SELECT count(*) AS n FROM docs")
        assert [column[0] for column in cursor.description] == ["n"]
        assert cursor.fetch_arrow_table().to_pydict() == {"n": [3]}
        cursor.executemany("INSERT INTO docs VALUES ($1, [$2])", [(4, 9), (5, 8)])
        cursor.execute("SELECT count(*) FROM docs")
        assert cursor.fetchone() == (5,)


def test_rows_go_into_tables(connection) -> None:
    rows = pyarrow.table({"id": [7], "s": [[1, 2, 3]]})
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("docs", rows, mode="append") == 1
        cursor.execute("SELECT count(*) FROM docs")
        assert cursor.fetchone() == (4,)
        with pytest.raises(manager.Error, match="exists already"):
            cursor.adbc_ingest("docs", rows, mode="create")
        with pytest.raises(manager.Error, match="no table nothing"):
            cursor.adbc_ingest("nothing", rows, mode="append")
        cursor.adbc_ingest("docs", rows, mode="replace")
        cursor.execute("SELECT id FROM docs")
        assert cursor.fetchall() == [(7,)]
        cursor.adbc_ingest("docs", rows, mode="create_append")
        cursor.execute("SELECT id FROM docs")
        assert cursor.fetchall() == [(7,), (7,)]


def test_schemas(connection) -> None:
    with connection.cursor() as cursor:
        schema = cursor.adbc_execute_schema("SELECT id, s FROM docs")
        assert schema.names == ["id", "s"]
        # Nothing runs for a schema.
        assert cursor.adbc_execute_schema("INSERT INTO docs VALUES (8, [1])").names == ["count"]
        cursor.execute("SELECT count(*) FROM docs")
        assert cursor.fetchone() == (3,)
        assert cursor.adbc_prepare(SIMILAR).names == ["1"]
    assert connection.adbc_get_table_schema("docs").names == ["id", "s"]
    with pytest.raises(manager.Error, match="missing"):
        connection.adbc_get_table_schema("missing")


def test_the_driver_tells_of_itself(connection) -> None:
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "simjoin"
    assert info["vendor_version"] == simjoin.__version__
    assert "BASE TABLE" in connection.adbc_get_table_types()
    found = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all()
    catalog = found.to_pylist()[0]
    table = catalog["catalog_db_schemas"][0]["db_schema_tables"][0]
    assert table["table_name"] == "docs"
    columns = [(c["column_name"], c["ordinal_position"]) for c in table["table_columns"]]
    assert columns == [("id", 1), ("s", 2)]
    few = connection.adbc_get_objects(depth="tables", table_name_filter="d%").read_all()
    tables = [
        table
        for schema in few.to_pylist()[0]["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    ]
    assert [table["table_name"] for table in tables] == ["docs"]
    assert tables[0]["table_columns"] is None
    none = connection.adbc_get_objects(depth="catalogs").read_all().to_pylist()
    assert none == [{"catalog_name": "datafusion", "catalog_db_schemas": None}]


def test_errors(connection) -> None:
    with connection.cursor() as cursor:
        with pytest.raises(manager.ProgrammingError, match="Did you mean 'jaccard'"):
            cursor.execute("SELECT jacard([1], [1])")
        # The reader of the rows is pyarrow's.
        with pytest.raises(pyarrow.ArrowException, match="Divide by zero"):
            cursor.execute("SELECT 1 / (id - id) FROM docs").fetchall()
    for options in ({"simjoin.strategy": "best"}, {"nonsense": 1}, {"simjoin.memory_limit": "x"}):
        with pytest.raises(manager.Error):
            simjoin.dbapi.connect(options=options)


def test_a_statement_is_cancelled() -> None:
    with simjoin.dbapi.connect() as opened, opened.cursor() as cursor:

        def cancel() -> None:
            time.sleep(0.5)
            cursor.adbc_cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        start = time.monotonic()
        with pytest.raises((manager.Error, pyarrow.ArrowException), match="cancel"):
            cursor.execute(LONG).fetchall()
        assert time.monotonic() - start < 10
        thread.join()
