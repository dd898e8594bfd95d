"""Macros that ask models: made, called, kept in a database file, dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import mlsql
from mlsql.errors import ProgrammingError
from tests.sessions import Asking, make_video

MACROS = (
    "CREATE MACRO f(x, y := 2) AS sq(x) + y",
    "CREATE TEMP MACRO g(a) AS f(a) + 1",
    "CREATE FUNCTION above(a) AS (SELECT count(*) FROM range(9) r(z) WHERE sq(z) > a)",
    "CREATE MACRO each(l) AS list_transform(l, e -> sq(e))",
    "CREATE MACRO upto(n, least := 0) AS TABLE "
    "SELECT x, sq(x) AS s FROM range(n) t(x) WHERE sq(x) >= least",
)


@pytest.fixture(scope="module")
def s() -> Iterator[Asking]:
    with Asking() as asking:
        for sql in MACROS:
            asking.run(sql)
        yield asking


@pytest.mark.parametrize(("sql", "rows"), [
    ("SELECT f(3), f(3, 7), f(3, y := 5), F(1)", [(11, 16, 14, 3)]),
    ("SELECT x FROM range(5) t(x) WHERE f(x) > 6", [(3,), (4,)]),
    ("SELECT g(2), main.f(2)", [(7, 6)]),
    ("SELECT x.f() FROM range(3) t(x) ORDER BY x", [(2,), (3,), (6,)]),
    ("SELECT x, above(x) FROM range(2) t(x) ORDER BY 1", [(0, 8), (1, 7)]),
    ("SELECT each([1, 2, NULL])", [([1, 4, None],)]),
    ("SELECT f(x) AS y, count(*) FROM range(4) t(x) GROUP BY f(x) HAVING f(x) > 3 ORDER BY y",
     [(6, 1), (11, 1)]),
    ("FROM upto(3)", [(0, 0), (1, 1), (2, 4)]),
    ("SELECT q.s FROM upto(4, least := 1) AS q(n, s) JOIN upto(3) u ON q.n = u.x ORDER BY 1",
     [(1,), (4,)]),
    ("SELECT (SELECT max(s) FROM upto(f(1)))", [(4,)]),
    ("WITH upto2 AS (FROM upto(2)) SELECT sum(s) FROM upto2", [(1,)]),
])
def test_a_macro_is_its_body(s: Asking, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert s.rows(sql) == rows


def test_a_model_in_a_macro_is_asked_once_an_input(s: Asking) -> None:
    assert s.value("SELECT sum(f(x % 5) + g(x % 5)) FROM range(100) t(x)") == 1700
    assert sorted(s.asked("sq")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("sql", "said"), [
    ("SELECT f()", r"f\(x, y := 2\): x is missing"),
    ("SELECT f(1, 2, 3)", "argument 3 has no place"),
    ("SELECT f(1, z := 3)", "z := 3 has no place"),
    ("SELECT upto(3)", "stands in FROM"),
    ("FROM f(3)", "gives a value"),
    ("CREATE MACRO sq(x) AS sq(x)", "'sq' is a function already"),
    ("CREATE MACRO bad(x) AS sq(x) +", "syntax error"),
])
def test_what_is_wrong_with_a_call_is_said(s: Asking, sql: str, said: str) -> None:
    with pytest.raises(ProgrammingError, match=said):
        s.rows(sql)
    assert s.calls == 0


def test_a_macro_of_duckdbs_with_our_words_in_it_stays_one(s: Asking) -> None:
    s.run("CREATE MACRO says(x) AS x || 'no mlsql macro: (a) AS a'")
    assert s.value("SELECT says('') || up('b')") == "no mlsql macro: (a) AS aB"


def test_a_macro_that_calls_itself_is_refused(s: Asking) -> None:
    s.run("CREATE MACRO again(x) AS again(x) + sq(1)")
    with pytest.raises(ProgrammingError, match="does the macro call itself"):
        s.rows("SELECT again(1)")


def test_macros_are_kept_in_the_database_and_dropped(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    with Asking(tmp_path / "a.db") as s:
        s.run("CREATE MACRO has(f, what) AS CONTAINS(f, what, model => 'eye')")
        s.run(f"CREATE VIEW cats AS SELECT frame_id FROM '{video}' WHERE has(frame, 'cat')")
        found = s.rows("FROM cats")
        assert found
    with duckdb.connect(tmp_path / "a.db") as plain, \
            pytest.raises(duckdb.Error, match="open the database with mlsql"):
        plain.execute("SELECT has(1, 'cat')").fetchall()
    with Asking(tmp_path / "a.db") as s:
        assert s.rows("FROM cats") == found
        assert s.rows(f"SELECT frame_id FROM '{video}' WHERE has(frame, 'cat')") == found
        s.run("CREATE OR REPLACE MACRO has(f, what) AS CONTAINS(f, what, model => 'eye') IS NULL")
        assert s.rows("FROM cats") == []
        s.run("BEGIN; DROP MACRO has; ROLLBACK")
        assert s.rows("FROM cats") == []
        s.run("DROP MACRO has")
        with pytest.raises(mlsql.Error, match="has"):
            s.rows("FROM cats")
