"""The one entry: SQL in, results out. Every front end goes through a Session."""

from __future__ import annotations

import difflib
import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mlsql.config import SETTINGS, Settings, known
from mlsql.errors import Interrupted, ProgrammingError, Warning
from mlsql.exec.statement import Answer, Runner
from mlsql.exec.stats import Stats
from mlsql.foreign import own_errors
from mlsql.parser.dialect import to_sql
from mlsql.parser.parameters import Parameters, literal
from mlsql.parser.statements import Statement, number_markers, read_explain, read_set, split
from mlsql.result import Outcome, Result

if TYPE_CHECKING:
    import duckdb

_FILES = {".mp4", ".avi", ".mkv", ".mov", ".jpg", ".jpeg", ".png"}


class Session:
    """A database, the models known to it, and its settings.

    `config` holds settings of mlsql and of DuckDB by name. One statement runs at a time;
    `interrupt` may be called from any thread.
    """

    def __init__(
        self, path: str = ":memory:", *, read_only: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        given = dict(config or {})
        own = {k: v for k, v in given.items() if k.lower() in SETTINGS}
        others = {k: v for k, v in given.items() if k.lower() not in SETTINGS}
        self.settings = Settings(own)
        _refuse_media(path)
        self.connection = _opened(path, read_only, others)
        self._lock = threading.RLock()
        self._runner = Runner(self.connection, self.settings)
        self._in_transaction = False

    # --- statements -----------------------------------------------------------------------

    def execute(self, sql: str, parameters: Parameters = None) -> Result:
        """Run the statements now, in order; the result is the last one's."""
        outcome = self._run_all(sql, parameters)
        return Result(lambda: outcome, lambda: self.sql(f"EXPLAIN {sql}", parameters),
                      self.interrupt, self._lock)

    def sql(self, sql: str, parameters: Parameters = None) -> Result:
        """The same, run when rows are first asked for."""
        return Result(lambda: self._run_all(sql, parameters),
                      lambda: self.sql(f"EXPLAIN {sql}", parameters), self.interrupt,
                      self._lock)

    def _run_all(self, sql: str, parameters: Parameters) -> Outcome:
        statements = split(sql)
        if parameters and len(statements) > 1:
            raise ProgrammingError("parameters go with a single statement")
        outcome = Outcome(None)
        with self._lock:
            for statement in statements:
                outcome = self._run(statement, parameters)
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
        with own_errors(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", Warning)
            answer = self._answer(statement, parameters)
        said = tuple(str(w.message) for w in caught if issubclass(w.category, Warning))
        for w in caught:
            if not issubclass(w.category, Warning):
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        outcome = Outcome(answer.rows, answer.stats, (*answer.notes, *said), answer.errors,
                          names=answer.names)
        return outcome

    def _answer(self, statement: Statement, parameters: Parameters) -> Answer:
        runner = self._runner
        explain = read_explain(statement)
        if explain is not None and runner.concerns(split(explain.inner)):
            return runner.explain(explain, parameters, not self._in_transaction)
        if runner.concerns([statement]):
            text = number_markers(statement)
            return runner.run(text, parameters, owns_transaction=not self._in_transaction)
        answer = runner.plain(statement, parameters)
        if statement.opens_transaction:
            self._in_transaction = True
        elif statement.ends_transaction:
            self._in_transaction = False
        return answer

    def _refuse_slip(self, name: str) -> None:
        """A setting that neither knows, and that is nearly one of ours."""
        theirs = self.connection.execute(
            "SELECT count(*) FROM duckdb_settings() WHERE name = lower($1)", [name]).fetchall()
        if difflib.get_close_matches(name.lower(), SETTINGS, 1, 0.75) and theirs == [(0,)]:
            known(name)

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

    @property
    def last_stats(self) -> Stats:
        """The cost of the last statement that asked a model."""
        return self._runner.last.stats

    # --- its end --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """From any thread: end the statement that runs; what was computed is kept."""
        self._runner.interrupt()

    def close(self) -> None:
        """Close the database, the models and the cache."""
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


__all__ = ["Interrupted", "Session"]
