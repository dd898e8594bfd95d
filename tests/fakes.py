"""Models, pictures and decoders that stand in for real ones, and count what is asked of them.

    spec, calls = counting_model("square", function=lambda x: x * x, input_type="BIGINT")
    calls            # [[1, 2, 3], [4]]: one list a call of the model, with the inputs it was given
    inputs(calls)    # [1, 2, 3, 4]

Media models get pictures from `FakeDecoder`, whose pixels hold the frame number: `frame_of` reads
it back, so that `counting_model("even", function=lambda p: frame_of(p) % 2 == 0)` works on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Handle
from mlsql.exec.share import Share, Step
from mlsql.udfs.spec import IMAGE_TYPE, ModelSpec

Calls = list[list[Any]]
Interval = tuple[float, float]


class FakeModel:
    """Applies a function to each input; writes down every call and how long it lasted."""

    def __init__(
        self, function: Callable[[Any], Any], calls: Calls, seconds: float,
        answer: Callable[[list[Any]], Any] | None, intervals: list[Interval],
        prepare: Callable[[Any], Any],
    ) -> None:
        self._function, self._calls, self._seconds = function, calls, seconds
        self._answer, self._intervals, self._prepare = answer, intervals, prepare

    def prepare(self, value: Any) -> Any:
        return self._prepare(value)

    def infer(self, prepared: Sequence[Any]) -> Any:
        assert len(prepared) > 0, "a model was called with an empty batch"
        self._calls.append(list(prepared))
        started = time.perf_counter()
        if self._seconds:
            time.sleep(self._seconds * len(prepared))
        answers = [self._function(value) for value in prepared]
        self._intervals.append((started, time.perf_counter()))
        return self._answer(answers) if self._answer else answers


def counting_model(
    name: str = "fake",
    task: str = "predict",
    function: Callable[[Any], Any] = lambda value: value,
    *,
    output_type: str = "BIGINT",
    input_type: str = IMAGE_TYPE,
    seconds: float = 0.0,
    answer: Callable[[list[Any]], Any] | None = None,
    prepare: Callable[[Any], Any] = lambda value: value,
    intervals: list[Interval] | None = None,
    loads: list[str] | None = None,
    **spec: Any,
) -> tuple[ModelSpec, Calls]:
    """A model that applies `function` to each prepared input, and the list of its calls.

    `seconds` are slept an input, `answer` may spoil a call's list of answers, `intervals` get the
    start and end of each call and `loads` the device of each load; `spec` goes to the ModelSpec.
    """
    calls: Calls = []

    def load(_: ModelSpec, device: str) -> FakeModel:
        if loads is not None:
            loads.append(device)
        return FakeModel(function, calls, seconds, answer,
                         intervals if intervals is not None else [], prepare)

    return ModelSpec(name, task, output_type, load, input_type, **spec), calls


def sleeping(seconds: float, **given: Any) -> tuple[ModelSpec, Calls]:
    """A counting model that sleeps so many seconds an input."""
    return counting_model(seconds=seconds, **given)


def poisoned(
    is_bad: Callable[[Any], bool],
    error: Callable[[], BaseException] = lambda: ValueError("poisoned\nsecond line"),
    function: Callable[[Any], Any] = lambda value: value,
    **given: Any,
) -> tuple[ModelSpec, Calls]:
    """A counting model whose whole call raises when an input in it is bad."""

    def checked(value: Any) -> Any:
        if is_bad(value):
            raise error()
        return function(value)

    return counting_model(function=checked, **given)


def short(lost: int = 1, **given: Any) -> tuple[ModelSpec, Calls]:
    """A counting model that leaves out the last `lost` answers of each call of several inputs."""
    return counting_model(
        answer=lambda answers: answers[:-lost] if len(answers) > 1 else answers, **given)


def inputs(calls: Calls) -> list[Any]:
    """All inputs that a model was given, in order."""
    return [value for call in calls for value in call]


def picture_of(frame: int, height: int = 4, width: int = 4) -> np.ndarray:
    """An RGB picture that holds its frame number in its first bytes."""
    picture = np.zeros((height, width, 3), dtype=np.uint8)
    picture.reshape(-1)[:4] = np.frombuffer(np.uint32(frame).tobytes(), dtype=np.uint8)
    return picture


def frame_of(picture: np.ndarray) -> int:
    """The frame number in a picture of `picture_of`."""
    return int(np.frombuffer(picture.reshape(-1)[:4].tobytes(), dtype=np.uint32)[0])


class FakeDecoder:
    """Gives pictures that hold their frame number; `decoded` lists what was asked, in order.

    `seconds` are slept a picture, `size` gives (height, width) of a frame, and frames in `bad`
    cannot be read. `opened` are all decoders made by `opener`.
    """

    def __init__(
        self, seconds: float = 0.0, size: Callable[[int], tuple[int, int]] = lambda _: (4, 4),
        bad: Iterable[int] = (),
    ) -> None:
        self.decoded: list[Handle] = []
        self.intervals: list[Interval] = []
        self.closed = False
        self._seconds, self._size, self._bad = seconds, size, frozenset(bad)

    def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, np.ndarray | MediaError]]:
        for position, handle in enumerate(handles):
            started = time.perf_counter()
            if self._seconds:
                time.sleep(self._seconds)
            self.decoded.append(handle)
            self.intervals.append((started, time.perf_counter()))
            frame = handle.frame or 0
            if frame in self._bad:
                yield position, MediaError(f"{handle.uri}: frame {frame} is damaged",
                                           handle.uri, frame)
            else:
                yield position, picture_of(frame, *self._size(frame))

    def close(self) -> None:
        self.closed = True


def handles(frames: Iterable[int | None], uri: str = "fake.mp4") -> pa.Array:
    """An IMAGE column of those frames of one video; None is a NULL handle."""
    kind = pa.struct([("uri", pa.string()), ("frame", pa.int64()), ("data", pa.binary())])
    rows = [None if f is None else {"uri": uri, "frame": f, "data": None} for f in frames]
    return pa.array(rows, type=kind)


def share_of(
    columns: dict[str, Any], *steps: Step, accept: str | None = None,
    known: dict[int, list[Any]] | None = None,
) -> Share:
    """A share over those columns; `known[i]` lists step i's known outputs, None where unknown."""
    from mlsql.udfs.types import arrow_type

    table = dict(columns)
    count = len(next(iter(columns.values())))
    for position, step in enumerate(steps):
        outputs = (known or {}).get(position, [None] * count)
        table[f"known_{position}"] = pa.array([value is not None for value in outputs])
        table[f"out_{position}"] = pa.array(outputs, type=arrow_type(step.model.output_type))
    return Share(pa.table(table), steps, accept)
