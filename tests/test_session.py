"""The one entry: parameters, scripts, transactions, settings, what it tells, how it is stopped."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mlsql
from mlsql.errors import (
    CallLimit,
    DataError,
    Error,
    Interrupted,
    ModelOutputError,
    NotSupportedError,
    ProgrammingError,
    UnknownName,
)
from tests.sessions import Asking, make_video


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


# Plain SQL


@pytest.mark.parametrize("sql", [
    "SELECT 1", "SELECT * FROM range(3)", "VALUES (1, 'a')", "FROM (SELECT 1 AS a)",
    "SELECT 'a;b' -- c;\n, 2", "SELECT x'; SELECT 1", "SELEC 1", "SELECT $$ sq(1) $$",
    "SELECT * FROM nope", "SELECT 'unclosed", "PRAGMA version", "SHOW TABLES",
])
def test_plain_sql_passes_untouched(s: Asking, sql: str) -> None:
    import duckdb

    try:
        expected: Any = duckdb.connect().sql(sql).fetchall()
    except duckdb.Error:
        with pytest.raises(Error):
            s.rows(sql)
    else:
        assert s.rows(sql) == expected
    assert s.calls == 0


# Parameters


@pytest.mark.parametrize(("sql", "values", "expected"), [
    ("SELECT sq(?)", [3], [(9,)]), ("SELECT sq(?) + ?", [3, 1], [(10,)]),
    ("SELECT sq($1) + $1 * $2", [3, 2], [(15,)]), ("SELECT sq($2), $1", ["a", 2], [(4, "a")]),
    ("SELECT sq($a) + $b", {"a": 3, "b": 1}, [(10,)]), ("SELECT $a + 1", {"a": 3}, [(4,)]),
    ("SELECT sq(x) FROM range(?) t(x) WHERE x > ? LIMIT ?", [9, 2, 2], [(9,), (16,)]),
    ("SELECT x FROM range(9) t(x) WHERE sq(x) IN (?, ?)", [4, 25], [(2,), (5,)]),
    ("SELECT x FROM range(9) t(x) WHERE list_contains(?, sq(x))", [[4, 25]], [(2,), (5,)]),
    ("SELECT up(?)", ["it's"], [("IT'S",)]), ("SELECT up('?') || ?", ["?"], [("??",)]),
    ("SELECT up(?) -- ?\n", ["a"], [("A",)]), ('SELECT sq(?) AS "?"', [2], [(4,)]),
    ("SELECT sq(?)", [None], [(None,)]), ("SELECT sq(?)", (3,), [(9,)]),
    ("SELECT up(?)", ["$1 ? $a"], [("$1 ? $A",)]), ("SELECT up($$?$$ || ?)", ["b"], [("?B",)]),
    ("WITH a AS (SELECT sq(?) AS v) SELECT v, ? FROM a", [2, 7], [(4, 7)]),
])
def test_parameters(s: Asking, sql: str, values: Any, expected: Any) -> None:
    assert s.rows(sql, values) == expected


@pytest.mark.parametrize("value", [
    0, -7, 2**40, 2**100, 1.5, -0.0, 1e300, 1e-300, math.inf, -math.inf, True, False, "", "ä'\"\\",
    b"", b"\x00'\xff", datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 30, 15, 123456),
    datetime.time(23, 59, 59, 999999), datetime.timedelta(days=1, seconds=2, microseconds=3),
    Decimal("-12.3400"), Decimal("1E+3"), [1, 2, None], ["a'", "b"], [], {"a": 1, "b'c": [None]},
    np.float64(2.5), None,
    datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc), [[1], [2, 3]],
])
def test_a_bound_value_is_what_duckdb_makes_of_it(s: Asking, value: Any) -> None:
    import duckdb

    plain = duckdb.connect().execute("SELECT ?", [value]).fetchall()
    found = s.rows("SELECT ? FROM (SELECT sq(1))", [value])
    assert found == plain or repr(found) == repr(plain)


def test_numpy_scalars_and_nan_are_bound(s: Asking) -> None:
    assert s.rows("SELECT sq(?), ?", [np.int32(5), np.bool_(True)]) == [(25, True)]
    assert math.isnan(s.value("SELECT ?::DOUBLE FROM (SELECT sq(1))", [math.nan]))


@pytest.mark.parametrize(("sql", "values", "words"), [
    ("SELECT sq(?)", None, "no value for parameter"), ("SELECT sq(?)", [], "no value"),
    ("SELECT sq(?)", [1, 2], "2 values .* 1 parameter"),
    ("SELECT sq(1)", [1], "1 value.* 0 parameters"), ("SELECT sq($b)", {"a": 1}, "parameter .b"),
    ("SELECT sq($a)", {"a": 1, "b": 2}, "2 values"), ("SELECT sq(?)", [object()], "object"),
    ("SELECT 1; SELECT sq(?)", [1], "single statement"),
])
def test_parameters_that_do_not_fit(s: Asking, sql: str, values: Any, words: str) -> None:
    with pytest.raises(ProgrammingError, match=words):
        s.rows(sql, values)


def test_parameters_of_plain_statements_that_do_not_fit(s: Asking) -> None:
    for sql, values in (("SELECT ?", []), ("SELECT 1", [1]), ("SELECT $a", {"b": 1})):
        with pytest.raises(Error):
            s.rows(sql, values)


# Scripts, tables, transactions


def test_a_script_gives_the_last_rows(s: Asking) -> None:
    assert s.rows("CREATE TABLE t AS SELECT sq(x) AS v FROM range(3) t(x); ; INSERT INTO t VALUES "
                  "(100); -- the end\nSELECT sum(v) FROM t;") == [(105,)]
    assert s.rows("") == [] and s.rows(" ; -- nothing\n") == []


def test_a_script_ends_at_its_first_error(s: Asking) -> None:
    with pytest.raises(ProgrammingError):
        s.rows("CREATE TABLE a (i INT); SELECT sq(nope); CREATE TABLE b (i INT)")
    assert s.rows("SHOW TABLES") == [("a",)]


def test_sql_runs_when_rows_are_asked_for(s: Asking) -> None:
    result = s.session.sql("SELECT sq(x) FROM range(3) t(x)")
    assert s.asked("sq") == []
    assert result.columns == ["sq(x)"] and len(s.asked("sq")) == 3
    assert result.fetchall() == [(0,), (1,), (4,)] and len(s.asked("sq")) == 3


def test_results_in_every_form(s: Asking, video: Path) -> None:
    result = s.run(f"SELECT frame_id, frame, kind(frame).label AS l FROM '{video}' LIMIT 2")
    assert result.arrow().num_rows == 2 and result.columns == ["frame_id", "frame", "l"]
    assert list(result.df()["l"]) == ["cat", "cat"]
    assert result.fetchone()[0] == 0 and result.fetchall()[0][0] == 1
    assert isinstance(result.df()["frame"][0], mlsql.Image)
    assert pa.table(result).column_names == ["frame_id", "frame", "l"]


def test_rows_read_by_halves_stand_in_nobodys_way(s: Asking) -> None:
    for sql in ("SELECT x, sq(x) FROM range(9) t(x)", "SELECT x, x * x FROM range(9) t(x)"):
        first = s.session.execute(sql)
        assert first.fetchone() == (0, 0)
        reader = s.session.execute(sql).to_arrow_reader()
        assert s.rows("SELECT sq(3)") == [(9,)] and s.rows("SELECT 1") == [(1,)]
        assert first.fetchmany(2) == [(1, 1), (2, 4)] and reader.read_all().num_rows == 9


def test_writing(s: Asking) -> None:
    s.run("CREATE TABLE t AS SELECT x, sq(x) AS y FROM range(5) t(x)")
    assert s.rows("INSERT INTO t SELECT x, sq(x) FROM range(5, 7) t(x) RETURNING *") == [
        (5, 25), (6, 36)]
    assert s.rows("INSERT INTO t VALUES (sq(3), 0), (10, sq(10))") == [(2,)]
    assert s.rows("UPDATE t SET y = -sq(x) WHERE big(x) AND x < 6") == [(3,)]
    assert s.rows("DELETE FROM t WHERE sq(x) > 80 RETURNING x") == [(9,), (10,)]
    assert s.rows("FROM t ORDER BY x") == [
        (0, 0), (1, 1), (2, 4), (3, -9), (4, -16), (5, -25), (6, 36)]
    s.run("INSERT INTO t (x) SELECT sq(x) FROM t WHERE x = 6")
    s.run("MERGE INTO t USING (SELECT 6 AS k, sq(7) AS v) u ON t.x = u.k "
          "WHEN MATCHED THEN UPDATE SET y = sq(u.v)")
    assert s.rows("FROM t WHERE x >= 6 ORDER BY x") == [(6, 2401), (36, None)]
    s.run("DELETE FROM t USING (SELECT sq(2) AS k) u WHERE t.x = u.k")
    assert s.value("SELECT count(*) FROM t WHERE x = 4") == 0


def test_delete_returning(s: Asking) -> None:
    s.run("CREATE TABLE t AS SELECT x FROM range(5) t(x)")
    assert sorted(s.rows("DELETE FROM t WHERE sq(x) > 4 RETURNING x, up(x::VARCHAR)")) == [
        (3, "3"), (4, "4")]
    assert sorted(s.rows("UPDATE t SET x = x + 1 WHERE sq(x) > 0 RETURNING sq(x)")) == [(4,), (9,)]


def test_copy_and_read_again(s: Asking, tmp_path: Path) -> None:
    for suffix in ("csv", "parquet", "json"):
        s.run(f"COPY (SELECT x, sq(x) AS y FROM range(3) t(x)) TO '{tmp_path}/a.{suffix}'")
        assert s.rows(f"SELECT x, sq(y) FROM '{tmp_path}/a.{suffix}' ORDER BY 1") == [
            (0, 0), (1, 1), (2, 16)]


def test_transactions(s: Asking) -> None:
    s.run("CREATE TABLE t (x BIGINT)")
    s.run("BEGIN; INSERT INTO t SELECT sq(x) FROM range(3) t(x)")
    assert s.value("SELECT sum(sq(x)) FROM t") == 17
    s.run("ROLLBACK")
    assert s.value("SELECT count(*) FROM t") == 0
    s.run("BEGIN TRANSACTION; INSERT INTO t SELECT sq(x) FROM range(3) t(x); COMMIT")
    assert s.value("SELECT sum(x) FROM t") == 5
    s.run("BEGIN; INSERT INTO t VALUES (100)")
    assert s.value("SELECT max(sq(x)) FROM t WHERE EXISTS (SELECT 1 FROM range(9) u(y) WHERE "
                   "sq(y + t.x) >= 0)") == 10000  # what we ask DuckDB meanwhile aborts nothing
    s.run("COMMIT")
    assert s.value("SELECT max(x) FROM t") == 100
    s.run("BEGIN; INSERT INTO t VALUES (200)")
    with pytest.raises(ProgrammingError, match="nope"):
        s.rows("SELECT sq(nope) FROM t")
    s.run("ROLLBACK")
    assert s.value("SELECT max(sq(x)) FROM t") == 10000


def test_set_variable(s: Asking) -> None:
    result = s.run("SET VARIABLE v = sq(3) + 1")
    assert result.description is None and result.stats.calls == 1
    assert s.rows("SELECT getvariable('v'), typeof(getvariable('v')), sq(getvariable('v'))") == [
        (10, "BIGINT", 100)]
    s.run("SET VARIABLE w = (SELECT list(sq(x) ORDER BY x) FROM range(3) t(x))")
    assert s.value("SELECT getvariable('w')") == [0, 1, 4]


def test_a_statement_of_a_transaction_does_not_end_it(s: Asking) -> None:
    s.run("CREATE TABLE t AS SELECT 5 AS x")
    s.run("BEGIN; INSERT INTO t VALUES (7)")
    assert s.rows("SELECT list_transform([x], e -> sq(e)) FROM t ORDER BY x") == [
        ([25],), ([49],)]
    assert s.rows("SELECT lag(sq(x), 1, sq(9)) OVER w FROM t WINDOW w AS (ORDER BY sq(x))") == [
        (81,), (25,)]
    assert s.rows("SELECT (SELECT (SELECT sq(t.x + u.y) FROM range(1) w(z)) FROM range(1) u(y)) "
                  "FROM t ORDER BY x") == [(25,), (49,)]
    assert s.rows("SELECT try(sq(x)), sq(#1) FROM t ORDER BY 1") == [(25, 25), (49, 49)]
    with pytest.raises(NotSupportedError, match="COMMIT first"):
        s.rows("INSERT INTO t SELECT list_transform([x], e -> sq(e))[1] FROM t")
    s.run("COMMIT")
    assert s.value("SELECT count(*) FROM t") == 2


def test_an_aborted_transaction_can_be_rolled_back(s: Asking) -> None:
    s.run("BEGIN; CREATE TABLE made AS SELECT 3 AS x")
    for _ in range(2):
        with pytest.raises(Error):
            s.rows("SELECT nope FROM made")
    s.run("ROLLBACK")
    assert s.value("SELECT sq(3)") == 9


def test_a_statement_sees_its_transactions_tables(s: Asking) -> None:
    s.run("BEGIN; CREATE TABLE made AS SELECT 3 AS x; CREATE TEMP TABLE other AS SELECT 4 AS x")
    assert s.rows("SELECT sq(made.x), sq(other.x) FROM made, other") == [(9, 16)]
    s.run("ROLLBACK")
    with pytest.raises(ProgrammingError, match="made"):
        s.rows("SELECT sq(x) FROM made")


def test_nothing_is_left_behind(s: Asking) -> None:
    s.rows("SELECT sq(x), sq(sum(x) OVER ()) FROM range(3) t(x) LIMIT 2")
    with pytest.raises(Error):
        s.rows("SELECT error('no') FROM range(3) t(x) WHERE sq(x) > 0")
    assert s.rows("SELECT table_name FROM duckdb_tables()") == []
    assert s.rows("SELECT view_name FROM duckdb_views() WHERE NOT internal") == []
    assert s.value("SELECT count(*) FROM duckdb_functions() WHERE function_name LIKE 'mlsql%'") == 0
    assert s.rows("SELECT database_name FROM duckdb_databases() WHERE NOT internal") == [
        ("memory",)]


def test_registered_tables(s: Asking) -> None:
    import pandas as pd

    s.session.register("frame_table", pd.DataFrame({"x": [1, 2]}))
    s.session.register("arrow_table", pa.table({"x": [3]}))
    assert s.rows("SELECT sq(x) FROM frame_table UNION ALL SELECT sq(x) FROM arrow_table") == [
        (1,), (4,), (9,)]
    s.session.unregister("arrow_table")
    with pytest.raises(ProgrammingError, match="arrow_table"):
        s.rows("SELECT sq(x) FROM arrow_table")


@pytest.mark.parametrize("sql", [
    "CREATE TABLE d (a BIGINT DEFAULT sq(2))", "CREATE TABLE d (a BIGINT CHECK (sq(a) > 1))",
    "CREATE TABLE d (a BIGINT, b BIGINT GENERATED ALWAYS AS (sq(a)))",
    "CREATE INDEX i ON t (sq(x))", "ALTER TABLE t ADD COLUMN z BIGINT DEFAULT sq(2)",
    "ALTER TABLE t ALTER x SET DEFAULT sq(2)",
    "CREATE MACRO m(a) AS sq(a), (a, b) AS sq(a) + b",
])
def test_a_model_where_none_may_stand_is_refused_by_name(s: Asking, sql: str) -> None:
    s.run("CREATE TABLE t (x BIGINT)")
    with pytest.raises((NotSupportedError, ProgrammingError), match=r"(?i)model") as caught:
        s.rows(sql)
    assert "sqrt" not in str(caught.value) and "mlsql_" not in str(caught.value)
    assert s.rows("SHOW TABLES") == [("t",)] and s.calls == 0


# Models


def test_registering_again_replaces(s: Asking) -> None:
    assert s.value("SELECT sq(3)") == 9
    s.add("SQ", lambda x: x + 100)
    assert s.value("SELECT sq(3)") == 103
    assert [n for n in s.session.models if n.lower() == "sq"] == ["SQ"]


def test_a_decorated_function_and_a_class(s: Asking) -> None:
    @mlsql.model(task="predict", input="BIGINT", output="BIGINT")
    def plus_one(values: list[int]) -> list[int]:
        return [value + 1 for value in values]

    loads = []

    @mlsql.model(name="counter", task="predict", input="BIGINT", output="BIGINT", batch_size=2)
    class Counter:
        def __init__(self) -> None:
            loads.append(1)

        def __call__(self, values: list[int]) -> list[int]:
            return [10 * value for value in values]

    s.session.register_model(plus_one)
    s.session.register_model(Counter)
    assert loads == [] and plus_one([1]) == [2]
    assert s.rows("SELECT plus_one(x), counter(x) FROM range(5) t(x)") == [
        (x + 1, 10 * x) for x in range(5)]
    assert s.value("SELECT sum(counter(x)) FROM range(50) t(x)") == 12250
    assert loads == [1]


@pytest.mark.parametrize(("options", "words"), [
    ({"task": "guess"}, "task is one of"), ({"task": "predict"}, "output="),
    ({"task": "detect"}, "labels="), ({"task": "detect", "labels": ["a", ""]}, "no label"),
    ({"task": "detect", "labels": ["a", "A"]}, "twice"),
    ({"task": "detect", "labels": "ab"}, "list"),
    ({"task": "predict", "output": "NOTATYPE"}, "NOTATYPE"),
    ({"task": "predict", "output": "BIGINT", "input": "NOTATYPE"}, "NOTATYPE"),
    ({"task": "predict", "output": "BIGINT", "batch_size": 0}, "batch_size"),
    ({"task": "predict", "output": "BIGINT", "colour": 1}, "colour"),
])
def test_a_model_that_cannot_be(s: Asking, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ProgrammingError, match=words):
        s.session.register_model(len, name="m", **options)
    assert "m" not in s.session.models


@pytest.mark.parametrize("name", ["none", "select", "a b", "count", "contains", "detect", "Ünï"])
def test_a_name_that_is_a_word_of_sql_works_or_is_refused(s: Asking, name: str) -> None:
    try:
        s.add(name, lambda x: x + 1)
    except ProgrammingError as error:
        assert name in str(error)
        return
    assert s.value(f'SELECT "{name}"(41)') == 42


def test_what_models_there_are(s: Asking) -> None:
    found = s.rows("SELECT name, task, labels FROM models() WHERE name IN ('eye', 'sq', "
                   "'ssd_mobilenet_v2', 'efficientnet_lite0') ORDER BY name")
    assert found == [("efficientnet_lite0", "classify", 1000), ("eye", "detect", 3),
                     ("sq", "predict", 0), ("ssd_mobilenet_v2", "detect", 80)]
    assert s.rows("SHOW MODELS") == s.rows("SELECT * FROM models()")
    (row,) = s.run("DESCRIBE MODEL ssd_mobilenet_v2").arrow().to_pylist()
    assert row["sha256"].startswith("2a8d8a89") and "Apache-2.0" in row["licence"]
    assert "TensorFlow" in row["origin"]
    assert s.rows("describe model 'EYE'")[0][0] == "eye"
    for sql in ("DESCRIBE MODEL eey", "FROM labels('eey')"):
        with pytest.raises(UnknownName, match="did you mean 'eye'"):
            s.rows(sql)


def test_what_labels_a_model_knows(s: Asking) -> None:
    assert s.rows("SELECT * FROM labels('eye') WHERE label IN ('cat', 'animal', 'dogs')") == [
        ("cat", ["cat"]), ("animal", ["cat", "dog", "bird"]), ("dogs", ["dog"])]
    assert s.value("SELECT count(*) FROM labels('ssd_mobilenet_v2') WHERE len(covers) = 1") >= 80
    assert s.value("SELECT covers FROM labels('ssd_mobilenet_v2') WHERE label = 'vehicle'")


# Settings


def test_set_and_reset(s: Asking) -> None:
    sql = "SELECT value FROM settings() WHERE name = 'batch_size'"
    assert s.value(sql) == "0"
    for statement, value in (("SET batch_size = 7", "7"), ("set Batch_Size to 8", "8"),
                             ("SET SESSION batch_size = '9'", "9"), ("RESET batch_size", "0")):
        s.run(statement)
        assert s.value(sql) == value
    s.run("SET on_error = skip; SET cache TO off; SET memory_budget = '64 MiB'; SET cache_dir = "
          "'/tmp/it''s'")
    assert dict(s.rows("SELECT name, value FROM settings() WHERE name IN ('on_error', 'cache', "
                       "'memory_budget', 'cache_dir')")) == {
        "on_error": "skip", "cache": "False", "memory_budget": str(64 * 2**20),
        "cache_dir": "/tmp/it's"}


def test_duckdbs_settings_stay_duckdbs(s: Asking) -> None:
    s.run("SET threads = 1; SET VARIABLE v = 3")
    assert s.rows("SELECT current_setting('threads'), getvariable('v')") == [(1, 3)]
    assert s.value("SELECT sq(getvariable('v'))") == 9


@pytest.mark.parametrize(("sql", "words"), [
    ("SET batch_sise = 3", "batch_size"), ("RESET batch_sise", "batch_size"),
    ("SET batch_size = 'x'", "whole number"), ("SET batch_size = -1", "0"),
    ("SET batch_size = 1.5", "whole number"), ("SET on_error = 'ignore'", "'raise' or 'null'"),
    ("SET cache = maybe", "true or false"), ("SET executor = 'moon'", "'local'"),
    ("SET memory_budget = 'lots'", "memory_budget"), ("SET max_error_ratio = 2", "max_error_ratio"),
])
def test_a_wrong_setting_says_what_it_takes(s: Asking, sql: str, words: str) -> None:
    before = s.rows("FROM settings()")
    with pytest.raises(ProgrammingError, match=words):
        s.run(sql)
    assert s.rows("FROM settings()") == before


def test_settings_at_the_start() -> None:
    with mlsql.connect(config={"batch_size": 3, "threads": 2}) as con:
        assert con.execute("SELECT value, \"default\" FROM settings() WHERE name = 'batch_size'"
                           ).fetchall() == [("3", "0")]
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(2,)]
    with pytest.raises(ProgrammingError, match="batch_sise"):
        mlsql.connect(config={"batch_sise": 3})


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSQL_ON_ERROR", "null")
    with Asking() as s:
        s.run("SET on_error = 'raise'; RESET on_error")
        assert s.value("SELECT value FROM settings() WHERE name = 'on_error'") == "null"


# What the last query cost


def test_last_query_is_that_of_the_last_statement_that_asked_a_model(s: Asking) -> None:
    s.run("SELECT sq(x), big(x) FROM range(4) t(x)")
    s.run("SELECT 1")
    assert s.rows("SELECT model, calls FROM last_query() ORDER BY 1") == [("big", 4), ("sq", 4)]
    assert s.session.last_stats.calls == 8
    s.run("SELECT up('a')")
    assert s.rows("SELECT model, calls FROM last_query()") == [("up", 1)]


def test_last_query_of_one_that_failed(s: Asking) -> None:
    def bad(x: int) -> int:
        if x == 3:
            raise ValueError("three")
        return x

    s.run("SELECT up('a')")
    s.add("bad", bad)
    with pytest.raises(ModelOutputError):
        s.rows("SELECT bad(x) FROM range(5) t(x)")
    assert s.rows("SELECT model FROM last_query()") == [("bad",)]
    assert s.rows("SELECT model, cause FROM query_errors()") == [("bad", "ValueError: three")]
    with pytest.raises(CallLimit):
        s.rows("SET max_model_calls = 2; SELECT sum(sq(x)) FROM range(5) t(x)")
    assert s.rows("SELECT model, calls FROM last_query()") == [("sq", 2)]


def test_saved_counts_rows_that_shared_an_answer(s: Asking) -> None:
    stats = s.run("SELECT sq(x) FROM range(5) t(x) WHERE sq(x) > 3").stats
    assert (stats.calls, stats.cached) == (5, 0) and stats.saved > 0
    assert s.run("SELECT sq(NULL)").stats.saved == 0
    assert s.run("SELECT sq(x) FROM range(5) t(x)").stats.saved == 0


# Being stopped


def stop_after(s: Asking, seconds: float, ready: threading.Event | None = None) -> threading.Thread:
    """Interrupt the session from a thread, so many seconds from now, or from when it is ready."""

    def stop() -> None:
        if ready is not None:
            ready.wait(30)
        time.sleep(seconds)
        s.session.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def test_interrupt_from_another_thread_ends_models_within_a_second() -> None:
    with Asking(cache=True) as s:
        ready, stopped = threading.Event(), []

        def slow(x: int) -> int:
            time.sleep(0.04)
            if len(s.asked("slow")) > 12:
                stopped.append(time.monotonic())
                ready.set()
            return x

        s.add("slow", slow, batch_size=4)
        thread = stop_after(s, 0, ready)
        with pytest.raises(Interrupted, match="what was computed is kept"):
            s.rows("SELECT sum(slow(x)) FROM range(3000) t(x)")
        assert time.monotonic() - stopped[0] < 1
        thread.join()
        done = s.asked("slow")[:8]  # surely answered; the last batches may have been cut short
        s.session.register("done", pa.table({"x": done}))
        again = s.run("SELECT sum(slow(x)) FROM done")
        assert again.fetchall() == [(sum(done),)]
        assert (again.stats.calls, again.stats.cached) == (0, 8)


@pytest.mark.parametrize("sql", [
    "SELECT count(*) FROM range(100000000000) t(x) WHERE x % 7 = 3",
    "SELECT count(*) FROM range(100000000000) t(x) WHERE x % 7 = 3 AND sq(x % 5) = 1",
])
def test_interrupt_ends_sql(s: Asking, sql: str) -> None:
    timer = stop_after(s, 0.4)
    started = time.monotonic()
    with pytest.raises(Interrupted):
        s.rows(sql)
    assert time.monotonic() - started < 1.4
    timer.join()
    assert s.rows("SELECT sq(2)") == [(4,)]


def test_interrupt_when_nothing_runs_stops_nothing(s: Asking) -> None:
    s.session.interrupt()
    assert s.rows("SELECT sq(2), 1") == [(4, 1)]
    s.session.interrupt()
    assert s.rows("SELECT 1") == [(1,)]


def test_an_interrupted_write_changes_nothing(s: Asking) -> None:
    s.add("slow", lambda x: time.sleep(0.04) or x, batch_size=4)
    s.run("CREATE TABLE t (x BIGINT)")
    timer = stop_after(s, 0.4)
    with pytest.raises(Interrupted):
        s.run("INSERT INTO t SELECT slow(x) FROM range(3000) t(x)")
    timer.join()
    assert s.value("SELECT count(*) FROM t") == 0
    assert s.rows("INSERT INTO t SELECT slow(x) FROM range(2) t(x)") == [(2,)]


def test_no_thread_is_left(s: Asking, video: Path) -> None:
    before = threading.active_count()
    with Asking() as other:
        other.rows(f"SELECT kind(frame) FROM '{video}' LIMIT 2")
        other.rows("SET statement_timeout = 60; SELECT sq(1)")
    deadline = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before


def test_two_threads_on_one_session_take_turns(s: Asking) -> None:
    found: list[Any] = []

    def work(number: int) -> None:
        for _ in range(5):
            found.append((number, s.session.execute(
                f"SELECT sum(sq(x + {number})) FROM range(20) t(x)").fetchall()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 20
    for number, rows in found:
        assert rows == [(sum((x + number) ** 2 for x in range(20)),)]


# Closing


def test_closed(tmp_path: Path) -> None:
    s = Asking(tmp_path / "a.db")
    s.run("CREATE TABLE t AS SELECT sq(3) AS x")
    s.close()
    s.close()
    with pytest.raises(Error, match=r"(?i)closed"):
        s.rows("SELECT 1")
    with pytest.raises(Error, match=r"(?i)closed"):
        s.rows("SELECT sq(1)")
    with Asking(tmp_path / "a.db") as again:
        assert again.value("SELECT x FROM t") == 9


def test_a_video_is_no_database(video: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgrammingError, match="is no database: query it"):
        mlsql.connect(str(video))
    with pytest.raises(Error):
        mlsql.connect(str(tmp_path / "no" / "such" / "folder.db"))


def test_a_read_only_database(tmp_path: Path) -> None:
    with Asking(tmp_path / "a.db") as s:
        s.run("CREATE TABLE t AS SELECT x FROM range(3) t(x)")
    with mlsql.connect(str(tmp_path / "a.db"), read_only=True) as con:
        con.register_model(lambda xs: [x * x for x in xs], name="sq", task="predict",
                           input="BIGINT", output="BIGINT")
        assert con.execute("SELECT sum(sq(x)), sq(sum(x)) FROM t").fetchall() == [(5, 9)]
        with pytest.raises((ProgrammingError, DataError), match="read-only"):
            con.execute("INSERT INTO t SELECT sq(x) FROM t")
