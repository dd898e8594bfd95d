"""The local executor: shares one by one, on real videos with the real decoder too."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import Interrupted, UnknownName
from mlsql.exec.executors import executor, executor_names
from mlsql.exec.executors.local import LocalExecutor
from mlsql.exec.share import Answers, BatchDone, Event, Share, Step
from mlsql.exec.worker import WorkerOptions
from tests.fakes import (
    FakeDecoder,
    counting_model,
    frame_of,
    handles,
    inputs,
    share_of,
    sleeping,
)


def answers(events: list[tuple[int, Event]], step: int = 0) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], Any] = {}
    for ordinal, event in events:
        if isinstance(event, Answers) and event.step == step:
            rows, outputs = event.rows.to_pylist(), event.outputs.to_pylist()
            found.update(((ordinal, r), o) for r, o in zip(rows, outputs, strict=True))
    return found


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "mlsql-decode"]


def test_executors_are_found_by_name() -> None:
    assert "local" in executor_names()
    made = executor("LOCAL", WorkerOptions(batch_size=3))
    assert isinstance(made, LocalExecutor)
    made.close()
    with pytest.raises(UnknownName, match=r"unknown executor 'lcoal' .*did you mean 'local'"):
        executor("lcoal")


def test_shares_are_pulled_only_when_the_one_before_is_done() -> None:
    model, calls = counting_model(function=frame_of, batch_size=4)
    pulled: list[int] = []

    def shares() -> Iterator[Share]:
        for start in (0, 8, 16):
            pulled.append(len(inputs(calls)))
            yield share_of({"frame": handles(range(start, start + 8))}, Step(model, "frame"))

    local = LocalExecutor(None, FakeDecoder)
    events = list(local.run(shares()))
    assert pulled == [0, 8, 16]
    assert answers(events) == {(o, r): 8 * o + r for o in range(3) for r in range(8)}
    assert [o for o, _ in events] == sorted(o for o, _ in events)
    local.close()


def test_closing_the_events_pulls_no_more_shares_and_closes_the_files() -> None:
    model, calls = counting_model(function=frame_of, batch_size=4)
    opened: list[FakeDecoder] = []

    def opener() -> FakeDecoder:
        opened.append(FakeDecoder())
        return opened[-1]

    local = LocalExecutor(None, opener)
    share = share_of({"frame": handles(range(1000))}, Step(model, "frame"))
    events = local.run(share for _ in range(10**9))
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert len(inputs(calls)) == 4 and not threads() and [d.closed for d in opened] == [True]
    assert len(answers(list(local.run([share])))) == 1000
    local.close()


def test_cancel_ends_the_run_even_between_shares_of_nothing_to_do() -> None:
    model, _ = sleeping(0.001, function=frame_of)
    known = share_of({"frame": handles(range(10))}, Step(model, "frame"),
                     known={0: list(range(10))})
    local = LocalExecutor(None, FakeDecoder)
    started = time.perf_counter()
    threading.Timer(0.1, local.cancel).start()
    with pytest.raises(Interrupted):
        list(local.run(known for _ in range(10**9)))
    assert time.perf_counter() - started < 1.1
    assert len(list(local.run([known]))) == 1
    local.close()


# Real pictures


def fingerprint(picture: np.ndarray) -> int:
    """The sum of all bytes: another frame, size or channel order gives another."""
    weights = np.arange(1, 4, dtype=np.int64)
    return int(picture.astype(np.int64).sum(axis=(0, 1)) @ weights)


def video(path: Path, frames: list[int]) -> pa.Array:
    return handles(frames, str(path))


@pytest.fixture(scope="module")
def reference(bikes: Path) -> dict[int, int]:
    """Each frame's fingerprint, read straight through with PyAV."""
    import av

    with av.open(str(bikes)) as container:
        pictures = container.decode(video=0)
        return {n: fingerprint(p.to_ndarray(format="rgb24")) for n, p in enumerate(pictures)}


@pytest.mark.parametrize("options", [
    WorkerOptions(), WorkerOptions(batch_size=1, decode_threads=1),
    WorkerOptions(batch_size=7, memory_budget=1_500_000), WorkerOptions(batch_size=100),
])
def test_real_frames_are_the_right_ones_however_the_work_is_cut(
    bikes: Path, reference: dict[int, int], options: WorkerOptions
) -> None:
    first, calls = counting_model("first", function=fingerprint)
    second, _ = counting_model("second", function=lambda p: fingerprint(p) + 1)
    assert len(reference) == 250
    order = [*range(0, 250, 5), 3, 249, 0, 17]
    steps = (Step(first, "frame", "x >= 0"), Step(second, "frame", "out_0 % 2 = 0"))
    shares = [
        share_of({"frame": video(bikes, part), "x": [0] * len(part)}, *steps)
        for part in (order[:30], order[30:])
    ]
    local = LocalExecutor(options)
    events = list(local.run(shares))
    local.close()
    wanted = {(i // 30, i % 30): reference[frame] for i, frame in enumerate(order)}
    assert answers(events) == wanted
    assert answers(events, 1) == {k: v + 1 for k, v in wanted.items() if v % 2 == 0}
    assert len(inputs(calls)) == len(order) and not threads()
    assert sum(e.counters.frames_decoded for _, e in events if isinstance(e, Answers)) == 54


def test_a_file_that_is_no_video_costs_its_rows(bikes: Path, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    model, _ = counting_model(function=fingerprint)
    column = pa.concat_arrays([
        handles([1], str(tmp_path / "text.mp4")), video(bikes, [2]),
        handles([0], str(tmp_path / "missing.mp4"))])
    local = LocalExecutor()
    events = list(local.run([share_of({"frame": column}, Step(model, "frame"))]))
    local.close()
    found = answers(events)
    assert found[0, 0] is None and found[0, 2] is None and found[0, 1] > 0
    errors = [e for _, event in events if isinstance(event, Answers) for e in event.errors]
    assert [(e.row, Path(str(e.uri)).name, e.frame) for e in errors] == [
        (0, "text.mp4", 1), (2, "missing.mp4", 0)]
    assert all("\n" not in e.message and e.uri in e.message for e in errors)


def test_a_limit_reached_early_stops_in_the_middle_of_a_real_video(bikes: Path) -> None:
    model, calls = counting_model(function=fingerprint, batch_size=8)
    local = LocalExecutor()
    share = share_of({"frame": video(bikes, list(range(250)))}, Step(model, "frame"),
                     accept="out_0 IS NOT NULL")
    for _ in range(2):
        events = local.run([share])
        done = next(e for _, e in events if isinstance(e, BatchDone))
        events.close()  # type: ignore[attr-defined]
        assert done.covered == 8 and len(done.passed) == 8
    assert len(inputs(calls)) == 16 and not threads()
    local.close()
