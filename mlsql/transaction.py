"""Where a session stands between BEGIN and COMMIT, and who says BEGIN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mlsql.parser.effects import writes
from mlsql.parser.statements import Statement

if TYPE_CHECKING:
    import duckdb

    from mlsql.exec.statement import Runner


class Transaction:
    """With autocommit off, whatever may write opens a transaction, as PEP 249 has it.

    What only reads does not: a failed query then leaves nothing to roll back, and a long one keeps
    nothing open.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, autocommit: bool) -> None:
        self._connection = connection
        self.autocommit = autocommit
        self.is_open = False

    @contextmanager
    def holding(self, statement: Statement, runner: Runner) -> Iterator[None]:
        """Inside, the statement runs, in a transaction that is opened for it if it should be.

        Where such a statement fails, nothing is left to be rolled back. A statement over models
        begins it itself: planning tries what may fail, and may run more than once.
        """
        opens = not self.autocommit and not self.is_open and writes(statement)
        runner.left_open = False
        runner.leaves_open = opens and runner.concerns([statement])
        if opens and not runner.leaves_open:
            self._connection.execute("BEGIN TRANSACTION")
            self.is_open = True
        try:
            yield
        except BaseException:
            if opens:
                self.is_open = True
                self.rollback()
            raise
        self.is_open = self.is_open or runner.left_open
        if statement.opens_transaction:
            self.is_open = True
        elif statement.ends_transaction:
            self.is_open = False

    @contextmanager
    def around(self) -> Iterator[None]:
        """One transaction around several statements, unless one is open: all of them or none."""
        if self.is_open:
            yield
            return
        self._connection.execute("BEGIN TRANSACTION")
        self.is_open = True
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        if self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Keep what was written since it was opened; one that cannot be kept is rolled back."""
        import duckdb

        if not self.is_open:
            return
        try:
            self._connection.execute("COMMIT")
        except duckdb.Error:
            self.rollback()
            raise
        self.is_open = False

    def rollback(self) -> None:
        """Undo what was written since it was opened; nothing where none is."""
        import duckdb

        if self.is_open:
            with suppress(duckdb.TransactionException):  # DuckDB ended it by itself
                self._connection.execute("ROLLBACK")
        self.is_open = False
