"""`mlsql.connect`, and the session that `mlsql.sql` and `mlsql.execute` share in a process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mlsql.result import Result
from mlsql.session import Session

_lock = threading.Lock()
_session: list[Session] = []


def connect(
    path: str = ":memory:", read_only: bool = False, config: Mapping[str, Any] | None = None
) -> Session:
    """A session on a database file, made if absent, or on a database in memory.

    `config` holds settings of mlsql and of DuckDB by name.
    """
    return Session(path, read_only=read_only, config=config)


def default_session() -> Session:
    """The session of this process: in memory, opened when first needed."""
    with _lock:
        if not _session:
            _session.append(Session())
        return _session[0]


def register(name: str, rows: Any) -> None:
    """Make a DataFrame, Arrow table, or anything with an Arrow stream a table of that name."""
    default_session().register(name, rows)


def register_model(model: Any, name: str | None = None, **options: Any) -> None:
    """Make a callable over a batch of inputs a model of the process's own session."""
    default_session().register_model(model, name=name, **options)


def interrupt() -> None:
    """From any thread: end the statement that runs in the process's own session."""
    default_session().interrupt()


def sql(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> Result:
    """The rows of a statement in the process's own session; it runs when they are asked for."""
    return default_session().sql(statement, parameters)


def execute(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> Result:
    """Run statements now in the process's own session; the last one's rows."""
    return default_session().execute(statement, parameters)
