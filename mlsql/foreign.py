"""The boundary to DuckDB: its exceptions become ours, and Ctrl-C reaches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import duckdb

from mlsql import errors

T = TypeVar("T")
_STOPS_WITHIN = 5.0
_LOOKS_EVERY = 0.1
_ASKS_EVERY = 0.25

_OURS: tuple[tuple[type[BaseException], type[errors.Error]], ...] = (
    (duckdb.InterruptException, errors.Interrupted),
    (duckdb.ProgrammingError, errors.ProgrammingError),
    (duckdb.DataError, errors.DataError),
    (duckdb.IntegrityError, errors.IntegrityError),
    (duckdb.NotSupportedError, errors.NotSupportedError),
    (duckdb.InternalError, errors.InternalError),
    (duckdb.OperationalError, errors.OperationalError),
    (duckdb.FatalException, errors.InternalError),
    (duckdb.PermissionException, errors.OperationalError),
    (duckdb.DependencyException, errors.IntegrityError),
    (duckdb.SequenceException, errors.DataError),
)


@contextmanager
def own_errors() -> Iterator[None]:
    """Inside, an exception of DuckDB comes out as ours of the same kind, chained to it."""
    try:
        yield
    except duckdb.Error as error:
        raise translated(error) from error
    except RuntimeError as error:
        if "interrupt" not in str(error).lower():
            raise
        raise errors.Interrupted(str(error)) from error


@contextmanager
def only_own_errors() -> Iterator[None]:
    """The same, and whatever else goes wrong comes out as an error of ours as well."""
    try:
        with own_errors():
            yield
    except errors.Error:
        raise
    except MemoryError as error:
        raise errors.OperationalError(f"out of memory: {error}".rstrip(": ")) from error
    except OSError as error:
        raise errors.OperationalError(str(error)) from error
    except RecursionError as error:
        raise errors.ProgrammingError("the statement is nested too deeply") from error
    except Exception as error:
        raise errors.InternalError(f"{type(error).__name__}: {error}") from error


def translated(error: duckdb.Error, message: str | None = None) -> errors.Error:
    """Our error for one of DuckDB's, with its message or another."""
    text = str(error) if message is None else message
    for theirs, ours in _OURS:
        if isinstance(error, theirs):
            return ours(text)
    return errors.DatabaseError(text)


def placed(
    error: duckdb.Error, connection: duckdb.DuckDBPyConnection, sql: str, parameters: Any = None
) -> duckdb.Error:
    """The same complaint with a picture of its place in the statement, where there is one.

    DuckDB draws it for what is executed, not for relations. Only what did not bind is tried
    again: it has changed nothing, and does not bind now either.
    """
    unbound = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
    if not isinstance(error, unbound) or "\n\nLINE " in str(error):
        return error
    try:
        connection.execute(sql, parameters)
    except unbound as drawn:
        return drawn
    return error


def interruptible(
    work: Callable[[], T], interrupt: Callable[[], object], patience: float = _STOPS_WITHIN
) -> T:
    """What `work` gives. Ctrl-C calls `interrupt` and raises KeyboardInterrupt when work stopped.

    It is called again until then, since it reaches only what has begun. Work that has not stopped
    after `patience` seconds is left to end in its thread.

    DuckDB does not look for signals while it runs, and Python acts on them only in the main
    thread, between its own instructions; so the main thread waits here and another one works.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = threading.Event()
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(work())
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="mlsql-statement", daemon=True).start()
    try:
        # In turns: once polars has put its own handler in, a signal no longer ends a wait.
        while not done.wait(_LOOKS_EVERY):
            pass
    except KeyboardInterrupt:
        stopping = threading.Thread(target=_stop, args=(done, interrupt), daemon=True)
        stopping.start()
        done.wait(patience)
        raise
    if raised:
        raise raised[0]
    return given[0]


def rereadable(rows: Any) -> bool:
    """Whether rows that are held in memory can be read more than once."""
    return hasattr(rows, "materialize")


def _stop(done: threading.Event, interrupt: Callable[[], object]) -> None:
    while not done.is_set():
        interrupt()
        done.wait(_ASKS_EVERY)


def held(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation run now, its rows in memory: nothing that happens later changes them."""
    if hasattr(duckdb.DuckDBPyRelation, "materialize"):
        return rows.materialize()
    ran: duckdb.DuckDBPyRelation = rows.execute()  # type: ignore[operator]  # before DuckDB 2
    return ran
