"""PREPARE, EXECUTE and DEALLOCATE of statements that ask models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlsql.errors import Error, ProgrammingError
from tests.sessions import Asking


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        asking.run("CREATE TABLE t AS SELECT range AS x FROM range(6)")
        yield asking


def test_by_number(s: Asking) -> None:
    s.run("PREPARE one AS SELECT sq(x) FROM t WHERE x > $1 AND x < $2 ORDER BY x")
    assert s.calls == 0
    assert s.rows("EXECUTE one(1, 2 + 2)") == [(4,), (9,)]
    assert s.asked("sq") == [2, 3]
    assert s.rows("execute ONE(3, 9)") == [(16,), (25,)]


def test_by_question_mark_and_by_name(s: Asking) -> None:
    s.run("PREPARE q AS SELECT sq(x) FROM t WHERE x = ?")
    s.run("PREPARE n AS SELECT sq(x) FROM t WHERE x BETWEEN $low AND $high ORDER BY 1")
    assert s.rows("EXECUTE q(5)") == [(25,)]
    assert s.rows("EXECUTE n(high := 2, low := 1)") == [(1,), (4,)]


def test_without_parameters_explained_and_gone(s: Asking) -> None:
    s.run("PREPARE p AS SELECT count(*) FROM t WHERE big(x)")
    assert s.value("EXECUTE p") == 3
    s.run("DEALLOCATE PREPARE p")
    with pytest.raises(ProgrammingError, match="p"):
        s.run("EXECUTE p")


def test_those_of_duckdb_stay_its_own(s: Asking) -> None:
    s.run("PREPARE plain AS SELECT x FROM t WHERE x = $1")
    assert s.rows("EXECUTE plain(2)") == [(2,)]
    s.run("PREPARE plain AS SELECT sq(x) FROM t WHERE x = $1")
    assert s.rows("EXECUTE plain(2)") == [(4,)]


@pytest.mark.parametrize("sql", [
    "PREPARE bad AS SELECT sq(x FROM t", "PREPARE two AS SELECT 1", "EXECUTE nothing(1)",
    "EXECUTE one(1"])
def test_what_is_wrong_is_said(s: Asking, sql: str) -> None:
    s.run("PREPARE one AS SELECT sq(x) FROM t WHERE x > $1")
    if sql.startswith("PREPARE two"):
        s.run(sql)
        assert s.rows("EXECUTE two") == [(1,)]
        return
    with pytest.raises(Error):
        s.run(sql)


def test_too_few_values(s: Asking) -> None:
    s.run("PREPARE one AS SELECT sq(x) FROM t WHERE x > $1 AND x < $2")
    with pytest.raises(ProgrammingError, match="2"):
        s.run("EXECUTE one(1)")
