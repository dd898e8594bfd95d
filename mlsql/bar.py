"""A progress bar on a terminal: drawn once a statement has run for half a second, gone at its end.

    with Bar(sys.stderr) as bar, session.progress(bar):
        session.execute(...)
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from mlsql.exec.progress import Snapshot

if TYPE_CHECKING:
    from rich.console import RenderableType

_AFTER = 0.5
_DRAWN_A_SECOND = 8
_WIDTH, _NARROWEST = 28, 6


class Bar:
    """Draws the snapshots it is given; where the stream is no terminal, nothing.

    With `keep` the last figures stay as a line.
    """

    def __init__(self, stream: TextIO, keep: bool = False) -> None:
        self._stream = stream
        self._keep = keep
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._live: Any = None
        self._latest = Snapshot()
        self._heard = 0.0

    def __call__(self, snapshot: Snapshot) -> None:
        """Take a snapshot; the last one of a statement ends the bar."""
        if not self._stream.isatty():
            return
        self._latest, self._heard = snapshot, time.monotonic()
        if snapshot.finished:
            self.close()
        elif self._timer is None:
            self._timer = threading.Timer(max(0.0, _AFTER - snapshot.seconds), self._open)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Take the bar away, if it is there."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            live, self._live, self._timer = self._live, None, None
        if live is not None:
            live.stop()
            if self._keep:
                self._stream.write(self._latest.text() + "\n")

    def _open(self) -> None:
        """In the timer's thread: start to draw. rich is loaded only now."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream)
        if console.is_dumb_terminal:
            return
        live = Live(console=console, get_renderable=lambda: self._line(console.width),
                    transient=True, refresh_per_second=_DRAWN_A_SECOND, redirect_stdout=False,
                    redirect_stderr=False)
        with self._lock:
            if self._timer is None:  # closed in the meantime
                return
            self._live = live
            live.start(refresh=True)

    def _line(self, width: int) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = self._latest
        waited = time.monotonic() - self._heard
        now = replace(now, seconds=now.seconds + waited)
        figures = Text(now.text(), no_wrap=True, overflow="ellipsis")
        room = min(_WIDTH, width - len(figures) - 2)
        if room < _NARROWEST:
            return figures
        bar = ProgressBar(total=now.total, completed=now.done, width=room,
                          pulse=now.total is None or not now.done, complete_style="cyan",
                          finished_style="cyan")
        line = Table.grid(padding=(0, 1))
        line.add_row(bar, figures)
        return line

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
