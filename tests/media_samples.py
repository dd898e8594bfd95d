"""Videos and pictures made for the tests, each showing one oddity with pixels that tell."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
SIDE = 32


def grey(value: int, height: int = SIDE, width: int = SIDE) -> Pixels:
    """A picture of one grey."""
    return np.full((height, width, 3), value, np.uint8)


def marked(number: int, height: int = SIDE, width: int = 48) -> Pixels:
    """A picture whose grey tells its number (five apart) and whose corners tell its orientation.

    Top left is red, top right green, bottom left blue.
    """
    picture = grey(20 + 5 * number, height, width)
    picture[:8, :8] = (255, 0, 0)
    picture[:8, -8:] = (0, 255, 0)
    picture[-8:, :8] = (0, 0, 255)
    return picture


def corners(picture: Pixels) -> dict[str, str]:
    """Which colour stands in which corner."""
    height, width, _ = picture.shape
    places = {"top left": (3, 3), "top right": (3, width - 4), "bottom left": (height - 4, 3),
              "bottom right": (height - 4, width - 4)}
    found = {}
    for name, (y, x) in places.items():
        colour = picture[y, x].astype(int)
        strongest = int(colour.argmax())
        if colour[strongest] - np.delete(colour, strongest).max() > 80:
            found[name] = ("red", "green", "blue")[strongest]
    return found


def write_video(
    path: Path, pictures: Sequence[Pixels], *, codec: str = "libx264", rate: int = 10,
    pts: Sequence[int] | None = None, time_base: Fraction | None = None, gop: int = 12,
    b_frames: int | None = None, options: Mapping[str, str] | None = None,
    pix_fmt: str = "yuv420p", container: Mapping[str, str] | None = None,
    start: int = 0,
) -> Path:
    """Encode pictures; `pts` are in units of `time_base`, which is 1/rate unless given."""
    import av

    base = time_base or Fraction(1, rate)
    settings = dict(options or {})
    if codec == "libx264":  # key pictures where `gop` says, not where the grey jumps
        settings["x264-params"] = ":".join(filter(None, [
            settings.get("x264-params"), "scenecut=0"]))
    with av.open(str(path), "w", options=dict(container or {})) as out:
        stream = out.add_stream(codec, rate=rate, options=settings)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = base
        stream.codec_context.gop_size = gop
        stream.codec_context.thread_count = 1
        if b_frames is not None:
            stream.codec_context.max_b_frames = b_frames
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = start + (number if pts is None else pts[number])
            frame.time_base = base
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def turn(path: Path, a: int, b: int, c: int, d: int) -> None:
    """Give an MP4's only track the display matrix that maps (x, y) to (a x + c y, b x + d y)."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 44  # ISO/IEC 14496-12, 8.3.2: tag, version 0's fields, the matrix
    one = 1 << 16
    struct.pack_into(">9i", data, at, a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def ten_greys(path: Path, **how: Any) -> Path:
    """Ten pictures, 32x32, picture i filled with 20 i."""
    return write_video(path, [grey(20 * i) for i in range(10)], **how)


def encode_picture(picture: Pixels, kind: str, **how: Any) -> bytes:
    """A picture file's bytes, by Pillow."""
    import PIL.Image

    out = io.BytesIO()
    PIL.Image.fromarray(picture).save(out, kind, **how)
    return out.getvalue()


def decode_all(path: Path) -> list[Pixels]:
    """Every picture of a video by a plain read from the start: what the reader is held against."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [np.array(frame.to_rgb().to_ndarray()) for frame in container.decode(stream)]


def fingerprint(picture: Pixels) -> bytes:
    """A picture's bytes, for comparing many."""
    import hashlib

    return hashlib.blake2b(np.ascontiguousarray(picture).tobytes(), digest_size=8).digest()
