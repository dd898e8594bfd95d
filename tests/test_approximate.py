"""Accuracy clauses end to end: what they accept, what they promise, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import CallLimit, NotSupportedError, ProgrammingError
from mlsql.parser.accuracy import Accuracy, split_accuracy
from mlsql.parser.statements import split

SIZE = 3000
RNG = np.random.default_rng(11)
COUNTS = np.clip(np.rint(5 + 3 * np.sin(np.arange(SIZE) / 40) + RNG.normal(0, 1, SIZE)), 0, 20)


class Counting:
    """A session over numbers, with a model `n(x)` of whole numbers and `big(x)`; calls counted."""

    def __init__(self, **config: Any) -> None:
        self.calls = 0
        self.session = mlsql.connect(config={"cache": False, **config})
        self._add("n", "BIGINT", lambda x: int(COUNTS[x]))
        self._add("big", "BOOLEAN", lambda x: bool(COUNTS[x] >= 8))
        self._add("odd", "BOOLEAN", lambda x: bool(x % 2))
        self.session.execute(f"CREATE TABLE t AS SELECT x, x % 3 AS k FROM range({SIZE}) r(x)")

    def _add(self, name: str, output: str, function: Any) -> None:
        def batch(values: list[Any]) -> list[Any]:
            self.calls += len(values)
            return [function(v) for v in values]

        self.session.register_model(batch, name=name, task="predict", input="BIGINT",
                                    output=output)

    def run(self, sql: str) -> mlsql.Result:
        self.calls = 0
        return self.session.execute(sql)


@pytest.fixture(scope="module")
def s() -> Counting:
    return Counting()


MEAN = "AVG(least(greatest(n(x), 0), 20))"


@pytest.mark.parametrize(("text", "said"), [
    ("ERROR WITHIN 0.25", Accuracy(error=0.25)),
    ("error within .5 at confidence .9", Accuracy(error=0.5, confidence=0.9)),
    ("ERROR WITHIN 5%", Accuracy(error=0.05, relative=True)),
    ("ERROR WITHIN 0.1 RELATIVE AT CONFIDENCE 99%",
     Accuracy(error=0.1, relative=True, confidence=0.99)),
    ("RECALL TARGET 95% PRECISION TARGET 90% ORACLE LIMIT 1000",
     Accuracy(recall=0.95, precision=0.9, oracle_limit=1000)),
    ("RECALL TARGET .9 UNCHECKED", Accuracy(recall=0.9, checked=False)),
])
def test_clauses(text: str, said: Accuracy) -> None:
    (statement,) = split(f"SELECT a FROM t WHERE b {text};")
    assert split_accuracy(statement) == ("SELECT a FROM t WHERE b", said)


@pytest.mark.parametrize("sql", [
    "SELECT recall target FROM t", "SELECT * FROM error within", "SELECT 'ERROR WITHIN 3'",
    "SELECT a FROM (SELECT 1 AS a) -- ERROR WITHIN 3"])
def test_what_is_no_clause(sql: str) -> None:
    (statement,) = split(sql)
    assert split_accuracy(statement)[1] is None


@pytest.mark.parametrize(("clause", "word", "says"), [
    ("ERROR WITHIN -1", "-", "above 0"),
    ("ERROR WITHIN 0", "0", "above 0"),
    ("RECALL TARGET 95", "95", "between 0 and 1"),
    ("RECALL TARGET 95% AT CONFIDENCE 1", "1", "between 0 and 1"),
    ("RECALL TARGET 95% SOON", "SOON", "accuracy clause"),
    ("ORACLE LIMIT 2.5", "2.5", "whole number"),
    ("ERROR WITHIN 1 ERROR WITHIN 2", "ERROR WITHIN 2", "already"),
])
def test_a_clause_that_makes_no_sense(s: Counting, clause: str, word: str, says: str) -> None:
    sql = f"SELECT {MEAN} FROM t {clause}"
    with pytest.raises(ProgrammingError, match=says) as caught:
        s.run(sql)
    line, caret = str(caught.value).splitlines()[-2:]
    assert line[caret.index("^"):].startswith(word)


def test_an_average_takes_fewer_calls_and_keeps_its_word(s: Counting) -> None:
    truth, misses = float(COUNTS.mean()), 0
    for seed in range(4):
        s.run(f"SET seed = {seed}")
        found = s.run(f"SELECT {MEAN} AS mean FROM t ERROR WITHIN 0.5")
        assert found.columns == ["mean"]
        ((value,),) = found.fetchall()
        low, high = found.interval or (0.0, 0.0)
        misses += not (low <= truth <= high) or abs(value - truth) > 0.5
        assert high - low <= 1.0 + 1e-9
        assert s.calls == found.stats.calls < SIZE / 2
        assert found.approximate and found.approximate.seed == seed  # type: ignore[union-attr]
    s.run("RESET seed")
    assert misses <= 1  # five in a hundred are allowed


def test_a_setting_does_what_the_clause_does(s: Counting) -> None:
    by_clause = s.run(f"SELECT {MEAN} FROM t ERROR WITHIN 0.5 AT CONFIDENCE 90%")
    s.run("SET error_target = 0.5; SET confidence = 0.9")
    by_setting = s.run(f"SELECT {MEAN} FROM t")
    s.run("RESET error_target; RESET confidence")
    assert by_setting.fetchall() == by_clause.fetchall()
    assert by_setting.interval == by_clause.interval is not None


def test_counts_sums_shares_and_groups(s: Counting) -> None:
    found = s.run("SELECT COUNT(*) AS c FROM t WHERE big(x) ERROR WITHIN 200")
    assert abs(found.fetchall()[0][0] - (COUNTS >= 8).sum()) <= 200
    assert found.types == ["BIGINT"] and s.calls < SIZE

    found = s.run("SELECT k, COUNT_IF(big(x)) / COUNT(*) AS share, COUNT(*) AS rows, "
                  "CI_LOW(COUNT_IF(big(x))) AS low, CI_HIGH(COUNT_IF(big(x))) AS high "
                  "FROM t GROUP BY k ORDER BY k ERROR WITHIN 0.15")
    for k, share, rows, low, high in found.fetchall():
        own = COUNTS[np.arange(SIZE) % 3 == k] >= 8
        assert rows == len(own) and abs(share - own.mean()) <= 0.15 and low <= own.sum() <= high
    assert s.calls < SIZE and len(found.approximate.intervals) == 3  # type: ignore[union-attr]

    found = s.run("SELECT SUM(x % 7) FROM t WHERE big(x) AND k = 1 ERROR WITHIN 30% RELATIVE")
    x = np.arange(SIZE)
    truth = (x % 7)[(x % 3 == 1) & (COUNTS >= 8)].sum()
    assert abs(found.fetchall()[0][0] - truth) <= 0.3 * truth


def test_an_average_under_a_model_and_a_join(s: Counting) -> None:
    found = s.run("SELECT AVG(v) AS a, COUNT(*) FILTER (WHERE odd(t.x)) AS c "
                  "FROM t JOIN (VALUES (0, 1.0), (1, 2.0), (2, 4.0)) f(k, v) USING (k) "
                  "WHERE big(t.x) ERROR WITHIN 600")
    x = np.arange(SIZE)
    kept = COUNTS >= 8
    average, count = found.fetchall()[0]
    assert 1.0 <= average <= 4.0
    assert abs(count - (kept & (x % 2 == 1)).sum()) <= 600


@pytest.mark.parametrize(("sql", "why"), [
    ("SELECT MEDIAN(n(x)) FROM t ERROR WITHIN 1", "no interval"),
    ("SELECT AVG(n(x)) FROM t ERROR WITHIN 1", "range"),
    ("SELECT COUNT(DISTINCT n(x)) FROM t ERROR WITHIN 1", "looks at all values"),
    ("SELECT k FROM t GROUP BY k HAVING COUNT_IF(big(x)) > 5 ERROR WITHIN 1", "HAVING"),
    ("SELECT x FROM t WHERE big(x) ERROR WITHIN 1", "RECALL TARGET"),
    ("SELECT COUNT_IF(big(x)) FROM t RECALL TARGET 90%", "ERROR WITHIN"),
])
def test_what_cannot_be_certified_is_exact_with_a_warning_or_refused(
    s: Counting, sql: str, why: str
) -> None:
    found = s.run(sql)
    assert any(why in said for said in found.warnings) and not found.approximate
    plain = s.run(sql.split(" ERROR ")[0].split(" RECALL ")[0])
    assert sorted(found.fetchall()) == sorted(plain.fetchall())
    s.run("SET on_uncertified = 'refuse'")
    with pytest.raises(NotSupportedError, match=why):
        s.run(sql)
    s.run("RESET on_uncertified")


def test_a_clause_without_a_model_warns_and_runs_plain(s: Counting) -> None:
    found = s.run("SELECT COUNT(*) FROM t ERROR WITHIN 1")
    assert found.fetchall() == [(SIZE,)]
    assert any("no model" in said for said in found.warnings)


def test_bounds_of_an_exact_answer_are_the_answer(s: Counting) -> None:
    found = s.run("SELECT CI_LOW(COUNT_IF(big(x))), COUNT_IF(big(x)) AS c FROM t WHERE x < 300")
    ((low, count),) = found.fetchall()
    assert low == count == (COUNTS[:300] >= 8).sum()
    assert found.columns == ["CI_LOW(COUNT_IF(big(x)))", "c"]


def test_an_oracle_limit_leaves_a_valid_wide_interval(s: Counting) -> None:
    found = s.run(f"SELECT {MEAN} FROM t ERROR WITHIN 0.05 ORACLE LIMIT 400")
    assert s.calls <= 400 and any("ORACLE LIMIT" in said for said in found.warnings)
    low, high = found.interval or (0.0, 0.0)
    assert low <= COUNTS.mean() <= high and high - low > 0.1
    with pytest.raises(CallLimit, match="ORACLE LIMIT 50"):
        s.run("SELECT x FROM t WHERE big(x) RECALL TARGET 90% ORACLE LIMIT 50")
    assert s.calls <= 50


def test_a_recall_target_returns_checked_rows_and_never_costs_more_than_exact(
    s: Counting,
) -> None:
    found = s.run("SELECT x FROM t WHERE (n(x) >= 8 AND NOT odd(x)) OR n(x) = 0 "
                  "ORDER BY x RECALL TARGET 80%")
    x = np.arange(SIZE)
    truth = set(x[((COUNTS >= 8) & (x % 2 == 0)) | (COUNTS == 0)].tolist())
    rows = [row for (row,) in found.fetchall()]
    assert rows == sorted(rows) and set(rows) <= truth and len(rows) >= 0.8 * len(truth)
    assert s.calls <= 2 * SIZE
    assert found.approximate is not False


@pytest.mark.parametrize("sql", [
    "SELECT AVG(n(x)) FROM t", "SELECT count(*) FROM t WHERE big(x)", "SELECT n(x) FROM t",
    "SELECT x FROM t WHERE x < 100 AND big(x)", "SELECT x FROM t WHERE big(x) ORDER BY x LIMIT 5",
    "SELECT x FROM t WHERE big(x) LIMIT 5", "SELECT x FROM t WHERE n(x) > 3 ORDER BY x",
    "SELECT k, max(n(x)) FROM t GROUP BY k ORDER BY k", "SELECT x FROM t WHERE x > 2990 ORDER BY x",
    "SELECT x FROM t WHERE x < 400 AND big(x) = (SELECT big(3))"])
def test_auto_precision_leaves_everything_else_exact(sql: str) -> None:
    exact, auto = Counting().run(sql), Counting(precision="auto").run(sql)
    assert auto.fetchall() == exact.fetchall() and not auto.warnings
    assert not auto.approximate


def test_explain_tells_how_auto_precision_decides() -> None:
    s = Counting(precision="auto")
    plan = s.run("EXPLAIN SELECT x FROM t WHERE big(x)").df()
    told = plan[plan.step == "target"].set_index("operation")
    assert s.calls == 0 and 0 < told.calls["approximate"] < SIZE
    assert "as in fp32" in told.detail["approximate"] and "in doubt" in told.detail["approximate"]
    assert "rows may be decided otherwise" in told.detail["why"]


@pytest.mark.parametrize("target", ["RECALL TARGET 80%", "PRECISION TARGET 80%"])
def test_a_target_goes_before_auto_precision(target: str) -> None:
    said = Counting(precision="auto").run(f"SELECT x FROM t WHERE big(x) {target}").approximate
    assert "TARGET 0.8" in getattr(said, "target", "")


def test_a_small_table_is_simply_exact(s: Counting) -> None:
    found = s.run("SELECT COUNT_IF(big(x)) FROM t WHERE x < 100 ERROR WITHIN 30")
    assert found.fetchall() == [((COUNTS[:100] >= 8).sum(),)] and s.calls == 100


def test_last_query_and_explain_tell_how(s: Counting) -> None:
    s.run(f"SELECT {MEAN} FROM t ERROR WITHIN 0.5")
    ((method, low, high, seed),) = s.session.execute(
        "SELECT method, interval_low, interval_high, seed FROM last_query()").fetchall()
    assert "confidence sequence" in method and low < COUNTS.mean() < high and seed == 0
    plan = s.run(f"EXPLAIN SELECT {MEAN} FROM t ERROR WITHIN 0.5").df()
    assert s.calls == 0
    target = plan[plan.step == "target"].set_index("operation")
    assert list(target.index) == ["approximate", "proxy", "fall back", "why"]
    assert target.calls["approximate"] < target.calls["fall back"] == SIZE


def test_a_stop_leaves_the_interval_so_far() -> None:
    s = Counting()
    asked: list[int] = []

    def stopping(values: list[int]) -> list[int]:
        asked.extend(values)
        if len(asked) > 900:
            s.session.interrupt()
        return [int(COUNTS[v]) for v in values]

    s.session.register_model(stopping, name="stopping", task="predict", input="BIGINT",
                             output="BIGINT")
    mean = "AVG(least(greatest(stopping(x), 0), 20))"
    found = s.run(f"SELECT {mean} FROM t ERROR WITHIN 0.02")
    assert any("stopped" in said for said in found.warnings)
    low, high = found.interval or (0.0, 0.0)
    assert low <= COUNTS.mean() <= high and high - low > 0.04
    assert len(asked) < SIZE


def test_the_same_statement_again_calls_no_model(tmp_path: Path) -> None:
    s = Counting(cache=True, cache_dir=str(tmp_path))
    sql = f"SELECT {MEAN} FROM t ERROR WITHIN 0.5"
    first = s.run(sql).fetchall()
    spent = s.calls
    assert s.run(sql).fetchall() == first and s.calls == 0
    narrower = f"SELECT {MEAN} FROM t ERROR WITHIN 0.3"
    s.run(narrower)
    after = s.calls
    alone = Counting()
    alone.run(narrower)
    assert spent > 0 and after < alone.calls  # what is known enters exactly
