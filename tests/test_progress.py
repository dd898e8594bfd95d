"""What a statement says of its progress, and the bar that is drawn of it."""

from __future__ import annotations

import io
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.bar import Bar
from mlsql.errors import Interrupted
from mlsql.exec.progress import Progress, Snapshot
from mlsql.exec.tally import Tally
from tests.sessions import Asking, make_video


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def heard(**config: Any) -> tuple[Asking, list[Snapshot]]:
    """A session and what it says."""
    asking = Asking(**config)
    snapshots: list[Snapshot] = []
    asking.session.on_progress = snapshots.append
    return asking, snapshots


# --- from a session ---------------------------------------------------------------------------


def test_a_statement_says_how_far_it_is(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    asking, snapshots = heard(cache=True, batch_size=2)
    with asking as s:
        s.rows(f"SELECT count(*) FROM '{video}' WHERE frame_id < 6 AND "
               "CONTAINS(frame, 'cat', model => 'eye')")
        first = snapshots[0]
        assert (first.unit, first.done, first.total, first.finished) == ("frames", 0, 6, False)
        assert first.models == ("eye",)
        last = snapshots[-1]
        assert (last.done, last.total, last.calls, last.cached, last.finished) == (6, 6, 6, 0, True)
        assert [snap.finished for snap in snapshots].count(True) == 1
        assert last.seconds_left is None

        snapshots.clear()
        s.rows(f"SELECT count(*) FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'eye')")
        last = snapshots[-1]
        assert (last.done, last.total, last.calls, last.cached) == (10, 10, 4, 6)
        assert last.cached_share == 0.6


def test_nothing_falls_and_little_is_said() -> None:
    asking, snapshots = heard(batch_size=1)
    with asking as s:
        s.add("slow", lambda x: time.sleep(0.004) or x)
        started = time.monotonic()
        s.rows("SELECT sum(slow(x)) FROM range(150) t(x)")
        took = time.monotonic() - started
    assert 3 < len(snapshots) <= 10 * took + 4
    for before, later in pairwise(snapshots):
        assert before.done <= later.done
        assert before.calls <= later.calls
        assert before.seconds <= later.seconds
    assert all(snap.total == 150 and snap.unit == "rows" for snap in snapshots)
    assert any(snap.rate and snap.seconds_left for snap in snapshots)


def test_no_total_is_invented_where_a_limit_may_stop_the_stage() -> None:
    asking, snapshots = heard()
    with asking as s:
        s.rows("SELECT x FROM range(1000) t(x) WHERE big(x) LIMIT 3")
    assert snapshots
    assert all(snap.total is None and snap.fraction is None for snap in snapshots)
    assert "/" not in snapshots[-1].text().split("·")[0]


def test_each_stage_has_its_own_count() -> None:
    asking, snapshots = heard()
    with asking as s:
        s.rows("SELECT up(n::VARCHAR) FROM (SELECT sq(x) AS n FROM range(40) t(x)) "
               "WHERE n > 900 ORDER BY 1")
    starts = [snap for snap in snapshots if not snap.done]
    assert [(snap.stage_number, snap.models, snap.total) for snap in starts] == [
        (1, ("sq",), 40), (2, ("up",), 9)]


def test_it_ends_when_the_statement_fails() -> None:
    asking, snapshots = heard(batch_size=1)
    with asking as s:
        s.add("bad", lambda x: 1 // (x - 5))
        with pytest.raises(mlsql.Error):
            s.rows("SELECT bad(x) FROM range(10) t(x)")
        assert snapshots[-1].finished
        assert snapshots[-1].done < 10


def test_plain_statements_say_nothing() -> None:
    asking, snapshots = heard()
    with asking as s:
        s.rows("SELECT 1")
        s.rows("SELECT * FROM models()")
    assert snapshots == []


def test_a_listener_may_stop_the_statement() -> None:
    with Asking(cache=True, batch_size=1) as s:
        s.add("slow", lambda x: time.sleep(0.005) or x)

        def stop(snapshot: Snapshot) -> None:
            if snapshot.done >= 20 and not snapshot.finished:
                s.session.interrupt()

        with s.session.progress(stop), pytest.raises(Interrupted):
            s.rows("SELECT sum(slow(x)) FROM range(400) t(x)")
        kept = s.asked("slow")
        assert 20 <= len(kept) < 200
        assert s.value("SELECT sum(slow(x)) FROM range(400) t(x)") == sum(range(400))
        assert sorted([*kept, *s.asked("slow")]) == list(range(400))


def test_a_listener_that_fails_ends_nothing() -> None:
    with Asking() as s:
        calls = []

        def fail(snapshot: Snapshot) -> None:
            calls.append(snapshot)
            raise RuntimeError("no screen")

        s.session.on_progress = fail
        result = s.run("SELECT sum(sq(x)) FROM range(10) t(x)")
        assert result.fetchall() == [(285,)]
        assert len(calls) == 1
        (warning,) = result.warnings
        assert "RuntimeError: no screen" in warning


def test_it_is_called_in_the_thread_that_runs_the_statement() -> None:
    threads = []
    with Asking() as s, s.session.progress(lambda _: threads.append(threading.get_ident())):
        other = threading.Thread(target=lambda: s.session.execute("SELECT sq(3)").fetchall())
        other.start()
        other.join()
        assert set(threads) == {other.ident}


# --- what is published ------------------------------------------------------------------------


def test_rates_are_of_the_last_seconds() -> None:
    clock, snapshots = Clock(), []
    progress = Progress([snapshots.append], Tally(), clock)
    progress.begin("WHERE", ["m"], "frames", 1000)
    clock.now += 60  # a model is loaded
    progress.advance(10)
    assert snapshots[-1].rate is None
    for _ in range(20):
        clock.now += 1
        progress.advance(snapshots[-1].done + 20)
    assert snapshots[-1].rate == pytest.approx(20)
    assert snapshots[-1].seconds_left == pytest.approx((1000 - 410) / 20)
    for _ in range(7):
        clock.now += 1
        progress.advance(snapshots[-1].done + 5)
    assert snapshots[-1].rate == pytest.approx(5)


def test_an_estimate_stays_until_the_next() -> None:
    clock, snapshots = Clock(), []
    progress = Progress([snapshots.append], None, clock)
    progress.estimate(0.5)
    progress.begin("sample", ["m"], "frames", None)
    clock.now += 1
    progress.estimate(0.3141, 0.0251, 0.95)
    clock.now += 1
    progress.advance(200)
    progress.finish()
    progress.finish()
    assert snapshots[-1].finished and not snapshots[-2].finished
    assert (snapshots[-2].estimate, snapshots[-2].half_width) == (0.3141, 0.0251)
    assert "estimate 0.3141 ± 0.0251 (95 %)" in snapshots[-1].text()


@pytest.mark.parametrize(("snapshot", "text"), [
    (Snapshot(unit="frames", done=1240, total=9000, rate=310.0, calls=96, cached=64, seconds=4.0),
     "frames 1,240/9,000 · 310/s · model calls 96 · cached 40 % · 25 s left"),
    (Snapshot(unit="rows", done=7, calls=7, seconds=0.2), "rows 7 · model calls 7"),
    (Snapshot(unit="frames", done=5, total=90_000, rate=2.5, calls=5, seconds=9),
     "frames 5/90,000 · 2.5/s · model calls 5 · 9 h 59 min left"),
    (Snapshot(unit="frames", done=60, total=60, rate=6.0, calls=60, seconds=130, finished=True),
     "frames 60/60 · 6.0/s · model calls 60 · 2 min 10 s"),
])
def test_the_figures_on_a_line(snapshot: Snapshot, text: str) -> None:
    assert snapshot.text() == text


# --- the bar ----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_comes_late_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with Bar(stream) as bar:
        bar(Snapshot(unit="frames", total=100))
        time.sleep(0.2)
        assert stream.getvalue() == ""
        bar(Snapshot(unit="frames", total=100, done=30, calls=30, seconds=0.2))
        until = time.monotonic() + 10
        while "frames 30/100" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
        assert "frames 30/100 · model calls 30" in stream.getvalue()
        assert "━" in stream.getvalue()
        bar(Snapshot(unit="frames", total=100, done=100, calls=100, finished=True))
        written = stream.getvalue()
        assert "\x1b[?25h" in written  # the cursor is back
        time.sleep(0.3)
        assert stream.getvalue() == written


def test_there_is_no_bar_for_what_is_quick_or_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream in (Terminal(), io.StringIO()):
        with Bar(stream) as bar:
            bar(Snapshot(total=10))
            bar(Snapshot(total=10, done=10, finished=True))
        time.sleep(0.6)
        assert stream.getvalue() == ""
