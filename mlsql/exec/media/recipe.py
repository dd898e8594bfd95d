"""Pictures made of pictures: the recipe in a handle, read and carried out on the pixels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Handle, Limits
from mlsql.udfs.pictures import MARK

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]
    Step = Mapping[str, Any]

_MARK = MARK.encode()


def is_made(data: bytes | None) -> bool:
    """Whether a handle's data is a recipe rather than a picture."""
    return data is not None and data.startswith(_MARK)


def apart(data: bytes | None) -> tuple[bytes, bytes | None]:
    """The lines of a recipe, and the bytes of the picture that it starts from, if it has any."""
    end = 0
    while data is not None and data.startswith(_MARK, end):
        line = data.find(b"\n", end)
        if line < 0:
            return data, None
        end = line + 1
    return (data or b"")[:end], None if data is None else data[end:] or None


def base(handle: Handle) -> Handle:
    """The picture that a handle's recipe starts from; itself where it has none."""
    if not is_made(handle.data):
        return handle
    return Handle(handle.uri, handle.frame, apart(handle.data)[1])


def made(handle: Handle, pixels: Pixels, limits: Limits) -> Pixels | MediaError:
    """What a handle's recipe makes of the picture that it starts from, in memory of its own."""
    import numpy as np

    if not is_made(handle.data):
        return pixels
    try:
        for step in _steps(apart(handle.data)[0]):
            pixels = _MAKERS[step["todo"]](pixels, step, limits)
    except (MediaError, ValueError, KeyError, TypeError, MemoryError) as error:
        said = str(error) if isinstance(error, MediaError) else f"is not understood ({error})"
        failed = MediaError(f"{_name(handle)}: {said}", handle.uri, handle.frame)
        failed.__cause__ = error
        return failed
    return np.ascontiguousarray(pixels) if pixels.base is None else pixels.copy()


def _steps(lines: bytes) -> list[Step]:
    """The steps in the order in which they are taken."""
    texts = [line[len(_MARK):] for line in lines.splitlines()]
    return [json.loads(text) for text in reversed(texts)]


def _name(handle: Handle) -> str:
    name = handle.uri or "a picture of a table"
    return name if handle.frame is None else f"{name}, picture {handle.frame}"


def _crop(pixels: Pixels, step: Step, limits: Limits) -> Pixels:
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = (float(step[corner]) for corner in ("x1", "y1", "x2", "y2"))
    columns, rows = _span(x1, x2, width), _span(y1, y2, height)
    if columns is None or rows is None:
        raise MediaError(f"the box ({x1:g}, {y1:g}, {x2:g}, {y2:g}) holds nothing of the picture "
                         f"({width} x {height})")
    return pixels[rows, columns]


def _span(first: float, last: float, size: int) -> slice | None:
    """The pixels that an interval touches: one at least where it touches the picture at all."""
    if not (first <= last and first <= size and last >= 0):  # false for NaN, too
        return None
    start = min(max(math.floor(max(first, 0)), 0), size - 1)
    return slice(start, max(math.ceil(min(last, size)), start + 1))


def _resize(pixels: Pixels, step: Step, limits: Limits) -> Pixels:
    return resized(pixels, int(step["width"]), int(step["height"]), limits)


def _thumbnail(pixels: Pixels, step: Step, limits: Limits) -> Pixels:
    height, width = pixels.shape[:2]
    size = int(step["size"])
    if size < 1:
        raise MediaError(f"a picture of {size} pixels cannot be made")
    scale = size / max(width, height)
    if scale >= 1:
        return pixels
    return resized(pixels, max(1, round(width * scale)), max(1, round(height * scale)), limits)


def resized(pixels: Pixels, width: int, height: int, limits: Limits) -> Pixels:
    """The picture in another size: averaged over areas where it shrinks, else cubic."""
    import cv2
    import numpy as np

    limits.check_size(width, height, "the picture to make")
    shrinks = width <= pixels.shape[1] and height <= pixels.shape[0]
    way = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=way), np.uint8)


def _annotate(pixels: Pixels, step: Step, limits: Limits) -> Pixels:
    from mlsql.exec.media.boxes import drawn

    found = step["detections"]
    return drawn(pixels, [found] if isinstance(found, dict) else found,
                 labels=bool(step["labels"]), scores=bool(step["scores"]),
                 width=step.get("width"))


_MAKERS: Mapping[str, Callable[[Pixels, Step, Limits], Pixels]] = {
    "crop": _crop, "resize": _resize, "thumbnail": _thumbnail, "annotate": _annotate,
}
