"""Handles to pixels: the only door through which pictures enter the engine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError, NotSupportedError
from mlsql.exec.media import recipe
from mlsql.exec.media.handle import Handle, Limits
from mlsql.exec.media.images import decode_bytes, decode_file
from mlsql.exec.media.listing import VideoListing
from mlsql.exec.media.names import is_video

if TYPE_CHECKING:
    import numpy as np

    from mlsql.exec.media.reader import VideoReader

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = ["Decoder", "Handle", "Limits", "decode"]


def decode(
    handles: Sequence[Handle], limits: Limits, *, threads: int = 0
) -> Iterator[tuple[int, Pixels | MediaError]]:
    """The picture of each handle, or why it has none, once, with its position in `handles`.

    Pictures are upright RGB uint8 (height, width, 3), C-contiguous; equal handles share one array.
    A file's pictures come together, in frame order. Closing the iterator closes the files.
    """
    with Decoder(limits, threads=threads) as decoder:
        yield from decoder.decode(handles)


class Decoder:
    """Decodes handles and keeps the last few videos open, so that a later call goes on there.

    `threads` is for each video, 0 choosing by the machine. For one thread at a time.
    """

    def __init__(
        self, limits: Limits, *, threads: int = 0, memo: Path | None = None, keep: int = 4
    ) -> None:
        self._limits, self._threads, self._memo, self._keep = limits, threads, memo, keep
        self._readers: OrderedDict[str, VideoReader | _ContainedReader] = OrderedDict()

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every video."""
        while self._readers:
            self._readers.popitem()[1].close()

    def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Pixels | MediaError]]:
        """As the function `decode`, with the videos left open."""
        if not any(recipe.is_made(handle[2]) for handle in handles):
            yield from self._originals(handles)
            return
        wanted = [Handle(*handle) for handle in handles]
        for position, pixels in self._originals([recipe.base(handle) for handle in wanted]):
            if not isinstance(pixels, MediaError):
                pixels = recipe.made(wanted[position], pixels, self._limits)
            yield position, pixels

    def _originals(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Pixels | MediaError]]:
        """The pictures of handles without a recipe."""
        videos, images = _grouped(handles)
        for uri, frames in videos.items():
            for number, pixels in self._video(uri, sorted(frames)):
                for position in frames[number]:
                    yield position, pixels
        for handle, positions in images.items():
            pixels = self._image(handle)
            for position in positions:
                yield position, pixels

    def _video(self, uri: str, numbers: list[int]) -> Iterator[tuple[int, Pixels | MediaError]]:
        try:
            reader = self._reader(uri)
        except (MediaError, NotSupportedError, OSError) as error:
            for number in numbers:
                yield number, _row_error(error, uri, number)
            return
        yield from reader.read(numbers)

    def _reader(self, uri: str) -> VideoReader | _ContainedReader:
        if uri in self._readers:
            self._readers.move_to_end(uri)
            return self._readers[uri]
        from mlsql.exec.media.reader import VideoReader
        from mlsql.exec.media.video import list_video

        listing = list_video(uri, self._limits, self._memo)
        local = self._limits.check(uri)
        while len(self._readers) >= self._keep:
            self._readers.popitem(last=False)[1].close()
        reader = _ContainedReader(local, listing, self._limits, uri) if listing.exotic else \
            VideoReader(local, listing, self._limits, name=uri, threads=self._threads)
        self._readers[uri] = reader
        return reader

    def _image(self, handle: Handle) -> Pixels | MediaError:
        try:
            if handle.data is not None:
                return decode_bytes(handle.data, self._limits)
            if handle.uri is None:
                return MediaError("a picture without a file and without data")
            return decode_file(handle.uri, self._limits)
        except (MediaError, NotSupportedError, OSError, MemoryError) as error:
            hint = handle.uri is not None and handle.data is None and is_video(handle.uri)
            return _row_error(error, handle.uri, None, " (it is named like a video: name a frame, "
                              "as read_video does)" if hint else "")


class _ContainedReader:
    """Reads pictures of a video that only the contained process may decode."""

    def __init__(self, path: str, listing: VideoListing, limits: Limits, name: str) -> None:
        self._path, self._listing, self._limits, self._name = path, listing, limits, name

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, Pixels | MediaError]]:
        """Each numbered picture, as VideoReader gives it."""
        from mlsql.exec.media.child import child, pixels_of

        for number in numbers:
            request = {"op": "picture", "path": self._path, "frame": number,
                       "max_pixels": self._limits.max_pixels}
            try:
                yield number, pixels_of(*child().call(request, self._name))
            except MediaError as error:
                yield number, _row_error(error, self._name, number)

    def close(self) -> None:
        """Nothing is held here; the contained process closes what it opened."""


def _grouped(
    handles: Sequence[Handle],
) -> tuple[dict[str, dict[int, list[int]]], dict[Handle, list[int]]]:
    videos: dict[str, dict[int, list[int]]] = {}
    images: dict[Handle, list[int]] = {}
    for position, given in enumerate(handles):
        handle = Handle(*given)
        if handle.data is None and handle.uri is not None and handle.frame is not None:
            videos.setdefault(handle.uri, {}).setdefault(handle.frame, []).append(position)
        else:
            images.setdefault(handle, []).append(position)
    return videos, images


def _row_error(
    error: BaseException, uri: str | None, frame: int | None, more: str = ""
) -> MediaError:
    row = MediaError(f"{error}{more}", uri, frame)
    row.__cause__ = error
    return row
