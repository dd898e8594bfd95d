"""The Python surface: lazy results, tables that are variables, Arrow both ways, pictures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import mlsql
import mlsql.dbapi
from mlsql.errors import DataError, InterfaceError, NotSupportedError, ProgrammingError
from mlsql.image import Image
from mlsql.parser.reshape import at_once, limited
from tests.sessions import Asking, make_video

MODULE_FRAME = pd.DataFrame({"a": [10, 20]})


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture
def con() -> Iterator[mlsql.Session]:
    with mlsql.connect() as session:
        yield session


# Lazy results


def test_limit_asks_models_for_no_more(s: Asking, tmp_path: Path) -> None:
    video = make_video(tmp_path)
    sql = f"SELECT frame_id FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'eye')"
    s.run("SELECT 1")
    lazy = s.session.sql(sql)
    assert s.calls == 0
    s.session.execute("SET batch_size = 1")
    assert lazy.limit(1).fetchall() == [(0,)] and s.calls < 10
    assert lazy.limit(2, 1).fetchall() == [(2,), (4,)]
    assert lazy.fetchall() == [(0,), (2,), (4,), (6,), (8,)]
    assert lazy.limit(2).fetchall() == [(0,), (2,)]
    again = s.session.sql(sql + " AND frame_id > ?", [3]).limit(1)
    assert again.fetchall() == [(4,)]


@pytest.mark.parametrize("sql", [
    "SELECT range FROM range(9) ORDER BY range DESC", "FROM range(9) ORDER BY 1 DESC -- last",
    "SELECT range FROM range(100) WHERE range < 9 ORDER BY range DESC LIMIT 50;",
    "SELECT 8 UNION ALL SELECT 7 UNION ALL SELECT 6 UNION ALL SELECT 5",
    "WITH w AS (SELECT 8 - range AS r FROM range(9) LIMIT 8) FROM w", "VALUES (8), (7), (6), (5)"])
def test_limit_of_any_query(con: mlsql.Session, sql: str) -> None:
    ran = con.execute(sql)
    for result in (con.sql(sql), ran):
        assert [r for (r,) in result.limit(2).fetchall()] == [8, 7]
        assert [r for (r,) in result.limit(2, 1).limit(9).fetchall()] == [7, 6]
        assert result.limit(0).fetchall() == [] and result.limit(0).columns == result.columns


def test_what_limit_refuses(con: mlsql.Session) -> None:
    con.execute("CREATE TABLE t(a INT)")
    with pytest.raises(ProgrammingError, match="of a query"):
        con.sql("INSERT INTO t VALUES (1)").limit(1)
    with pytest.raises(ProgrammingError, match="not -1"):
        con.sql("SELECT 1").limit(-1)
    assert con.execute("FROM t").fetchall() == []
    assert limited("SELECT 1;", 3).splitlines() == ["SELECT 1", "LIMIT 3"]


def test_statements_that_give_no_rows(con: mlsql.Session) -> None:
    for sql in ("CREATE TABLE t(a INT)", "SET threads = 2", "BEGIN", "COMMIT", "DROP TABLE t"):
        result = con.execute(sql)
        assert (result.description, result.fetchall(), result.rowcount) == (None, [], -1)
        assert repr(result) == "OK"
    con.execute("CREATE TABLE t(a INT)")
    inserted = con.execute("INSERT INTO t VALUES (1), (2)")
    assert inserted.changes == inserted.rowcount == 2 and inserted.fetchall() == [(2,)]
    assert inserted.fetchall() == [] and "2" in repr(inserted)
    assert con.execute("CREATE TABLE u AS FROM t").changes == 2
    returned = con.execute("DELETE FROM t RETURNING a")
    assert returned.changes is None and returned.rowcount == 2


def test_repr_runs_it_and_says_what_it_found(con: mlsql.Session) -> None:
    result = con.sql("SELECT ? AS a", [5])
    assert " 5 │" in repr(result) and "(1 row)" in repr(result)
    assert con.sql("SELECT 1").explain().fetchall()


def test_rows_stay_when_the_database_changes(con: mlsql.Session) -> None:
    con.execute("CREATE TABLE t AS SELECT range AS a FROM range(5000)")
    rows = iter(con.execute("FROM t"))
    assert next(rows) == (0,)
    con.execute("DROP TABLE t")
    assert len(list(rows)) == 4999


def test_the_same_rows_in_every_shape(con: mlsql.Session) -> None:
    result = con.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL")
    assert result.fetchone() == (1, "x")
    assert result.arrow().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert result.df()["a"].tolist() == result.pl()["a"].to_list() == [1, 2]
    assert result.fetchall() == [(2, None)] and result.rowcount == 2
    assert result.to_arrow_reader().read_all().num_rows == 2


# Variables in FROM


def test_variables_are_tables(con: mlsql.Session) -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    wide = pl.DataFrame({"a": [3]})
    lazy = pl.LazyFrame({"a": [4]})
    table = pa.table({"a": [5]})
    batch = table.to_batches()[0]
    reader = table.to_reader()
    files = pyarrow.dataset.dataset(table)
    numbers = np.array([6])
    result = con.sql("SELECT 7 AS a")
    for name, wanted in {"frame": 3, "wide": 3, "lazy": 4, "table": 5, "batch": 5, "reader": 5,
                         "files": 5, "result": 7, "MODULE_FRAME": 30}.items():
        assert con.sql(f'SELECT sum(a) FROM "{name}"').fetchall() == [(wanted,)], name
    assert con.execute("SELECT column0 FROM numbers").fetchall() == [(6,)]
    assert con.execute("FROM frame JOIN wide ON true, lazy").rowcount == 2
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [
        (0,)]
    del frame, wide, lazy, batch, reader, files, numbers, result


def test_a_variable_is_the_one_that_the_statement_was_given(con: mlsql.Session) -> None:
    frame = pd.DataFrame({"a": [1]})
    later = con.sql("FROM frame")
    frame = pd.DataFrame({"a": [2]})
    assert later.fetchall() == [(1,)] and con.sql("FROM frame").fetchall() == [(2,)]
    assert frame is not None


def test_tables_of_the_database_go_first(con: mlsql.Session) -> None:
    frame = pd.DataFrame({"a": [1]})
    con.execute("CREATE OR REPLACE TABLE frame AS SELECT a + 1 AS a FROM frame")
    assert con.execute("FROM frame").fetchall() == [(2,)]
    con.execute("DROP TABLE IF EXISTS frame")
    assert con.execute("WITH frame AS (SELECT 9 AS a) FROM frame").fetchall() == [(9,)]
    assert con.execute("FROM frame").fetchall() == [(1,)] and len(frame) == 1


def test_what_is_no_table_is_none(con: mlsql.Session) -> None:
    word, rows = "x", [1, 2]
    for name in ("word", "rows", "statement", "parameters", "pytest"):
        with pytest.raises(ProgrammingError, match=f"{name} does not exist"):
            con.execute(f"FROM {name}")
    assert word and rows
    frame = MODULE_FRAME
    for config in ({"python_enable_replacements": False}, {"enable_external_access": False}):
        with mlsql.connect(config=config) as shut, pytest.raises(ProgrammingError, match="exist"):
            shut.execute("FROM frame")
    assert frame is MODULE_FRAME


class Stream:
    """An object that has nothing but an Arrow stream, which can be read once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        table, self._table = self._table, None
        return table.__arrow_c_stream__(requested_schema)


def test_models_over_a_stream_that_can_be_read_once(s: Asking) -> None:
    stream = Stream(pa.table({"x": [1, 2, 3]}))
    found = s.session.execute("SELECT sq(x) FROM stream WHERE sq(x) > 1 ORDER BY 1")
    assert found.fetchall() == [(4,), (9,)] and stream is not None


def test_every_front_end_sees_the_variables_of_its_caller() -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    assert mlsql.sql("SELECT sum(a) FROM frame").fetchall() == [(3,)]
    assert mlsql.execute("SELECT sum(a) FROM frame").fetchall() == [(3,)]
    cursor = mlsql.dbapi.connect().cursor()
    assert cursor.execute("SELECT sum(a) FROM frame").fetchall() == [(3,)]
    cursor.execute("CREATE TABLE t AS FROM frame")
    cursor.executemany("INSERT INTO t SELECT a + ? FROM frame", [(10,), (20,)])
    assert cursor.execute("SELECT sum(a), count(*) FROM t").fetchall() == [(69, 6)]
    assert len(frame) == 2


# Arrow


def test_results_are_streams_for_others(con: mlsql.Session) -> None:
    result = con.sql("SELECT range AS i, range::VARCHAR AS s FROM range(3)")
    assert pa.table(result).num_rows == pl.DataFrame(result).height == 3
    assert pd.DataFrame.from_arrow(result)["i"].tolist() == [0, 1, 2]
    assert duckdb.sql("SELECT sum(i) FROM result").fetchall() == [(3,)]
    assert pa.schema(result).names == ["i", "s"]
    con.register("again", result)
    assert con.execute("SELECT count(*) FROM again").fetchall() == [(3,)]


def test_an_empty_result_keeps_its_schema(con: mlsql.Session, bikes: Path) -> None:
    for sql in ("SELECT 1 AS i, 'x' AS s, [1.5] AS l WHERE false",
                f"SELECT frame_id, frame, CONTAINS(frame, 'person') AS p FROM '{bikes}' LIMIT 0"):
        result = con.sql(sql)
        table = result.arrow()
        assert table.num_rows == 0 and table.column_names == result.columns
        assert pl.DataFrame(result).columns == list(result.df().columns) == result.columns
        assert result.to_arrow_reader().schema == table.schema == pa.schema(result)


def test_pictures_in_arrow(con: mlsql.Session, bikes: Path, tmp_path: Path) -> None:
    result = con.sql(f"SELECT frame_id, frame FROM '{bikes}' WHERE frame_id IN (0, 120)")
    table = result.arrow()
    assert table.schema.field("frame").type.extension_name == "mlsql.image"
    assert table["frame"].to_pylist() == [Image(str(bikes), 0), Image(str(bikes), 120)]
    pq.write_table(table, tmp_path / "frames.parquet")
    assert pq.read_table(tmp_path / "frames.parquet").schema == table.schema
    kinds = duckdb.sql(f"DESCRIBE FROM '{tmp_path}/frames.parquet'").fetchall()
    assert kinds[1][1] == 'STRUCT(uri VARCHAR, frame BIGINT, "data" BLOB)'
    storage = {"uri": str(bikes), "frame": 120, "data": None}
    assert duckdb.sql('SELECT frame FROM "table"').fetchall()[1] == (storage,)
    assert result.pl()["frame"].to_list()[1] == storage
    assert result.df()["frame"][1] == Image(str(bikes), 120)
    found = con.execute("SELECT frame_id, COUNT_OBJECTS(frame, 'person') FROM result ORDER BY 1")
    assert found.fetchall()[1] == (120, 2)
    empty = con.execute("SELECT NULL::STRUCT(uri VARCHAR, frame BIGINT, data BLOB) AS i").arrow()
    assert empty["i"].to_pylist() == [None]


# Pictures


def test_boxes_are_drawn_into_a_picture_of_its_own(bikes: Path, tmp_path: Path) -> None:
    image = Image(str(bikes), 120)
    box = {"label": "person", "score": 0.9, "x1": 10, "y1": 10, "x2": 60, "y2": 90}
    drawn = image.annotate([box, None], width=2)
    assert drawn.data is not None and drawn.numpy().shape == image.numpy().shape
    changed = np.argwhere((drawn.numpy() != image.numpy()).any(axis=2))
    assert len(changed) > 300 and changed.max(axis=0)[0] <= 95
    assert (image.annotate([]).numpy() == image.numpy()).all()
    assert (image.annotate(box, width=2).numpy() == drawn.numpy()).all()
    with pytest.raises(InterfaceError, match="unknown file extension"):
        image.save(tmp_path / "a.nothing")
    assert drawn.save(tmp_path / "a.jpg").stat().st_size > 1000


# Packages


@pytest.mark.parametrize(("package", "use"), [("pandas", "df"), ("polars", "pl")])
def test_a_missing_package_is_named_with_its_pip_line(
    con: mlsql.Session, monkeypatch: pytest.MonkeyPatch, package: str, use: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotSupportedError, match=f"pip install {package}$"):
        getattr(con.sql("SELECT 1"), use)()


def test_plain_statements_load_nothing_heavy(root: Path) -> None:
    program = """
import sys, mlsql, mlsql.dbapi
with mlsql.dbapi.connect() as con:
    assert con.cursor().execute("SELECT ?, [1], 'x'", [1]).fetchall() == [(1, [1], 'x')]
heavy = {"torch", "ray", "cv2", "av", "PIL", "pandas", "polars", "sqlalchemy", "harlequin",
         "pyarrow", "IPython"}
sys.exit(", ".join(sorted(heavy & set(sys.modules))) or None)"""
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_many_rows_of_values_in_one_statement() -> None:
    def written(sql: str, *sets: Any) -> list[tuple[str, Any]]:
        return list(at_once(sql, sets))

    assert written("INSERT INTO t VALUES (?, ?)", (1, 2), (3, 4)) == [
        ("INSERT INTO t VALUES (?, ?), (?, ?)", [1, 2, 3, 4])]
    assert written("INSERT INTO t(a) VALUES (f(?::INT, ')'))", (1,), (2,)) == [
        ("INSERT INTO t(a) VALUES (f(?::INT, ')')), (f(?::INT, ')'))", [1, 2])]
    for sql in ("INSERT INTO t VALUES (?) ON CONFLICT DO NOTHING", "INSERT INTO t SELECT ?",
                "INSERT INTO t VALUES ($1)", "INSERT INTO t VALUES (?), (?)", "UPDATE t SET a = ?",
                "INSERT INTO t VALUES (?) RETURNING a"):
        assert written(sql, (1,), (2,)) == [(sql, (1,)), (sql, (2,))]
    assert [len(values) for _, values in at_once("INSERT INTO t VALUES (?)", [(1,)] * 4500)] == [
        2000, 2000, 500]


def test_closed_sessions_and_errors_of_every_kind(con: mlsql.Session) -> None:
    with pytest.raises(DataError):
        con.sql("SELECT 'x'::INT").fetchall()
    con.close()
    con.close()
    with pytest.raises(InterfaceError, match="closed"):
        con.sql("SELECT 1")
