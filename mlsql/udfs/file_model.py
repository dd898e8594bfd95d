"""A model out of a file: its inputs made, its network run, its outputs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlsql.errors import ProgrammingError
from mlsql.udfs.answers import normalised
from mlsql.udfs.framing import Frame, framed
from mlsql.udfs.network_outputs import detections, only, probabilities, values
from mlsql.udfs.runtimes import runtime_of
from mlsql.udfs.spec import ModelSpec


def load(spec: ModelSpec, device: str) -> FileModel:
    """The model of a file, which must be the one that CREATE MODEL saw."""
    return FileModel(spec, device)


class FileModel:
    """See `mlsql.udfs.spec.Model`. `network` is what runs, `said` what CREATE MODEL said of it."""

    def __init__(self, spec: ModelSpec, device: str) -> None:
        from mlsql.udfs.weights import checked

        self._spec = spec
        self.said = dict(spec.parameters)
        path = Path(checked(spec.weights, spec.sha256))
        runtime = runtime_of(path, self.said.get("runtime"))
        arguments = json.loads(self.said.get("arguments", "{}"))
        self.network = runtime.load(path, device, self.said.get("architecture"), arguments)

    def prepare(self, value: Any) -> tuple[Any, Frame | None]:
        """The network's input for a picture (RGB uint8) or a value, and how the picture lies."""
        import numpy as np

        if not self._spec.takes_media:
            whole = self._spec.input_type.upper().startswith(("BIGINT", "INTEGER", "SMALLINT"))
            return np.asarray(value, np.int64 if whole else np.float32), None
        width, height = size_of(self._spec)
        pixels, frame = framed(value, width, height, self.said["resize"])
        if self.said["channels"] == "bgr":
            pixels = pixels[..., ::-1]
        mean, std = (np.asarray(self.said[name], np.float32) for name in ("mean", "std"))
        x = (pixels.astype(np.float32) / np.float32(self.said["scale"]) - mean) / std
        return np.ascontiguousarray(x if self.said["layout"] == "nhwc" else x.transpose(2, 0, 1),
                                    np.float32), frame

    def infer(self, prepared: Sequence[tuple[Any, Frame | None]]) -> list[Any]:
        """The answers, in the form of the spec's output type."""
        if not prepared:
            return []
        return normalised(self._spec, self.outputs(prepared), len(prepared))

    def outputs(self, prepared: Sequence[tuple[Any, Frame | None]]) -> list[Any]:
        """What the network says of each input, read for the model's task."""
        most = self.said.get("fixed_batch") or len(prepared)
        found: list[Any] = []
        for start in range(0, len(prepared), most):
            found += self._read(prepared[start:start + most])
        return found

    def _read(self, prepared: Sequence[tuple[Any, Frame | None]]) -> list[Any]:
        import numpy as np

        said = self.network(np.stack([x for x, _ in prepared]))
        if self._spec.task == "detect":
            frames = [frame for _, frame in prepared if frame is not None]
            return detections(said, frames, self._spec, size_of(self._spec))
        rows = only(said, self.said.get("head"), len(prepared))
        if self._spec.task == "classify":
            return list(probabilities(rows, self.said.get("scores")))
        return values(rows, self._spec)


def size_of(spec: ModelSpec) -> tuple[int, int]:
    """Width and height of a model's input in pixels."""
    size = dict(spec.parameters).get("size")
    if size is None:
        raise ProgrammingError(f"CREATE MODEL {spec.name}: size => … must say the pixels of its "
                               "input, as in 224 or [640, 480]")
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
