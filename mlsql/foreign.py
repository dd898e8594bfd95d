"""The boundary to DuckDB: its exceptions become ours, and Ctrl-C reaches it."""

from __future__ import annotations

import os
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

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
    job = _Job(work)
    _hand(job)
    try:
        # In turns: once polars has put its own handler in, a signal no longer ends a wait.
        while not job.done.wait(_LOOKS_EVERY):
            pass
    except KeyboardInterrupt:
        threading.Thread(target=_stop, args=(job.done, interrupt), daemon=True).start()
        job.done.wait(patience)
        raise
    if job.raised is not None:
        raise job.raised
    return cast("T", job.given)


class _Job:
    """Work for another thread, and what came of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.done = threading.Event()
        self.given: object = None
        self.raised: BaseException | None = None

    def run(self) -> None:
        try:
            self.given = self._work()
        except BaseException as error:
            self.raised = error


_idle: list[queue.SimpleQueue[_Job]] = []  # of threads that wait for a job
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _hand(job: _Job) -> None:
    """Give a job to a thread that waits, or to a new one.

    They are kept because one costs more than a small query: its first steps find nothing of what
    they need in the processor's caches or DuckDB's allocator.
    """
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="mlsql-statement", daemon=True).start()
    jobs.put(job)


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        job = jobs.get()
        job.run()
        _idle.append(jobs)
        job.done.set()
        del job  # what it gave is not to be held here until the next one


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


@contextmanager
def unadvised() -> Iterator[None]:
    """Without DuckDB's advice to take a relation: what was executed is not one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
