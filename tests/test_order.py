"""Conditions are tried in the cheapest order, learned while a statement runs and kept after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.exec.learning import Learning
from mlsql.exec.measured import Measurements
from mlsql.planner.cost import ordered
from tests.sessions import Asking

ROWS = 2_000


class Table(Asking):
    """A table a(id) of ROWS rows and conditions over id."""

    def __init__(self, **conditions: Callable[[int], bool]) -> None:
        super().__init__()
        self.run(f"CREATE TABLE a AS SELECT range AS id FROM range({ROWS})")
        for name, condition in conditions.items():
            self.add(name, condition, output="BOOLEAN")

    def calls_for(self, where: str) -> int:
        """The calls that the rows of a condition take, all of them looked at."""
        self.run(f"SELECT count(*) FROM a WHERE {where}")
        return self.calls


def common(x: int) -> bool:
    return x % 10 != 7


def rare(x: int) -> bool:
    return x % 10 == 3


def best_and(first: Callable[[int], bool]) -> int:
    return ROWS + sum(map(first, range(ROWS)))


@pytest.mark.parametrize("where", ["common(id) AND rare(id)", "rare(id) AND common(id)"])
def test_either_way_of_writing_an_and_costs_nearly_the_same(where: str) -> None:
    with Table(common=common, rare=rare) as s:
        assert s.calls_for(where) <= 1.1 * best_and(rare)


@pytest.mark.parametrize("where", ["common(id) OR rare(id)", "rare(id) OR common(id)"])
def test_either_way_of_writing_an_or_costs_nearly_the_same(where: str) -> None:
    with Table(common=common, rare=rare) as s:
        best = ROWS + sum(not common(x) for x in range(ROWS))
        assert s.calls_for(where) <= 1.1 * best


@pytest.mark.parametrize("where", ["slow(id) AND quick(id)", "quick(id) AND slow(id)"])
def test_a_cheap_condition_goes_before_a_costly_one_that_drops_as_much(where: str) -> None:
    with Asking() as s:
        s.run("CREATE TABLE a AS SELECT range AS id FROM range(600)")
        delay = {"slow": 0.005, "quick": 0.0}
        for name in delay:
            s.add(name, _sleeping(delay[name], lambda x: x % 2 == 0), output="BOOLEAN")
        s.run(f"SELECT count(*) FROM a WHERE {where}")
        # They drop the same rows: after the slow one the quick one drops none.
        assert len(s.asked("slow")) <= 300 + 64


def _sleeping(seconds: float, condition: Callable[[int], bool]) -> Callable[[int], bool]:
    def judge(x: int) -> bool:
        if seconds:
            time.sleep(seconds)
        return condition(x)

    return judge


@pytest.mark.parametrize("where", ["one(id) AND two(id)", "two(id) AND one(id)"])
def test_the_order_changes_where_the_data_do(where: str) -> None:
    half = ROWS // 2

    def one(x: int) -> bool:
        return common(x) if x < half else rare(x)

    def two(x: int) -> bool:
        return rare(x) if x < half else common(x)

    with Table(one=one, two=two) as s:
        s.calls_for(where)
        asked = s.asked("one") + s.asked("two")
        best = half + sum(map(rare, range(half)))
        for calls in (sum(x < half for x in asked), sum(x >= half for x in asked)):
            assert calls <= 1.25 * best


def test_the_same_rows_in_any_order() -> None:
    def third(x: int) -> bool:
        return x % 3 == 0

    expected = [x for x in range(ROWS) if (common(x) or third(x)) and not rare(x)]
    with Table(common=common, rare=rare, third=third) as s:
        for where in ("(common(id) OR third(id)) AND NOT rare(id)",
                      "NOT rare(id) AND (third(id) OR common(id))"):
            assert [x for (x,) in s.rows(f"SELECT id FROM a WHERE {where} ORDER BY id")] == expected
            limited = s.rows(f"SELECT id FROM a WHERE {where} ORDER BY id LIMIT 5")
            assert [x for (x,) in limited] == expected[:5]


def test_an_operand_that_another_clause_reads_as_well_is_asked_for_its_rows() -> None:
    with Table(common=common, rare=rare) as s:
        found = s.rows("SELECT id, rare(id) FROM a WHERE common(id) OR rare(id) ORDER BY id")
        assert found == [(x, rare(x)) for x in range(ROWS) if common(x) or rare(x)]


def test_cached_outputs_make_a_condition_cheap(tmp_path: Path) -> None:
    with Asking(cache=True, cache_dir=str(tmp_path)) as s:
        s.run("CREATE TABLE a AS SELECT range AS id FROM range(500)")
        s.add("known", common, output="BOOLEAN")
        s.add("new", rare, output="BOOLEAN")
        s.run("SELECT known(id) FROM a")
        s.run("SELECT count(*) FROM a WHERE new(id) AND known(id)")
        assert s.asked("known") == []
        assert len(s.asked("new")) <= sum(map(common, range(500))) + 32


def test_a_loaded_model_goes_before_one_that_must_be_loaded_for_a_few_rows() -> None:
    with Asking() as s:
        s.run("CREATE TABLE a AS SELECT range AS id FROM range(20)")
        s.add("there", lambda x: False, output="BOOLEAN")
        s.add("unloaded", lambda x: False, output="BOOLEAN")
        s.run("SELECT there(id + 100) FROM a")
        s.run("SELECT count(*) FROM a WHERE unloaded(id) AND there(id)")
        assert len(s.asked("there")) == 20 and s.asked("unloaded") == []


# --- what is kept -------------------------------------------------------------------------


QUERIES = [
    "SELECT count(*) FROM a WHERE common(id) AND rare(id)",
    "SELECT count(*) FROM a WHERE common(id) OR rare(id)",
    "SELECT id, common(id) FROM a WHERE rare(id) AND id < 700",
    "SELECT id FROM a WHERE (rare(id) OR id % 2 = 0) AND common(id)",
    "SELECT count(*) FROM (SELECT id FROM a WHERE common(id)) WHERE rare(id)",
    "SELECT CASE WHEN rare(id) THEN common(id) END FROM a",
    "SELECT id FROM a WHERE rare(id) ORDER BY id LIMIT 30",
    "SELECT x.id FROM a AS x JOIN a AS y ON x.id = y.id + 1 WHERE common(x.id) AND rare(y.id)",
    "SELECT id % 5 AS k, count(*) FROM a WHERE rare(id) GROUP BY k HAVING common(k)",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM a AS b WHERE b.id = a.id AND rare(b.id))",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_calls_of_a_second_run_are_expected_within_a_factor_of_two(query: str) -> None:
    with Table(common=common, rare=rare) as s:
        s.run(query)
        rows = s.run(f"EXPLAIN {query}").df()
        expected = int(rows[rows["operation"] == "total"]["calls"].iloc[0])
        s.run(query)
        assert s.calls / 2 <= expected <= s.calls * 2


def test_analyze_compares_what_was_expected_with_what_came() -> None:
    with Table(rare=rare) as s:
        rows = s.run("EXPLAIN ANALYZE SELECT id FROM a WHERE rare(id)").df()
        (detail,) = rows[(rows["step"] == "measured") & (rows["model"] == "rare")]["detail"]
        assert detail.startswith(f"expected {ROWS:,} calls")


def test_measurements_are_kept_for_other_sessions(tmp_path: Path) -> None:
    with Asking(cache=True, cache_dir=str(tmp_path)) as s:
        s.run("CREATE TABLE a AS SELECT range AS id FROM range(500)")
        s.add("rare", rare, output="BOOLEAN")
        s.run("SELECT count(*) FROM a WHERE rare(id)")
    kept = json.loads((tmp_path / "measured.json").read_text())
    assert kept["selectivity"]["rare(id)"] == pytest.approx(0.1)
    assert Measurements(tmp_path).selectivity("rare(id)") == pytest.approx(0.1)
    (tmp_path / "measured.json").write_text("{ not JSON")
    assert Measurements(tmp_path).selectivity("rare(id)") is None


# --- the rule itself ----------------------------------------------------------------------


@pytest.fixture
def cascade() -> Iterator[Any]:
    """The stage of three conditions, as it is planned."""
    with Table(common=common, rare=rare, never=lambda x: False) as s:
        yield _stage(s.session, "SELECT 1 FROM a WHERE common(id) AND rare(id) AND never(id)")


def _stage(session: mlsql.Session, sql: str) -> Any:
    from mlsql.parser.dialect import parse

    (stage,) = session._runner.planned(parse(sql), sql).nodes
    return stage


def test_filters_go_by_cost_over_the_share_they_drop(cascade: Any) -> None:
    class Believed:
        def call_ms(self, stage: Any, call: int) -> float:
            return {"common": 1.0, "rare": 9.0, "never": 11.0}[stage.calls[call].spec.name]

        def selectivity(self, key: str) -> float:
            return {"common(id)": 0.9, "rare(id)": 0.1, "never(id)": 0.0}[key]

    # 1 / 0.1 = 10, 9 / 0.9 = 10 (ties stay as written), 11 / 1 = 11
    assert [f.text for f in ordered(cascade, Believed()).filters] == [
        "common(id)", "rare(id)", "never(id)"]


def test_a_small_gain_changes_no_order(cascade: Any) -> None:
    learning = Learning(Measurements())
    learning.saw({"common(id)": (1000, 500), "rare(id)": (1000, 490), "never(id)": (1000, 500)})
    assert learning.order(cascade) == cascade
    learning.saw({"common(id)": (1000, 500), "rare(id)": (1000, 490), "never(id)": (1000, 0)})
    assert learning.order(cascade).filters[0].text == "never(id)"
