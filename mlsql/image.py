"""A picture as a value: a handle until somebody looks."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.errors import Error, InterfaceError

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

_LARGE = 320_000  # pixels; a PNG of so many is below a megabyte
_SHOWN_SIDE = 1600


class Image:
    """A picture of a result. It is decoded when its pixels are asked for, once.

    `uri` is the path of the file, `frame` the 0-based number of the picture where the file is a
    video, and `data` an encoded picture that came from a table instead of a file.
    """

    __slots__ = ("_pixels", "data", "frame", "size", "uri")

    def __init__(
        self, uri: str | None = None, frame: int | None = None, data: bytes | None = None
    ) -> None:
        if uri is None and data is None:
            raise InterfaceError("an image needs a uri or data")
        self.uri = uri
        self.frame = frame
        self.data = data
        self._pixels: np.ndarray[Any, Any] | None = None
        self.size: tuple[int, int] | None = None
        """Width and height, where they are known: once it was decoded, or told."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The upright picture: uint8, (height, width, 3), RGB. MediaError if it cannot be read."""
        if self._pixels is None:
            pixels = self._decoded()
            pixels.flags.writeable = False  # it is kept: a change would show in every later look
            self._pixels = pixels
            self.size = (pixels.shape[1], pixels.shape[0])
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
        picture = self.pil()
        try:
            picture.save(path)
        except ValueError as error:  # a suffix of no format
            raise InterfaceError(f"{path}: {error}") from error
        return path

    def annotate(
        self, detections: Sequence[Mapping[str, Any] | None] | Mapping[str, Any] | None, *,
        labels: bool = True, scores: bool = True, width: int | None = None,
    ) -> Image:
        """A picture of its own with boxes drawn into this one, as ANNOTATE draws them.

        `detections` is what DETECT gives: dicts with x1, y1, x2, y2, and perhaps label and score.
        `width` is the lines', in pixels.
        """
        from mlsql.exec.media.boxes import drawn

        found = [detections] if isinstance(detections, Mapping) else detections or []
        pixels = drawn(self.numpy(), found, labels=labels, scores=scores, width=width)
        import PIL.Image

        buffer = io.BytesIO()
        PIL.Image.fromarray(pixels).save(buffer, format="PNG")
        return Image(data=buffer.getvalue())

    # What a notebook shows: PNG, JPEG where that would be large, words where it cannot be read.

    def _repr_png_(self) -> bytes | None:
        return self._shown("PNG", large=False)

    def _repr_jpeg_(self) -> bytes | None:
        return self._shown("JPEG", large=True)

    def _repr_html_(self) -> str | None:
        try:
            self.numpy()
        except Error as error:
            return f"{escape(repr(self))} <i>{escape(str(error))}</i>"
        return None

    def _shown(self, format: str, large: bool) -> bytes | None:
        try:
            height, width = self.numpy().shape[:2]
        except Error:
            return None
        if (height * width > _LARGE) is not large:
            return None
        picture = self.pil()
        picture.thumbnail((_SHOWN_SIDE, _SHOWN_SIDE))
        buffer = io.BytesIO()
        picture.save(buffer, format=format)
        return buffer.getvalue()

    def __repr__(self) -> str:
        parts = ["image"]
        if self.size is not None:
            parts.append(f"{self.size[0]}x{self.size[1]}")
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
