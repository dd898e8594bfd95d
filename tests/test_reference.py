"""Any statement over models answers as DuckDB does over functions, however it is planned.

Random statements first, the same in every run; then the cases that were once wrong: a new one is a
line of reference.sql.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mlsql.session import Session
from tests.query_generator import ChangeGenerator, QueryGenerator, excluded
from tests.reference import Outcome, Rows, Sides, modes

SEEDS = (*range(150), 468)

# Right, the second way only because a plan that did not bind was given up for the recording.
RIGHT = ("equal", "unplanned")


@pytest.fixture(scope="module")
def sides() -> Iterator[Sides]:
    with Sides() as sides:
        yield sides


@pytest.fixture(scope="module")
def nulls() -> Iterator[Sides]:
    with Sides(nulls=True) as sides:
        yield sides


def in_modes(sides: Sides, sql: str, expected: Rows, ordered: bool = False,
             only: Collection[str] = ()) -> dict[str, Outcome]:
    """The outcomes that are not as they should be, in those modes or in all."""
    outcomes = {name: sides.compare(sql, expected, ordered=ordered, **modes()[name])
                for name in only or modes()}
    return {name: o for name, o in outcomes.items() if o.verdict not in RIGHT}


def some_modes(seed: int) -> list[str]:
    """Peeled, recorded, at times one of the rules switched off; the benchmark takes them all."""
    both, others = list(modes())[:2], list(modes())[2:]
    return [*both, others[seed // 3 % len(others)]] if seed % 3 == 0 else both


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries(seed: int, sides: Sides, nulls: Sides) -> None:
    side = nulls if seed % 4 == 0 else sides
    statement = QueryGenerator(seed).statement()
    expected = side.reference(statement.text)
    if expected is None:
        return  # DuckDB refuses it: nothing to hold against
    bad = in_modes(side, statement.text, expected, statement.ordered, some_modes(seed))
    assert not bad, statement.text


def test_most_random_queries_are_cases(sides: Sides) -> None:
    answers = [sides.reference(QueryGenerator(seed).statement().text) for seed in SEEDS]
    assert sum(a is not None for a in answers) > 0.8 * len(SEEDS)
    assert sum(a is not None and len(a.rows) > 0 for a in answers) > 0.4 * len(SEEDS)


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int, sides: Sides) -> None:
    """INSERT, CREATE TABLE AS, UPDATE, DELETE: what they return, and what is there afterwards."""
    change = ChangeGenerator(seed).change()
    for name in some_modes(seed):
        sides.restore()
        expected = sides.reference(change.text)
        if expected is None:
            return
        outcome = sides.compare(change.text, expected, **modes()[name])
        assert outcome.verdict in RIGHT, (name, change.text)
        assert sides.compare(change.check).verdict in RIGHT, (name, change.text)
    sides.restore()


@pytest.mark.parametrize("seed", range(30))
def test_no_call_where_cheap_conditions_leave_no_row(seed: int, sides: Sides) -> None:
    sql = excluded(seed)
    expected = sides.reference(sql)
    if expected is None:
        return
    outcome = sides.compare(sql, expected)
    assert (outcome.verdict, outcome.calls) == ("equal", 0), sql


CASES = [line for line in Path(__file__).with_name("reference.sql").read_text("utf-8").splitlines()
         if line and not line.startswith("--")]


@pytest.mark.parametrize("sql", CASES)
def test_cases_once_wrong(sql: str, sides: Sides) -> None:
    expected = sides.reference(sql)
    assert expected is not None, "DuckDB refuses it"
    assert not in_modes(sides, sql, expected)


# Each is answered without any call: DuckDB never evaluates what is asked.
UNNEEDED = """
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
SELECT w(w(s)) AS f FROM a LIMIT 0
SELECT x FROM a WHERE (FALSE AND NOT p(x)) AND p(id)
SELECT CASE id WHEN 90 THEN q(x) END AS f FROM a
SELECT f FROM (SELECT id, q(x) AS f FROM a) AS d WHERE id = 90
SELECT f FROM (SELECT id, unnest(l(x)) AS f FROM a) AS d WHERE id = 90
SELECT id, q(x) AS f FROM a WHERE id > 90 UNION ALL SELECT 1, 2
"""


@pytest.mark.parametrize("sql", UNNEEDED.strip().splitlines())
def test_no_call_where_the_answer_needs_none(sql: str, sides: Sides) -> None:
    outcome = sides.compare(sql)
    assert (outcome.verdict, outcome.calls) == ("equal", 0)


def test_constants_are_asked_first(sides: Sides) -> None:
    """One call shows that no row passes."""
    outcome = sides.compare("SELECT id FROM a WHERE q(id) > 1 AND p(1)")
    assert (outcome.verdict, outcome.calls) == ("equal", 1)


CHANGES = [
    ("DELETE FROM b WHERE len(list_filter([x], lambda v: p(v))) = 1", "FROM b"),
    ("UPDATE a SET s = s || '!' WHERE list_max([q(v) FOR v IN l(x)]) IS NULL", "FROM a"),
    ("UPDATE a SET x = q(x), y = q(y) WHERE p(id)", "FROM a"),
    ("UPDATE a SET x = q(b.x) FROM b WHERE a.id = b.id AND p(b.id)", "FROM a"),
    ("DELETE FROM a USING b WHERE a.id = b.id AND p(b.x)", "FROM a"),
    ("INSERT INTO e BY NAME SELECT w(s) AS s, id FROM a WHERE p(id)", "FROM e"),
    ("INSERT INTO e SELECT id, q(x), w(s) FROM a RETURNING q(id) AS f, *", "FROM e"),
    ("MERGE INTO b USING a ON a.id = b.id AND p(a.id) WHEN MATCHED THEN UPDATE SET x = q(a.x) "
     "WHEN NOT MATCHED AND p(a.id) THEN INSERT VALUES (a.id, q(a.y), 1, w(a.s))", "FROM b"),
]


@pytest.mark.parametrize(("change", "check"), CHANGES)
def test_changes(change: str, check: str, sides: Sides) -> None:
    for name, mode in modes().items():
        sides.restore()
        expected = sides.reference(change)
        assert expected is not None, "DuckDB refuses it"
        assert sides.compare(change, expected, **mode).verdict == "equal", name
        assert sides.compare(check).verdict == "equal", name
    sides.restore()


def test_inside_a_transaction_of_the_users(sides: Sides) -> None:
    """A statement sees what the transaction has done, and ROLLBACK takes back what it did."""
    statements = ["BEGIN", "INSERT INTO e VALUES (1, 2, 'x')", "SELECT q(x), w(s) FROM e",
                  "INSERT INTO e SELECT id, q(x), w(s) FROM a WHERE p(x)",
                  "CREATE TEMP TABLE z AS SELECT q(x) AS f FROM e", "SELECT f FROM z WHERE p(f)",
                  "SELECT * FROM e WHERE p(x)", "ROLLBACK", "SELECT count(*) FROM e"]
    for sql in statements:
        expected = sides.plain.execute(sql).fetchall()
        assert sorted(sides.session.execute(sql).fetchall(), key=repr) == \
            sorted(expected if sql.split()[0] not in ("BEGIN", "ROLLBACK") else [], key=repr), sql


PARAMETERS: list[tuple[str, Any]] = [
    ("SELECT q(?) AS f, x FROM a WHERE p(x) AND x > ?", [3, 2]),
    ("SELECT q($k) AS f FROM a WHERE x = $j", {"k": 3, "j": 2}),
    ("SELECT w(?) AS f", ["a' OR 1=1"]),
    ("SELECT q(?) AS f", [None]),
    ("SELECT x FROM a WHERE x IN (SELECT unnest(?)) AND p(x)", [[1, 2, 7]]),
    ("SELECT q(x) AS f FROM a ORDER BY f, id LIMIT ?", [3]),
]


@pytest.mark.parametrize(("sql", "given"), PARAMETERS)
def test_parameters(sql: str, given: Any, sides: Sides) -> None:
    found = sides.session.execute(sql, given).fetchall()
    assert found == sides.plain.execute(sql, given).fetchall()


JOINS = ("JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "ASOF JOIN")


@pytest.mark.parametrize("join", JOINS)
def test_a_join_on_labels_asks_one_call_an_input(join: str) -> None:
    """Two tables of 10,000 rows: 7,000 distinct inputs, and not 100,000,000 pairs."""
    tables = ("CREATE TABLE m AS SELECT i::INTEGER AS id, (i % 5000)::INTEGER AS x "
              "FROM range(10000) t(i); "
              "CREATE TABLE n AS SELECT i::INTEGER AS id, (i % 7000)::INTEGER AS x "
              "FROM range(10000) t(i)")
    on = "label(m.x) = label(n.x)" + (" AND m.id >= n.id" if join == "ASOF JOIN" else "")
    sql = f"SELECT count(*) FROM m {join} n ON {on}"
    asked: list[int] = []

    def label(values: list[int]) -> list[int]:
        asked.extend(values)
        return [value + 1 for value in values]

    with Session(config={"cache": False, "statement_timeout": 20}) as session:
        session.register_model(label, task="predict", input="INTEGER", output="INTEGER")
        session.execute(tables)
        found = session.execute(sql).fetchall()
    with duckdb.connect() as plain:
        plain.execute(tables)
        assert found == plain.execute(sql.replace("label", "1 + ")).fetchall()
    assert sorted(asked) == list(range(7000))
