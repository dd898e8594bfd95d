"""The limits of a statement: time, calls, errors, and the user's wish to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlsql.config import Settings
from mlsql.errors import (
    CallLimit,
    DatabaseError,
    DataError,
    Interrupted,
    MediaError,
    ModelOutputError,
    OperationalError,
    TimeLimit,
)
from mlsql.exec.share import Answers, RowError

if TYPE_CHECKING:
    from mlsql.exec.tally import Tally

# Below so many inputs a ratio says nothing about a run.
_FEWEST_FOR_RATIO = 20
_GRACE = 1.0


class Guardrails:
    """Says no when a statement has gone on for long enough; asked between batches."""

    def __init__(self, settings: Settings, tally: Tally) -> None:
        self._on_error = settings.text("on_error")
        self._ratio = settings.number("max_error_ratio")
        self._calls = settings.integer("max_model_calls")
        self._seconds = settings.number("statement_timeout")
        self._tally = tally
        self._started = time.monotonic()
        self._inputs = 0
        self._stopped = threading.Event()
        self._interrupt: Callable[[], None] = lambda: None
        self.notes: list[str] = []  # of limits that ended a stage, and not the statement

    @staticmethod
    def any_limit(settings: Settings) -> bool:
        """Whether the settings may end a statement before it is done."""
        return bool(settings.integer("max_model_calls") or settings.number("statement_timeout"))

    def stop(self) -> None:
        """From any thread: the statement is to end."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether the statement was told to end."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise if the statement was stopped or has run out of time."""
        if self._seconds and time.monotonic() - self._started >= self._seconds:
            raise self.time_limit()
        if self._stopped.is_set():
            raise Interrupted("the statement was stopped; what was computed is kept")

    @property
    def timed_out(self) -> bool:
        """Whether statement_timeout has passed."""
        return bool(self._seconds) and time.monotonic() - self._started >= self._seconds

    def time_limit(self) -> TimeLimit:
        """The error of a statement that ran out of time."""
        return TimeLimit(
            f"statement_timeout of {self._seconds:g} s reached after {self._tally.calls:,} model "
            "calls; what was computed is kept")

    def call_limit(self) -> CallLimit:
        """The error of a statement that wants more model calls than it may make."""
        return CallLimit(f"max_model_calls = {self._calls:,} reached; what was computed is kept")

    @property
    def calls_left(self) -> int | None:
        """How many more model calls may be made; None where there is no limit."""
        return max(0, self._calls - self._tally.calls) if self._calls else None

    def judge(self, event: Answers, model: str) -> None:
        """Raise for a batch's errors, if on_error or max_error_ratio say so."""
        self._inputs += len(event.rows)
        if event.errors and self._on_error == "raise":
            raise row_failed(event.errors[0])
        errors = len(self._tally.errors)
        if self._inputs >= _FEWEST_FOR_RATIO and errors > self._ratio * self._inputs:
            raise OperationalError(
                f"{errors:,} of {self._inputs:,} inputs could not be used, more than "
                f"max_error_ratio = {self._ratio:g}; the last: {event.errors[-1].message}"
                if event.errors else f"{errors:,} of {self._inputs:,} inputs could not be used")

    @contextmanager
    def watching(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call `interrupt` when the time is over, for the length of a block."""
        if not self._seconds:
            yield
            return
        self._interrupt = interrupt
        left = self._seconds - (time.monotonic() - self._started)
        timer = _timer(max(0.0, left), lambda: self._interrupt())
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def calmly(self, cancel: Callable[[], None]) -> Iterator[None]:
        """For the length of a block, call only `cancel` when the time is over.

        A statement of DuckDB's that is interrupted takes its transaction with it.
        """
        before, self._interrupt = self._interrupt, cancel
        try:
            yield
        finally:
            self._interrupt = before

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """What is left to do once a limit has ended a stage may take a second more."""
        timer = _timer(_GRACE, self._interrupt) if self.notes and self.timed_out else None
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def reason(self, error: Exception) -> Exception:
        """What ended a statement: whatever was interrupted, the limit or the user did it."""
        import duckdb

        stopped = isinstance(error, RuntimeError) and "interrupt" in str(error).lower()
        if not stopped and not isinstance(error, (Interrupted, duckdb.InterruptException)):
            return error
        if isinstance(error, TimeLimit) or (self.timed_out and not self.stopped):
            return self.time_limit()
        return Interrupted("the statement was stopped; what was computed is kept")


def _timer(seconds: float, then: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, then)
    timer.daemon = True
    timer.start()
    return timer


def row_failed(error: RowError) -> DatabaseError:
    """An input that cannot be used, as the error that ends a statement; the cause is chained."""
    if isinstance(error.cause, MediaError):
        failed: DatabaseError = MediaError(error.message, error.uri, error.frame)
    elif isinstance(error.cause, OperationalError):  # the worker's end, not the input's fault
        failed = OperationalError(f"model {error.model!r} failed on {where(error)}: "
                                  f"{error.message}")
    elif error.model is not None:
        on = f" on {where(error)}" if where(error) else ""
        said = "" if repr(error.model) in error.message else f"model {error.model!r} failed{on}: "
        failed = ModelOutputError(said + error.message, error.model)
    else:
        failed = DataError(error.message)
    failed.__cause__ = error.cause
    return failed


def where(error: RowError) -> str:
    """The input that an error is about, in words; '' where nothing is known of it."""
    if error.uri is None:
        return "" if error.value is None else str(error.value)
    return error.uri if error.frame is None else f"{error.uri}, frame {error.frame}"
