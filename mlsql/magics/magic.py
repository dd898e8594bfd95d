"""The magic itself: runs the statements of a line or cell, and hands over the last one's rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from traitlets import Bool, Int, observe
from traitlets.config.configurable import Configurable

from mlsql.errors import Error, ProgrammingError
from mlsql.html import MAX_ROWS, fragment
from mlsql.magics.bar import bar_of
from mlsql.magics.connections import Connections
from mlsql.magics.line import Asked, read, usage
from mlsql.magics.snippets import Snippets
from mlsql.magics.tables import persist
from mlsql.magics.variables import bound, inserted
from mlsql.parser.reshape import limited
from mlsql.result import Result
from mlsql.session import Session
from mlsql.shell.complaint import complaint
from mlsql.shell.statements import Statement, split


class MlsqlMagic(Configurable):
    """SQL in a notebook. `%config MlsqlMagic` lists these, with what they are now."""

    autopandas = Bool(False, help="hand over pandas DataFrames instead of results").tag(config=True)
    autopolars = Bool(False, help="hand over polars DataFrames instead of results").tag(config=True)
    displaylimit = Int(MAX_ROWS, min=0, allow_none=True,
                       help="most rows shown of a result; 0: all that fit").tag(config=True)
    autolimit = Int(0, min=0, allow_none=True,
                    help="most rows a query may give; 0: all").tag(config=True)
    feedback = Int(1, help="0: say nothing; 1: what was done; 2: each statement too"
                   ).tag(config=True)

    def __init__(self, shell: Any = None, **more: Any) -> None:
        super().__init__(**more)
        self._shell = shell
        self._connections = Connections()
        self._snippets = Snippets()

    @observe("autopandas", "autopolars")
    def _one_kind_of_frame(self, change: Any) -> None:
        if change["new"]:
            other = "autopolars" if change["name"] == "autopandas" else "autopandas"
            setattr(self, other, False)

    def magic(self) -> Callable[..., Any]:
        """The function behind %mlsql and %%mlsql."""

        def mlsql(line: str, cell: str | None = None, local_ns: Any = None) -> Any:
            """Run SQL over models; `%mlsql --help` says what goes before it."""
            names = {**self._shell.user_ns, **(local_ns or {})}
            try:
                return self._run(line, cell, names)
            except Error as error:
                raise _short(error, complaint(error, None)) from None
            except KeyboardInterrupt as stop:
                raise _short(stop, "stopped: what was computed is kept") from None

        mlsql.__module__ = "mlsql.magics"
        return mlsql

    def bundle(self, result: Result, **_: Any) -> dict[str, str]:
        """A result as the notebook shows it; its text is its own."""
        failed = result._repr_mimebundle_()
        return failed or {"text/html": fragment(result, self.displaylimit or None)}

    # --- a line or cell -------------------------------------------------------------------

    def _run(self, line: str, cell: str | None, names: Mapping[str, Any]) -> Any:
        asked = read(line, cell, lambda word: self._connections.names_one(word, names))
        if self._said(asked):
            return None
        self._connect(asked, names)
        sql = asked.sql
        if (path := asked.given("file")) is not None:
            sql = _read(path) + ("\n" + sql if sql.strip() else "")
        how = next((o for o in ("persist", "persist-replace", "append") if asked.given(o)), None)
        if how is not None:
            self._tell(1, persist(self._connections.session(), asked.given("table") or "", names,
                                  how, index=not asked.given("no-index")))
            return None
        sql = self._snippets.composed(sql, asked)
        if asked.given("no-execute") or not sql.strip():
            return None
        return self._handed_over(self._all(inserted(sql, names), names), asked)

    def _said(self, asked: Asked) -> bool:
        """Whether the options only ask about or close connections."""
        if asked.given("help"):
            print(usage())
        elif asked.given("connections"):
            print(self._connections.listed())
        elif (name := asked.given("close")) is not None:
            self._connections.close(name)
            self._tell(1, f"closed {name}")
        else:
            return False
        return True

    def _connect(self, asked: Asked, names: Mapping[str, Any]) -> None:
        alias, arguments = asked.given("alias"), asked.given("connection_arguments")
        if asked.connection is None:
            if alias or arguments:
                raise ProgrammingError("-A and -a go with a connection, as in mlsql:///films.db")
            return
        before = self._connections.current
        self._connections.use(asked.connection, names, alias, arguments or {})
        if self._connections.current != before:
            self._tell(1, f"connection: {self._connections.current}")

    def _all(self, sql: str, names: Mapping[str, Any]) -> Result | None:
        """Run every statement; the last one's result."""
        session = self._connections.session()
        result = None
        for statement in split(sql):
            self._tell(2, statement.text)
            try:
                result = self._one(session, statement, names)
            except Error as error:
                raise _short(error, complaint(error, statement)) from None
        return result

    def _one(self, session: Session, statement: Statement, names: Mapping[str, Any]) -> Result:
        text, values = bound(self._at_most(statement.text), names)
        began, bar, stopped = time.monotonic(), bar_of(self._shell), True
        try:
            with session.progress(bar):
                result = session.sql(text, values)
                result.outcome()
            stopped = False
        finally:
            bar.close(stopped)
        if _has_no_rows(result):
            self._tell_of(result, time.monotonic() - began)
        return result

    def _tell_of(self, result: Result, seconds: float) -> None:
        """What a statement did that has no rows to show."""
        count = result.changes
        done = "" if count is None else f" · {count:,} row{'' if count == 1 else 's'} changed"
        self._tell(1, f"OK{done} · {seconds:.2f} s")
        for warning in result.warnings:
            self._tell(1, f"warning: {warning}")

    def _at_most(self, sql: str) -> str:
        """The statement, limited to `autolimit` rows if it is a query."""
        if not self.autolimit:
            return sql
        try:
            return limited(sql, self.autolimit)
        except Error:
            return sql  # no query

    def _handed_over(self, result: Result | None, asked: Asked) -> Any:
        """The result, in the form and to the variable that was asked for."""
        if result is None or _has_no_rows(result):
            if asked.target is not None:
                self._shell.user_ns[asked.target] = None
            return None
        value: Any = result
        if self.autopandas:
            value = result.df()
        elif self.autopolars:
            value = result.pl()
        if asked.target is not None:
            self._shell.user_ns[asked.target] = value
        return value if asked.shows else None

    def _tell(self, level: int, words: str) -> None:
        if self.feedback >= level:
            print(words)


def _has_no_rows(result: Result) -> bool:
    return result.description is None or result.changes is not None


def _short(error: BaseException, words: str) -> BaseException:
    """The same exception, which a notebook shows as these words instead of a traceback."""
    if not hasattr(error, "_render_traceback_"):
        lines = words.split("\n")
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgrammingError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
