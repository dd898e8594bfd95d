"""EXPLAIN runs no model and says what would be spent; EXPLAIN ANALYZE says what was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlsql.errors import Error, UnknownName
from tests.sessions import Asking, make_video

KEYS = ["step", "operation", "detail", "model", "fingerprint", "device", "rows", "selectivity",
        "source", "calls", "cached", "ms_per_call", "seconds"]


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


def explained(s: Asking, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
    result = s.run(sql, parameters)
    assert result.columns == KEYS
    return [dict(zip(KEYS, row, strict=True)) for row in result.fetchall()]


def of(rows: list[dict[str, Any]], operation: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["operation"] == operation]


CASCADE = """SELECT frame_id, SCORE(frame, 'dog', model => 'eye') FROM '{}'
WHERE frame_id < 8 AND CONTAINS(frame, 'cat', model => 'eye')
AND CLASSIFY(frame, model => 'kind') = 'cat'"""


def test_the_plan_of_a_cascade(s: Asking, video: Path) -> None:
    rows = explained(s, f"EXPLAIN {CASCADE.format(video)}")
    assert s.calls == 0
    (candidates,) = of(rows, "candidates")
    assert (candidates["rows"], candidates["source"]) == (8, "counted")
    assert "frame_id < 8" in candidates["detail"]
    infer = of(rows, "infer")
    assert {row["model"] for row in infer} == {"eye", "kind"} and len(infer) == 2
    assert infer[0]["calls"] == infer[0]["rows"] == 8 > infer[1]["calls"]
    assert all(row["device"] == "cpu" and row["ms_per_call"] > 0 for row in infer)
    assert all(row["seconds"] == pytest.approx(row["calls"] * row["ms_per_call"] / 1000)
               for row in infer)
    assert all("assumed" in row["source"] for row in of(rows, "filter"))
    assert rows[-1]["operation"] in ("sql", "total") and of(rows, "sql")


def test_what_was_measured_replaces_what_was_assumed(s: Asking) -> None:
    sql = "SELECT x FROM range(100) t(x) WHERE sq(x) < 900"
    (before,) = of(explained(s, f"EXPLAIN {sql}"), "filter")
    s.run(sql)
    rows = explained(s, f"EXPLAIN {sql}")
    (after,) = of(rows, "filter")
    assert "assumed" in before["source"] and after["source"] == "measured"
    assert after["selectivity"] == pytest.approx(0.3)
    assert of(rows, "infer")[0]["ms_per_call"] < 10  # the prior


def test_cached_answers_are_expected_to_cost_nothing(video: Path) -> None:
    with Asking(cache=True) as s:
        sql = f"SELECT kind(frame) FROM '{video}' WHERE frame_id < {{}}"
        s.run(sql.format(4))
        (infer,) = of(explained(s, f"EXPLAIN {sql.format(10)}"), "infer")
        assert (infer["rows"], infer["cached"], infer["calls"]) == (10, 4, 6)
        assert s.calls == 0


@pytest.mark.parametrize("sql", [
    "SELECT sq(x) FROM range(3) t(x)", "SELECT sq(sum(x)) FROM range(3) t(x)",
    "SELECT x FROM range(9) t(x) WHERE sq(x) > 3 LIMIT 2", "SELECT kind(frame) FROM '{}'",
    "WITH a AS (SELECT sq(x) AS f FROM range(3) t(x)) SELECT sq(f) FROM a",
    "CREATE TABLE made AS SELECT sq(x) FROM range(3) t(x)", "INSERT INTO t SELECT sq(x) FROM t",
    "UPDATE t SET x = sq(x)", "DELETE FROM t WHERE big(x)", "SELECT list_transform([1], lambda v: "
    "sq(v))", "WITH RECURSIVE r(n) AS (SELECT 2 UNION ALL SELECT sq(n) FROM r WHERE n < 99) FROM r",
    "SELECT count(*) FROM '{}'", "FROM models()",
])
def test_explain_runs_no_model_and_changes_nothing(s: Asking, video: Path, sql: str) -> None:
    s.run("CREATE TABLE t AS SELECT x FROM range(3) t(x)")
    text = sql.format(video)
    rows = explained(s, f"EXPLAIN {text}")
    assert s.calls == 0 and of(rows, "sql")
    assert s.rows("FROM t ORDER BY x") == [(0,), (1,), (2,)] and s.rows("SHOW TABLES") == [("t",)]


def test_explain_analyze_runs_and_measures(s: Asking, video: Path) -> None:
    result = s.run(f"EXPLAIN ANALYZE {CASCADE.format(video)}")
    rows = [dict(zip(KEYS, row, strict=True)) for row in result.fetchall()]
    measured = {row["model"]: row for row in rows if row["step"] == "measured"}
    assert measured["eye"]["calls"] == len(s.asked("eye")) > 0
    assert measured["kind"]["calls"] == len(s.asked("kind")) > 0
    assert measured["eye"]["seconds"] > 0 and measured["eye"]["ms_per_call"] > 0
    for word in ("batches", "decode", "prepare", "wait", "saved"):
        assert word in measured["eye"]["detail"]
    total = measured[None]
    assert total["rows"] == 3 and total["calls"] == s.calls == result.stats.calls
    assert of(rows, "candidates") and of(rows, "infer")


def test_explain_analyze_of_a_write_writes(s: Asking) -> None:
    s.run("EXPLAIN ANALYZE CREATE TABLE made AS SELECT sq(3) AS v")
    assert s.rows("FROM made") == [(9,)]


def test_explain_analyze_in_a_transaction(s: Asking) -> None:
    s.run("BEGIN; CREATE TABLE t AS SELECT 3 AS x; EXPLAIN ANALYZE SELECT sq(x) FROM t")
    assert s.rows("SELECT sq(x) FROM t") == [(9,)]
    s.run("ROLLBACK")
    assert s.rows("SHOW TABLES") == []


def test_json_has_stable_keys(s: Asking) -> None:
    sql = "SELECT sq(x) FROM range(5) t(x) WHERE big(x)"
    first, second = (s.value(f"EXPLAIN (FORMAT JSON) {sql}") for _ in range(2))
    assert s.calls == 0 and json.loads(first) == json.loads(second)
    assert all(list(row) == KEYS for row in json.loads(first))
    plan = json.loads(s.value(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}"))
    assert all(list(row) == KEYS for row in plan)
    assert [row["calls"] for row in plan if row["step"] == "measured" and row["model"] is None] == [
        s.calls]


def test_no_name_of_ours_is_in_the_plan(s: Asking, video: Path) -> None:
    for row in explained(s, f"EXPLAIN {CASCADE.format(video)}"):
        assert "mlsql_1" not in row["step"]
        if row["operation"] == "filter":
            assert row["detail"].startswith(("CONTAINS(frame", "CLASSIFY(frame"))


def test_verbose_names_the_rules(s: Asking) -> None:
    rows = explained(s, "EXPLAIN VERBOSE SELECT x FROM range(9) t(x) WHERE sq(x) > 3 LIMIT 2")
    assert any("limit_early" in row["detail"] for row in of(rows, "rule"))


def test_what_is_recorded_says_so(s: Asking) -> None:
    rows = explained(s, "EXPLAIN SELECT sq(count(*)) FROM range(3)")
    assert of(rows, "look up")[0]["model"] == "sq" and "recorded" in of(rows, "note")[0]["detail"]


def test_explain_takes_parameters_and_refuses_what_the_statement_would(
    s: Asking, video: Path
) -> None:
    rows = explained(s, f"EXPLAIN SELECT frame_id FROM '{video}' "
                        "WHERE CONTAINS(frame, ?, model => 'eye') AND ts < $2".replace("$2", "?"),
                     ["cat", 0.25])
    assert of(rows, "candidates")[0]["rows"] == 3
    with pytest.raises(UnknownName, match="did you mean 'cat'"):
        s.rows(f"EXPLAIN SELECT CONTAINS(frame, 'cta', model => 'eye') FROM '{video}'")
    for sql in ("EXPLAIN SELECT sq(nope)", "EXPLAIN SELECT sq(", "EXPLAIN"):
        with pytest.raises(Error):
            s.rows(sql)


def test_result_explain(s: Asking) -> None:
    result = s.session.sql("SELECT sq(x) FROM range(?) t(x)", [3])
    assert "infer" in [row[1] for row in result.explain().fetchall()]
    assert s.asked("sq") == []
    assert result.fetchall() == [(0,), (1,), (4,)]


def test_plain_statements_are_explained_by_duckdb(s: Asking) -> None:
    assert s.run("EXPLAIN SELECT 1").columns == ["explain_key", "explain_value"]


def test_planning_takes_milliseconds(s: Asking, video: Path) -> None:
    import time

    sql = f"EXPLAIN {CASCADE.format(video)}"
    s.run(sql)
    spent = []
    for _ in range(5):
        started = time.process_time()
        s.run(sql)
        spent.append(time.process_time() - started)
    assert min(spent) < 0.3
