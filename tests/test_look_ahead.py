"""Beginning early: what a network does between two calls, and convolutions with fewer products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from mlsql.exec.inference import LoadedModel
from mlsql.exec.share import BatchDone, Step
from mlsql.exec.worker import Worker, WorkerOptions
from mlsql.udfs.network import Pixels
from tests.fakes import FakeDecoder, counting_model, frame_of, handles, share_of

openvino = pytest.importorskip("openvino")
Picture = np.ndarray[Any, np.dtype[np.uint8]]
SIDE = 8


def mean_network() -> Any:
    """The mean of a picture, as a network of OpenVINO's."""
    from openvino import opset13 as ops

    picture = ops.parameter([-1, SIDE, SIDE, 3], np.uint8, name="pictures")
    mean = ops.reduce_mean(ops.convert(picture, np.float32), np.array([1, 2, 3]), False)
    return openvino.Model([ops.result(mean)], [picture], "network")


class Counted:
    """A request that notes each start."""

    def __init__(self, request: Any, starts: list[float]) -> None:
        self._request, self._starts = request, starts

    def start_async(self) -> None:
        self._starts.append(float(self._request.get_input_tensor(0).data[0].mean()))
        self._request.start_async()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


@pytest.fixture
def running() -> tuple[Any, list[float]]:
    """A network of two streams, and the first picture of each request that it has begun."""
    from mlsql.exec.backends.openvino_network import OpenVINONetwork

    network, starts = OpenVINONetwork(mean_network(), 2, 1), []
    network._idle = [Counted(request, starts) for request in network._idle]
    return network, starts


def grey(values: Sequence[int]) -> list[Picture]:
    return [np.full((SIDE, SIDE, 3), value, np.uint8) for value in values]


def answered(network: Any, pictures: Sequence[Picture]) -> list[float]:
    return [float(answer) for answer in network(pictures)]


@pytest.mark.parametrize("sizes", [[4, 4, 4], [3, 3, 3, 3], [1] * 6, [5, 2, 1, 7], [16, 5]])
def test_what_comes_next_is_begun_before_it_is_asked(
    running: tuple[Any, list[float]], sizes: list[int]
) -> None:
    network, starts = running
    pictures = grey(range(sum(sizes)))
    at = 0
    for size in sizes:
        after = at + size
        network.expect(lambda after=after: pictures[after:])
        assert answered(network, pictures[at:after]) == list(range(at, after))
        at = after
    # Every request but the last had two pictures: none was done twice, and no call ended alone.
    assert starts == list(range(0, at, 2))
    assert len(network._idle) == 4


def test_nothing_is_begun_that_was_not_announced(running: tuple[Any, list[float]]) -> None:
    network, starts = running
    pictures = grey(range(9))
    assert answered(network, pictures[:3]) == [0, 1, 2]
    assert starts == [0, 2]
    network.expect(lambda: pictures[3:4])  # half a request can wait for its other half
    assert answered(network, pictures[:2]) == [0, 1]
    assert starts == [0, 2, 0]


def test_who_is_not_asked_after_all_is_forgotten(running: tuple[Any, list[float]]) -> None:
    network, starts = running
    pictures, others = grey(range(8)), grey(range(100, 105))
    network.expect(lambda: pictures[2:])
    assert answered(network, pictures[:2]) == [0, 1]
    assert len(starts) > 1
    network.expect(tuple)
    assert answered(network, others) == [100, 101, 102, 103, 104]
    network.expect(lambda: pictures)
    assert answered(network, others[:2]) == [100, 101]
    network.forget()
    assert len(network._idle) == 4 and not network._flying
    network.expect(tuple)
    assert answered(network, pictures) == list(range(8))


def test_what_is_at_hand_may_grow(running: tuple[Any, list[float]]) -> None:
    network, starts = running
    pictures, ready = grey(range(12)), [4]
    network.expect(lambda: pictures[4:ready[0]])
    answers = network(pictures[:4])
    assert next(answers) == 0 and starts == [0, 2]
    ready[0] = 10
    assert [float(answer) for answer in answers] == [1, 2, 3]
    assert starts[:3] == [0, 2, 4]
    network.expect(tuple)
    assert answered(network, pictures[4:]) == list(range(4, 12))
    assert starts == [0, 2, 4, 6, 8, 10]


# What a run announces


class Announced:
    """A model over a network that notes what is announced, and answers with frame numbers."""

    pixels = Pixels(4, 1.0, 0.0)
    network: Any = None
    ranges = None

    def __init__(self, last: int | None) -> None:
        self.run = self
        self._last = last
        self.heard: list[tuple[list[int], list[int]]] = []
        self.forgotten = 0
        self._coming: Callable[[], Sequence[Picture]] = tuple

    def expect(self, coming: Callable[[], Sequence[Picture]]) -> None:
        self._coming = coming

    def forget(self) -> None:
        self.forgotten += 1

    def pixels_of(self, prepared: Picture) -> Picture:
        return prepared

    def prepare(self, picture: Picture) -> Picture:
        return picture

    def infer(self, prepared: Sequence[Picture]) -> list[int]:
        asked = [frame_of(picture) for picture in prepared]
        until = time.monotonic() + 10
        while self._last not in (None, asked[-1]) and not self._coming():
            assert time.monotonic() < until, "decoding is never ahead"
            time.sleep(0.001)
        self.heard.append((asked, [frame_of(picture) for picture in self._coming()]))
        return asked


def run_of(
    frames: Sequence[int], last: int | None = None, wanted: int | None = None,
    decoder: Any = None, stop: int = 1_000,
) -> Announced:
    """The model after a run over those frames, in calls of four, that ends after `stop` batches.

    Where all are wanted, each call but the last waits until decoding is ahead.
    """
    model = Announced(last if wanted is None else None)
    spec, _ = counting_model("net", batch_size=4)
    worker = Worker(WorkerOptions(batch_size=4), lambda: decoder or FakeDecoder())
    worker._load = lambda _: LoadedModel(spec, model)  # type: ignore[method-assign]
    share = share_of({"frame": handles(frames)}, Step(spec, "frame"), accept="out_0 >= 0")
    share = type(share)(share.rows, share.steps, share.accept, wanted)
    done = 0
    for event in (events := worker.run(share)):
        done += isinstance(event, BatchDone)
        if done >= stop:
            events.close()
            break
    worker.close()
    return model


def test_a_run_announces_what_it_will_ask_and_nothing_else() -> None:
    model = run_of(range(40), last=39)
    assert [frame for call, _ in model.heard for frame in call] == list(range(40))
    assert [coming for _, coming in model.heard] == [
        list(range(start, min(start + 4, 40))) for start in range(4, 44, 4)]
    assert model.forgotten == 1


def test_rows_in_another_order_than_the_videos() -> None:
    frames = [int(n) for n in np.random.default_rng(1).permutation(40)]
    model = run_of(frames, last=frames[-1])
    assert [frame for call, _ in model.heard for frame in call] == frames
    assert [coming for _, coming in model.heard] == [
        frames[start:start + 4] for start in range(4, 44, 4)]


def test_with_a_limit_only_what_is_certainly_wanted_is_announced() -> None:
    model = run_of(range(40), wanted=10, stop=3)
    coming = [set(coming) for _, coming in model.heard]
    assert max((max(c) for c in coming if c), default=0) <= 11, coming
    assert not coming[2], "after ten rows no more are wanted"
    assert model.forgotten == 1


def test_pictures_that_will_not_be_asked_are_not_announced() -> None:
    class Paused(FakeDecoder):
        def decode(self, given: Sequence[Any]) -> Iterator[Any]:
            yield from super().decode([h._replace(frame=h.frame // 6) for h in given])

    model = run_of(range(60), decoder=Paused())
    assert [frame for call, _ in model.heard for frame in call] == list(range(10))
    for call, coming in model.heard:
        assert len(coming) == len(set(coming)) and not set(call) & set(coming)


# Winograd


def direct(x: Any, weight: np.ndarray[Any, Any]) -> Any:
    from openvino import opset13 as ops

    return ops.convolution(x, weight, [1, 1], [1, 1], [1, 1], [1, 1])


@pytest.mark.parametrize("size", [(6, 8), (7, 6), (9, 9)])
def test_a_convolution_with_fewer_products_is_the_same(size: tuple[int, int]) -> None:
    from openvino import opset13 as ops

    from mlsql.exec.backends import _winograd

    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.1, (12, 16, 3, 3)).astype(np.float32)
    x = ops.parameter([2, 16, *size], np.float32)
    outputs = [ops.result(direct(x, weight)), ops.result(_winograd.convolution(x, weight))]
    compiled = openvino.Core().compile_model(openvino.Model(outputs, [x]), "CPU")
    expected, found = compiled(rng.normal(0, 1, (2, 16, *size)).astype(np.float32)).values()
    assert found.shape == expected.shape == (2, 12, *size)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(expected).max() > 1


def test_where_fewer_products_pay() -> None:
    from openvino import opset13 as ops

    from mlsql.exec.backends._winograd import pays

    def asked(side: int, shape: tuple[int, ...] = (504, 512, 3, 3), stride: int = 1) -> bool:
        x = ops.parameter([-1, shape[1], side, side], np.float32)
        weight = np.broadcast_to(np.float32(0), shape)
        return pays(x, weight, [stride] * 2, [1, 1], [1, 1])

    assert asked(10) and asked(19) and asked(10, (252, 576, 3, 3))
    assert not asked(5), "patches hang over the edge"
    assert not asked(10, (504, 32, 3, 3)) and not asked(10, (16, 512, 3, 3))
    assert not asked(10, (504, 512, 1, 1)) and not asked(10, stride=2)
    assert not asked(-1)
