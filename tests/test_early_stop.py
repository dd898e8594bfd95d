"""What the answer cannot need is not asked: LIMIT, EXISTS, what is never read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sessions import Asking

BATCH = 16


@pytest.fixture(scope="module")
def s() -> Iterator[Asking]:
    with Asking() as asking:
        asking.run("CREATE TABLE t AS SELECT range AS x, range % 7 AS y FROM range(5000)")
        yield asking


@pytest.mark.parametrize(("sql", "rows", "most"), [
    ("SELECT x FROM t WHERE big(x) LIMIT 2", 2, BATCH),
    ("SELECT sq(x) FROM t LIMIT 3", 3, 3),
    ("SELECT x FROM t WHERE big(x) ORDER BY x DESC LIMIT 2", 2, BATCH),
    ("SELECT EXISTS (SELECT 1 FROM t WHERE big(x))", 1, BATCH),
    ("SELECT 1 WHERE NOT EXISTS (SELECT sq(x) FROM t WHERE x > 9 AND big(x))", 0, BATCH),
    ("SELECT EXISTS (SELECT sq(x) FROM t)", 1, 0),
    ("SELECT sq(sq(x)) FROM t LIMIT 0", 0, 0),
    ("SELECT * FROM (SELECT sq(x) FROM t WHERE big(y)) LIMIT 0", 0, 0),
    ("WITH u AS (SELECT sq(x) AS z FROM t), v AS (SELECT big(z) FROM u) SELECT 1", 1, 0),
    ("SELECT x FROM (SELECT x, sq(x) AS z FROM t) WHERE x < 2", 2, 0),
    ("SELECT z FROM (SELECT x, unnest([sq(x), 0]) AS z FROM t) WHERE x = 4", 2, 1),
    ("SELECT z FROM (SELECT * FROM (SELECT x, sq(x) AS z FROM t)) WHERE x = 4", 1, 1),
    ("SELECT CASE x WHEN 4 THEN sq(y) END FROM t", 5000, 1),
    ("SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.x > 9000 AND big(t.x))", 0, 0),
    ("SELECT count(*) FROM t WHERE x < 100 AND big(x)", 1, 100),
    ("SELECT * FROM (SELECT x, sq(x) AS z FROM t) WHERE z > 5 LIMIT 3", 3, BATCH),
    ("WITH u AS (SELECT x, big(x) AS b FROM t) SELECT x FROM u WHERE b LIMIT 3", 3, BATCH),
    ("SELECT EXISTS (SELECT 1 FROM (SELECT sq(x) AS z FROM t) WHERE z > 5)", 1, BATCH),
    ("SELECT x FROM (SELECT * FROM (SELECT x, sq(x) AS z FROM t) WHERE z > 5) WHERE x > 8 LIMIT 2",
     2, BATCH),
    ("SELECT z, v FROM (SELECT sq(x) AS z, up(x::VARCHAR) AS v FROM t WHERE x < 99) WHERE z < 0",
     0, 99),
    ("SELECT * FROM (SELECT x, sq(x) AS z FROM t) WHERE random() < 2 AND z > 5 LIMIT 3", 3, 5000),
    ("SELECT DISTINCT y FROM t WHERE big(x) LIMIT 2", 2, BATCH),
    ("SELECT DISTINCT x // 100 FROM t WHERE big(x) LIMIT 3", 3, 200 + 3 * BATCH),
    ("SELECT DISTINCT sq(x // 100) FROM t LIMIT 4", 4, 4 + BATCH),
    ("SELECT DISTINCT y FROM t WHERE big(x) LIMIT 9", 7, 5000),
    ("SELECT DISTINCT y FROM t WHERE big(x) ORDER BY y LIMIT 2", 2, 5000),
    ("SELECT DISTINCT y FROM t WHERE big(x) LIMIT 1 OFFSET 2", 1, 2 * BATCH),
    ("SELECT count(*) FROM t WHERE big(y)", 1, 7),
])
def test_no_more_calls_than_needed(s: Asking, sql: str, rows: int, most: int) -> None:
    assert len(s.rows(sql)) == rows
    assert s.calls <= most


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ASOF JOIN"])
def test_a_join_on_a_model_asks_once_an_input(s: Asking, join: str) -> None:
    """Two tables of 5,000 rows: neither their product nor a call a pair."""
    on = "up(a.w) = up(b.w) AND a.x >= b.x" if join == "ASOF JOIN" else "up(a.w) = up(b.w)"
    words = "SELECT x, 'w' || (x % {}) AS w FROM t"
    s.rows(f"SELECT count(*) FROM ({words.format(500)}) AS a {join} ({words.format(400)}) AS b "
           f"ON {on}")
    assert sorted(s.asked("up")) == sorted(f"w{i}" for i in range(500))
