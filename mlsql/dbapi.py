"""mlsql as a PEP 249 driver.

>>> import mlsql.dbapi
>>> with mlsql.dbapi.connect() as connection:
...     cursor = connection.cursor()
...     cursor.execute("SELECT ? + 1", [41]).fetchone()
(42,)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from mlsql.cursor import Cursor
from mlsql.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from mlsql.session import Session
from mlsql.typeobjects import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections; a cursor belongs to one thread at a time."""
paramstyle = "qmark"
"""Besides ?, statements may have $1 with a sequence and $name with a mapping."""


class Connection(Session):
    """A session with autocommit off, unless asked for: what is written waits for `commit`.

    As a context manager it commits at the end, rolls back after an error, and closes.
    """

    def close(self) -> None:
        """Roll back what was not committed and close; a second time is an error."""
        self.check_usable()
        super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.closed:
            return
        try:
            if error is None:
                self.commit()
        finally:
            self.close()


def connect(
    path: str = ":memory:", read_only: bool = False, config: Mapping[str, Any] | None = None,
    *, autocommit: bool = False,
) -> Connection:
    """A connection to a database file, made if absent, or to a database in memory.

    `config` holds settings of mlsql and of DuckDB by name.
    """
    return Connection(path, read_only=read_only, config=config, autocommit=autocommit)


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
