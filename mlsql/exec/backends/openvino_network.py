"""A network run by OpenVINO: several streams of one thread each, two pictures a request."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsql.udfs.network import Networked

    Coming = Callable[[], Sequence[NDArray[np.uint8]]]

FORM = 2  # of the files: raised when the graph is built otherwise

PICTURES = 2
"""Pictures a request: the weights of the widest layers then come from memory once for both. More
gain nothing, and make the answers hang on the neighbours in the last digit."""


@dataclass
class _Flight:
    """A request on its way, the pictures whose answers are still to be fetched, and their place."""

    request: Any
    pictures: deque[Any]
    at: int = 0


class OpenVINONetwork:
    """Gives raw answers; while one is looked at by the caller, the next ones are being computed.

    `network` is an openvino.Model; `precision` what it may compute in, 'f32' or 'bf16'. For one
    thread at a time.
    """

    def __init__(
        self, network: Any, streams: int, threads: int, precision: str = "f32"
    ) -> None:
        import openvino

        shape = list(network.input(0).get_partial_shape())
        network.reshape([PICTURES, *(side.get_length() for side in shape[1:])])
        compiled = openvino.Core().compile_model(network, "CPU", {
            "NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": streams * threads,
            # Pinned threads would fight the decoder for their core and leave the other one idle.
            "ENABLE_CPU_PINNING": False, "INFERENCE_PRECISION_HINT": precision,
        })
        # More than streams: those that wait are begun while the caller is busy with an answer.
        count = streams + max(2, streams // 4)
        self._idle: list[Any] = [compiled.create_infer_request() for _ in range(count)]
        self._flying: deque[_Flight] = deque()
        self._coming: Coming = tuple

    def __call__(
        self, pictures: Sequence[NDArray[np.uint8]]
    ) -> Iterator[NDArray[np.float32]]:
        """The answer of each picture, in order, valid until the next one is asked for."""
        begun = [picture for flight in self._flying for picture in flight.pictures]
        if any(ours is not theirs for ours, theirs in zip(begun, pictures)):
            self.forget()
            begun = []
        waiting = iter(pictures[len(begun):])
        early = max(0, len(begun) - len(pictures))  # begun already, and for a later call
        left = len(pictures)
        try:
            while left:
                early += self._begin(waiting, early)
                flight = self._flying[0]
                flight.request.wait()
                answers = flight.request.get_output_tensor(0).data
                while left and flight.pictures:
                    yield answers[flight.at]
                    flight.pictures.popleft()
                    flight.at += 1
                    left -= 1
                if not flight.pictures:
                    self._idle.append(self._flying.popleft().request)
            self._begin(waiting, early)
        finally:
            if left:
                self.forget()

    def expect(self, coming: Coming) -> None:
        """Say what the calls after the next one will ask, so that no stream is idle between calls.

        `coming` gives as many of those pictures as are at hand, in order; it is asked again, and
        must then begin with the same ones. They are known by identity; who is not asked after all
        is forgotten.
        """
        self._coming = coming

    def forget(self) -> None:
        """Let go of what was begun for later calls."""
        for flight in self._flying:
            flight.request.cancel()
        while self._flying:
            request = self._flying.popleft().request
            with suppress(RuntimeError):  # so it says that it was cancelled
                request.wait()
            self._idle.append(request)

    def _begin(self, waiting: Iterator[Any], early: int) -> int:
        """Begin what idle requests can take: those waiting, then those coming after `early`.

        Gives how many of the latter were begun. A half empty request is begun only for who waits.
        """
        more = 0
        while self._idle:
            group = deque(islice(waiting, PICTURES))
            asked = len(group)
            if asked < PICTURES:
                done = early + more
                group += list(self._coming())[done:done + PICTURES - asked]
            if len(group) < (1 if asked else PICTURES):
                break
            more += len(group) - asked
            request = self._idle.pop()
            tensor = request.get_input_tensor(0).data
            for place, picture in enumerate(group):
                tensor[place] = picture
            request.start_async()
            self._flying.append(_Flight(request, group))
        return more


def network(
    model: Networked, file: Path | None, ranges: Sequence[float] | None = None, name: str = "",
    exact: bool = True,
) -> Any:
    """The model's network as an openvino.Model: read from `file`, or built and kept there.

    `exact` and `ranges` are those of `_openvino_graph.graph`.

    A file that cannot be read is built anew, one that cannot be written is done without; without a
    file the last network is remembered by its `name`, if it has one. What OpenVINO cannot hold is
    a TypeError. torch is needed only for building.
    """
    import openvino

    if file is not None and file.is_file():
        try:
            return openvino.Core().read_model(file)
        except RuntimeError:
            pass  # torn by a crash of the machine, or of a version that is no more
    if file is None:
        return _remembered(model, ranges, name, exact)
    made = _built(model, ranges, exact)
    with suppress(OSError, RuntimeError):  # a full disk is one of OpenVINO's RuntimeErrors
        _keep(made, file)
    return made


_last: dict[str, Any] = {}


def _remembered(
    model: Networked, ranges: Sequence[float] | None, name: str, exact: bool
) -> Any:
    """The network built last, if it is the one of that name.

    Sessions without a cache would otherwise build the shipped networks anew each time.
    """
    made = _last.get(name)
    if made is None:
        made = _built(model, ranges, exact)
        _last.clear()
        if name:
            _last[name] = made
    return made


def _built(model: Networked, ranges: Sequence[float] | None, exact: bool) -> Any:
    import torch

    from mlsql.exec.backends._openvino_graph import graph
    from mlsql.exec.backends._trace import traced

    side = model.pixels.side
    trace = traced(model.network, torch.zeros(1, 3, side, side))
    return graph(trace, model.pixels, ranges, exact)


def _keep(made: Any, file: Path) -> None:
    """Write beside and rename into place; the .xml comes last, so what it needs is there."""
    import openvino

    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.stem}.{os.getpid()}.xml")
    try:
        openvino.save_model(made, part, compress_to_fp16=False)
        for whole in (part, part.with_suffix(".bin")):
            _to_disk(whole)  # a crash of the machine must not leave zeros under the final name
        os.replace(part.with_suffix(".bin"), file.with_suffix(".bin"))
        os.replace(part, file)
    finally:
        for left in (part, part.with_suffix(".bin")):
            left.unlink(missing_ok=True)


def _to_disk(file: Path) -> None:
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
