"""Sizes and orientation of JPEG, PNG, WebP, BMP and GIF files, read from their headers alone."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mlsql.exec.media.sniff import picture_of


@dataclass(frozen=True)
class ImageHeader:
    """A picture's format, size as stored, and EXIF orientation (1..8)."""

    format: str
    width: int
    height: int
    orientation: int = 1

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height once the orientation is applied."""
        if self.orientation >= 5:
            return self.height, self.width
        return self.width, self.height


class Incomplete(Exception):
    """The bytes end inside the header."""


def read_header(data: bytes) -> ImageHeader | None:
    """The header of a picture; None for formats not read here; Incomplete, ValueError if broken.

    `data` may be the file's beginning: Incomplete then asks for more of it.
    """
    kind = picture_of(data[:64])
    read = {"jpeg": _jpeg, "png": _png, "webp": _webp, "bmp": _bmp, "gif": _gif}.get(kind or "")
    if read is None:
        return None
    try:
        return read(data)
    except (struct.error, IndexError):
        raise Incomplete(f"{kind}: the file ends inside its header") from None


_SIZED = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0..15: frame headers
_BARE = frozenset(range(0xD0, 0xD8)) | {0x01}


def _jpeg(data: bytes) -> ImageHeader:
    at, size, orientation = 2, None, None
    while True:
        if data[at] != 0xFF:
            raise ValueError("jpeg: a marker is missing in the header")
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xDA, 0xD9):
            break
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _SIZED and size is None:
            size = struct.unpack_from(">HH", data, at + 5)
        elif marker == 0xE1 and orientation is None and data[at + 4 : at + 10] == b"Exif\0\0":
            if len(data) < at + 2 + length:
                raise Incomplete("jpeg: the file ends inside its EXIF data")
            orientation = exif_orientation(data[at + 10 : at + 2 + length])
        at += 2 + length
    if size is None:
        raise ValueError("jpeg: it has no frame header")
    return ImageHeader("jpeg", size[1], size[0], orientation or 1)


def scan_start(data: bytes) -> int:
    """Where a JPEG's first scan begins; the header must be sound."""
    at = 2
    while data[at + 1] != 0xDA:
        if data[at + 1] == 0xFF or data[at + 1] in _BARE:
            at += 1 if data[at + 1] == 0xFF else 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return at


def _png(data: bytes) -> ImageHeader:
    if data[12:16] != b"IHDR":
        raise ValueError("png: its first chunk is not IHDR")
    width, height = struct.unpack_from(">II", data, 16)
    orientation, at = 1, 33
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        if name in (b"IDAT", b"IEND"):
            return ImageHeader("png", width, height, orientation)
        if name == b"eXIf":
            if len(data) < at + 8 + length:
                raise Incomplete("png: the file ends inside its EXIF data")
            orientation = exif_orientation(data[at + 8 : at + 8 + length])
        at += 12 + length


def _webp(data: bytes) -> ImageHeader:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageHeader("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind != b"VP8X":
        raise ValueError("webp: its first chunk is unknown")
    if len(data) < 30:
        raise Incomplete("webp: the file ends inside its header")
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    orientation = _webp_orientation(data) if data[20] & 8 else 1
    return ImageHeader("webp", width, height, orientation)


def _webp_orientation(data: bytes) -> int:
    at, end = 12, 8 + struct.unpack_from("<I", data, 4)[0]
    while at + 8 <= end:
        name, length = struct.unpack_from("<4sI", data, at)
        if name == b"EXIF":
            if len(data) < at + 8 + length:
                raise Incomplete("webp: the file ends inside its EXIF data")
            return exif_orientation(data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    return 1


def _bmp(data: bytes) -> ImageHeader:
    if struct.unpack_from("<I", data, 14)[0] == 12:
        width, height = struct.unpack_from("<HH", data, 18)
        return ImageHeader("bmp", width, height)
    width, height = struct.unpack_from("<ii", data, 18)
    return ImageHeader("bmp", width, abs(height))


def _gif(data: bytes) -> ImageHeader:
    width, height = struct.unpack_from("<HH", data, 6)
    return ImageHeader("gif", width, height)


def exif_orientation(exif: bytes) -> int:
    """The orientation tag (0x0112) of EXIF data; 1 where it is absent or makes no sense."""
    if exif[:6] == b"Exif\0\0":
        exif = exif[6:]
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, at)
        for k in range(count):
            tag, _, _, value = struct.unpack_from(order + "HHIH", exif, at + 2 + 12 * k)
            if tag == 0x0112:
                return value if 1 <= value <= 8 else 1
    except struct.error:
        return 1
    return 1
