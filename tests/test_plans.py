"""Golden plans: text in plans/*.sql, a statement and its plan, so that a new case is text only.

A case is

    # what it shows
    SELECT sq(x) FROM t WHERE big(x);
    s0 WHERE: SELECT DISTINCT x AS a0, …      candidates of a stage
      out_0 = big(a0)                         its steps in order, each with its guard if any
      out_1 = sq(a0) if (out_0)
      accept (out_0)                          the rows that pass
    final: SELECT …                           what DuckDB runs in the end

A model's outputs stand in a store m0, m1 …, and m0[x] is the output that it has for x, in truth a
scalar subquery; a look-up that records what it misses is f0, f1 …; a table that is made beforehand
is rows0, rows1 …. After a change that is meant to change plans, run
`MLSQL_WRITE_PLANS=1 pytest tests/test_plans.py`, and read the difference.

Each statement is also run, and its rows compared with those that the recording look-ups alone give,
which are right by construction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlsql.parser.dialect import parse, to_sql
from mlsql.planner.nodes import Materialise, Plan, Stage
from mlsql.planner.plan import plan
from mlsql.planner.steps import order_of
from tests.sessions import Asking, make_video

FOLDER = Path(__file__).with_name("plans")
TABLE = "CREATE OR REPLACE TABLE t AS SELECT x, x % 3 AS y FROM range(8) t(x)"


@dataclass(frozen=True)
class Case:
    """A statement, what it shows, and the lines of its plan."""

    file: str
    title: str
    sql: str
    lines: tuple[str, ...]


def read(path: Path) -> Iterator[Case]:
    """The cases of a file; they stand apart by empty lines."""
    for block in path.read_text("utf-8").strip().split("\n\n"):
        lines = block.splitlines()
        titles = [line[1:].strip() for line in lines if line.startswith("#")]
        text = "\n".join(lines[len(titles):])
        sql, end, plan_text = text.partition(";\n")
        if not end:
            sql, plan_text = text.rstrip(";"), ""
        yield Case(path.name, " ".join(titles), sql, tuple(plan_text.splitlines()))


CASES = [case for path in sorted(FOLDER.glob("*.sql")) for case in read(path)]


def drawn(planned: Plan) -> Iterator[str]:
    """The lines of a plan."""
    for node in planned.nodes:
        name = node.table if isinstance(node, Materialise) else node.name
        if isinstance(node, Materialise):
            yield f"{name}: {to_sql(node.query)}"
        else:
            yield f"{name} {node.place}: {to_sql(node.rows)}"
            yield from _steps(node)
    for lookup in planned.lookups:
        yield f"{lookup.name}: looks up {lookup.spec.name} in {lookup.store}"
    yield from (f"note: {note}" for note in planned.notes)
    yield f"final: {to_sql(planned.final)}"


def _steps(stage: Stage) -> Iterator[str]:
    order = order_of(stage)
    for place, (number, guard) in enumerate(zip(order.calls, order.guards, strict=True)):
        call = stage.calls[number]
        wanted = f" if {guard}" if guard else ""
        yield f"  out_{place} = {call.spec.name}({call.column}){wanted}"
    if order.accept:
        yield f"  accept {order.accept}"
    if stage.early:
        yield f"  ends after {stage.early.rows} rows, evaluated ones in {stage.early.table}"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A session with the tables t(x, y), u(y, z) and the pictures v(frame_id, ts, frame)."""
    with Asking() as asking:
        fill(asking, tmp_path_factory.mktemp("plans"))
        yield asking


def fill(s: Asking, folder: Path) -> None:
    """Make the tables that the cases read."""
    s.run(TABLE)
    s.run("CREATE TABLE u AS SELECT y, 'z' || y AS z FROM range(5) u(y)")
    s.run(f"CREATE TABLE v AS SELECT frame_id, ts, frame FROM '{make_video(folder)}'")


def lines_of(s: Asking, sql: str) -> tuple[str, ...]:
    """The plan of a statement, names shortened to what tells them apart."""
    runner = s.session._runner
    runner._measured = None  # what was measured before would change the order of steps
    planned = plan(parse(sql), runner.context(), "golden")
    return tuple(_shortened(line) for line in drawn(planned))


_INSIDE = r"[^()]"
for _ in range(6):  # parentheses in parentheses
    _INSIDE = rf"(?:[^()]|\((?:{_INSIDE})*\))"
_INSIDE += "*?"
_LOOK_UP = re.compile(rf"\(SELECT (m\d)\.mlsql_out FROM \1 WHERE \1\.mlsql_arg "
                      rf"IS NOT DISTINCT FROM ({_INSIDE})\)")


_WORDS = re.compile(r"\[(?:'[^']*'(?:, )?){7,}\]")
_LISTS = re.compile(r"\[(?:\[[^\[\]]*\](?:, )?){7,}\]")


def _shortened(line: str) -> str:
    line = re.sub("golden_", "", line, flags=re.IGNORECASE)
    line = _LISTS.sub("[…]", _WORDS.sub("[…]", line))  # the vocabulary is not what is tested
    while True:
        shorter = _LOOK_UP.sub(r"\1[\2]", line)
        if shorter == line:
            return line
        line = shorter


@pytest.fixture(scope="module")
def rewritten(s: Asking) -> None:
    """The files anew, where the environment asks for it."""
    if os.environ.get("MLSQL_WRITE_PLANS"):
        for path in sorted(FOLDER.glob("*.sql")):
            blocks = ["\n".join([f"# {case.title}", f"{case.sql};", *lines_of(s, case.sql)])
                      for case in read(path)]
            path.write_text("\n\n".join(blocks) + "\n", "utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.title}")
def test_plan(s: Asking, rewritten: None, case: Case) -> None:
    found = lines_of(s, case.sql)
    if not os.environ.get("MLSQL_WRITE_PLANS"):
        assert found == case.lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.title}")
def test_rows(s: Asking, case: Case) -> None:
    peeled, recorded = (_ran(s, case.sql, peels) for peels in (True, False))
    assert peeled == recorded
    assert peeled, "a case without rows shows little"


def _ran(s: Asking, sql: str, peels: bool) -> list[tuple[object, ...]]:
    """The rows of a query, or those that a statement leaves in its table."""
    s.session._runner.peels = peels
    try:
        rows = s.rows(sql)
    finally:
        s.session._runner.peels = True
    words = sql.split()
    if words[0] not in ("INSERT", "UPDATE", "DELETE", "CREATE"):
        ordered = re.search(r" ORDER BY [^)]*$", sql)
        return rows if ordered else sorted(rows, key=repr)
    table = "made" if words[0] == "CREATE" else "t"
    left = s.rows(f"FROM {table} ORDER BY ALL")
    s.run(f"{TABLE}; DROP TABLE IF EXISTS made")
    return left


def test_there_are_many_cases_and_no_title_twice() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) >= 40 and len(set(titles)) == len(titles) and all(titles)
    assert not [case for case in CASES if not case.lines], "a case has no plan yet"


def test_a_call_within_calls_is_written_in_proportion(root: Path) -> None:
    """Each level may raise, and is checked for it; twice as deep is not twice as long each time."""
    with Asking() as asking:
        runner = asking.session._runner
        sizes = [len(to_sql(runner.planned(parse(
            f"SELECT {'up(' * depth}x::VARCHAR{')' * depth} FROM range(3) t(x)"), "").final))
            for depth in (4, 8)]
    assert sizes[1] < 4 * sizes[0]
