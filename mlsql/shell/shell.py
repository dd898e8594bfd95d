"""A session and how its answers are written: what the prompt and scripts share."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlsql.bar import Bar
from mlsql.errors import Error, Interrupted
from mlsql.exec.progress import Snapshot
from mlsql.foreign import interruptible
from mlsql.result import Result
from mlsql.session import Session
from mlsql.shell.complaint import complaint, said
from mlsql.shell.footer import cost, footer
from mlsql.shell.formats import FORMATS, Options
from mlsql.shell.output import Output
from mlsql.shell.statements import Statement, split

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# A person waits no longer for a statement to stop; it goes on stopping in its thread.
_PATIENCE, _SCRIPT_PATIENCE = 0.8, 5.0


class Leave(Exception):
    """The user leaves, with a status."""

    def __init__(self, status: int = OK) -> None:
        super().__init__(status)
        self.status = status


class _Running:
    """A statement that runs: it can be stopped, be it in the models or in the writing of rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stopped = threading.Event()
        self.ended = threading.Event()

    def stop(self) -> None:
        """From any thread: end it."""
        self._stopped.set()
        self._session.interrupt()

    @property
    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise Interrupted if it was stopped."""
        if self.stopped:
            raise Interrupted("the statement was stopped")

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()


@dataclass
class Shell:
    """Runs statements and commands: rows to the output, anything else to standard error.

    `prompting` is set where a person types. The last answer is kept, for .show and .gallery.
    """

    session: Session
    format: str = "table"
    options: Options = field(default_factory=Options)
    timer: bool = False
    bail: bool = True
    prompting: bool = False
    last: Result | None = None
    asked: str = ""  # the statement that `last` answers
    output: Output = field(default_factory=Output)
    turned: str = "table"  # the format that \\x goes back to
    snapshot: Snapshot | None = None  # of the statement that runs
    _reading: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bar = Bar(sys.stderr)
        self._running: _Running | None = None
        self.session.on_progress = self._hear

    def run(self, scripts: Sequence[str]) -> int:
        """Run scripts, up to the first error unless told otherwise; gives the exit status."""
        status = OK
        for script in scripts:
            for statement in split(script):
                given = self.run_statement(statement)
                status = given or status
                if given == INTERRUPTED or (given != OK and self.bail):
                    return given
        return status

    def run_statement(self, statement: Statement) -> int:
        """Run one statement or command; gives the exit status it would have alone."""
        if statement.is_command:
            from mlsql.shell.commands import run_command

            return run_command(self, statement)
        return self.answer(statement.text, statement)

    def answer(
        self, sql: str, statement: Statement | None = None, own: bool = False
    ) -> int:
        """Run SQL and write its rows; an error points into `statement`.

        What is the shell's `own` question is not kept as the last answer, and has no footer.
        """
        self.snapshot = None
        started = time.perf_counter()
        try:
            self._wait_for_last()
            running = _Running(self.session)
            result = interruptible(lambda: self._answer(sql, not own, running), running.stop,
                                   _PATIENCE if self.prompting else _SCRIPT_PATIENCE)
        except (KeyboardInterrupt, Interrupted) as error:
            return self._interrupted(error, time.perf_counter() - started)
        except Error as error:
            self._bar.close()
            sys.stdout.flush()
            self.complain(complaint(error, statement))
            return FAILED
        for warning in result.warnings:
            self.complain(complaint(UserWarning(warning), None).replace("error", "warning", 1))
        seconds = time.perf_counter() - started
        if not own:
            self._say_cost(seconds, result)
        return OK

    def complain(self, text: str) -> None:
        """Say something on standard error."""
        print(said(text), file=sys.stderr, flush=True)

    def notice(self, text: str) -> None:
        """Say something that is no error on standard error."""
        print(text, file=sys.stderr, flush=True)

    def cut_off(self, text: str) -> None:
        """Say that Ctrl-C has ended something, in the place of what the terminal echoed of it."""
        plain = not sys.stderr.isatty() or os.environ.get("TERM") == "dumb"
        self.notice(("\n" if plain else "\r\x1b[K") + text)

    def reading(self, path: str, run: Callable[[], int]) -> int:
        """Run a file's script, unless it is being run already: it would never end."""
        real = os.path.realpath(path)
        if real in self._reading:
            self.complain(f"error: {path} reads itself")
            return FAILED
        self._reading.append(real)
        try:
            return run()
        finally:
            self._reading.pop()

    def _answer(self, sql: str, keep: bool, running: _Running) -> Result:
        self._running = running
        with running:
            result = self.session.execute(sql)
            self._bar.close()
            self._write(result, running, counted=not keep)
            if keep and result.description is not None:
                self.last, self.asked = result, sql
            return result

    def _write(self, result: Result, running: _Running, counted: bool) -> None:
        options = self.arranged()
        options = replace(options, footer=options.footer or counted)
        if self.prompting:
            result.rowcount  # noqa: B018 - a DuckDB that gives its rows only once has them kept
        if result.description is not None and result.changes is None:
            for piece in FORMATS[self.format](result, options):
                running.check()
                self.output.stream.write(piece)
            self.output.written()

    def _wait_for_last(self) -> None:
        """A statement that was stopped may be busy in a model for a while: let it end first."""
        last = self._running
        if last is not None and not last.ended.wait(0.5):
            self.notice("the statement before this one is still stopping; Ctrl-C forgets this one")
            while not last.ended.wait(0.1):
                pass

    def arranged(self) -> Options:
        """The options as the output needs them: a terminal bounds rows and width."""
        terminal = self.output.is_terminal
        encoding = (getattr(self.output.stream, "encoding", None) or "ascii").lower()
        rows = self.options.max_rows
        most = 40 if rows is None and terminal else rows or None
        return replace(
            self.options, max_rows=most, keep=self.prompting,
            footer=not (self.prompting and self.timer and terminal),
            max_width=shutil.get_terminal_size().columns if terminal else None,
            ascii=not encoding.replace("-", "").startswith("utf"),
            dim_null=terminal and "NO_COLOR" not in os.environ)

    def _say_cost(self, seconds: float, result: Result) -> None:
        if self.timer:
            self.notice(footer(seconds, result) if self.prompting else cost(seconds, result))

    def _interrupted(self, error: BaseException, seconds: float) -> int:
        self._bar.close()
        if self.prompting:
            made = self.snapshot.calls if self.snapshot else 0
            kept = " are kept" if self.session.settings.flag("cache") else " were made"
            calls = f"; {made:,} model calls{kept}" if made else ""
            self.cut_off(f"interrupted after {seconds:.1f} s{calls}")
        elif isinstance(error, KeyboardInterrupt):
            self.output.close()
        return INTERRUPTED

    def _hear(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if self._running is not None and self._running.stopped:
            self._bar.close()  # the prompt may be back
        elif self.session.settings.flag("progress"):
            self._bar(snapshot)
