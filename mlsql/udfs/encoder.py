"""Encoding as a model: pictures in, the bytes of their files out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUALITIES: Mapping[str, int | None] = {"jpeg": 90, "png": None, "webp": 80}
"""The formats that can be written, and the quality of each where none is asked for."""


def encoder(kind: str, quality: int | None) -> ModelSpec:
    """The model that encodes in a format."""
    return ModelSpec(
        name=f"encode_{kind}" if quality == QUALITIES[kind] else f"encode_{kind}_{quality}",
        task="encode",
        output_type="BLOB",
        loader="mlsql.udfs.encoder:load",
        kept=False,
        cost_ms=1.0,
        load_ms=1.0,
        parameters=(("format", kind), ("quality", quality)),
    )


def load(spec: ModelSpec, device: str) -> Encoder:
    """The encoder of a spec; it needs no device."""
    return Encoder(**dict(spec.parameters))


class Encoder:
    """Encodes RGB pictures; see `mlsql.udfs.spec.Model`."""

    def __init__(self, format: str, quality: int | None) -> None:
        import cv2

        name = {"jpeg": cv2.IMWRITE_JPEG_QUALITY, "webp": cv2.IMWRITE_WEBP_QUALITY}.get(format)
        self._suffix = f".{format}"
        self._options = [] if name is None or quality is None else [name, quality]

    def prepare(self, value: NDArray[np.uint8]) -> bytes:
        """The encoded picture: here, so that what waits for its turn is small."""
        import cv2

        try:
            done, data = cv2.imencode(self._suffix, cv2.cvtColor(value, cv2.COLOR_RGB2BGR),
                                      self._options)
        except cv2.error as error:  # such as a side that the format has no room for
            raise MediaError(f"cannot be written as {self._suffix[1:]}: {error.err}") from error
        if not done:
            raise MediaError(f"cannot be written as {self._suffix[1:]}")
        return bytes(data.tobytes())

    def infer(self, prepared: Sequence[Any]) -> list[bytes]:
        """The encoded pictures."""
        return list(prepared)
