"""What the contained process does: rarer picture formats by Pillow, then OpenCV; rarer videos."""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.sniff import picture_of
from mlsql.exec.media.wire import Message

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

    from mlsql.exec.media.reader import VideoReader

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

_OPEN_VIDEOS = 4
Answer = tuple[Message, list[bytes | memoryview]]


class Exotic:
    """Answers requests; holds the videos that were asked for lately."""

    def __init__(self) -> None:
        self._readers: OrderedDict[tuple[str, int, int], VideoReader] = OrderedDict()

    def answer(self, request: Message, blob: bytearray) -> Answer:
        """The answer to one request; MediaError refuses it."""
        limits = Limits(max_pixels=request["max_pixels"])
        kind, name = request["op"], request["name"]
        if kind == "header":
            width, height, word = _header(bytes(blob), limits, name)
            return {"width": width, "height": height, "format": word}, []
        if kind == "image":
            return _pixels(_image(bytes(blob), limits, name))
        if kind == "list":
            return self._list(request, limits)
        return self._picture(request, limits)

    def _list(self, request: Message, limits: Limits) -> Answer:
        from mlsql.exec.media.listing import to_wire
        from mlsql.exec.media.scan import scan_video

        return to_wire(scan_video(request["path"], limits, request["name"], exotic=True))

    def _picture(self, request: Message, limits: Limits) -> Answer:
        number = request["frame"]
        for _, pixels in self._reader(request, limits).read([number]):
            if isinstance(pixels, MediaError):
                raise pixels
            return _pixels(pixels)
        raise MediaError(f"{request['name']}: has no picture {number}", request["name"], number)

    def _reader(self, request: Message, limits: Limits) -> VideoReader:
        import os

        from mlsql.exec.media.reader import VideoReader
        from mlsql.exec.media.scan import scan_video

        path, name = request["path"], request["name"]
        found = os.stat(path)
        key = (path, found.st_size, found.st_mtime_ns)
        if key not in self._readers:
            listing = scan_video(path, limits, name, exotic=True)
            self._readers[key] = VideoReader(path, listing, limits, name=name, threads=1)
            if len(self._readers) > _OPEN_VIDEOS:
                self._readers.popitem(last=False)[1].close()
        self._readers.move_to_end(key)
        return self._readers[key]


def _pixels(pixels: Pixels) -> Answer:
    return {"shape": list(pixels.shape)}, [memoryview(pixels).cast("B")]  # type: ignore[arg-type]


def _header(data: bytes, limits: Limits, name: str) -> tuple[int, int, str]:
    import PIL.Image

    try:
        with _opened(data, limits) as image:
            width, height = image.size
            limits.check_size(width, height, name)
            if image.getexif().get(0x0112, 1) >= 5 and not _turns_itself(image):
                width, height = height, width
            return width, height, (picture_of(data[:64]) or str(image.format)).lower()
    except PIL.Image.DecompressionBombError as error:
        raise MediaError(f"{name}: {error}", name) from error
    except (OSError, ValueError, SyntaxError) as error:
        height, width, _ = _opencv(data, name, error).shape
        return width, height, picture_of(data[:64]) or "unknown"


def _image(data: bytes, limits: Limits, name: str) -> Pixels:
    import PIL.Image
    import PIL.ImageOps

    try:
        with _opened(data, limits) as image:
            limits.check_size(image.size[0], image.size[1], name)
            image.load()
            return _rgb8(PIL.ImageOps.exif_transpose(image))
    except PIL.UnidentifiedImageError as error:
        return _opencv(data, name, error)
    except (
        OSError, ValueError, SyntaxError, EOFError, PIL.Image.DecompressionBombError,
    ) as error:
        raise MediaError(f"{name}: cannot be decoded ({error})", name) from error


def _opened(data: bytes, limits: Limits) -> PIL.Image.Image:
    import PIL.Image

    # Pillow refuses from twice this number on; a GIF's first picture may exceed its stated size.
    PIL.Image.MAX_IMAGE_PIXELS = (limits.max_pixels + 1) // 2
    warnings.simplefilter("ignore")
    return PIL.Image.open(io.BytesIO(data))


def _turns_itself(image: PIL.Image.Image) -> bool:
    return image.format == "TIFF"  # Pillow's size of a TIFF is that of the turned picture


def _rgb8(image: PIL.Image.Image) -> Pixels:
    """8-bit RGB; Pillow's own conversion clips deeper samples instead of scaling them."""
    import numpy as np

    if image.mode.startswith("I") or image.mode == "F":
        grey = np.asarray(image)
        if image.mode == "F":
            top = 1.0 if grey.size and float(np.nanmax(grey)) <= 1.0 else 255.0
            grey = np.nan_to_num(np.clip(grey / top, 0, 1) * 255).round()
        elif image.mode != "I" or (grey.size and int(grey.max()) > 255):
            grey = np.clip(grey.astype(np.int64) >> 8, 0, 255)
        return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return np.array(image.convert("RGB"))


def _opencv(data: bytes, name: str, cause: Exception) -> Pixels:
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:
        pixels = None
    if pixels is None:
        word = picture_of(data[:64])
        what = f"a {word} file that is damaged, or whose format is not supported" if word else \
            "not a picture in a known format"
        raise MediaError(f"{name}: is {what}", name) from cause
    rgb: Pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return rgb
