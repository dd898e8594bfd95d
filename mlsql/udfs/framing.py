"""How a picture of any size becomes a network's input, and its boxes come back from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

WAYS = ("stretch", "crop", "letterbox")
_GREY = 114  # the margin that detectors which letterbox were trained with


@dataclass(frozen=True)
class Frame:
    """Where a picture lies in a network's input: input = picture * scale + offset, by axis."""

    scale_x: float
    scale_y: float
    offset_x: float
    offset_y: float
    width: int  # of the picture
    height: int

    def to_picture(self, box: Sequence[float]) -> tuple[float, float, float, float]:
        """A box of the input (x1, y1, x2, y2) in pixels of the picture, clipped to it."""
        across = [(x - self.offset_x) / self.scale_x for x in (box[0], box[2])]
        down = [(y - self.offset_y) / self.scale_y for y in (box[1], box[3])]
        x1, x2 = (min(max(x, 0.0), float(self.width)) for x in across)
        y1, y2 = (min(max(y, 0.0), float(self.height)) for y in down)
        return x1, y1, x2, y2


def framed(picture: Pixels, width: int, height: int, way: str) -> tuple[Pixels, Frame]:
    """The picture as `width` by `height` pixels: stretched, its middle, or with margins."""
    high, wide = picture.shape[:2]
    if way == "stretch":
        return _scaled(picture, width, height), Frame(
            width / wide, height / high, 0.0, 0.0, wide, high)
    if way == "crop":
        return _middle(picture, width, height)
    return _with_margins(picture, width, height)


def _middle(picture: Pixels, width: int, height: int) -> tuple[Pixels, Frame]:
    high, wide = picture.shape[:2]
    scale = max(width / wide, height / high)
    taken_wide, taken_high = min(wide, round(width / scale)), min(high, round(height / scale))
    left, top = (wide - taken_wide) // 2, (high - taken_high) // 2
    middle = picture[top:top + taken_high, left:left + taken_wide]
    across, down = width / taken_wide, height / taken_high
    return _scaled(middle, width, height), Frame(
        across, down, -left * across, -top * down, wide, high)


def _with_margins(picture: Pixels, width: int, height: int) -> tuple[Pixels, Frame]:
    import numpy as np

    high, wide = picture.shape[:2]
    scale = min(width / wide, height / high)
    new_wide, new_high = max(1, round(wide * scale)), max(1, round(high * scale))
    left, top = (width - new_wide) // 2, (height - new_high) // 2
    whole = np.full((height, width, 3), _GREY, np.uint8)
    whole[top:top + new_high, left:left + new_wide] = _scaled(picture, new_wide, new_high)
    return whole, Frame(new_wide / wide, new_high / high, float(left), float(top), wide, high)


def _scaled(picture: Pixels, width: int, height: int) -> Pixels:
    import cv2
    import numpy as np

    shrinks = width <= picture.shape[1] and height <= picture.shape[0]
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=way), np.uint8)
