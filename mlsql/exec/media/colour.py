"""Decoded video pictures to upright 8-bit RGB: the one place where colours are converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import av
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

# How a stored picture is made upright: transpose first, then flip left-right, then top-bottom.
Turn = tuple[bool, bool, bool]
STRAIGHT: Turn = (False, False, False)
_EXIF: dict[int, Turn] = {
    1: (False, False, False), 2: (False, True, False), 3: (False, True, True),
    4: (False, False, True), 5: (True, False, False), 6: (True, True, False),
    7: (True, True, True), 8: (True, False, True),
}


class Colours:
    """Converts pictures of one stream; it keeps the scaler's tables between them."""

    def __init__(self) -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self._reformatter = VideoReformatter()
        self._how = Interpolation.BICUBIC  # FFmpeg's default, hence OpenCV's pixels
        self._turn: tuple[int, Turn] | None = None  # the last picture's rotation, and its turn

    def rgb(self, frame: av.VideoFrame) -> Pixels:
        """The upright picture: uint8, (height, width, 3). Alpha is dropped, depth made 8 bits."""
        plain = self._reformatter.reformat(
            frame, format="rgb24", interpolation=self._how, threads=1)
        pixels: Pixels = plain.to_ndarray()  # type: ignore[assignment]  # rgb24 is uint8
        return turned(pixels, self._turn_of(frame))

    def _turn_of(self, frame: av.VideoFrame) -> Turn:
        """The matrix is read where the rotation changes: to read it keeps a picture in memory."""
        if self._turn is None or self._turn[0] != frame.rotation:
            self._turn = (frame.rotation, turn_of(frame))
        return self._turn[1]


def turn_of(frame: av.VideoFrame) -> Turn:
    """How the stream's display matrix turns this picture, in right angles and mirrorings.

    The matrix maps (x, y) to (a x + c y, b x + d y); ISO/IEC 14496-12, 6.2.2.
    """
    import numpy as np

    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return STRAIGHT
    a, b, _, c, d = (int(v) for v in np.frombuffer(memoryview(data), np.int32)[:5])  # type: ignore[arg-type]
    if abs(b) > abs(a):
        return True, c < 0, b < 0
    return False, a < 0, d < 0


def upright_size(width: int, height: int, turn: Turn) -> tuple[int, int]:
    """Width and height of the picture once turned."""
    return (height, width) if turn[0] else (width, height)


def oriented(pixels: Pixels, orientation: int) -> Pixels:
    """The picture with an EXIF orientation (1..8) applied."""
    return turned(pixels, _EXIF[orientation])


def turned(pixels: Pixels, turn: Turn) -> Pixels:
    """The picture turned, contiguous; itself where there is nothing to do."""
    import numpy as np

    transpose, mirror, flip = turn
    if transpose:
        pixels = pixels.transpose(1, 0, 2)
    if mirror:
        pixels = pixels[:, ::-1]
    if flip:
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
