"""Reads any pictures of one open video, the same ones whatever the order they are asked in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.colour import Colours
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.listing import VideoListing
from mlsql.exec.media.opening import Source, open_video

if TYPE_CHECKING:
    import av
    import numpy as np
    from av.video.stream import VideoStream

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

_SEEK_PAYS = 10  # pictures that may be decoded in the time of a seek


class Doubt(Exception):
    """Something is not as the listing says; a more careful way of reading must decide."""


class Way(IntEnum):
    """How a video is read. Whatever looks wrong moves it on to the next way, for good."""

    FAST = 0  # threads, seeks; any fault is doubted, as threads lose a fault's neighbours
    CAREFUL = 1  # one thread, seeks; faults are final, a seek that lands elsewhere is doubted
    LINEAR = 2  # one thread, from the first packet on


class VideoReader:
    """One open video. Ascending requests go on where the last one ended; `close` ends it."""

    def __init__(
        self, path: str, listing: VideoListing, limits: Limits, *,
        name: str | None = None, threads: int = 0,
    ) -> None:
        self._path, self._name = path, path if name is None else name
        self._listing, self._limits, self._threads = listing, limits, threads
        self._way = Way.FAST if listing.by_pts else Way.LINEAR
        self._colours = Colours()
        self._source: Source | None = None
        self._frames: Iterator[av.VideoFrame] = iter(())
        self._next = 0  # pictures before this one have gone by
        self._last: tuple[int, av.VideoFrame] | None = None
        self._faults: dict[int, str] = {}
        self._fault = "its decoder gave no picture"

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the file, the decoder and its threads."""
        self._frames, self._last = iter(()), None
        if self._source is not None:
            self._source.close()
            self._source = None

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, Pixels | MediaError]]:
        """Each numbered picture, upright RGB uint8 (height, width, 3), or why it has none."""
        for number in numbers:
            try:
                yield number, self._picture(number)
            except MediaError as error:
                yield number, error

    def _picture(self, number: int) -> Pixels:
        count = len(self._listing)
        if not 0 <= number < count:
            raise self._error(number, f"has {count} pictures, 0 to {count - 1}")
        if self._listing.lost[number]:
            raise self._error(number, "the file lacks its data: it was cut short")
        while True:
            try:
                return self._converted(number, self._find(number))
            except Doubt:
                self.close()
                self._faults.clear()
                self._way = Way(self._way + 1)

    def _converted(self, number: int, frame: av.VideoFrame) -> Pixels:
        import av.error

        try:
            self._limits.check_size(frame.width, frame.height, self._name)
            return self._colours.rgb(frame)
        except MediaError as error:
            raise self._error(number, str(error)) from error
        except (av.error.FFmpegError, ValueError, MemoryError) as error:
            raise self._error(number, f"cannot be converted to RGB ({error})") from error

    def _find(self, number: int) -> av.VideoFrame:
        if number not in self._faults and not self._stands_at(number):
            self._go_to(number)
            if not self._stands_at(number):
                self._advance_to(number)
        if number in self._faults:
            raise self._error(number, f"cannot be decoded: {self._faults[number]}")
        assert self._last is not None and self._last[0] == number
        return self._last[1]

    def _stands_at(self, number: int) -> bool:
        return self._last is not None and self._last[0] == number

    def _advance_to(self, number: int) -> None:
        self._last = None  # its memory is the decoder's next picture
        for at, frame in self._passing():
            self._last = (at, frame)
            if at >= number:
                return
        self._pass(len(self._listing), self._fault)

    def _passing(self) -> Iterator[tuple[int, av.VideoFrame]]:
        """The pictures from here on with their numbers; faults among them are noted."""
        for frame in self._frames:
            at = self._number(frame)
            if at is None or at < self._next:
                continue
            self._pass(at, self._fault)
            if frame.is_corrupt:
                self._pass(at + 1, "the decoder calls it corrupt")
            else:
                self._faults.pop(at, None)
                self._next = at + 1
            yield at, frame

    def _pass(self, until: int, why: str) -> None:
        """Note that the pictures from the next one up to `until` cannot be had."""
        missing = [n for n in range(self._next, until) if not self._listing.lost[n]]
        if missing and self._way is Way.FAST:
            raise Doubt
        self._faults.update(dict.fromkeys(missing, why))
        self._next = max(self._next, until)

    def _number(self, frame: av.VideoFrame) -> int | None:
        pts = self._listing.pts
        if not self._listing.by_pts:
            return self._next if self._next < len(pts) else None
        if frame.pts is None:
            return None
        if self._next < len(pts) and pts[self._next] == frame.pts:
            return self._next
        at = int(pts.searchsorted(frame.pts))
        return at if at < len(pts) and pts[at] == frame.pts else None

    def _go_to(self, number: int) -> None:
        """Stand at or before a picture, by going on, by a seek, or by starting again."""
        anchor = self._anchor(number)
        key = 0 if anchor is None else self._key_number(anchor)
        if self._source is not None and self._next <= number and key <= self._next + _SEEK_PAYS:
            return
        self._last = None
        if anchor is None or key <= _SEEK_PAYS:
            self.close()
            self._open()
        else:
            if self._source is None:
                self._open()
            self._seek(anchor)

    def _anchor(self, number: int) -> int | None:
        """The last key picture at or before this one; None means the beginning of the file."""
        if self._way is Way.LINEAR:
            return None
        key = int(self._listing.anchors[0].searchsorted(self._listing.pts[number], "right")) - 1
        return key if key > 0 else None

    def _key_number(self, anchor: int) -> int:
        return int(self._listing.pts.searchsorted(self._listing.anchors[0, anchor]))

    def _open(self) -> None:
        threads = self._threads if self._way is Way.FAST else 1
        self._source = open_video(
            self._path, self._limits, self._name, exotic=self._listing.exotic, threads=threads)
        self._next = 0
        self._frames = self._decoded(self._source, self._source.packets())

    def _seek(self, anchor: int) -> None:
        """Go to a key picture, or to one before it; Doubt where the file does not lead there."""
        import av.error

        source = self._source
        assert source is not None
        for target in self._listing.anchors[:, anchor]:
            try:
                source.container.seek(int(target), stream=source.stream)
            except av.error.FFmpegError:
                continue
            packets = source.packets()
            landing = self._landing(packets, int(self._listing.anchors[0, anchor]))
            if landing is not None:
                self._start_at(landing, packets)
                return
        self._way = max(self._way, Way.CAREFUL)  # it is the seek that fails: only LINEAR helps
        raise Doubt

    def _landing(
        self, packets: Iterator[av.Packet[VideoStream]], latest: int
    ) -> av.Packet[VideoStream] | None:
        """The first key packet from here; None if it lies behind the picture wanted."""
        for packet in packets:
            if packet.is_keyframe and packet.pts is not None:
                return packet if packet.pts <= latest else None
        return None

    def _start_at(
        self, landing: av.Packet[VideoStream], packets: Iterator[av.Packet[VideoStream]]
    ) -> None:
        def chain() -> Iterator[av.Packet[VideoStream]]:
            yield landing
            yield from packets

        key = landing.pts
        assert self._source is not None and key is not None
        self._frames = self._decoded(self._source, chain())
        for frame in self._frames:
            if frame.pts is None or frame.pts < key:
                continue  # shown before the key picture, but decoded by what came before it
            at = self._number(frame)
            if frame.pts != key or not frame.key_frame or frame.is_corrupt or at is None:
                break
            self._next, self._last = at + 1, (at, frame)
            return
        self._way = max(self._way, Way.CAREFUL)
        raise Doubt

    def _decoded(
        self, source: Source, packets: Iterator[av.Packet[VideoStream]]
    ) -> Iterator[av.VideoFrame]:
        import av.error

        decode = source.stream.codec_context.decode
        for packet in packets:
            try:
                yield from decode(packet)
            except av.error.FFmpegError as error:
                self._doubt(error)
        try:
            yield from decode(None)
        except av.error.FFmpegError as error:
            self._doubt(error)

    def _doubt(self, error: av.error.FFmpegError) -> None:
        if self._way is Way.FAST:
            raise Doubt from error
        self._fault = error.strerror or str(error)

    def _error(self, number: int, what: str) -> MediaError:
        return MediaError(f"{self._name}, picture {number}: {what}", self._name, number)
