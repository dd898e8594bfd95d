"""Any statement over models answers as DuckDB does over functions, however it is planned.

Random statements first, the same in every run; then the cases that were once wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.query_generator import ChangeGenerator, QueryGenerator, excluded
from tests.reference import Outcome, Rows, Sides, modes

SEEDS = range(150)


@pytest.fixture(scope="module")
def sides() -> Iterator[Sides]:
    with Sides() as sides:
        yield sides


@pytest.fixture(scope="module")
def nulls() -> Iterator[Sides]:
    with Sides(nulls=True) as sides:
        yield sides


def in_every_mode(sides: Sides, sql: str, expected: Rows, ordered: bool = False
                  ) -> dict[str, Outcome]:
    """The outcomes that are not as they should be."""
    outcomes = {name: sides.compare(sql, expected, ordered=ordered, **mode)
                for name, mode in modes().items()}
    return {name: o for name, o in outcomes.items() if o.verdict != "equal"}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries(seed: int, sides: Sides, nulls: Sides) -> None:
    side = nulls if seed % 4 == 0 else sides
    statement = QueryGenerator(seed).statement()
    expected = side.reference(statement.text)
    if expected is None:
        return  # DuckDB refuses it: nothing to hold against
    assert not in_every_mode(side, statement.text, expected, statement.ordered), statement.text


def test_most_random_queries_are_cases(sides: Sides) -> None:
    answers = [sides.reference(QueryGenerator(seed).statement().text) for seed in SEEDS]
    assert sum(a is not None for a in answers) > 0.8 * len(SEEDS)
    assert sum(a is not None and len(a.rows) > 0 for a in answers) > 0.4 * len(SEEDS)


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int, sides: Sides) -> None:
    """INSERT, CREATE TABLE AS, UPDATE, DELETE: what they return, and what is there afterwards."""
    change = ChangeGenerator(seed).change()
    for name, mode in modes().items():
        sides.restore()
        expected = sides.reference(change.text)
        if expected is None:
            return
        assert sides.compare(change.text, expected, **mode).verdict == "equal", (name, change.text)
        assert sides.compare(change.check).verdict == "equal", (name, change.text)
    sides.restore()


@pytest.mark.parametrize("seed", range(30))
def test_no_call_where_cheap_conditions_leave_no_row(seed: int, sides: Sides) -> None:
    sql = excluded(seed)
    expected = sides.reference(sql)
    if expected is None:
        return
    outcome = sides.compare(sql, expected)
    assert (outcome.verdict, outcome.calls) == ("equal", 0), sql


CASES = """
SELECT t(x).v, l(x), q(x) + 1, -q(x), q(x)::VARCHAR, NOT p(x) FROM a
SELECT a.x FROM a LEFT JOIN b ON p(b.x)
SELECT a.x FROM a LEFT JOIN b ON p(b.x) AND p(b.x)
SELECT 1 AS f FROM b WHERE p(x) AND p(id)
SELECT q(x), q(y) FROM a
SELECT "Odd Case" AS f FROM c WHERE p(f)
SELECT x + 1 AS f FROM a WHERE p(f)
SELECT id AS f, f AS g FROM b WHERE p(g)
SELECT t(x) AS f, id AS g FROM a GROUP BY f, g HAVING t(x)['u'] > 1
SELECT q(x) AS f FROM a LEFT JOIN (VALUES (1)) AS v(g) ON x > 2 AND p(v.g) AND p(v.g)
SELECT p(1) FROM c ORDER BY 1 LIMIT 5
SELECT v FROM b JOIN UNNEST(l(k)) AS u(v) ON TRUE WHERE p(id)
SELECT r(x) FROM b JOIN UNNEST(l(b.x)) AS u(v) ON TRUE
SELECT w('BA') FROM a ORDER BY ALL LIMIT 6
SELECT 6 AS f FROM a GROUP BY ALL HAVING p(3)
SELECT p(y) AS f, f FROM a
SELECT p(y) AS f, f AND TRUE AS g, q(y) AS h, h + 1 AS i, i + h AS j FROM a
SELECT q(x) AS f, f + 1 FROM a WHERE f > 3 ORDER BY f, x
SELECT 1 AS f FROM a AS z WHERE (SELECT max(n.id) FROM b LEFT JOIN b AS n \
ON n.k <> z.y AND p(b.k)) > 1
SELECT d.id FROM (SELECT * FROM a) AS d, LATERAL (SELECT 1 AS g FROM b RIGHT JOIN a AS n \
ON d.id >= 1 AND p(n.id)) AS i
SELECT 'C' AS f FROM e HAVING p(3)
SELECT count(*), max(q(x)) FROM e HAVING p(3)
SELECT p(6) AS f, f FROM c
SELECT id, x, id FROM a WHERE p(x)
SELECT * FROM a JOIN b ON p(a.x) AND a.id = b.id
SELECT q(z.x) AS f, a.id AS g FROM a LEFT JOIN (SELECT 3 AS k) AS d ON p(d.k) \
CROSS JOIN a AS z GROUP BY 1, 2
WITH n(i, k) AS (SELECT id, l(y) FROM c) SELECT 'BA' AS f, n.k FROM n
WITH n(i, k) AS (SELECT id, q(y) FROM c) SELECT * FROM n AS m(u, v) WHERE v > 2
SELECT w(s) AS f, row_number() OVER (ORDER BY f, id) AS g FROM a
SELECT bool_or(TRUE) OVER (PARTITION BY (SELECT 0 FROM b HAVING p(0))) AS f FROM b
SELECT r(9) AS f FROM b WHERE EXISTS (SELECT f FROM a)
SELECT x AS f FROM a WHERE EXISTS (SELECT s FROM c WHERE f > 3) AND p(x)
SELECT EXISTS (SELECT q(x) + 1 AS h FROM c) AS f, q(x) AS g FROM a GROUP BY 2
SELECT EXISTS (SELECT q(x) + 1 AS h FROM c) AS f, count(*) AS n FROM a GROUP BY q(x)
"""


@pytest.mark.parametrize("sql", CASES.strip().splitlines())
def test_cases_once_wrong(sql: str, sides: Sides) -> None:
    expected = sides.reference(sql)
    assert expected is not None, "DuckDB refuses it"
    assert not in_every_mode(sides, sql, expected)


# Each is answered without any call: DuckDB never evaluates what is asked.
UNNEEDED = """
SELECT c.id FROM (SELECT * REPLACE (w(s) AS s) FROM a) AS d ASOF LEFT JOIN c ON d.x > c.id
SELECT EXISTS (SELECT t(id).u FROM c) AS f FROM b
SELECT count(*) FROM (SELECT q(x) AS f FROM a) AS d
WITH n AS (SELECT q(x) AS f, id FROM a) SELECT id FROM n
SELECT x FROM a WHERE id > 90 AND p(x)
SELECT x FROM a WHERE p(NULL)
SELECT q(x) FROM a LIMIT 0
SELECT x FROM a JOIN b USING (x) WHERE b.id > 90 AND p(a.x) AND q(a.y) = q(b.k)
SELECT q(x) FROM e
SELECT a.x FROM a JOIN e ON p(a.x)
SELECT x FROM a WHERE FALSE AND p(x)
SELECT CASE WHEN id > 90 THEN q(x) ELSE 3 END AS f FROM a
SELECT coalesce(id, q(x)) AS f FROM a
SELECT sum(q(x)) FILTER (WHERE id > 90) AS f FROM a
SELECT x FROM a WHERE id < 90 OR p(x)
SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id > 90 AND p(a.x))
"""


@pytest.mark.parametrize("sql", UNNEEDED.strip().splitlines())
def test_no_call_where_the_answer_needs_none(sql: str, sides: Sides) -> None:
    outcome = sides.compare(sql)
    assert (outcome.verdict, outcome.calls) == ("equal", 0)
