"""A network run by OpenVINO: several streams of one thread each, a picture a request."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsql.udfs.network import Networked


FORM = 1  # of the files: raised when the graph is built otherwise


class OpenVINONetwork:
    """Gives raw answers; while one is looked at by the caller, the next ones are being computed.

    `network` is an openvino.Model; `precision` what it may compute in, 'f32' or 'bf16'.
    """

    def __init__(
        self, network: Any, streams: int, threads: int, precision: str = "f32"
    ) -> None:
        import openvino

        # One picture a request: its answer then does not hang on the batch, and nothing waits.
        shape = list(network.input(0).get_partial_shape())
        network.reshape([1, *(side.get_length() for side in shape[1:])])
        compiled = openvino.Core().compile_model(network, "CPU", {
            "NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": streams * threads,
            # Pinned threads would fight the decoder for their core and leave the other one idle.
            "ENABLE_CPU_PINNING": False, "INFERENCE_PRECISION_HINT": precision,
        })
        self._idle: list[Any] = [compiled.create_infer_request() for _ in range(streams + 1)]

    def __call__(
        self, pictures: Sequence[NDArray[np.uint8]]
    ) -> Iterator[NDArray[np.float32]]:
        """The answer of each picture, in order, valid until the next one is asked for."""
        waiting = iter(pictures)
        busy: deque[Any] = deque()
        try:
            while self._idle and (picture := next(waiting, None)) is not None:
                busy.append(_started(self._idle.pop(), picture))
            while busy:
                busy[0].wait()
                yield busy[0].get_output_tensor(0).data[0]
                request = busy.popleft()
                if (picture := next(waiting, None)) is not None:
                    busy.append(_started(request, picture))
                else:
                    self._idle.append(request)
        finally:
            for request in busy:
                request.wait()
            self._idle += busy


def _started(request: Any, picture: NDArray[np.uint8]) -> Any:
    request.start_async({0: picture[None]}, share_inputs=True)
    return request


def network(
    model: Networked, file: Path | None, ranges: Sequence[float] | None = None, name: str = ""
) -> Any:
    """The model's network as an openvino.Model: read from `file`, or built and kept there.

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
        return _remembered(model, ranges, name)
    made = _built(model, ranges)
    with suppress(OSError, RuntimeError):  # a full disk is one of OpenVINO's RuntimeErrors
        _keep(made, file)
    return made


_last: dict[str, Any] = {}


def _remembered(model: Networked, ranges: Sequence[float] | None, name: str) -> Any:
    """The network built last, if it is the one of that name.

    Sessions without a cache would otherwise build the shipped networks anew each time.
    """
    made = _last.get(name)
    if made is None:
        made = _built(model, ranges)
        _last.clear()
        if name:
            _last[name] = made
    return made


def _built(model: Networked, ranges: Sequence[float] | None) -> Any:
    import torch

    from mlsql.exec.backends._openvino_graph import graph
    from mlsql.exec.backends._trace import traced

    side = model.pixels.side
    trace = traced(model.network, torch.zeros(1, 3, side, side))
    return graph(trace, model.pixels, ranges)


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
