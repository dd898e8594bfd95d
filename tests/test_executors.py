"""What every executor does alike, whoever it has do the work: one contract for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import DataError, Interrupted, MediaError, OperationalError
from mlsql.exec.cluster.pool import Pool
from mlsql.exec.executors import executor, executor_names
from mlsql.exec.share import Answers, BatchDone, Event, Executor, RowError, Share, Step
from mlsql.exec.worker import WorkerOptions
from mlsql.udfs.callables import spec_of
from mlsql.udfs.spec import ModelSpec
from tests.fakes import handles, share_of

OPTIONS = WorkerOptions(pool=Pool(least=2, most=2))


@pytest.fixture(scope="module")
def executors() -> Iterator[Callable[[str], Executor]]:
    """An executor by name, each made once."""
    made: dict[str, Executor] = {}

    def get(name: str) -> Executor:
        if name not in made:
            made[name] = executor(name, OPTIONS)
        return made[name]

    yield get
    for one in made.values():
        one.close()


@pytest.fixture(params=executor_names())
def under_test(request: pytest.FixtureRequest, executors: Callable[[str], Executor]) -> Executor:
    return executors(request.param)


def model(
    name: str, function: Callable[[Any], Any], input: str = "BIGINT", output: str = "BIGINT",
    seconds: float = 0.0, batch_size: int = 8, **options: Any,
) -> ModelSpec:
    """A model that works on single values, sleeping before each."""

    def batch(values: Sequence[Any]) -> list[Any]:
        time.sleep(seconds * len(values))
        return [function(value) for value in values]

    return spec_of(batch, name=name, task="predict", input=input, output=output,
                   batch_size=batch_size, **options)


def square(x: int) -> int:
    if x == -1:
        raise ValueError("no square for\nthis one")
    return x * x


def brightness(picture: np.ndarray) -> float:
    return round(float(picture.mean()), 3)


SQUARE = model("square", square)
HALF = model("half", lambda x: x // 2, batch_size=16)
SLOW = model("slow", lambda x: x + 1, seconds=0.02, batch_size=4)


class Outcome:
    """The events of one share, checked as they come: answers before what they are covered by."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.answers: dict[tuple[int, int], Any] = {}
        self.errors: list[RowError] = []
        self.passed: list[int] = []
        self.covered = self.calls = 0

    def take(self, events: Iterator[tuple[int, Event]]) -> Outcome:
        for ordinal, event in events:
            assert ordinal == 0
            if isinstance(event, BatchDone):
                self._batch(event)
            else:
                self._answers(event)
        return self

    def _answers(self, event: Answers) -> None:
        rows = event.rows.to_pylist()
        assert rows == sorted(rows) and len(event.outputs) == len(rows)
        assert not event.errors or all(row >= self.covered for row in rows)
        for row, output in zip(rows, event.outputs.to_pylist(), strict=True):
            assert (event.step, row) not in self.answers, "an answer came twice"
            self.answers[event.step, row] = output
        self.errors += event.errors
        self.calls += event.counters.calls

    def _batch(self, event: BatchDone) -> None:
        passed = event.passed.to_pylist()
        assert event.covered >= self.covered
        assert all(self.covered <= row < event.covered for row in passed)
        self.covered = event.covered
        self.passed += passed


def outcome(run_by: Executor, share: Share) -> Outcome:
    return Outcome(share).take(run_by.run([share]))


def same(one: Outcome, other: Outcome, calls: bool = True) -> None:
    assert one.answers == other.answers and one.passed == other.passed
    assert one.covered == other.covered
    assert one.calls == other.calls or not calls
    assert [(e.row, e.step, e.message) for e in one.errors] == [
        (e.row, e.step, e.message) for e in other.errors]


def values(count: int) -> dict[str, Any]:
    return {"x": list(range(count))}


SHARES = {
    "plain": share_of(values(100), Step(SQUARE, "x"), accept="out_0 % 3 = 0"),
    "nothing": share_of({"x": pa.array([], pa.int64())}, Step(SQUARE, "x")),
    "nulls": share_of({"x": [1, None, 3] * 10}, Step(SQUARE, "x"), accept="out_0 IS NULL"),
    "known": share_of(values(40), Step(SQUARE, "x"), accept="out_0 < 50",
                      known={0: [i * i if i % 3 else None for i in range(40)]}),
    "all known": share_of(values(40), Step(SQUARE, "x"), accept="out_0 < 50",
                          known={0: [i * i for i in range(40)]}),
    "guards": share_of({"x": list(range(60)), "y": [i % 7 for i in range(60)]},
                       Step(SQUARE, "x", "y <> 3"), Step(HALF, "x", "out_0 % 2 = 0"),
                       Step(HALF, "y", "out_1 > 5"), accept="out_2 >= 1 AND y <> 1"),
    "repeated": share_of({"x": [i % 10 for i in range(100)], "y": [5] * 100},
                         Step(SQUARE, "x"), Step(HALF, "y"), accept="out_0 > out_1"),
    "crossed": share_of({"x": [i // 20 for i in range(200)], "y": [i % 20 for i in range(200)]},
                        Step(SQUARE, "x"), Step(HALF, "y"), accept="out_0 = out_1"),
    "twins": share_of({"x": list(range(50)), "y": list(range(50, 0, -1)),
                       "key_0": list(range(50)), "key_1": list(range(50, 0, -1))},
                      Step(SQUARE, "x"), Step(SQUARE, "y"), accept="out_0 > out_1"),
    "errors": share_of({"x": [-1 if i % 13 == 7 else i for i in range(90)]},
                       Step(SQUARE, "x"), Step(HALF, "x", "out_0 > 100"), accept="out_0 > 9"),
}


@pytest.mark.parametrize("name", SHARES)
def test_answers_errors_and_calls_are_those_of_the_local_executor(
    under_test: Executor, executors: Callable[[str], Executor], name: str
) -> None:
    found = outcome(under_test, SHARES[name])
    assert found.covered == len(SHARES[name].rows)
    local = outcome(executors("local"), SHARES[name])
    # Whether y is asked for is known only once x was: workers side by side may both ask.
    same(found, local, calls=name != "guards")
    assert local.calls <= found.calls <= local.calls + 4 * 7


def test_the_local_answers_are_right(executors: Callable[[str], Executor]) -> None:
    plain = outcome(executors("local"), SHARES["plain"])
    assert plain.answers == {(0, i): i * i for i in range(100)}
    assert plain.passed == list(range(0, 100, 3))
    assert outcome(executors("local"), SHARES["crossed"]).calls == 10 + 20
    assert outcome(executors("local"), SHARES["twins"]).calls == 51
    errors = outcome(executors("local"), SHARES["errors"]).errors
    assert [e.row for e in errors] == list(range(7, 90, 13))


def test_an_error_tells_the_cause_as_it_was_raised(under_test: Executor) -> None:
    (error,) = [e for e in outcome(under_test, SHARES["errors"]).errors if e.row == 7]
    assert (error.model, error.value) == ("square", "-1")
    assert error.message == "ValueError: no square for"
    assert isinstance(error.cause, ValueError) and str(error.cause) == "no square for\nthis one"
    assert "in square" in "".join(error.cause.__notes__)  # type: ignore[attr-defined]


def test_enough_ends_a_run_early(under_test: Executor) -> None:
    share = Share(**{**vars(share_of(values(5000), Step(SLOW, "x"), accept="out_0 > 10")),
                     "wanted": 3})
    started, passed, calls = time.perf_counter(), 0, 0
    events = under_test.run([share])
    for _, event in events:
        if isinstance(event, BatchDone):
            passed += len(event.passed)
            if passed >= 3:
                under_test.enough()
        else:
            calls += event.counters.calls
    assert passed >= 3 and calls <= 16 + 4 * 2 * 2
    assert time.perf_counter() - started < 30
    assert outcome(under_test, SHARES["plain"]).covered == 100


def test_what_lies_beyond_what_is_wanted_may_be_bad(under_test: Executor) -> None:
    rows = {"x": [*range(20), *[-1] * 20]}
    share = Share(**{**vars(share_of(rows, Step(SQUARE, "x"))), "wanted": 8})
    for _, event in under_test.run([share]):
        if isinstance(event, BatchDone):
            under_test.enough()
        else:
            assert not event.errors


def test_a_cancel_from_another_thread_ends_the_run_within_a_second(under_test: Executor) -> None:
    outcome(under_test, SHARES["plain"])  # started, and loaded
    share = share_of(values(5000), Step(SLOW, "x"))
    cancelled: list[float] = []

    def cancel() -> None:
        cancelled.append(time.perf_counter())
        under_test.cancel()

    timer, seen = threading.Timer(0.5, cancel), 0
    timer.start()
    with pytest.raises(Interrupted):
        for _, event in under_test.run([share]):
            seen += len(event.rows) if isinstance(event, Answers) else 0
    assert time.perf_counter() - cancelled[0] < 1.5  # a second, and what a busy machine adds
    assert seen > 0
    assert outcome(under_test, SHARES["plain"]).covered == 100


def test_closing_the_events_ends_the_run(under_test: Executor) -> None:
    events = under_test.run([share_of(values(5000), Step(SLOW, "x"))])
    next(events)
    started = time.perf_counter()
    events.close()  # type: ignore[attr-defined]
    assert time.perf_counter() - started < 1.5
    assert outcome(under_test, SHARES["plain"]).covered == 100


def test_a_condition_that_fails_is_the_same_error(under_test: Executor) -> None:
    share = share_of(values(30), Step(SQUARE, "x"), accept="CAST('a' || out_0 AS INT) > 1")
    with pytest.raises(DataError, match="Could not convert string 'a0'"):
        outcome(under_test, share)
    assert outcome(under_test, SHARES["plain"]).covered == 100


def test_a_model_that_cannot_be_loaded(under_test: Executor) -> None:
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no weights here")

        def __call__(self, inputs: list[Any]) -> list[Any]:
            return inputs

    spec = spec_of(Broken, name="broken", task="predict", input="BIGINT", output="BIGINT")
    with pytest.raises(OperationalError, match=r"'broken' cannot be loaded: .*no weights here"):
        outcome(under_test, share_of(values(10), Step(spec, "x")))
    assert outcome(under_test, SHARES["plain"]).covered == 100


def test_real_frames_in_real_files_by_relative_names(
    under_test: Executor, executors: Callable[[str], Executor], bikes: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "v.mp4").symlink_to(bikes)
    (tmp_path / "text.mp4").write_text("no video")
    monkeypatch.chdir(tmp_path)
    column = pa.concat_arrays([handles(range(0, 60, 2), "v.mp4"), handles([3], "missing.mp4"),
                               handles([0], "text.mp4"), handles([249], str(bikes))])
    bright = model("bright", brightness, input="IMAGE", output="DOUBLE")
    share = share_of({"frame": column}, Step(bright, "frame"), accept="out_0 > 0")
    found = outcome(under_test, share)
    same(found, outcome(executors("local"), share))
    assert [(e.row, e.uri, e.frame) for e in found.errors] == [
        (30, "missing.mp4", 3), (31, "text.mp4", 0)]
    assert all(isinstance(e.cause, MediaError) for e in found.errors)
    assert found.passed == [*range(30), 32]
