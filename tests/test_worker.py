"""The worker: what it asks of models and decoders, and what it makes of their faults."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import (
    DataError,
    InterfaceError,
    Interrupted,
    MediaError,
    ModelOutputError,
    OperationalError,
)
from mlsql.exec.media.handle import Handle
from mlsql.exec.share import Answers, BatchDone, Counters, Event, RowError, Share, Step
from mlsql.exec.worker import Worker, WorkerOptions
from mlsql.udfs.spec import ModelSpec
from tests.fakes import (
    FakeDecoder,
    Interval,
    counting_model,
    frame_of,
    handles,
    inputs,
    poisoned,
    share_of,
    short,
    sleeping,
)


class Outcome:
    """The events of a run, put together."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.outputs: dict[int, dict[int, Any]] = {}
        self.errors: list[RowError] = []
        self.passed: list[int] = []
        self.covered: list[int] = []
        self.spent = Counters()
        for event in events:
            if isinstance(event, BatchDone):
                self.passed += event.passed.to_pylist()
                self.covered.append(event.covered)
                continue
            rows = event.rows.to_pylist()
            assert rows == sorted(rows)
            found = self.outputs.setdefault(event.step, {})
            assert not found.keys() & set(rows), "a row was answered twice"
            found.update(zip(rows, event.outputs.to_pylist(), strict=True))
            self.errors += event.errors
            self.spent += event.counters


def run(share: Share, decoder: FakeDecoder | None = None, **options: Any) -> Outcome:
    worker = Worker(WorkerOptions(**options), lambda: decoder or FakeDecoder())
    try:
        return Outcome(list(worker.run(share)))
    finally:
        worker.close()


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "mlsql-decode"]


# What is asked


def test_a_cascade_asks_each_model_only_about_what_the_earlier_let_through() -> None:
    even, asked_even = counting_model("even", function=lambda p: frame_of(p) // 2)
    tens, asked_tens = counting_model("tens", function=lambda p: frame_of(p) * 10)
    decoder = FakeDecoder()
    share = share_of(
        {"frame": handles(range(40)), "x": list(range(40))},
        Step(even, "frame", "x % 2 = 0"), Step(tens, "frame", "out_0 % 2 = 0"),
        accept="out_1 > 100")
    found = run(share, decoder)
    assert found.outputs[0] == {x: x // 2 for x in range(0, 40, 2)}
    assert found.outputs[1] == {x: x * 10 for x in range(0, 40, 4)}
    assert found.passed == [x for x in range(0, 40, 4) if x * 10 > 100]
    assert found.covered[-1] == 40
    assert len(inputs(asked_even)) == 20 and len(inputs(asked_tens)) == 10
    assert len(decoder.decoded) == found.spent.frames_decoded == 20
    assert found.spent.calls == 30 and found.spent.batches == len(asked_even) + len(asked_tens)


def test_a_share_where_all_is_known_loads_nothing_and_takes_milliseconds() -> None:
    loads: list[str] = []
    model, calls = counting_model(loads=loads)
    decoder = FakeDecoder()
    count = 100_000
    share = share_of({"frame": handles(range(count))}, Step(model, "frame"), accept="out_0 < 7",
                     known={0: list(range(count))})
    started = time.perf_counter()
    found = run(share, decoder)
    assert time.perf_counter() - started < 1.0
    assert found.passed == list(range(7)) and found.covered == [count]
    assert not loads and not calls and not decoder.decoded and not found.outputs


def test_nulls_and_rows_stopped_by_the_guard_cost_nothing_and_an_empty_share_neither() -> None:
    model, calls = counting_model(function=frame_of)
    share = share_of({"frame": handles([None, 1, None, 3]), "x": [0, None, 0, 0]},
                     Step(model, "frame", "x = 0"))
    assert run(share).outputs == {0: {3: 3}}
    assert len(inputs(calls)) == 1
    nothing = share_of({"frame": handles([None, 1])}, Step(model, "frame", "1 = 0"))
    assert run(nothing).outputs == {} and run(nothing).passed == [0, 1]
    empty = run(share_of({"frame": handles([])}, Step(model, "frame")))
    assert empty.covered == [0] and empty.passed == []
    assert len(inputs(calls)) == 1


def test_equal_arguments_are_asked_once_across_batches_and_the_answer_goes_to_all() -> None:
    model, calls = counting_model(function=lambda x: x * x, input_type="BIGINT", batch_size=2)
    share = share_of({"x": [3, 1, 3, 2, 3, 4, 1, 3]}, Step(model, "x"))
    assert run(share).outputs[0] == dict(enumerate([9, 1, 9, 4, 9, 16, 1, 9]))
    assert sorted(inputs(calls)) == [1, 2, 3, 4]


def test_a_model_that_is_not_deterministic_is_asked_for_every_row() -> None:
    model, calls = counting_model(function=frame_of, deterministic=False)
    decoder = FakeDecoder()
    found = run(share_of({"frame": handles([5] * 6)}, Step(model, "frame")), decoder)
    assert found.outputs[0] == dict.fromkeys(range(6), 5)
    assert len(inputs(calls)) == 6 and len(decoder.decoded) == 1


def test_models_are_loaded_once_a_worker_and_only_when_asked() -> None:
    loads: list[str] = []
    first, _ = counting_model("first", function=frame_of, loads=loads)
    second, _ = counting_model("second", function=frame_of, loads=loads)
    worker = Worker(WorkerOptions(device="cpu"), FakeDecoder)
    share = share_of({"frame": handles(range(5))}, Step(first, "frame"),
                     Step(second, "frame", "out_0 > 99"))
    for _ in range(3):
        list(worker.run(share))
    assert loads == ["cpu"]
    again, _ = counting_model("first", function=lambda p: -1)
    found = Outcome(list(worker.run(share_of({"frame": handles([1])}, Step(again, "frame")))))
    assert found.outputs[0] == {0: -1}, "another function under the same name"
    worker.close()


def test_rows_known_before_the_first_call_are_reported_without_it() -> None:
    model, calls = counting_model(function=frame_of)
    share = share_of({"frame": handles(range(200))}, Step(model, "frame"), accept="out_0 >= 0",
                     known={0: [*range(100), *[None] * 100]})
    worker = Worker(None, FakeDecoder)
    events = worker.run(share)
    first = next(events)
    assert isinstance(first, BatchDone) and first.covered == 100 and len(first.passed) == 100
    assert not calls
    events.close()
    worker.close()


def test_nothing_is_inferred_ahead_of_what_is_pulled() -> None:
    model, calls = counting_model(function=frame_of, batch_size=4)
    worker = Worker(None, FakeDecoder)
    events = worker.run(share_of({"frame": handles(range(400))}, Step(model, "frame")))
    for pulled in range(1, 4):
        assert isinstance(next(events), Answers)
        assert isinstance(next(events), BatchDone)
        time.sleep(0.02)
        assert [len(call) for call in calls] == [4] * pulled
    events.close()
    worker.close()


def test_pictures_are_decoded_in_file_order_within_a_batch_and_answered_in_row_order() -> None:
    model, _ = counting_model(function=frame_of, batch_size=4)
    decoder = FakeDecoder()
    order = [9, 3, 7, 1, 8, 2]
    found = run(share_of({"frame": handles(order)}, Step(model, "frame")), decoder)
    assert [handle.frame for handle in decoder.decoded] == [1, 3, 7, 9, 2, 8]
    assert list(found.outputs[0].items()) == list(enumerate(order))


def test_a_media_step_behind_a_text_step_decodes_only_what_passed() -> None:
    text, _ = counting_model("text", function=len, input_type="VARCHAR", batch_size=8)
    media, _ = counting_model("media", function=frame_of, batch_size=3)
    other, _ = counting_model("other", function=frame_of, batch_size=3)
    decoder = FakeDecoder()
    words = ["a" * (x % 3) for x in range(30)]
    share = share_of({"frame": handles(range(30)), "word": words}, Step(text, "word"),
                     Step(media, "frame", "out_0 = 2"), Step(other, "frame", "out_1 > 9"))
    found = run(share, decoder)
    assert found.outputs[1] == {x: x for x in range(30) if x % 3 == 2}
    assert found.outputs[2] == {x: x for x in range(10, 30) if x % 3 == 2}
    assert sorted(h.frame or 0 for h in decoder.decoded) == list(range(2, 30, 3))


# The answers do not depend on how the work is cut

GUARDS = [
    (None, lambda x, outs: True),
    ("x % 3 <> 0", lambda x, outs: x is not None and x % 3 != 0),
    ("out_0 % 2 = 0", lambda x, outs: outs[0] is not None and outs[0] % 2 == 0),
    ("out_0 IS NULL OR x > 20", lambda x, outs: outs[0] is None or (x is not None and x > 20)),
    ("coalesce(out_0, 0) + coalesce(out_1, 0) > 15",
     lambda x, outs: (outs[0] or 0) + (outs[1] or 0) > 15),
]


def expected(frames: list[Any], xs: list[Any], steps: list[tuple[Any, int]], known: Any,
             accept: int) -> tuple[list[dict[int, Any]], list[int], list[set[Any]]]:
    """What the steps are, taken row by row with no batches at all."""
    answers: list[dict[int, Any]] = [{} for _ in steps]
    asked: list[set[Any]] = [set() for _ in steps]
    passed = []
    for row, (frame, x) in enumerate(zip(frames, xs, strict=True)):
        outs: list[Any] = []
        for step, (column, guard) in enumerate(steps):
            value = frame if column == "frame" else x
            output = known[step][row]
            if output is None and value is not None and GUARDS[guard][1](x, [*outs, None, None]):
                output = value + step
                answers[step][row] = output
                asked[step].add(value)
            outs.append(output)
        if GUARDS[accept][1](x, outs):
            passed.append(row)
    return answers, passed, asked


@pytest.mark.parametrize("seed", range(40))
def test_any_cut_gives_the_same_rows_and_asks_each_input_once(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([1, 7, 60, 250])
    spread = rng.choice([5, 40, 400])
    frames = [rng.choice([None, rng.randrange(spread), rng.randrange(spread)])
              for _ in range(count)]
    xs = [rng.choice([None, rng.randrange(spread), rng.randrange(spread)]) for _ in range(count)]
    columns = [rng.choice(["frame", "frame", "x"]) for _ in range(3)]
    guards = [rng.randrange(2), rng.randrange(4), rng.randrange(5)]
    share_known = rng.choice([0.0, 0.3, 0.95])
    known = [[(frames if c == "frame" else xs)[row] if rng.random() < share_known else None
              for row in range(count)] for c in columns]
    known = [[None if v is None else v + step for v in outs] for step, outs in enumerate(known)]
    steps, calls = [], []
    for step, (column, guard) in enumerate(zip(columns, guards, strict=True)):
        media = column == "frame"
        model, called = counting_model(
            f"m{step}", function=lambda v, s=step, m=media: (frame_of(v) if m else v) + s,
            batch_size=rng.choice([1, 3, 16]), **({} if media else {"input_type": "BIGINT"}))
        steps.append(Step(model, column, GUARDS[guard][0]))
        calls.append(called)
    accept = rng.randrange(5)
    share = share_of({"frame": handles(frames), "x": pa.array(xs, pa.int64())}, *steps,
                     accept=GUARDS[accept][0], known=dict(enumerate(known)))
    sizes = {frame: (rng.choice([2, 9, 40]), rng.choice([4, 30])) for frame in range(spread)}
    decoder = FakeDecoder(size=lambda frame: sizes[frame])
    found = run(share, decoder, batch_size=rng.choice([0, 1, 5, 64]),
                memory_budget=rng.choice([1, 2_000, 10_000_000]))
    answers, passed, asked = expected(
        frames, xs, list(zip(columns, guards, strict=True)), known, accept)
    for step in range(3):
        assert found.outputs.get(step, {}) == answers[step]
        given = [frame_of(v) if columns[step] == "frame" else v for v in inputs(calls[step])]
        assert sorted(given) == sorted(asked[step])
    assert found.passed == passed
    assert found.covered == sorted(set(found.covered)) and found.covered[-1] == count
    assert found.errors == [] and found.spent.calls == sum(map(len, asked))
    assert found.spent.frames_decoded == len(decoder.decoded)
    assert not threads()


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_each_frame_is_decoded_once_for_all_steps_and_all_rows_of_a_batch(batch_size: int) -> None:
    steps = []
    for step in range(3):
        model, _ = counting_model(f"m{step}", function=lambda p, s=step: frame_of(p) + s)
        steps.append(Step(model, "frame", f"out_{step - 1} >= 0" if step else None))
    decoder = FakeDecoder()
    frames = [f for f in range(20) for _ in range(3)]
    found = run(share_of({"frame": handles(frames)}, *steps), decoder, batch_size=batch_size)
    assert [h.frame for h in decoder.decoded] == list(range(20))
    assert found.outputs[2] == {row: frame + 2 for row, frame in enumerate(frames)}


# Types


@pytest.mark.parametrize(("sql", "value"), [
    ("BOOLEAN", True), ("DOUBLE", 0.5), ("VARCHAR", "é"), ("BLOB", b"\0\1"), ("INTEGER[]", [1, 2]),
    ("DOUBLE[2]", [1.0, 2.0]), ("MAP(VARCHAR, DOUBLE)", [("a", 1.0)]),
    ("STRUCT(label VARCHAR, scores FLOAT[2])[]", [{"label": "a", "scores": [0.5, 0.25]}]),
])
def test_outputs_are_of_the_declared_type_and_reach_the_guards(sql: str, value: Any) -> None:
    model, _ = counting_model(function=lambda x: value, input_type="BIGINT", output_type=sql)
    second, _ = counting_model("second", input_type="BIGINT")
    share = share_of({"x": [1, 2, 1]}, Step(model, "x", "x < 2"),
                     Step(second, "x", "out_0 IS NOT NULL"), accept="known_0")
    found = run(share)
    assert found.outputs == {0: {0: value, 2: value}, 1: {0: 1, 2: 1}}
    assert found.passed == [0, 2]


@pytest.mark.parametrize(("sql", "wrong"), [
    ("BIGINT", 1.5), ("BIGINT", "1"), ("VARCHAR", 1), ("DOUBLE[2]", [1.0]), ("TINYINT", 300),
    ("STRUCT(a INTEGER, b INTEGER)", {"a": 1}), ("STRUCT(a INTEGER)[]", [{"A": 1}]),
])
def test_an_answer_of_another_type_is_an_error_of_its_row(sql: str, wrong: Any) -> None:
    right = {"BIGINT": 1, "TINYINT": 1, "VARCHAR": "a", "DOUBLE[2]": [1.0, 2.0],
             "STRUCT(a INTEGER, b INTEGER)": {"a": 1, "b": 2}, "STRUCT(a INTEGER)[]": [{"a": 1}]}
    model, _ = counting_model(
        "typed", function=lambda x: wrong if x == 1 else right[sql], input_type="BIGINT",
        output_type=sql)
    found = run(share_of({"x": [0, 1, 2]}, Step(model, "x")))
    assert found.outputs[0] == {0: right[sql], 1: None, 2: right[sql]}
    assert [error.row for error in found.errors] == [1]
    assert "'typed'" in found.errors[0].message and isinstance(
        found.errors[0].cause, ModelOutputError)


# Faults


def test_a_picture_that_cannot_be_read_costs_its_row_in_every_step() -> None:
    one, asked = counting_model("one", function=frame_of)
    two, _ = counting_model("two", function=frame_of)
    share = share_of({"frame": handles([4, 5, 6, 5])}, Step(one, "frame"), Step(two, "frame"))
    decoder = FakeDecoder(bad=[5])
    found = run(share, decoder)
    assert found.outputs == {step: {0: 4, 1: None, 2: 6, 3: None} for step in (0, 1)}
    assert [(e.row, e.step, e.model, e.uri, e.frame) for e in found.errors] == [
        (row, step, None, "fake.mp4", 5) for row in (1, 3) for step in (0, 1)]
    assert found.errors[0].message == "fake.mp4: frame 5 is damaged"
    assert isinstance(found.errors[0].cause, MediaError)
    assert len(inputs(asked)) == 2 and found.spent.frames_decoded == 2


class BrokenDecoder(FakeDecoder):
    """Raises over one frame, and says nothing at all of another."""

    def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Any]]:
        for position, found in super().decode(handles):
            if handles[position].frame == 3:
                raise RuntimeError("codec\ncrashed")
            if handles[position].frame != 5:
                yield position, found


def test_a_decoder_that_raises_or_forgets_costs_only_those_pictures() -> None:
    model, _ = counting_model(function=frame_of)
    found = run(share_of({"frame": handles(range(7))}, Step(model, "frame")), BrokenDecoder())
    assert found.outputs[0] == {x: None if x in (3, 5) else x for x in range(7)}
    assert [e.message for e in found.errors] == [
        "fake.mp4: RuntimeError: codec", "fake.mp4: the decoder gave no picture"]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_a_poisoned_row_costs_that_row(batch_size: int) -> None:
    model, calls = poisoned(lambda p: frame_of(p) in (3, 11), function=frame_of, name="toxic")
    found = run(share_of({"frame": handles(range(16))}, Step(model, "frame")),
                batch_size=batch_size)
    assert found.outputs[0] == {x: None if x in (3, 11) else x for x in range(16)}
    first = found.errors[0]
    assert [e.row for e in found.errors] == [3, 11]
    assert (first.model, first.uri, first.frame) == ("toxic", "fake.mp4", 3)
    assert first.message == "ValueError: poisoned"
    assert isinstance(first.cause, ValueError) and str(first.cause) == "poisoned\nsecond line"
    assert found.spent.calls == 16 and found.spent.batches == len(calls)


def test_a_model_that_raises_in_prepare_costs_that_row() -> None:
    def prepare(value: int) -> int:
        if value == 2:
            raise KeyError("no such thing")
        return value

    model, _ = counting_model("picky", input_type="BIGINT", prepare=prepare)
    found = run(share_of({"x": [1, 2, 3]}, Step(model, "x")))
    assert found.outputs[0] == {0: 1, 1: None, 2: 3}
    assert [(e.row, e.model, e.uri) for e in found.errors] == [(1, "picky", None)]


def test_too_few_answers_are_asked_for_again_singly_and_never_shifted() -> None:
    model, _ = short(function=frame_of)
    found = run(share_of({"frame": handles(range(9))}, Step(model, "frame")))
    assert found.outputs[0] == {x: x for x in range(9)} and not found.errors


@pytest.mark.parametrize(("answer", "words"), [
    (lambda answers: answers[:0], "'odd' gave 0 answers to one input"),
    (lambda answers: [*answers, 1], "'odd' gave 2 answers to one input"),
    (lambda answers: [None] * len(answers), "'odd' gave no answer (None)"),
    (lambda answers: None, "'odd' gave a NoneType instead of one answer an input"),
    (lambda answers: "12", "'odd' gave a str instead of one answer an input"),
])
def test_wrong_answers_name_the_model(answer: Any, words: str) -> None:
    model, _ = counting_model("odd", input_type="BIGINT", answer=answer)
    found = run(share_of({"x": [1, 2]}, Step(model, "x")))
    assert found.outputs[0] == {0: None, 1: None} and [e.row for e in found.errors] == [0, 1]
    assert all(words in e.message and isinstance(e.cause, ModelOutputError) for e in found.errors)


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize("error", [
    MemoryError(), OutOfMemoryError("CUDA out of memory"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"),
])
def test_a_batch_too_large_for_memory_is_halved_from_then_on(error: Exception) -> None:
    def answer(answers: list[Any]) -> list[Any]:
        if len(answers) > 4:
            raise error
        return answers

    model, calls = counting_model(input_type="BIGINT", answer=answer, batch_size=16)
    found = run(share_of({"x": list(range(64))}, Step(model, "x")))
    assert found.outputs[0] == {x: x for x in range(64)} and not found.errors
    assert [len(call) for call in calls if len(call) > 4] == [16, 8]


def test_a_model_that_cannot_be_loaded_ends_the_run_and_not_the_worker() -> None:
    def load(spec: Any, device: str) -> Any:
        raise FileNotFoundError("weights.pt is gone")

    good, _ = counting_model("good", function=frame_of)
    bad = type(good)("bad", "predict", "BIGINT", load)
    worker = Worker(None, FakeDecoder)
    with pytest.raises(OperationalError, match=r"'bad' cannot be loaded: .*pt is gone") as e:
        list(worker.run(share_of({"frame": handles([1])}, Step(bad, "frame"))))
    assert isinstance(e.value.__cause__, FileNotFoundError)
    found = Outcome(list(worker.run(share_of({"frame": handles([1])}, Step(good, "frame")))))
    assert found.outputs[0] == {0: 1} and not threads()
    worker.close()


def test_a_guard_that_raises_is_an_error_that_quotes_it() -> None:
    model, _ = counting_model(input_type="BIGINT")
    with pytest.raises(DataError, match=r"CAST\(w AS INTEGER\).*: Conversion Error"):
        run(share_of({"x": [1], "w": ["a"]}, Step(model, "x", "CAST(w AS INTEGER) = 1")))


def test_errors_hold_no_pictures() -> None:
    alive: list[weakref.ref[Any]] = []

    class Raising:
        def prepare(self, picture: np.ndarray) -> Any:
            alive.append(weakref.ref(picture))
            local = picture
            if frame_of(local) == 0:
                raise ValueError("in prepare")
            return local

        def infer(self, prepared: Sequence[Any]) -> Any:
            raise ValueError("in infer")

    model = ModelSpec("raising", "predict", "BIGINT", lambda spec, device: Raising())
    found = run(share_of({"frame": handles(range(5))}, Step(model, "frame")))
    assert [e.message for e in found.errors] == ["ValueError: in prepare"] + [
        "ValueError: in infer"] * 4
    assert len(alive) == 5 and not any(ref() is not None for ref in alive)
    for error in found.errors:
        assert error.cause is not None
        notes = error.cause.__notes__  # type: ignore[attr-defined]
        assert len(notes) == 1 and notes[0].count("File ") == 1
        assert f"in {error.message.split()[-1]}\n" in notes[0] and __file__ in notes[0]


# Stopping


def endless(decoder: FakeDecoder, seconds: float = 0.0) -> tuple[Worker, Share]:
    model, _ = sleeping(seconds, function=frame_of, batch_size=4)
    return Worker(None, lambda: decoder), share_of({"frame": handles(range(5000))},
                                                   Step(model, "frame"))


def test_closing_the_events_ends_the_thread_and_the_worker_goes_on() -> None:
    worker, share = endless(FakeDecoder(seconds=0.002))
    for _ in range(3):
        events = worker.run(share)
        next(events)
        assert threads()
        started = time.perf_counter()
        events.close()
        assert time.perf_counter() - started < 1 and not threads()
    worker.close()


@pytest.mark.parametrize(("decode", "infer"), [(0.3, 0.0), (0.0, 0.1), (0.0, 0.0)])
def test_cancel_from_another_thread_ends_the_run_within_a_second(
    decode: float, infer: float
) -> None:
    worker, share = endless(FakeDecoder(seconds=decode), infer)
    cancelled: list[float] = []

    def cancel() -> None:
        cancelled.append(time.perf_counter())
        worker.cancel()

    timer = threading.Timer(0.15, cancel)
    timer.start()
    with pytest.raises(Interrupted):
        list(worker.run(share))
    assert time.perf_counter() - cancelled[0] < 1 and not threads()
    timer.join()
    small = share_of({"frame": handles([7])}, share.steps[0])
    assert Outcome(list(worker.run(small))).outputs[0] == {0: 7}
    worker.close()


def test_a_decoder_that_hangs_is_left_behind() -> None:
    hang = threading.Event()

    class Hanging(FakeDecoder):
        def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Any]]:
            if any(handle.frame == 99 for handle in handles):
                hang.wait()
            return super().decode(handles)

    opened: list[Hanging] = []

    def opener() -> Hanging:
        opened.append(Hanging())
        return opened[-1]

    model, _ = counting_model(function=frame_of)
    worker = Worker(None, opener)
    threading.Timer(0.1, worker.cancel).start()
    started = time.perf_counter()
    with pytest.raises(Interrupted):
        list(worker.run(share_of({"frame": handles([99])}, Step(model, "frame"))))
    assert time.perf_counter() - started < 1.1
    found = Outcome(list(worker.run(share_of({"frame": handles([7])}, Step(model, "frame")))))
    assert found.outputs[0] == {0: 7} and len(opened) == 2
    hang.set()
    deadline = time.perf_counter() + 5
    while (threads() or not opened[0].closed) and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert not threads() and opened[0].closed and not opened[1].closed
    worker.close()
    assert opened[1].closed


def test_a_keyboard_interrupt_passes_and_leaves_nothing_behind() -> None:
    model, _ = poisoned(lambda p: frame_of(p) == 6, KeyboardInterrupt, frame_of, batch_size=4)
    worker = Worker(None, FakeDecoder)
    share = share_of({"frame": handles(range(100))}, Step(model, "frame"))
    with pytest.raises(KeyboardInterrupt):
        list(worker.run(share))
    assert not threads()
    good = share_of({"frame": handles([1])}, Step(model, "frame"))
    assert Outcome(list(worker.run(good))).outputs[0] == {0: 1}
    worker.close()


def test_a_worker_refuses_a_second_run_beside_the_first() -> None:
    worker, share = endless(FakeDecoder())
    events = worker.run(share)
    next(events)
    with pytest.raises(InterfaceError, match="one share at a time"):
        next(worker.run(share))
    events.close()
    worker.close()


# Time and memory


def overlap(first: list[Interval], second: list[Interval]) -> float:
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)


def test_decoding_and_inference_overlap() -> None:
    inferring: list[Interval] = []
    model, _ = sleeping(0.004, function=frame_of, batch_size=8, intervals=inferring)
    decoder = FakeDecoder(seconds=0.004)
    found = run(share_of({"frame": handles(range(120))}, Step(model, "frame")), decoder)
    decoding = sum(end - start for start, end in decoder.intervals)
    busy = sum(end - start for start, end in inferring)
    assert overlap(decoder.intervals, inferring) > 0.7 * min(decoding, busy)
    assert found.spent.seconds_decode == pytest.approx(decoding, rel=0.2)
    assert found.spent.seconds_infer == pytest.approx(busy, rel=0.2)


class WeighedDecoder(FakeDecoder):
    """Counts the bytes of its pictures that are alive."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.alive = self.most = 0
        self._lock = threading.RLock()

    def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Any]]:
        for position, picture in super().decode(handles):
            self._weigh(picture.nbytes)
            weakref.finalize(picture, self._weigh, -picture.nbytes)
            yield position, picture
            del picture

    def _weigh(self, nbytes: int) -> None:
        with self._lock:
            self.alive += nbytes
            self.most = max(self.most, self.alive)


@pytest.mark.parametrize("keeps", [False, True])
def test_pictures_in_flight_stay_within_the_budget(keeps: bool) -> None:
    size = 100 * 100 * 3
    decoder = WeighedDecoder(size=lambda frame: (100, 100))
    small, _ = counting_model("small", function=lambda v: v, prepare=frame_of, seconds=0.0005)
    steps = [Step(small, "frame")]
    if keeps:
        later, _ = counting_model("later", prepare=frame_of)
        steps.append(Step(later, "frame", "out_0 % 2 = 0"))
    found = run(share_of({"frame": handles(range(200))}, *steps), decoder,
                memory_budget=10 * size)
    assert found.outputs[0] == {x: x for x in range(200)}
    assert len(decoder.decoded) == 200
    assert decoder.most <= 11 * size


def test_a_picture_larger_than_the_budget_goes_through_alone() -> None:
    decoder = WeighedDecoder(size=lambda frame: (100, 100) if frame % 5 == 0 else (2, 4))
    one, _ = counting_model("one", prepare=frame_of)
    two, _ = counting_model("two", prepare=frame_of)
    share = share_of({"frame": handles(range(50))}, Step(one, "frame"),
                     Step(two, "frame", "out_0 >= 0"))
    found = run(share, decoder, memory_budget=5_000)
    assert found.outputs[1] == {x: x for x in range(50)} and len(decoder.decoded) == 50
    assert decoder.most <= 2 * 30_000 + 5_000


def test_calls_are_cut_so_that_a_stop_is_quick() -> None:
    model, calls = sleeping(0.06, input_type="BIGINT", batch_size=16)
    run(share_of({"x": list(range(32))}, Step(model, "x")))
    assert [len(call) for call in calls][:2] == [16, 8]


def test_a_worker_imports_no_torch_for_models_without_it(root: Path) -> None:
    code = ("import sys; from tests.fakes import *; from mlsql.exec.worker import Worker;"
            "m, c = counting_model(input_type='BIGINT');"
            "list(Worker().run(share_of({'x': [1]}, Step(m, 'x'))));"
            "print(len(c), [m for m in ('torch', 'cv2', 'av', 'ray') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True,
                          check=True)
    assert done.stdout.split(maxsplit=1) == ["1", "[]\n"]
