"""One progress bar a query, drawn in the notebook by updates of one display."""

from __future__ import annotations

import contextvars
import sys
import threading
from html import escape
from typing import Any

from mlsql import bar
from mlsql.exec.progress import Snapshot

_SHOWN_AFTER = 0.5  # seconds
_TRACK = ("display:inline-block;width:14em;height:.6em;border-radius:.3em;overflow:hidden;"
          "background:rgba(128,128,128,.3);vertical-align:middle;margin-right:.8em")
_FILL = "display:block;height:100%;border-radius:.3em;background:#2e9e6b"


class DisplayBar:
    """Listens to a statement's progress; one that is over in half a second shows nothing.

    It draws in threads that know nothing of the cell; the context of the one that made it does.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._handle: Any = None
        self._last = Snapshot()
        self._closed = False

    def __call__(self, snapshot: Snapshot) -> None:
        """Draw how far the statement is."""
        self._last = snapshot
        if self._timer is None and not snapshot.finished:
            self._timer = threading.Timer(max(0.0, _SHOWN_AFTER - snapshot.seconds), self._open)
            self._timer.daemon = True
            self._timer.start()
        if self._handle is not None:
            self._draw()

    def close(self, stopped: bool = False) -> None:
        """Leave the last figures, as one line without a bar."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            if self._handle is not None:
                words = f"{'stopped · ' if stopped else ''}{self._last.text()}"
                line = f'<div style="font-size:12px;opacity:.8">{escape(words)}</div>'
                self._context.run(self._handle.update, _bundle(line, words), raw=True)

    def _open(self) -> None:
        """In the timer's thread: the statement has run for long enough."""
        from IPython.display import DisplayHandle

        with self._lock:
            if not self._closed:
                self._handle = DisplayHandle()  # type: ignore[no-untyped-call]
                self._context.run(
                    self._handle.display, _bundle(html(self._last), self._last.text()), raw=True)

    def _draw(self) -> None:
        with self._lock:
            if not self._closed:
                self._context.run(
                    self._handle.update, _bundle(html(self._last), self._last.text()), raw=True)


class TerminalBar(bar.Bar):
    """The bar of the shell, on standard error; its last figures stay."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, keep=True)

    def close(self, stopped: bool = False) -> None:
        """Take the bar away."""
        super().close()


def bar_of(shell: Any) -> DisplayBar | TerminalBar:
    """A bar for an IPython shell: a kernel's displays can be updated, a terminal's cannot."""
    return TerminalBar() if getattr(shell, "kernel", None) is None else DisplayBar()


def html(snapshot: Snapshot) -> str:
    """The bar and its figures; without a known total the figures alone."""
    share = snapshot.fraction
    track = "" if share is None else (
        f'<span style="{_TRACK}"><span style="{_FILL};width:{min(share, 1):.1%}"></span></span>')
    return f'<div style="font-size:12px">{track}{escape(snapshot.text())}</div>'


def _bundle(drawn: str, words: str) -> dict[str, str]:
    return {"text/html": drawn, "text/plain": words}
