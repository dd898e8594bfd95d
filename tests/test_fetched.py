"""Small answers of DuckDB's that are fetched at once: the same as by way of a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mlsql
from mlsql import fetched
from mlsql.exec import statement
from mlsql.result import Result

VALUES = [
    "1::TINYINT", "200::UTINYINT", "18446744073709551615::UBIGINT", "-5::HUGEINT",
    "170141183460469231731687303715884105727::HUGEINT", "1.5::FLOAT", "0.1::FLOAT", "1e300",
    "'nan'::DOUBLE", "'x'", "'é\x00z'", "'\\x00\\xff'::BLOB", "DATE '2020-01-01'",
    "DATE 'infinity'", "DATE '10000-01-01'", "DATE '5877642-06-25 (BC)'",
    "DATE '0044-01-01 (BC)'", "TIMESTAMP 'infinity'",
    "TIMESTAMP '0044-01-01 (BC) 01:02:03'", "TIMESTAMP '2020-01-01 01:02:03.000004'",
    "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'", "TIMESTAMPTZ '2020-01-01 01:02:03+02'",
    "TIME '24:00:00'", "'10:00:00.123456789'::TIME_NS",
    "TIMESTAMP '12000-01-01 01:02:03.5'", "TIMETZ '10:00:00+02'", "INTERVAL 3 MONTHS",
    "'{\"a\": 1}'::JSON", "'101'::BIT",
    "'00000000-0000-0000-0000-000000000005'::UUID", "12.30::DECIMAL(38, 2)",
    "'x'::ENUM('x', 'y')", "[1, 2]", "[1, 2]::INT[2]", "{'a': 1}", "row(1, 'x')", "MAP {'a': 1}",
    "union_value(a := 1)", "1::VARIANT", "NULL", "NULL::HUGEINT", "[DATE 'infinity']",
    "{'a': [TIMESTAMP '-infinity']}", "MAP {'a': DATE '10000-01-01'}",
]
SHAPES = ["SELECT {0} AS v", "SELECT v, v FROM (SELECT {0} AS v) WHERE false",
          "SELECT v FROM (VALUES (1, {0}), (2, NULL), (3, {0})) t(i, v) ORDER BY i",
          "SELECT {0} AS v FROM range(2049)"]


@pytest.fixture
def con() -> Iterator[mlsql.Session]:
    with mlsql.connect() as session:
        yield session


def told(result: Result) -> dict[str, Any]:
    """All that a reader sees of an answer."""
    table = result.arrow()
    return {"types": result.types, "columns": result.columns, "rows": result.fetchall(),
            "length": result.rowcount, "printed": list(result.printed(keep=True)),
            "schema": table.schema, "table": table.to_string(), "shown": repr(result),
            "part": result.limit(1).arrow().to_string()}


@pytest.mark.parametrize("seconds", [fetched._QUICK, -1], ids=["quick", "slow"])
@pytest.mark.parametrize("value", VALUES)
def test_the_answer_is_that_of_a_relation(
    con: mlsql.Session, value: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched, "_QUICK", seconds)
    for shape in SHAPES:
        sql = shape.format(value)
        with monkeypatch.context() as patch:
            patch.setattr(statement, "fetched", lambda *_: None)
            wanted = told(con.sql(sql))
        found = told(con.sql(sql))
        if shape.endswith("range(2049)"):  # which comes in other pieces
            del wanted["table"], found["table"]
        assert repr(found) == repr(wanted), sql


@pytest.mark.parametrize("seconds", [fetched._QUICK, -1], ids=["quick", "slow"])
def test_an_abandoned_statement_leaves_the_transaction(
    con: mlsql.Session, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched, "_QUICK", seconds)
    con.execute("CREATE TEMP TABLE t(i INT)")
    con.execute("BEGIN")
    con.execute("INSERT INTO t VALUES (1)")
    assert con.execute("SELECT DATE 'infinity', i FROM t").fetchall()[0][1] == 1
    assert con.execute("SELECT [i] FROM t, range(5000)").rowcount == 5000
    con.execute("COMMIT")
    assert con.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_a_sequence_is_advanced_once(con: mlsql.Session) -> None:
    con.execute("CREATE TEMP SEQUENCE s")
    assert con.execute("SELECT [nextval('s')]").fetchall() == [([1],)]
    assert con.execute("SELECT nextval('s'), DATE 'infinity'").fetchall()[0][0] == 2


@pytest.mark.parametrize("sql", ["SELECT i, 1 FROM range(5000) t(i)", "SELECT 'x' WHERE false"])
def test_an_answer_stays_when_the_next_one_comes(con: mlsql.Session, sql: str) -> None:
    first = con.execute(sql)
    rows: Callable[[], Any] = con.execute(sql).fetchall
    con.execute("SELECT 2").fetchall()
    assert first.fetchall() == rows()


def test_an_error_in_a_late_row_is_the_statement_s(con: mlsql.Session) -> None:
    with pytest.raises(mlsql.Error, match="Could not convert string 'x'"):
        con.execute("SELECT CASE WHEN i < 4000 THEN '1' ELSE 'x' END::INT FROM range(5000) t(i)")
    assert con.execute("SELECT 1").fetchall() == [(1,)]
