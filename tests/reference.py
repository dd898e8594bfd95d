"""The reference test's two sides: mlsql with registered models, and plain DuckDB with functions.

    with Sides() as sides:
        outcome = sides.compare("SELECT x FROM a WHERE p(x)")
        outcome.verdict        # see Outcome

Each model is a Python function of one value. DuckDB gets it as a scalar function, mlsql as a model
that writes down what it is asked. With nulls=True some inputs have no answer, and NULL is theirs.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb

from mlsql.errors import Error
from mlsql.session import Session

TABLES = """
CREATE OR REPLACE TABLE a (id INTEGER, x INTEGER, y INTEGER, s VARCHAR, d DOUBLE);
INSERT INTO a VALUES (1, 1, 4, 'ab', 0.5), (2, 2, 4, 'ab', 1.5), (3, 2, NULL, 'c', NULL),
    (4, NULL, 1, NULL, 2.5), (5, 5, 5, 'dog', 2.5), (6, 7, 0, '', -1.0), (7, 7, 0, 'cat', 8.0),
    (8, -3, 9, 'ab', 0.0), (9, 4, 4, 'dog', NULL), (10, NULL, NULL, 'c', 3.0);
CREATE OR REPLACE TABLE b (id INTEGER, x INTEGER, k INTEGER, s VARCHAR);
INSERT INTO b VALUES (1, 1, 0, 'ab'), (2, 2, 1, 'bird'), (3, 2, 1, 'c'), (5, 6, NULL, NULL),
    (7, NULL, 3, 'dog'), (9, 9, 8, 'dog'), (11, 7, 8, 'DOG');
CREATE OR REPLACE TABLE c (id INTEGER, y INTEGER, s VARCHAR, "Odd Case" INTEGER);
INSERT INTO c VALUES (1, 4, 'BA', 3), (2, 1, NULL, 2), (4, 9, 'C', NULL), (6, 4, 'cat', 7);
CREATE OR REPLACE TABLE e (id INTEGER, x INTEGER, s VARCHAR);
"""

COLUMNS = {
    "a": {"id": "INTEGER", "x": "INTEGER", "y": "INTEGER", "s": "VARCHAR", "d": "DOUBLE"},
    "b": {"id": "INTEGER", "x": "INTEGER", "k": "INTEGER", "s": "VARCHAR"},
    "c": {"id": "INTEGER", "y": "INTEGER", "s": "VARCHAR", '"Odd Case"': "INTEGER"},
    "e": {"id": "INTEGER", "x": "INTEGER", "s": "VARCHAR"},
}


@dataclass(frozen=True)
class Fake:
    """A model: its name, its types, what it answers to a value, and to which values it has none."""

    name: str
    takes: str
    gives: str
    answer: Callable[[Any], Any]
    fails: Callable[[Any], bool]


MODELS = (
    Fake("p", "INTEGER", "BOOLEAN", lambda x: x % 3 != 1, lambda x: x % 5 == 4),
    Fake("q", "INTEGER", "INTEGER", lambda x: (x * 7 + 2) % 10, lambda x: x % 7 == 6),
    Fake("w", "VARCHAR", "VARCHAR", lambda s: s[::-1].upper(), lambda s: s in ("", "c", "BA")),
    Fake("r", "INTEGER", "DOUBLE", lambda x: x * 0.5 - 1.0, lambda x: x == 2),
    Fake("t", "INTEGER", "STRUCT(u INTEGER, v VARCHAR)",
         lambda x: {"u": x % 4, "v": "odd" if x % 2 else None}, lambda x: x % 8 == 5),
    Fake("l", "INTEGER", "INTEGER[]", lambda x: list(range(abs(x) % 4)), lambda x: x % 6 == 3),
)


@dataclass(frozen=True)
class Outcome:
    """How one statement came out.

    `verdict`: 'equal'; 'wrong' rows, names or types; 'error', where DuckDB has none; 'calls', more
    than one of an input, or one of NULL; 'unplanned', equal, but only because a plan that did not
    bind was given up; or 'rejected' by DuckDB itself.
    """

    verdict: str
    detail: str = ""
    calls: int = 0
    extra: int = 0  # inputs that plain DuckDB never asked for


@dataclass
class Sides:
    """A plain DuckDB and a session of mlsql, with the same tables and the same models."""

    nulls: bool = False
    asked: collections.Counter[tuple[str, Any]] = field(default_factory=collections.Counter)
    wanted: set[tuple[str, Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plain = duckdb.connect()
        for fake in MODELS:
            self.plain.create_function(
                fake.name, self._wanting(fake), [duckdb.sqltype(fake.takes)],
                duckdb.sqltype(fake.gives), null_handling="special")
        self._open_session()
        self.restore()

    def _open_session(self) -> None:
        self.session = Session(config={"cache": False,
                                       "on_error": "null" if self.nulls else "raise"})
        for fake in MODELS:
            self.session.register_model(
                self._asking(fake), fake.name, task="predict", input=fake.takes,
                output=fake.gives)

    def _wanting(self, fake: Fake) -> Callable[[Any], Any]:
        def of_one(value: Any) -> Any:
            if value is None:
                return None
            self.wanted.add((fake.name, value))
            return self._answer(fake, value)
        return of_one

    def _asking(self, fake: Fake) -> Callable[[list[Any]], list[Any]]:
        def of_many(values: list[Any]) -> list[Any]:
            assert values, "a model was asked nothing"
            self.asked.update((fake.name, value) for value in values)
            return [self._answer(fake, value) for value in values]
        return of_many

    def _answer(self, fake: Fake, value: Any) -> Any:
        return None if self.nulls and fake.fails(value) else fake.answer(value)

    def restore(self) -> None:
        """The tables as they were."""
        self.plain.execute(TABLES)
        self.session.execute(TABLES)

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()
        self.plain.close()

    def reference(self, sql: str) -> Rows | None:
        """What plain DuckDB answers, None where it refuses or fails."""
        self.wanted.clear()
        try:
            return rows_of(self.plain.execute(sql))
        except (duckdb.Error, RuntimeError):
            return None

    def compare(self, sql: str, expected: Rows | None = None, *, peels: bool = True,
                off: str | None = None, limited: bool = False, ordered: bool = False) -> Outcome:
        """Run the statement through mlsql and hold it against what plain DuckDB answered."""
        expected = self.reference(sql) if expected is None else expected
        if expected is None:
            return Outcome("rejected")
        self.asked.clear()
        try:
            with self._mode(peels, off, limited), self._at_most(60):
                result = self.session.execute(sql)
                found = rows_of(result)
        except Error as error:
            self._recover()
            return Outcome("error", f"{type(error).__name__}: {error}")
        verdict, detail = _judged(expected, found, ordered)
        if verdict == "equal":
            verdict, detail = self._judge_calls(result.stats.calls)
        if verdict == "equal" and any("did not bind" in w for w in result.warnings):
            verdict = "unplanned"
        return Outcome(verdict, detail, result.stats.calls, len(set(self.asked) - self.wanted))

    def _recover(self) -> None:
        """Another session where DuckDB has given up the database of this one."""
        try:
            self.session.execute("SELECT 1")
        except Error:
            with contextlib.suppress(Error, duckdb.Error):
                self.session.close()
            self._open_session()
            self.session.execute(TABLES)

    def _judge_calls(self, counted: int) -> tuple[str, str]:
        nulls = [name for name, value in self.asked if value is None]
        if nulls:
            return "calls", f"asked of NULL: {nulls[:5]}"
        repeated = [f"{n}({v!r})" for (n, v), times in self.asked.items() if times > 1]
        # A batch with an input that has no answer is split and asked again, and counted once.
        if repeated and not self.nulls:
            return "calls", f"asked again: {repeated[:5]}"
        if counted != len(self.asked):
            return "calls", f"{counted} calls counted, {len(self.asked)} inputs asked"
        return "equal", ""

    @contextlib.contextmanager
    def _mode(self, peels: bool, off: str | None, limited: bool) -> Iterator[None]:
        runner = self.session._runner
        runner.peels, runner.rules_off = peels, frozenset({off} if off else ())
        runner.settings.set("max_model_calls", 1_000_000_000 if limited else 0)
        try:
            yield
        finally:
            runner.peels, runner.rules_off = True, frozenset()
            runner.settings.reset("max_model_calls")

    @contextlib.contextmanager
    def _at_most(self, seconds: float) -> Iterator[None]:
        """No statement_timeout: plans are others under one."""
        timer = threading.Timer(seconds, self.session.interrupt)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@dataclass(frozen=True)
class Rows:
    """An answer: column names, their types, and the rows."""

    names: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]


def rows_of(result: Any) -> Rows:
    """The answer that a DuckDB connection or a result of mlsql holds."""
    description = result.description or []
    rows = result.fetchall() if description else []
    return Rows([d[0] for d in description], [str(d[1]) for d in description], rows)


def modes() -> dict[str, dict[str, Any]]:
    """Every way of running a statement that must give the same answer, by name."""
    from mlsql.planner.driver import rules

    found: dict[str, dict[str, Any]] = {"peeled": {}, "recorded": {"peels": False},
                                        "under a limit": {"limited": True}}
    for name in [*rules(), "merge_tail"]:
        found[f"without {name}"] = {"off": name}
    return found


def _judged(expected: Rows, found: Rows, ordered: bool) -> tuple[str, str]:
    mine, others = (expected.rows, found.rows) if ordered else (
        sorted(expected.rows, key=repr), sorted(found.rows, key=repr))
    # By their text, so that 1 is not TRUE and 1.0 is not 1.
    if list(map(repr, mine)) != list(map(repr, others)):
        return "wrong", f"expected {mine[:6]} ({len(mine)}), found {others[:6]} ({len(others)})"
    if expected.names != found.names:
        return "wrong", f"expected columns {expected.names}, found {found.names}"
    if expected.types != found.types:
        return "wrong", f"expected types {expected.types}, found {found.types}"
    return "equal", ""
