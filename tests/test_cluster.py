"""Cutting shares, merging events, choosing workers: everything about a cluster but a cluster."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import DataError, MediaError, OperationalError, Warning
from mlsql.exec.batches import Outlook, outlooks
from mlsql.exec.cluster.causes import RemoteError, packed, unpacked
from mlsql.exec.cluster.merge import Merged
from mlsql.exec.cluster.parcels import event_of, parcel_of, share_parcel, token_of
from mlsql.exec.cluster.pieces import Uncut, shared_inputs
from mlsql.exec.cluster.pool import Pool
from mlsql.exec.cluster.sizes import sizes
from mlsql.exec.conditions import Conditions
from mlsql.exec.executors import auto
from mlsql.exec.share import Answers, BatchDone, Counters, Event, RowError, Share, Step
from mlsql.exec.worker import WorkerOptions
from tests.fakes import counting_model, handles, share_of

ONE, _ = counting_model("one", input_type="BIGINT", cost_ms=10)
TWO, _ = counting_model("two", input_type="BIGINT", cost_ms=1)


def looked_at(share: Share) -> list[Outlook]:
    conditions = Conditions()
    try:
        return outlooks(share, conditions)
    finally:
        conditions.close()


def cut(share: Share, inputs: int) -> list[list[int]]:
    uncut, found = Uncut(share, looked_at(share)), []
    while uncut.inputs:
        found.append(uncut.take(inputs)[0].tolist())
    return found


def test_pieces_keep_the_order_of_rows() -> None:
    share = share_of({"x": list(range(10))}, Step(ONE, "x"))
    assert cut(share, 4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_rows_that_need_nothing_are_in_no_piece() -> None:
    share = share_of({"x": [1, None, 3, 4]}, Step(ONE, "x"), known={0: [None, None, 7, None]})
    assert cut(share, 10) == [[0, 3]]


def test_rows_with_one_input_of_the_costly_step_stay_together() -> None:
    share = share_of({"x": [1, 2, 1, 3, 2], "y": [7, 8, 9, 9, 9]}, Step(TWO, "y"), Step(ONE, "x"))
    assert cut(share, 1) == [[0, 2], [1, 4], [3]]


def test_the_size_of_a_piece_follows_its_cost() -> None:
    share = share_of({"x": list(range(10)), "y": [None] * 5 + [1, 2, 3, 4, 5]},
                     Step(TWO, "x"), Step(ONE, "y"))
    uncut = Uncut(share, looked_at(share))
    assert uncut.cost == pytest.approx(10 + 50)
    assert (uncut.count(5.5), uncut.count(17), uncut.count(1000)) == (5, 6, 10)
    rows, cost = uncut.take(6)
    assert rows.tolist() == [*range(6)] or len(rows) == 6
    assert cost + uncut.cost == pytest.approx(60)


def test_inputs_that_several_pieces_need_are_found_first() -> None:
    share = share_of({"x": list(range(4)), "y": [5, 6, 5, 6]}, Step(ONE, "x"), Step(TWO, "y"))
    (part,) = shared_inputs(share, looked_at(share))
    assert part.share.rows["a"].to_pylist() == [5, 6]
    assert [step.model.name for step in part.share.steps] == ["two"]


def test_a_step_that_may_not_be_asked_shares_nothing_ahead() -> None:
    share = share_of({"x": list(range(4)), "y": [5, 6, 5, 6]},
                     Step(ONE, "x"), Step(TWO, "y", "out_0 > 1"))
    assert shared_inputs(share, looked_at(share)) == []


def merged_of(count: int, *steps: Step) -> Merged:
    columns = {"x": list(range(count))}
    return Merged(share_of(columns, *(steps or (Step(ONE, "x"),))))


def answers(rows: list[int], calls: int = 0, bad: tuple[int, ...] = (), step: int = 0) -> Answers:
    outputs = pa.array([None if row in bad else 10 * row for row in rows], pa.int64())
    errors = tuple(RowError(row, step, "one", f"bad {row}") for row in bad)
    return Answers(step, pa.array(rows, pa.int64()), outputs, Counters(calls=calls), errors)


def told(events: Any) -> list[Any]:
    """The events in short: ('A', rows, calls), ('E', rows) and ('B', covered, passed)."""
    found: list[Any] = []
    for event in events:
        if isinstance(event, BatchDone):
            found.append(("B", event.covered, event.passed.to_pylist()))
        elif event.errors:
            found.append(("E", event.rows.to_pylist()))
        else:
            found.append(("A", event.rows.to_pylist(), event.counters.calls))
    return found


def done(covered: int, *passed: int) -> BatchDone:
    return BatchDone(covered, pa.array(passed, pa.int64()))


def test_later_pieces_answer_at_once_and_are_covered_in_order() -> None:
    merged = merged_of(6)
    first, second = np.array([0, 1, 2]), np.array([3, 4, 5])
    assert told(merged.answer(second, answers([0, 1, 2], 3))) == [("A", [3, 4, 5], 3)]
    assert told(merged.batch(second, done(3, 0, 2))) == []
    assert told(merged.batch(first, done(1, 0))) == [("B", 1, [0])]
    assert told(merged.batch(first, done(3, 2))) == [("B", 6, [2, 3, 5])]


def test_an_error_waits_until_the_rows_above_it_are_covered() -> None:
    merged = merged_of(4)
    late, early = np.array([2, 3]), np.array([0, 1])
    assert told(merged.answer(late, answers([0, 1], 2, bad=(1,)))) == [("A", [2], 2)]
    assert told(merged.batch(late, done(2))) == []
    assert told(merged.answer(early, answers([0, 1], 2, bad=(0,)))) == [("A", [1], 2)]
    assert told(merged.batch(early, done(2))) == [("E", [0]), ("E", [3]), ("B", 4, [])]


def test_of_two_copies_the_first_answer_counts() -> None:
    merged = merged_of(4)
    rows = np.arange(4)
    assert told(merged.answer(rows, answers([0, 1], 2))) == [("A", [0, 1], 2)]
    assert told(merged.answer(rows, answers([0, 1, 2], 3))) == [("A", [2], 1)]
    assert told(merged.answer(rows, answers([0, 1, 2], 3))) == []


def test_a_failed_piece_raises_when_it_is_its_turn() -> None:
    merged = merged_of(4)
    assert told(merged.fail(np.array([2, 3]), DataError("no"))) == []
    with pytest.raises(DataError, match="no"):
        list(merged.batch(np.array([0, 1]), done(2)))


def test_what_is_left_of_a_piece_knows_what_was_answered() -> None:
    merged = merged_of(4, Step(ONE, "x"), Step(TWO, "x", "out_0 > 0"))
    list(merged.answer(np.arange(4), answers([0, 2], 2)))
    list(merged.batch(np.arange(4), done(1)))
    assert merged.left(np.arange(4)).tolist() == [1, 2, 3]
    rows = merged.piece(merged.left(np.arange(4))).rows
    assert rows["known_0"].to_pylist() == [False, True, False]
    assert rows["out_0"].to_pylist() == [None, 20, None]
    assert rows["known_1"].to_pylist() == [False] * 3


def test_events_travel_with_their_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec, _ = counting_model("eye")
    share = share_of({"frame": handles([1, 2], "a b.mp4")}, Step(spec, "frame"))
    parcel = share_parcel(share)
    assert parcel.rows["frame"].to_pylist()[0]["uri"] == os.path.abspath("a b.mp4")
    assert parcel.steps == ((token_of(spec), "frame", None),)
    uri = os.path.abspath("a b.mp4")
    cause = MediaError(f"{uri}: torn", uri, 2)
    cause.__cause__ = ValueError("inside")
    error = RowError(1, 0, None, f"{uri}: torn", uri, 2, cause)
    event: Event = Answers(0, pa.array([1]), pa.array([None], pa.int64()), Counters(), (error,))
    back = event_of(parcel_of(event), share)
    assert isinstance(back, Answers)
    (got,) = back.errors
    assert (got.message, got.uri, got.frame) == ("a b.mp4: torn", "a b.mp4", 2)
    assert isinstance(got.cause, MediaError) and str(got.cause.__cause__) == "inside"


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    class Local(Exception):
        pass

    error = Local("here only")
    error.__notes__ = ["in their code"]  # type: ignore[attr-defined]
    back = unpacked(packed(error))
    assert isinstance(back, RemoteError) and str(back) == "Local: here only"
    assert back.__notes__ == ["in their code"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("has, pool, device, wanted", [
    ({"CPU": 8}, Pool(), "auto", (0, 2, 4)),
    ({"CPU": 2}, Pool(most=1), "auto", (0, 2, 1)),
    ({"CPU": 8, "GPU": 4}, Pool(), "auto", (1, 1, 4)),
    ({"CPU": 8, "GPU": 4}, Pool(), "cpu", (0, 2, 4)),
    ({"CPU": 8, "GPU": 2}, Pool(gpus=0.5), "auto", (0.5, 1, 4)),
    ({"CPU": 4}, Pool(most=32, address="head:6379"), "auto", (0, 1, 32)),
])
def test_sizes(
    has: dict[str, float], pool: Pool, device: str, wanted: tuple[float, float, int]
) -> None:
    found = sizes(has, pool, device)
    assert (found.gpus, found.cpus, found.most) == wanted


def test_more_workers_than_cores_or_gpus_are_a_warning_and_fewer() -> None:
    with pytest.warns(Warning, match=r"workers is 9, and Ray has CPUs for 2: 2 it is"):
        assert sizes({"CPU": 2}, Pool(most=9), "auto").most == 2
    with pytest.warns(Warning, match=r"workers is 3, and Ray has GPUs for 1: 1 it is"):
        assert sizes({"CPU": 8, "GPU": 1}, Pool(most=3), "auto").most == 1
    with pytest.raises(OperationalError, match="Ray sees no GPU"):
        sizes({"CPU": 8}, Pool(gpus=1), "auto")


def test_auto_takes_ray_where_there_is_more_than_this_process_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("RAY_ADDRESS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(auto, "_NVIDIA", tmp_path)
    monkeypatch.setattr(auto, "_joined", lambda: False)
    assert auto.choice(WorkerOptions()) == "local"
    (tmp_path / "0").mkdir()
    assert auto.choice(WorkerOptions()) == "local"
    (tmp_path / "1").mkdir()
    assert auto.choice(WorkerOptions()) == "ray"
    assert auto.choice(WorkerOptions(device="cpu")) == "local"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert auto.choice(WorkerOptions()) == "local"
    assert auto.choice(WorkerOptions(pool=Pool(address="head:6379"))) == "ray"
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert auto.choice(WorkerOptions()) == "ray"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = auto.made(WorkerOptions(device="cpu"))
    made.close()
