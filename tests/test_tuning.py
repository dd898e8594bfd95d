"""Other runtimes for the same weights: equal answers, measured choice, and what is kept of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import Interrupted
from mlsql.exec import tuning as tuning_module
from mlsql.exec.inference import LoadedModel
from mlsql.exec.machine import machine, processors
from mlsql.exec.share import Step
from mlsql.exec.tuning import Runtime, Tuning, tuned
from mlsql.exec.tuning_notes import read_note, write_note
from mlsql.exec.worker import Worker, WorkerOptions
from mlsql.udfs.models import efficientnet_lite0, ssd_mobilenet_v2
from mlsql.udfs.models._boxes import anchors, suppressed
from mlsql.udfs.models._boxes_numpy import kept
from mlsql.udfs.network import Pixels
from tests.fakes import FakeDecoder, counting_model, frame_of, handles, inputs, share_of

pytest.importorskip("openvino")


@pytest.fixture(scope="module")
def picture(bikes: Path) -> np.ndarray[Any, Any]:
    """A street, 640x272."""
    import av

    with av.open(str(bikes)) as video:
        return next(iter(video.decode(video=0))).to_ndarray(format="rgb24")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(scope="module")
def detector(folder: Path) -> Any:
    """The detector as a worker has it, its network run by OpenVINO and kept in `folder`."""
    model = ssd_mobilenet_v2.load(ssd_mobilenet_v2.SPEC, "cpu")
    found = tuned(ssd_mobilenet_v2.SPEC, model, "cpu", folder)
    assert found is not None and found.choice.runtime.name == "openvino"
    return model


def by_torch(model: Any, prepared: Sequence[Any]) -> Any:
    run, model.run = model.run, None
    try:
        return model.infer(prepared)
    finally:
        model.run = run


# Equal answers


def test_the_detectors_answers_are_torchs(detector: Any, picture: np.ndarray[Any, Any]) -> None:
    prepared = [detector.prepare(p) for p in (picture, picture[:, ::-1].copy(), picture[:200])]
    expected = by_torch(detector, prepared)
    found = detector.infer(prepared)
    assert [len(objects) for objects in found] == [len(objects) for objects in expected]
    assert sum(map(len, found)) > 5
    for ours, theirs in zip(chain(*found), chain(*expected)):
        assert ours["label"] == theirs["label"]
        assert abs(ours["score"] - theirs["score"]) < 1e-4
        assert all(abs(ours[side] - theirs[side]) < 0.05 for side in ("x1", "y1", "x2", "y2"))


def test_the_classifiers_answers_are_torchs(picture: np.ndarray[Any, Any]) -> None:
    model: Any = efficientnet_lite0.load(efficientnet_lite0.SPEC, "cpu")
    found = tuned(efficientnet_lite0.SPEC, model, "cpu", None)
    assert found is not None and found.choice.runtime.name == "openvino"
    prepared = [model.prepare(p) for p in (picture, picture[:, ::-1].copy())]
    for ours, theirs in zip(model.infer(prepared), by_torch(model, prepared), strict=True):
        assert ours["label"] == theirs["label"]
        assert np.abs(ours["scores"] - theirs["scores"]).max() < 1e-4


def test_answers_come_in_order_and_do_not_depend_on_the_batch(
    detector: Any, picture: np.ndarray[Any, Any]
) -> None:
    prepared = [detector.prepare(np.roll(picture, 40 * i, axis=1)) for i in range(5)]
    together = detector.infer(prepared)
    assert together == [detector.infer([one])[0] for one in prepared]
    assert together[0] != together[3]
    assert detector.infer([]) == []


def test_who_stops_listening_leaves_the_network_ready(
    detector: Any, picture: np.ndarray[Any, Any]
) -> None:
    pixels = [detector.prepare(picture).pixels] * 6
    for _ in range(3):
        heads = detector.run(pixels)
        next(heads)
        heads.close()
    assert len(list(detector.run(pixels))) == 6


@pytest.mark.parametrize("seed", range(4))
def test_suppression_without_torch_is_the_same(seed: int) -> None:
    import torch

    rng = np.random.default_rng(seed)
    head = rng.normal(-6, 2.0, (1917, 84)).astype(np.float32)
    head[rng.integers(0, 1917, 60), rng.integers(4, 84, 60)] = rng.normal(1, 2, 60)
    expected = suppressed(torch.from_numpy(head)[None], torch.from_numpy(anchors()), 0.2)[0]
    found = kept(head, anchors(), 0.2)
    assert len(expected) > 40
    order = [np.lexsort(rows[:, ::-1].round(4).T) for rows in (expected, found)]
    np.testing.assert_allclose(found[order[1]], expected[order[0]], atol=1e-5)


def test_nothing_found_is_no_rows() -> None:
    assert kept(np.full((1917, 84), -9, np.float32), anchors(), 0.05).shape == (0, 6)


# What is kept


def test_a_network_that_was_kept_needs_no_torch(
    detector: Any, folder: Path, bikes: Path, tmp_path: Path
) -> None:
    (tmp_path / "networks").symlink_to(folder / "networks")
    code = (
        "import sys, mlsql\n"
        f"s = mlsql.connect(config={{'cache_dir': {str(tmp_path)!r}}})\n"
        f"n = s.execute(\"SELECT len(DETECT(frame)) FROM read_video('{bikes}') LIMIT 1\")"
        ".fetchall()\n"
        "print(n, 'torch' in sys.modules)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n") and done.stdout != "[(0,)] False\n"


def test_a_torn_network_file_is_made_anew(
    detector: Any, folder: Path, tmp_path: Path, picture: np.ndarray[Any, Any]
) -> None:
    from mlsql.exec.backends.openvino_network import OpenVINONetwork, network

    kept_file = next((folder / "networks").glob("*.xml"))
    torn = tmp_path / kept_file.name
    torn.write_text(kept_file.read_text()[:5000])
    pixels = [detector.prepare(picture).pixels]
    again = next(OpenVINONetwork(network(detector, torn), 1, 1)(pixels))
    np.testing.assert_allclose(again, next(detector.run(pixels)), atol=1e-4)
    assert torn.stat().st_size > 5000 and torn.with_suffix(".bin").exists()
    assert len(list(tmp_path.iterdir())) == 2  # nothing half written is left


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    write_note(blocked, "key", {"candidate": 1})
    assert read_note(blocked, "key") is None
    write_note(tmp_path, "key", {"candidate": 1})
    assert read_note(tmp_path, "key") == {"candidate": 1}
    assert read_note(tmp_path, "other") is None
    next((tmp_path / "tuning").iterdir()).write_text("{torn")
    assert read_note(tmp_path, "key") is None


def test_the_machine_is_named_with_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(part.startswith("openvino ") for part in machine("cpu"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert processors() == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert processors() >= 1


# The choice


class Sleeper:
    """A model of one network whose runtimes are as fast as they are told to be."""

    pixels = Pixels(4, 1.0, 0.0)
    run: Any = None
    network: Any = None
    ranges = None


def sleeping_runtimes(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]
) -> list[Runtime]:
    found = [Runtime(name, batch=2) for name in seconds]

    def made(self: Tuning, runtime: Runtime) -> Any:
        pause = seconds[runtime.name]
        if pause < 0:
            return None

        def run(pictures: Sequence[Any]) -> Iterator[Any]:
            for picture in pictures:
                time.sleep(pause)
                yield runtime.name, picture

        return run

    monkeypatch.setattr(tuning_module, "candidates", lambda *_: list(found))
    monkeypatch.setattr(tuning_module, "_ROUND_SECONDS", 0.01)
    monkeypatch.setattr(Tuning, "_made", made)
    return found


def test_the_fastest_is_taken_and_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeping_runtimes(monkeypatch, {"slow": 0.004, "absent": -1.0, "fast": 0.0005})
    spec, _ = counting_model()
    model = Sleeper()
    first = Tuning(spec, model, "cpu", tmp_path)
    assert first.choice.runtime.name == "slow" and first.open
    assert "not measured" in str(first.choice)
    first.measure(lambda: None)
    assert first.choice.runtime.name == "fast" and not first.open
    assert next(model.run([0]))[0] == "fast"
    again = Tuning(spec, Sleeper(), "cpu", tmp_path)
    assert again.choice == first.choice and "pictures/s (else slow" in str(again.choice)
    other = Tuning(replace(spec, version="2"), Sleeper(), "cpu", tmp_path)
    assert other.choice.runtime.name == "slow", "measured for other weights"


def test_a_gain_that_is_noise_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeping_runtimes(monkeypatch, {"first": 0.003, "second": 0.003})
    monkeypatch.setattr(tuning_module, "_GAIN", 3.0)
    found = Tuning(counting_model()[0], Sleeper(), "cpu", tmp_path)
    found.measure(lambda: None)
    assert found.choice.runtime.name == "first" and found.choice.measured


def test_measuring_stops_when_the_statement_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping_runtimes(monkeypatch, {"one": 0.001, "two": 0.001})
    found = Tuning(counting_model()[0], Sleeper(), "cpu", None)
    asked = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        found.measure(check)
    assert found.open and len(asked) == 3


def test_a_worker_measures_once_a_model_has_cost_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, _ = counting_model("net", function=frame_of)
    worker = Worker(WorkerOptions(), FakeDecoder)
    measured = []

    class Watched:
        batch = 3
        choice = "as it was"

        @property
        def open(self) -> bool:
            return not measured

        def measure(self, check: Any) -> None:
            measured.append(check)

    model: LoadedModel = worker.model(spec)
    model.tuning = Watched()  # type: ignore[assignment]
    assert worker.model(spec).batch_size == 3 and not measured
    model.seconds_in_all = tuning_module.WORTH_SECONDS + 1
    list(worker.run(share_of({"frame": handles(range(7))}, Step(spec, "frame"))))
    assert len(measured) == 1
    assert worker.runtimes() == {"net": "as it was"}
    worker.close()


def test_a_network_with_an_operation_of_its_own_stays_with_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    class Odd(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.erfinv(x.mean(dim=(2, 3)))

    model = Sleeper()
    model.network = Odd().eval()
    found = tuned(counting_model()[0], model, "cpu", None)
    assert found is not None and found.choice.runtime.name == "torch"
    assert next(model.run([np.zeros((4, 4, 3), np.uint8)])).shape == (3,)


def test_a_callable_has_nothing_to_tune() -> None:
    assert tuned(counting_model()[0], object(), "cpu", None) is None


def test_explain_analyze_says_how_the_network_ran(bikes: Path, folder: Path, detector: Any) -> None:
    with mlsql.connect(config={"cache_dir": str(folder)}) as session:
        rows = session.execute(
            f"EXPLAIN ANALYZE SELECT len(DETECT(frame)) FROM read_video('{bikes}') "
            "WHERE frame_id = 3").fetchall()
    told = [row[2] for row in rows if row[:2] == ("measured", "runtime")]
    assert len(told) == 1 and told[0].startswith("openvino, ")


# Pictures that are equal to the one before


def paused(frames: Sequence[int]) -> tuple[list[Any], list[Any], int]:
    """What a model is asked, the answers, and calls, where frame 10 * i + j looks like frame i."""
    spec, calls = counting_model("still", function=frame_of, batch_size=4)

    class Paused(FakeDecoder):
        def decode(self, given: Sequence[Any]) -> Iterator[Any]:
            still = [handle._replace(frame=handle.frame // 10) for handle in given]
            yield from super().decode(still)

    worker = Worker(WorkerOptions(), Paused)
    share = share_of({"frame": handles(frames)}, Step(spec, "frame"))
    answers: dict[int, Any] = {}
    spent = 0
    for event in worker.run(share):
        if hasattr(event, "outputs"):
            answers.update(zip(event.rows.to_pylist(), event.outputs.to_pylist()))
            spent += event.counters.calls
    worker.close()
    return inputs(calls), [answers[i] for i in range(len(frames))], spent


def test_a_paused_video_is_looked_at_once() -> None:
    asked, answers, spent = paused(range(30))
    assert [frame_of(picture) for picture in asked] == [0, 1, 2]
    assert answers == [i // 10 for i in range(30)] and spent == 3


def test_only_neighbours_count_as_paused() -> None:
    asked, answers, _ = paused([1, 11, 2, 12])
    assert len(asked) <= 4 and answers == [0, 1, 0, 1]


def test_a_failure_is_no_answer_for_the_next_picture() -> None:
    model, calls = counting_model("frail", function=lambda p: 1 // len(calls[1:]))
    loaded = LoadedModel(model, model.load("cpu"))
    picture = np.zeros((3, 3, 3), np.uint8)
    first, _ = loaded.answers([picture])
    second, _ = loaded.answers([picture.copy()])
    third, spent = loaded.answers([picture.copy(), picture.copy()])
    assert "ZeroDivisionError" in str(first[0]) and second == [1] and third == [1, 1]
    assert spent.calls == 0 and len(calls) == 2


def test_almost_equal_is_not_equal() -> None:
    model, calls = counting_model("sharp", function=lambda p: int(p.sum()))
    loaded = LoadedModel(model, model.load("cpu"))
    picture = np.zeros((80, 3, 3), np.uint8)
    other = picture.copy()
    other[50, 1, 1] = 1
    assert loaded.answers([picture, other, other[:40]])[0] == [0, 1, 0]
    assert len(inputs(calls)) == 3


# Memory and devices


def test_out_of_memory_halves_what_torch_is_given() -> None:
    import torch

    from mlsql.exec.backends.torch_network import TorchNetwork

    class Small(torch.nn.Module):
        sizes: list[int] = []

        def forward(self, x: Any) -> Any:
            self.sizes.append(len(x))
            if len(x) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return x.mean(dim=(2, 3))

    network = Sleeper()
    network.network = Small()
    run = TorchNetwork(network, "cpu", batch=64)

    class Model:
        def prepare(self, value: Any) -> Any:
            return value

        def infer(self, prepared: Sequence[Any]) -> list[float]:
            return [float(answer[0]) for answer in run(prepared)]

    spec, _ = counting_model("big", output_type="DOUBLE", batch_size=64, deterministic=False)
    loaded = LoadedModel(spec, Model())
    pictures = [np.full((4, 4, 3), i, np.uint8) for i in range(20)]
    answers, spent = loaded.answers(pictures)
    assert answers == [float(i) for i in range(20)] and spent.calls == 20
    assert loaded.size <= 3
    Small.sizes.clear()
    loaded.answers(pictures)
    assert max(Small.sizes) <= 3, "what memory allows was forgotten"


def test_torch_gives_the_same_in_pieces(picture: np.ndarray[Any, Any]) -> None:
    from mlsql.exec.backends.torch_network import TorchNetwork

    model: Any = efficientnet_lite0.load(efficientnet_lite0.SPEC, "cpu")
    prepared = [model.prepare(np.roll(picture, 50 * i, axis=1)) for i in range(3)]
    expected = model.infer(prepared)
    model.run = TorchNetwork(model, "cpu", batch=2)
    for ours, theirs in zip(model.infer(prepared), expected, strict=True):
        assert np.abs(ours["scores"] - theirs["scores"]).max() < 1e-4


def test_the_detector_by_torch_in_pieces(detector: Any, picture: np.ndarray[Any, Any]) -> None:
    from mlsql.exec.backends.torch_network import TorchNetwork

    prepared = [detector.prepare(np.roll(picture, 50 * i, axis=1)) for i in range(3)]
    expected = by_torch(detector, prepared)
    run, detector.run = detector.run, TorchNetwork(detector, "cpu", batch=2)
    try:
        found = detector.infer(prepared)
    finally:
        detector.run = run
    assert [[o["label"] for o in objects] for objects in found] == [
        [o["label"] for o in objects] for objects in expected]
    scores = [[o["score"] for o in chain(*side)] for side in (found, expected)]
    assert np.abs(np.subtract(*scores)).max() < 1e-4
