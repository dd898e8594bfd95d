"""A terminal that a test types on and looks at: a program on a pty, its screen kept by pyte."""

from __future__ import annotations

import contextlib
import signal
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pexpect
import pyte


class Terminal:
    """A program on a terminal of 30 lines by 100 columns."""

    def __init__(self, words: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self._screen = pyte.HistoryScreen(100, 30, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        with warnings.catch_warnings():
            # Python 3.12 warns of any fork beside threads; the child executes at once.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.program = pexpect.spawn(
                words[0], words[1:], env=dict(environment), cwd=str(folder),
                dimensions=(30, 100), timeout=60)
        self.written = b""

    def type(self, keys: str) -> None:
        """Press keys, as they are."""
        self.program.send(keys)

    def enter(self, line: str) -> None:
        """Type a line and Enter; what is on the screen then is no longer what was there before."""
        before, until = self.screen(), time.monotonic() + 5
        self.type(line + "\r")
        while self.screen() == before and time.monotonic() < until:
            self._read()

    def screen(self) -> str:
        """What the screen shows, without the blank lines at its end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def wait(self, text: str, seconds: float = 60) -> None:
        """Wait until the screen shows a text."""
        until = time.monotonic() + seconds
        while text not in self.screen():
            assert time.monotonic() < until, f"no {text!r} on:\n{self.screen()}"
            self._read()

    def look(self, seconds: float) -> None:
        """Look on for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._read()

    def prompted(self, seconds: float = 60) -> float:
        """Wait until the last line is an empty prompt, and stays one; the seconds it took.

        While a line is drawn anew, there is for a moment nothing behind the prompt.
        """
        started = time.monotonic()
        while True:
            while not self.screen().endswith("\nmlsql>"):
                assert time.monotonic() - started < seconds, f"no prompt:\n{self.screen()}"
                self._read()
            took = time.monotonic() - started
            self.look(0.3)
            if self.screen().endswith("\nmlsql>"):
                return took

    def ended(self, seconds: float = 60) -> int | None:
        """Wait for the program to end; its exit status."""
        until = time.monotonic() + seconds
        with contextlib.suppress(pexpect.EOF):
            while time.monotonic() < until:
                self._read()
            raise AssertionError(f"it goes on:\n{self.screen()}")
        self.program.close()
        return self.program.exitstatus

    def _read(self) -> None:
        with contextlib.suppress(pexpect.TIMEOUT):
            data = self.program.read_nonblocking(65536, timeout=0.05)
            self.written += data
            self._stream.feed(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(pexpect.ExceptionPexpect):
            self.program.kill(signal.SIGKILL)
            self.program.close(force=True)
