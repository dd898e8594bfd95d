"""Boxes drawn into a picture, each label in a colour of its own."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]
    Box = tuple[float, float, float, float]

_COLOURS = ((230, 60, 60), (255, 170, 0), (255, 225, 25), (110, 205, 60), (0, 190, 150),
            (0, 200, 255), (70, 120, 255), (160, 90, 235), (240, 90, 210), (200, 140, 90))


def colour_of(label: str) -> tuple[int, int, int]:
    """The colour of a label's boxes, the same in every picture."""
    return _COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]


def drawn(
    pixels: Pixels, detections: Sequence[Mapping[str, Any] | None], *,
    labels: bool = True, scores: bool = True, width: int | None = None,
) -> Pixels:
    """A copy of a picture (RGB uint8) with the boxes of the detections, the best one on top.

    A detection has x1, y1, x2, y2 in pixels, and perhaps label and score; one that is NULL or has
    no place is left out. `width` is the lines', by default by the picture's size.
    """
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    height = pixels.shape[0]
    picture = Image.fromarray(pixels)
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=max(10, height // 28))
    line = max(1, min(pixels.shape[:2]) // 200) if width is None else min(int(width), height)
    placed = [(box, found) for found in detections
              if found is not None and (box := _box(found)) is not None]
    for box, found in sorted(placed, key=lambda item: item[1].get("score") or 0.0):
        colour = colour_of(str(found.get("label") or ""))
        pen.rectangle(box, outline=colour, width=line)
        text = _text(found, labels, scores)
        if text:
            _write(pen, box, text, colour, font)
    return np.asarray(picture, np.uint8)


def _box(found: Mapping[str, Any]) -> Box | None:
    corners = [found.get(corner) for corner in ("x1", "y1", "x2", "y2")]
    numbers = [float(corner) for corner in corners if corner is not None]
    if len(numbers) < 4 or not all(map(math.isfinite, numbers)):
        return None
    x1, y1, x2, y2 = numbers
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _text(found: Mapping[str, Any], labels: bool, scores: bool) -> str:
    label, score = found.get("label"), found.get("score")
    parts = [str(label)] if labels and label is not None else []
    return " ".join([*parts, f"{score:.2f}"] if scores and score is not None else parts)


def _write(pen: Any, box: Box, text: str, colour: tuple[int, int, int], font: Any) -> None:
    """The text above the box, or inside it where the picture ends, on its colour."""
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    wide, high = right - left + 4, bottom - top + 4
    room = pen.im.size
    x = min(max(box[0], 0), max(room[0] - wide, 0))
    y = box[1] - high if box[1] >= high else max(box[1], 0)
    pen.rectangle((x, y, x + wide, y + high), fill=colour)
    dark = sum(colour) > 330
    pen.text((x + 2 - left, y + 2 - top), text, fill=(0, 0, 0) if dark else (255, 255, 255),
             font=font)
