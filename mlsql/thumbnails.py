"""Pictures of a result, small: decoded together, and encoded so that all fit a number of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsql.image import Image

if TYPE_CHECKING:
    import numpy as np

# Longest sides in pixels, tried in turn; below the last one a picture says nothing.
_SIZES = (256, 192, 128, 96, 64)
_QUALITY = 80


@dataclass(frozen=True)
class Thumbnail:
    """A picture as a small JPEG. `width` and `height` are its own, `full` the whole picture's."""

    jpeg: bytes
    width: int
    height: int
    full: tuple[int, int]


def thumbnails(
    images: Iterable[Image], room: int, sizes: Sequence[int] = _SIZES
) -> dict[Image, Thumbnail | str | None]:
    """Each picture as a thumbnail of at most `sizes[0]` pixels a side, all in `room` bytes.

    One that comes several times takes as many times its bytes. Many pictures become smaller to
    fit, and the last are None if that does not help. One that cannot be read is the reason for it.
    """
    count = Counter(images)
    small = _decoded(list(count), sizes[0])
    for size in sizes:
        found = {image: _thumbnail(given, size) for image, given in zip(count, small)}
        if sum(count[image] * _weight(thumbnail) for image, thumbnail in found.items()) <= room:
            return dict(found)
    return _cut(found, count, room)


def _decoded(
    images: Sequence[Image], size: int
) -> list[tuple[Any, tuple[int, int]] | str]:
    """The pixels of each, reduced to that size, and the size of the whole; or a reason."""
    from mlsql.config import Settings
    from mlsql.exec.media.decode import Decoder, Handle, Limits

    found: list[tuple[Any, tuple[int, int]] | str] = ["it was not decoded"] * len(images)
    handles = [Handle(image.uri, image.frame, image.data) for image in images]
    with Decoder(Limits(max_pixels=Settings().integer("max_pixels"))) as decoder:
        for position, pixels in decoder.decode(handles):
            if isinstance(pixels, Exception):
                found[position] = str(pixels)
            else:
                height, width = pixels.shape[:2]
                found[position] = _reduced(pixels, size), (width, height)
    return found


def _reduced(pixels: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    import cv2

    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    if scale >= 1:
        return pixels
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    small: np.ndarray[Any, Any] = cv2.resize(pixels, wanted, interpolation=cv2.INTER_AREA)
    return small


def _thumbnail(given: tuple[Any, tuple[int, int]] | str, size: int) -> Thumbnail | str:
    import cv2

    if isinstance(given, str):
        return given
    pixels, full = given
    small = _reduced(pixels, size)
    _, jpeg = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR),
                           [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return Thumbnail(jpeg.tobytes(), small.shape[1], small.shape[0], full)


def _weight(thumbnail: Thumbnail | str) -> int:
    return len(thumbnail.jpeg) if isinstance(thumbnail, Thumbnail) else 0


def _cut(
    found: dict[Image, Thumbnail | str], count: Mapping[Image, int], room: int
) -> dict[Image, Thumbnail | str | None]:
    """The first that fit; None for the rest."""
    kept: dict[Image, Thumbnail | str | None] = {}
    for image, thumbnail in found.items():
        room -= count[image] * _weight(thumbnail)
        kept[image] = thumbnail if room >= 0 else None
    return kept
