"""Progress of a statement that asks models: one protocol for every front end.

To listen, give the session a callable; it gets a `Snapshot` each time:

    session.on_progress = lambda snapshot: print(snapshot.text())     # for all statements
    with session.progress(callback):                                  # for some
        session.execute(...)

It is called in the thread that runs the statement, at the start of each stage and then at most
about ten times a second; the last snapshot of a statement has `finished` set, whether the
statement ended well or not. Statements that ask no model say nothing. Within a stage `done` never
falls; `calls`, `cached` and `seconds` never fall at all. A listener that raises is not called
again, and the result has a warning. It may call `session.interrupt()`.

To publish, from whatever runs a part of a statement (`use` is the engine's Machinery):

    use.progress.begin("WHERE", ["ssd_mobilenet_v2"], "frames", total=9000)   # None: not known
    use.progress.advance(1240)                                                # of those, so far
    use.progress.estimate(0.31, half_width=0.02, confidence=0.95)

An estimate stays in the snapshots until the next one, or until the statement ends.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mlsql.errors import Warning

if TYPE_CHECKING:
    from mlsql.exec.tally import Tally

_INTERVAL = 0.1
_STARTS_A_SECOND = 10
_WINDOW = 5.0  # seconds over which a rate is taken


@dataclass(frozen=True)
class Snapshot:
    """How far a statement is. Times are in seconds; what is not known is None.

    `done` and `total` count the candidates of the present stage, in `unit` ('frames' or 'rows');
    `rate` is of the last seconds, a second. `cached_share` is the share (0 to 1) of the answers
    so far that came from the cache. The running estimate of an approximate query is
    `estimate` ± `half_width` at `confidence` (0 to 1).
    """

    stage: str = ""
    stage_number: int = 0
    models: tuple[str, ...] = ()
    unit: str = "rows"
    done: int = 0
    total: int | None = None
    rate: float | None = None
    calls: int = 0
    cached: int = 0
    seconds: float = 0.0
    estimate: float | None = None
    half_width: float | None = None
    confidence: float | None = None
    finished: bool = False

    @property
    def cached_share(self) -> float | None:
        """The share of answers so far that came from the cache."""
        answers = self.calls + self.cached
        return self.cached / answers if answers else None

    @property
    def fraction(self) -> float | None:
        """The share of the present stage that is done; None where its total is not known."""
        return None if self.total is None else self.done / self.total if self.total else 1.0

    @property
    def seconds_left(self) -> float | None:
        """The time that the rest of the stage takes at the present rate."""
        if self.total is None or not self.rate or self.finished:
            return None
        return max(0, self.total - self.done) / self.rate

    def text(self) -> str:
        """The figures on one line, without those that are not known."""
        return " · ".join(part for part in (
            self._count(), self._rate(), f"model calls {self.calls:,}", self._cached(),
            self._estimate(), self._time()) if part)

    def _count(self) -> str:
        of = "" if self.total is None else f"/{self.total:,}"
        return f"{self.unit} {self.done:,}{of}"

    def _rate(self) -> str:
        if not self.rate:
            return ""
        return f"{self.rate:,.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s"

    def _cached(self) -> str:
        share = self.cached_share
        return f"cached {share:.0%}".replace("%", " %") if share else ""

    def _estimate(self) -> str:
        if self.estimate is None:
            return ""
        wide = "" if self.half_width is None else f" ± {self.half_width:.3g}"
        sure = "" if self.confidence is None else f" ({100 * self.confidence:g} %)"
        return f"estimate {self.estimate:.6g}{wide}{sure}"

    def _time(self) -> str:
        left = self.seconds_left
        if left is None:
            return f"{_clock(self.seconds)}" if self.seconds >= 1 else ""
        return f"{_clock(left)} left"


def _clock(seconds: float) -> str:
    """Seconds up to a minute and a half, then minutes, then hours: 25 s, 3 min 05 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


Listener = Callable[[Snapshot], object]


@dataclass
class Progress:
    """What a running statement publishes through; its methods are called by the thread it runs in.

    Without listeners nothing is computed. `finish` is called once, by whoever made it.
    """

    listeners: Sequence[Listener] = ()
    tally: Tally | None = None
    clock: Callable[[], float] = time.monotonic
    _now: Snapshot = field(default_factory=Snapshot, init=False)
    _counted: tuple[int, int] = field(default=(0, 0), init=False)
    _began: float = field(default=0.0, init=False)
    _published: float = field(default=-_INTERVAL, init=False)
    _starts: deque[float] = field(
        default_factory=lambda: deque(maxlen=_STARTS_A_SECOND), init=False)
    _points: deque[tuple[float, int]] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self.listeners = list(self.listeners)
        self._began = self.clock()
        self._published += self._began

    def follow(self, tally: Tally) -> None:
        """Count the calls of another tally from now on, beside those counted so far."""
        self._counted = self._counts()
        self.tally = tally

    def begin(self, stage: str, models: Sequence[str], unit: str, total: int | None) -> None:
        """A stage starts; `total` is the number of its candidates, where all will be looked at."""
        if not self.listeners:
            return
        number = self._now.stage_number + 1
        self._update(stage=stage, stage_number=number, models=tuple(models), unit=unit, done=0,
                     total=total, rate=None)
        now = self.clock()
        self._points.clear()
        if len(self._starts) < _STARTS_A_SECOND or now - self._starts[0] >= 1:
            self._starts.append(now)
            self._publish(now)

    def advance(self, done: int) -> None:
        """So many candidates of the stage are done with."""
        if not self.listeners:
            return
        now = self.clock()
        done = max(done, self._now.done)
        self._points.append((now, done))
        while len(self._points) > 2 and now - self._points[0][0] > _WINDOW:
            self._points.popleft()
        self._update(done=done)
        if now - self._published >= _INTERVAL:
            self._publish(now)

    def estimate(
        self, value: float | None, half_width: float | None = None,
        confidence: float | None = None,
    ) -> None:
        """What an approximate aggregate is by now: the value ± the half-width."""
        if not self.listeners:
            return
        self._update(estimate=value, half_width=half_width, confidence=confidence)
        now = self.clock()
        if now - self._published >= _INTERVAL:
            self._publish(now)

    def finish(self) -> None:
        """The statement has ended, one way or the other; nothing is published after that."""
        if self.listeners and self._now.stage_number:
            self._update(finished=True)
            self._publish(self.clock())
        self.listeners = []

    def _update(self, **changes: object) -> None:
        self._now = replace(self._now, **changes)  # type: ignore[arg-type]

    def _publish(self, now: float) -> None:
        self._published = now
        calls, cached = self._counts()
        self._update(rate=self._rate(), seconds=now - self._began, calls=calls, cached=cached)
        for listener in list(self.listeners):
            try:
                listener(self._now)
            except Exception as error:
                self.listeners = [kept for kept in self.listeners if kept is not listener]
                warnings.warn(f"the progress listener failed and is not called again: "
                              f"{type(error).__name__}: {error}", Warning, stacklevel=2)

    def _counts(self) -> tuple[int, int]:
        """Model calls made and answers cached, of all tallies."""
        calls, cached = self._counted
        if self.tally is None:
            return calls, cached
        return calls + self.tally.calls, cached + self.tally.answers_cached

    def _rate(self) -> float | None:
        """Of the last seconds; not counting the first batch, in whose time models are loaded."""
        if not self._points:
            return None
        (first, start), (last, end) = self._points[0], self._points[-1]
        return (end - start) / (last - first) if last > first and end > start else None
