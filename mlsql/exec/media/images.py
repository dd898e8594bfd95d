"""Encoded pictures to pixels: JPEG, PNG, WebP and BMP here, every other format contained.

Grey and palette become RGB; 16 bits a sample become 8 by their high byte; CMYK is converted by
its own inks. Transparency is dropped: a pixel keeps its stored colour, whatever its alpha, as
with OpenCV's IMREAD_COLOR.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.colour import oriented
from mlsql.exec.media.handle import Limits, stat_file
from mlsql.exec.media.headers import ImageHeader, Incomplete, read_header, scan_start

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

HEAD = 65_536  # bytes read for a header at first
_SPARE = 64 << 20  # bytes a file may hold beside its pixels: metadata, other pictures
HERE = frozenset(("jpeg", "png", "webp", "bmp"))


def decode_file(path: str, limits: Limits) -> Pixels:
    """The upright RGB picture of an image file: uint8, (height, width, 3); else a MediaError."""
    return decode_bytes(_read_file(path, limits), limits, path)


def decode_bytes(data: bytes, limits: Limits, name: str = "picture") -> Pixels:
    """The upright RGB picture of encoded bytes; `name` stands in the MediaError."""
    header = _header(data, name)
    if header is None or header.format not in HERE:
        return _decode_contained(data, limits, name)
    limits.check_size(header.width, header.height, name)
    _check_whole(data, header.format, name)
    return oriented(_decode_here(data, name), header.orientation)


def header_of_file(path: str, limits: Limits) -> ImageHeader:
    """Format and size of an image file, of which only the beginning is read where that will do."""
    local = limits.check(path)
    size = stat_file(local, path).st_size
    with open(local, "rb") as file:
        data = file.read(HEAD)
        header = _header(data, path, partial=size > HEAD)
        if header is None and size > HEAD:
            data += file.read(size)
            header = _header(data, path)
    if header is not None:
        limits.check_size(header.width, header.height, path)
        return header
    return _header_contained(data, limits, path)


def _header(data: bytes, name: str, partial: bool = False) -> ImageHeader | None:
    try:
        return read_header(data)
    except Incomplete as error:
        if partial:
            return None
        raise MediaError(f"{name}: {error}", name) from error
    except ValueError as error:
        raise MediaError(f"{name}: {error}", name) from error


def _read_file(path: str, limits: Limits) -> bytes:
    local = limits.check(path)
    size = stat_file(local, path).st_size
    with open(local, "rb") as file:
        data = file.read(HEAD)
        header = _header(data, path, partial=size > HEAD)
        if header is not None:
            limits.check_size(header.width, header.height, path)
        largest = 8 * (header.width * header.height if header else limits.max_pixels) + _SPARE
        if size > largest:
            raise MediaError(f"{path}: {size:,} bytes are too many for a picture of its size", path)
        return data + file.read(size)


def _check_whole(data: bytes, kind: str, name: str) -> None:
    """Refuse a file that ends before its picture does, which decoders would fill with grey."""
    try:
        whole = _ENDS.get(kind)
        if whole is None or whole(data):
            return
    except (struct.error, IndexError):
        pass
    raise MediaError(f"{name}: is cut short: the file ends inside the picture", name)


def _jpeg_ends(data: bytes) -> bool:
    return data.find(b"\xff\xd9", scan_start(data)) >= 0


def _png_ends(data: bytes) -> bool:
    at = 8
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        at += 12 + length
        if name == b"IEND":
            return bool(at <= len(data))


def _webp_ends(data: bytes) -> bool:
    length: int = struct.unpack_from("<I", data, 4)[0]
    return 8 + length <= len(data)


_ENDS: dict[str, Callable[[bytes], bool]] = {
    "jpeg": _jpeg_ends, "png": _png_ends, "webp": _webp_ends,
}


def _decode_here(data: bytes, name: str) -> Pixels:
    import cv2
    import numpy as np

    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise MediaError(f"{name}: cannot be decoded ({error.err})", name) from error
    finally:
        cv2.utils.logging.setLogLevel(before)
    if pixels is None:
        raise MediaError(f"{name}: cannot be decoded: its data is damaged", name)
    rgb: Pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return rgb


def _header_contained(data: bytes, limits: Limits, name: str) -> ImageHeader:
    from mlsql.exec.media.child import child

    answer, _ = child().call({"op": "header", "max_pixels": limits.max_pixels}, name, data)
    limits.check_size(answer["width"], answer["height"], name)
    return ImageHeader(answer["format"], answer["width"], answer["height"])


def _decode_contained(data: bytes, limits: Limits, name: str) -> Pixels:
    from mlsql.exec.media.child import child, pixels_of

    answer, blobs = child().call({"op": "image", "max_pixels": limits.max_pixels}, name, data)
    return pixels_of(answer, blobs)
