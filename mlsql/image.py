"""A picture as a value: a handle until somebody looks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.errors import InterfaceError

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image


class Image:
    """A picture of a result. It is decoded when its pixels are asked for, once.

    `uri` is the path of the file, `frame` the 0-based number of the picture where the file is a
    video, and `data` an encoded picture that came from a table instead of a file.
    """

    __slots__ = ("_pixels", "data", "frame", "uri")

    def __init__(
        self, uri: str | None = None, frame: int | None = None, data: bytes | None = None
    ) -> None:
        if uri is None and data is None:
            raise InterfaceError("an image needs a uri or data")
        self.uri = uri
        self.frame = frame
        self.data = data
        self._pixels: np.ndarray[Any, Any] | None = None

    def numpy(self) -> np.ndarray[Any, Any]:
        """The upright picture: uint8, (height, width, 3), RGB. MediaError if it cannot be read."""
        if self._pixels is None:
            pixels = self._decoded()
            pixels.flags.writeable = False  # it is kept: a change would show in every later look
            self._pixels = pixels
        return self._pixels

    def _decoded(self) -> np.ndarray[Any, Any]:
        from mlsql.config import Settings
        from mlsql.exec.media.decode import Decoder, Handle, Limits

        decoder = Decoder(Limits(max_pixels=Settings().integer("max_pixels")))
        for _, pixels in decoder.decode([Handle(self.uri, self.frame, self.data)]):
            if isinstance(pixels, Exception):
                raise pixels
            found: np.ndarray[Any, Any] = pixels
            return found
        raise InterfaceError(f"{self!r} was not decoded")

    def pil(self) -> PIL.Image.Image:
        """The picture as a PIL image in mode RGB."""
        import PIL.Image

        return PIL.Image.fromarray(self.numpy())

    def save(self, path: str | Path) -> Path:
        """Write the picture; the suffix of the path says in which format."""
        path = Path(path)
        self.pil().save(path)
        return path

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.pil().save(buffer, format="PNG")
        return buffer.getvalue()

    def __repr__(self) -> str:
        parts = ["image"]
        if self._pixels is not None:
            height, width = self._pixels.shape[:2]
            parts.append(f"{width}x{height}")
        parts.append(self._name())
        return f"<{' '.join(parts)}>"

    def _name(self) -> str:
        if self.uri is None:
            return f"{len(self.data or b''):,} bytes"
        name = self.uri.rstrip("/").rsplit("/", 1)[-1]
        return name if self.frame is None else f"{name}#{self.frame}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str | None, int | None, bytes | None]:
        return (self.uri, self.frame, self.data)
