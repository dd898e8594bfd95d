"""Lists the pictures of a video from its packets; decodes to count only where packets mislead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.colour import STRAIGHT, Turn, turn_of, upright_size
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.indexed import Misled, samples
from mlsql.exec.media.listing import VideoListing
from mlsql.exec.media.opening import Source, opened
from mlsql.exec.media.shown import shown_by
from mlsql.exec.media.sniff import SAFE_CODECS

if TYPE_CHECKING:
    import av
    import numpy as np
    from av.video.stream import VideoStream

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]

NONE = -(2**63)  # no pts
_ONE_A_PACKET = frozenset(SAFE_CODECS) | {
    "gif", "apng", "png", "webp", "ffv1", "prores", "dnxhd", "huffyuv", "ffvhuff", "rawvideo",
    "wmv1", "wmv2", "flv", "h263", "dvvideo", "qtrle", "jpeg2000", "utvideo", "hap",
}
_TWO_FIELDS = frozenset(("h264", "hevc", "vc1"))
_TINY = 20  # bytes; an MPEG-4 packet of that size may say 'no picture here'
_HEAD_PACKETS = 2000  # fed to the decoder, at most, to see the first picture
_HEAD_FAULTS = 64
_COMPARED = 16  # packets from the start that a file's tables must agree with


def scan_video(path: str, limits: Limits, name: str, exotic: bool = False) -> VideoListing:
    """The listing of a local video; NotHere asks for the contained process.

    Packets are counted, and the first picture decoded: what decoders drop before it is left out.
    Pictures are decoded and counted instead where packets lack pts or share them, where dts step
    back, where a picture may be two fields (interlaced H.264, HEVC, VC-1), in AVI with reordered
    pictures, with MPEG-4 packets too small to be sure of, and for codecs not known to be simple.
    """
    try:
        listing = _counted(path, limits, name, exotic)
    except Misled:
        listing = _counted(path, limits, name, exotic, tables=False)
    if listing is None:
        with opened(path, limits, name, exotic) as source:
            listing = _from_pictures(source, exotic)
    if len(listing) == int(listing.lost.sum()):
        raise MediaError(f"{name}: {_nothing(listing)}", name)
    limits.check_size(listing.width, listing.height, name)
    return listing


def _counted(
    path: str, limits: Limits, name: str, exotic: bool, tables: bool = True
) -> VideoListing | None:
    """The listing by packets, or by tables that say the same."""
    with opened(path, limits, name, exotic) as source:
        head = _Head(source.stream)
        packets = _read_packets(source, head, path if tables else None)
        head.finish()
        return _from_packets(source, packets, head, exotic)


def _nothing(listing: VideoListing) -> str:
    if len(listing):
        return f"is cut short before the first of its {len(listing)} pictures"
    return "holds no picture that can be read"


class _Head:
    """Decodes from the start up to the first picture that comes out."""

    def __init__(self, stream: VideoStream) -> None:
        self.stream = stream
        self.first: av.VideoFrame | None = None
        self.faults = 0
        self.fed = 0
        self.open = True

    def feed(self, packet: av.Packet[VideoStream] | None) -> None:
        """Give the decoder the next packet (None: the end)."""
        import av.error

        self.fed += 1
        try:
            frames = self.stream.codec_context.decode(packet)
            self.first = frames[0] if frames else None
        except av.error.FFmpegError:
            self.faults += 1
        self.open = self.first is None and self.faults < _HEAD_FAULTS and self.fed < _HEAD_PACKETS

    def finish(self) -> None:
        """Take what the decoder held back, in videos shorter than its delay."""
        if self.open and self.fed:
            self.feed(None)

    @property
    def turn(self) -> Turn:
        return STRAIGHT if self.first is None else turn_of(self.first)

    @property
    def size(self) -> tuple[int, int]:
        codec = self.first or self.stream.codec_context
        return upright_size(codec.width, codec.height, self.turn)


@dataclass(frozen=True, eq=False)
class _Packets:
    pts: Ints
    dts: Ints
    key: Flags
    shown: Ints  # pictures the packet shows
    smallest: int


def _read_packets(source: Source, head: _Head, path: str | None) -> _Packets:
    """The packets to the end; with a path, by the tables of that file if they tell them."""
    import numpy as np

    rows: list[tuple[int, int, bool, int, int]] = []
    first: list[av.Packet[VideoStream]] | None = None if path is None else []
    count = shown_by(source.stream.codec_context.name)
    for packet in source.packets():
        if head.open:
            head.feed(packet)
        if first is not None and path is not None:
            first.append(packet)
            if not head.open and len(first) >= _COMPARED:
                told = samples(source, path, first)
                if told is not None:
                    ones = np.ones(len(told.pts), np.int64)
                    return _Packets(told.pts, told.dts, told.key, ones, int(told.size.min()))
                first = None
        pts, dts = packet.pts, packet.dts
        shown = 1 if count is None else count(memoryview(packet))
        rows.append((NONE if pts is None else pts, NONE if dts is None else dts,
                     packet.is_keyframe, 0 if packet.is_discard else shown, packet.size))
    table = np.array(rows, np.int64).reshape(-1, 5)
    smallest = int(table[:, 4].min(initial=1 << 30))
    return _Packets(table[:, 0], table[:, 1], table[:, 2].astype(np.bool_), table[:, 3], smallest)


def _from_packets(
    source: Source, packets: _Packets, head: _Head, exotic: bool
) -> VideoListing | None:
    """The listing by packets; None where they do not tell the pictures for sure."""
    import numpy as np

    pts, dts, key, shown = packets.pts, packets.dts, packets.key, packets.shown
    if not len(pts) and not source.stream.index_entries:
        return None
    kept = shown > 0
    if not _truthful(source, packets, head, pts[kept], dts, int(shown.max(initial=0))):
        return None
    if head.first is not None and head.faults == 0:
        if head.first.pts is None and kept.any():
            return None
        kept &= pts >= (head.first.pts or 0)  # earlier ones lack what they refer to: never shown
    lost = _lost(source, pts, dts)
    times = np.concatenate([pts[kept], lost])
    keys = np.concatenate([key[kept], np.zeros(len(lost), np.bool_)])
    order = np.argsort(times, kind="stable")
    anchors = np.stack([pts[key], dts[key]])[:, np.argsort(pts[key], kind="stable")]
    width, height = head.size
    return VideoListing(
        pts=times[order], keyframe=keys[order], lost=order >= int(kept.sum()),
        anchors=anchors, width=width, height=height, time_base=_time_base(source),
        format=source.container.format.name, codec=source.stream.codec_context.name,
        by_pts=True, source="packets", exotic=exotic)


def _truthful(
    source: Source, packets: _Packets, head: _Head, pts: Ints, dts: Ints, most_shown: int
) -> bool:
    import numpy as np

    codec = source.stream.codec_context
    real = dts[dts != NONE]
    return not (
        (pts == NONE).any()
        or (np.diff(np.sort(pts)) == 0).any()
        or (np.diff(real) < 0).any()
        or most_shown > 1
        or codec.name not in _ONE_A_PACKET
        or (codec.name in _TWO_FIELDS and _interlaced(source, head))
        or (source.container.format.name == "avi" and codec.has_b_frames)
        or (codec.name == "mpeg4" and packets.smallest < _TINY)
    )


def _interlaced(source: Source, head: _Head) -> bool:
    order = int(getattr(source.stream.codec_context, "field_order", 0))  # PyAV 18 and later
    return order > 1 or (head.first is not None and head.first.interlaced_frame)


def _lost(source: Source, pts: Ints, dts: Ints) -> Ints:
    """The pts of pictures that an MP4's index names, but whose data the file lacks.

    The index has dts only. At an even rate the pts are the same times, shifted: those that no
    packet has are the lost ones. Else the lost pictures' own dts are shifted.
    """
    import numpy as np

    index = source.stream.index_entries
    if not source.container.format.name.startswith("mov") or len(index) <= len(pts):
        return np.zeros(0, np.int64)
    times = np.array([index[k].timestamp for k in range(len(index))], np.int64)
    if not len(pts):
        return times
    shift = pts.min() - times.min()
    even = np.setdiff1d(times + shift, pts)
    if len(even) == len(times) - len(pts):
        return even
    taken, lost = set(pts.tolist()), []
    for time in (np.setdiff1d(times, dts) + shift).tolist():
        while time in taken:
            time += 1
        taken.add(time)
        lost.append(time)
    return np.array(sorted(lost), np.int64)


def _time_base(source: Source) -> Fraction:
    return source.stream.time_base or Fraction(1, 1000)


def pictures(source: Source) -> Iterator[av.VideoFrame]:
    """Every picture from here on that the decoder gives; what fails to decode gives none."""
    import av.error

    decode = source.stream.codec_context.decode
    for packet in source.packets():
        try:
            yield from decode(packet)
        except av.error.FFmpegError:
            continue
    try:
        yield from decode(None)
    except av.error.FFmpegError:
        return


def _from_pictures(source: Source, exotic: bool) -> VideoListing:
    """The listing by decoding; times that decoders cannot tell come from the frame rate."""
    import numpy as np

    pts: list[int] = []
    key: list[bool] = []
    width = height = 0
    for frame in pictures(source):
        if not pts:
            width, height = upright_size(frame.width, frame.height, turn_of(frame))
        pts.append(NONE if frame.pts is None else frame.pts)
        key.append(bool(frame.key_frame))
    times, keys = np.array(pts, np.int64), np.array(key, np.bool_)
    base, rising = _time_base(source), bool((np.diff(times) > 0).all()) and NONE not in pts
    if not rising:
        times, base = _evened(source, times, base)
    return VideoListing(
        pts=times, keyframe=keys, lost=np.zeros(len(times), np.bool_),
        anchors=np.stack([times[keys], times[keys]]), width=width, height=height, time_base=base,
        format=source.container.format.name, codec=source.stream.codec_context.name,
        by_pts=rising, source="pictures", exotic=exotic)


def _evened(source: Source, times: Ints, base: Fraction) -> tuple[Ints, Fraction]:
    """Rising times for pictures whose own are missing or jumbled."""
    import numpy as np

    distinct = len(np.unique(times)) == len(times) and NONE not in times
    if distinct and source.container.format.name == "avi":
        return np.sort(times), base  # AVI numbers reordered pictures rightly, but in file order
    rate = source.stream.average_rate or source.stream.guessed_rate or Fraction(25)
    return np.arange(len(times), dtype=np.int64), 1 / Fraction(rate)
