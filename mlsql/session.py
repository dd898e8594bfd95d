"""The one entry: SQL in, results out. Every front end goes through a Session."""

from __future__ import annotations

import difflib
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mlsql.binding import adapted
from mlsql.config import SETTINGS, Settings, known
from mlsql.cursor import Cursor, PEP249Errors
from mlsql.errors import InterfaceError, Interrupted, ProgrammingError, Warning
from mlsql.exec.prepared import Call, Prepared
from mlsql.exec.progress import Listener, Snapshot
from mlsql.exec.statement import Answer, Runner
from mlsql.exec.stats import Stats
from mlsql.foreign import held, interruptible, only_own_errors, own_errors, rereadable
from mlsql.parser.dialect import to_sql
from mlsql.parser.effects import counts_changes
from mlsql.parser.parameters import Parameters, literal
from mlsql.parser.place import placing
from mlsql.parser.reshape import at_once, limited
from mlsql.parser.statements import Statement, number_markers, read_explain, read_set, split
from mlsql.result import Outcome, Result
from mlsql.transaction import Transaction
from mlsql.variables import Scans, variables_of_caller

if TYPE_CHECKING:
    import duckdb

_FILES = {".mp4", ".avi", ".mkv", ".mov", ".jpg", ".jpeg", ".png"}


class Session(PEP249Errors):
    """A database, the models known to it, and its settings.

    `config` holds settings of mlsql and of DuckDB by name. One statement runs at a time;
    `interrupt` may be called from any thread. Without `autocommit`, what a statement writes waits
    for `commit`.
    """

    def __init__(
        self, path: str = ":memory:", *, read_only: bool = False,
        config: Mapping[str, Any] | None = None, autocommit: bool = True,
    ) -> None:
        given = dict(config or {})
        own = {k: v for k, v in given.items() if k.lower() in SETTINGS}
        others = {k: v for k, v in given.items() if k.lower() not in SETTINGS}
        self.settings = Settings(own)
        _refuse_media(path)
        self.connection = _opened(path, read_only, others)
        self._lock = threading.RLock()
        self._runner = Runner(self.connection, self.settings)
        self._prepared = Prepared(self._runner)
        self._transaction = Transaction(self.connection, autocommit)
        self._scans = Scans(self.connection, others)
        self._process = os.getpid()
        self.closed = False
        self.on_progress: Listener | None = None
        """Called with a `Snapshot` while a statement asks models; see `mlsql.exec.progress`."""

    # --- statements -----------------------------------------------------------------------

    def execute(self, sql: str, parameters: Parameters = None) -> Result:
        """Run the statements now, in order; the result is the last one's."""
        self.check_usable()
        tables = variables_of_caller(sql)
        outcome = interruptible(
            lambda: self._run_all(sql, parameters, tables), self.interrupt)
        return Result(lambda: outcome, lambda: self._lazy(f"EXPLAIN {sql}", parameters, tables),
                      self.interrupt, self._lock)

    def sql(self, sql: str, parameters: Parameters = None) -> Result:
        """The same, run when rows are first asked for."""
        self.check_usable()
        return self._lazy(sql, parameters, variables_of_caller(sql))

    def _lazy(self, sql: str, parameters: Parameters, tables: Mapping[str, Any]) -> Result:
        return Result(
            lambda: self._run_all(sql, parameters, tables),
            lambda: self._lazy(f"EXPLAIN {sql}", parameters, tables), self.interrupt, self._lock,
            lambda rows, offset: self._lazy(limited(sql, rows, offset), parameters, tables))

    def executemany(self, sql: str, sets: Iterable[Any]) -> int:
        """Run a statement once with each set of parameters, all or none; how many rows changed.

        -1 where it changes none.
        """
        self.check_usable()
        tables = variables_of_caller(sql)
        return interruptible(lambda: self._run_each(sql, sets, tables), self.interrupt)

    def _run_each(self, sql: str, sets: Iterable[Any], tables: Mapping[str, Any]) -> int:
        if len(split(sql)) != 1:
            raise ProgrammingError("executemany takes a single statement")
        changed = -1
        with self._lock, own_errors(), self._transaction.around():
            for text, parameters in at_once(sql, sets):
                changes = self._run_all(text, parameters, tables).changes
                changed += 0 if changes is None else changes + (changed < 0)
        return changed

    def _run_all(
        self, sql: str, parameters: Parameters, tables: Mapping[str, Any]
    ) -> Outcome:
        self.check_usable()
        statements = split(sql)
        if parameters and len(statements) > 1:
            raise ProgrammingError("parameters go with a single statement")
        outcome = Outcome(None)
        with self._lock, only_own_errors():
            given = adapted(parameters)
            for statement in statements:
                with self._transaction.holding(statement, self._runner), \
                        self._scans.scanned(tables):
                    outcome = self._run(statement, given)
        return outcome

    def _run(self, statement: Statement, parameters: Parameters) -> Outcome:
        setting = read_set(statement)
        if setting is not None and setting.name.lower() not in SETTINGS:
            self._refuse_slip(setting.name)
        if setting is not None and setting.name.lower() in SETTINGS:
            if setting.value is None:
                self.settings.reset(setting.name)
            else:
                self.settings.set(setting.name, setting.value)
            return Outcome(None)
        with placing(statement.text), own_errors(), \
                warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", Warning)
            with self._listened():
                answer = self._answer(statement, parameters)
        said = tuple(str(w.message) for w in caught if issubclass(w.category, Warning))
        for w in caught:
            if not issubclass(w.category, Warning):
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        outcome = Outcome(answer.rows, answer.stats, (*answer.notes, *said), answer.errors,
                          False if answer.approximation is None else answer.approximation,
                          None if answer.approximation is None else answer.approximation.interval,
                          names=answer.names, kinds=answer.kinds)
        return self._counted(outcome) if counts_changes(statement) else outcome

    def _counted(self, outcome: Outcome) -> Outcome:
        """What a statement that only changes rows gave: their number, if it has one at all."""
        if outcome.rows is None or outcome.names != ("Count",):
            return outcome
        rows: Any = outcome.rows
        found = rows.fetchall()
        if not found:
            return replace(outcome, rows=None, names=None)
        if not rereadable(rows):
            rows = held(self.connection.sql(f'SELECT {found[0][0]}::BIGINT AS "Count"'))
        return replace(outcome, rows=rows, changes=found[0][0])

    def _answer(self, statement: Statement, parameters: Parameters) -> Answer:
        runner = self._runner
        if statement.ends_transaction:  # nothing is asked before it: an aborted one answers nothing
            return runner.plain(statement, parameters)
        named = self._prepared.read(statement)
        if isinstance(named, Call):
            return self._answer(named.statement, named.parameters)
        if named is not None:
            return named
        explain = read_explain(statement)
        if explain is not None and runner.concerns(split(explain.inner)):
            return runner.explain(explain, parameters, not self._transaction.is_open)
        if runner.concerns([statement]):
            text = number_markers(statement)
            return runner.run(text, parameters, owns_transaction=not self._transaction.is_open)
        return runner.plain(statement, parameters)

    def _refuse_slip(self, name: str) -> None:
        """A setting that neither knows, and that is nearly one of ours."""
        theirs = self.connection.execute(
            "SELECT count(*) FROM duckdb_settings() WHERE name = lower($1)", [name]).fetchall()
        if difflib.get_close_matches(name.lower(), SETTINGS, 1, 0.75) and theirs == [(0,)]:
            known(name)

    # --- as PEP 249 has it ----------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A cursor; all of them share the session's transaction."""
        self.check_usable()
        return Cursor(self)

    def commit(self) -> None:
        """Keep what was written since the transaction began; nothing where there is none."""
        self.check_usable()
        with self._lock, own_errors():
            self._transaction.commit()

    def rollback(self) -> None:
        """Undo what was written since the transaction began; nothing where there is none."""
        self.check_usable()
        with self._lock, own_errors():
            self._transaction.rollback()
            self._runner.forget_catalog()

    @property
    def autocommit(self) -> bool:
        """Whether each statement stands for itself, outside BEGIN and COMMIT.

        Switching it on commits what waits.
        """
        return self._transaction.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value:
            self.commit()
        self._transaction.autocommit = value

    def check_usable(self) -> None:
        """Raise if it is closed, or another process opened it."""
        if self.closed:
            raise InterfaceError("the connection is closed")
        if os.getpid() != self._process:
            raise InterfaceError(
                f"process {self._process} opened this connection, and it cannot be used after a "
                "fork: connect in the process that runs the statements")

    # --- what it knows --------------------------------------------------------------------

    def register(self, name: str, rows: Any) -> None:
        """Make a DataFrame, Arrow table, or anything with an Arrow stream a table of that name."""
        with own_errors():
            self.connection.register(name, rows)

    def unregister(self, name: str) -> None:
        """Take a registered table away."""
        with own_errors():
            self.connection.unregister(name)

    def register_model(self, model: Any, name: str | None = None, **options: Any) -> None:
        """Make a callable over a batch of inputs a model; options as in `mlsql.model`."""
        from mlsql.udfs.callables import spec_of

        spec = spec_of(model, name=name, **options)
        self._runner.check(spec)
        self._runner.registry.register(spec, replace=True)

    @property
    def models(self) -> list[str]:
        """The names of the models there are."""
        return list(self._runner.registry.names())

    def words(self, model: str | None = None, task: str | None = None) -> list[str]:
        """The words that a model understands as labels: its own first; none for an unknown model.

        Where no model is named, those of the models that would be asked: of a task, or of any.
        """
        from mlsql.udfs.vocabulary import suggestions

        tasks = (task,) if task else ("detect", "classify")
        if model is None:
            asked = sorted((spec for spec in self._runner.registry if spec.task in tasks),
                           key=lambda spec: tasks.index(spec.task))
        else:
            asked = [s for s in self._runner.registry if s.name.lower() == model.lower()]
        found: dict[str, None] = {}
        for spec in asked:
            own = {label.lower() for label in spec.labels}
            words = sorted(suggestions(spec))
            found.update(dict.fromkeys([*(word for word in words if word in own), *words]))
        return list(found)

    @property
    def last_stats(self) -> Stats:
        """The cost of the last statement that asked a model."""
        return self._runner.last.stats

    @contextmanager
    def progress(self, listener: Listener) -> Iterator[None]:
        """Inside, `listener` is called with a `Snapshot` while statements ask models."""
        self._runner.listeners.append(listener)
        try:
            yield
        finally:
            self._runner.listeners.remove(listener)

    @contextmanager
    def _listened(self) -> Iterator[None]:
        """For one statement: who listens for good, or the bar that the settings ask for."""
        if self.on_progress is not None:
            with self.progress(self.on_progress):
                yield
        elif self.settings.flag("progress"):
            from mlsql.bar import Bar

            with Bar(sys.stderr, keep=True) as bar, self.progress(bar):
                yield
        else:
            yield

    # --- its end --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """From any thread: end the statement that runs; what was computed is kept."""
        self._runner.interrupt()

    def close(self) -> None:
        """Roll back what was not committed; close the database, the models and the cache."""
        if self.closed or os.getpid() != self._process:
            return
        self.closed = True
        with own_errors():
            self._runner.close()
            self.connection.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _opened(
    path: str, read_only: bool, options: Mapping[str, Any]
) -> duckdb.DuckDBPyConnection:
    """DuckDB's connection; options that it takes only once it is open are set then."""
    import duckdb

    with own_errors():
        try:
            return duckdb.connect(path, read_only=read_only, config=dict(options))
        except duckdb.Error as error:
            if "before the database is started" not in str(error):
                raise
        # What forbids comes last: it would forbid the rest as well.
        late = sorted(options, key=lambda name: name.lower() == "enable_external_access")
        connection = duckdb.connect(path, read_only=read_only)
        for name in late:
            value = to_sql(literal(options[name]))
            connection.execute(f"SET {name} = {value}")
        return connection


def _refuse_media(path: str) -> None:
    """A video given as the database is a slip: say how it is meant."""
    if Path(path).suffix.lower() in _FILES and os.path.exists(path):
        raise ProgrammingError(f"{path} is no database: query it, as in SELECT * FROM '{path}'")


__all__ = ["Interrupted", "Session", "Snapshot"]
