"""The packets of an MP4 from its tables alone, which takes a fraction of reading them.

The tables of a track (ISO/IEC 14496-12, 8.6 and 8.7) have the times, sizes and key flags of all
samples. They are held against what FFmpeg makes of the file: the number of samples and some of them
in its index, and all packets at both ends.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import av
    import numpy as np

    from mlsql.exec.media.opening import Source

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]

# Codecs whose samples FFmpeg hands out as they lie in the file, a packet each.
_CODECS = frozenset(("h264", "hevc", "mpeg4", "mjpeg", "av1"))
_FEW = 500  # pictures: so many packets are read as quickly
_LAST = 1_000  # a last group of pictures that is longer is no cheaper to read than all
_LARGEST = 1 << 28  # bytes of tables
_COMPARED = 64  # entries of FFmpeg's index


class Misled(Exception):
    """The tables say something else than the packets; the source stands at its end."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a stream in the order of the file, each a picture."""

    pts: Ints
    dts: Ints
    key: Flags
    size: Ints

    def begins(self, at: int, packets: list[av.Packet[Any]]) -> bool:
        """Whether the samples from `at` on are these packets."""
        return len(packets) <= len(self.pts) - at and all(
            (packet.pts, packet.dts, packet.is_keyframe, packet.size, packet.is_discard)
            == (self.pts[at + k], self.dts[at + k], self.key[at + k], self.size[at + k], False)
            for k, packet in enumerate(packets))


def samples(source: Source, path: str, first: list[av.Packet[Any]]) -> Samples | None:
    """The samples by the file's tables; None where they do not say all, or do not agree.

    `first` are the packets that were read so far, from the start, where the source still stands
    if this gives None. Misled where the packets at the end are not those of the tables.
    """
    found = _tables(source, path, first)
    if found is None or not found.begins(0, first):
        return None
    last = int(found.key.nonzero()[0][-1])
    if len(found.pts) - last > _LAST:
        return None
    source.container.seek(int(found.dts[last]), stream=source.stream, backward=True)
    packets = list(source.packets())
    at = len(found.pts) - len(packets)
    if not (0 <= at <= last and found.begins(at, packets)):
        raise Misled(path)
    return found


def _tables(source: Source, path: str, first: list[av.Packet[Any]]) -> Samples | None:
    import numpy as np

    index, stream = source.stream.index_entries, source.stream
    if not source.container.format.name.startswith("mov") or len(index) < _FEW or not first \
            or first[0].pts is None or first[0].dts is None \
            or stream.codec_context.name not in _CODECS:
        return None
    try:
        table = _sample_table(path, stream.id)
        told = None if table is None else _told(table, len(index))
        if table is None or told is None:
            return None
        furthest = index[_furthest(table, len(index))]
    except (struct.error, ValueError, IndexError):  # a table is cut short, or no table
        return None
    if furthest.pos + furthest.size > os.path.getsize(path) or not told.key.any() \
            or not told.size.all() or (np.diff(told.dts) <= 0).any():
        return None
    # An edit list shifts both times, and negative offsets the one.
    found = Samples(told.pts + first[0].pts - told.pts[0], told.dts + first[0].dts - told.dts[0],
                    told.key, told.size)
    some = np.unique(np.linspace(0, len(index) - 1, _COMPARED).astype(int)).tolist()
    return found if all(_same(index[k], found, k) for k in some) else None


def _same(entry: Any, found: Samples, k: int) -> bool:
    return bool((entry.timestamp, entry.size, entry.is_keyframe, entry.is_discard)
                == (found.dts[k], found.size[k], found.key[k], False))


def _sample_table(path: str, track: int) -> bytes | None:
    """The `stbl` box of a track; None where an edit list does more than to shift times."""
    with open(path, "rb") as file:
        movie = _movie(file)
    for trak in _inside(movie, b"trak"):
        if _track(next(_inside(trak, b"tkhd"), b"")) == track:
            edits = _down(trak, b"edts", b"elst")
            if edits is not None and _stretches(edits) > 1:
                return None
            return _down(trak, b"mdia", b"minf", b"stbl")
    return None


def _stretches(edits: bytes) -> int:
    """How many stretches of a track an edit list shows; a pause before it is none."""
    count = int(struct.unpack_from(">I", edits, 4)[0])
    kind, at = (">q", 16) if edits[:1] == b"\1" else (">i", 12)
    paused = count > 0 and struct.unpack_from(kind, edits, at)[0] == -1
    return count - bool(paused)


def _told(table: bytes, count: int) -> Samples | None:
    """Times from 0, keys and sizes of so many samples; None if the tables have another number."""
    import numpy as np

    sizes = _box(table, b"stsz")
    alike, number = struct.unpack_from(">II", sizes, 4)
    size = np.full(count, alike) if alike else np.frombuffer(sizes, ">u4", number, 12)
    steps = _runs(_box(table, b"stts"), 2)
    offsets = next(_inside(table, b"ctts"), None)
    if number != count or int(steps[:, 0].sum()) != count:
        return None
    dts = np.repeat(steps[:, 1], steps[:, 0]).cumsum()
    dts = np.concatenate([[0], dts[:-1]])
    later = np.zeros(count, np.int64)
    if offsets is not None:
        runs = _runs(offsets, 2)
        if int(runs[:, 0].sum()) != count:
            return None
        # Negative ones are written in files of either version, so all are taken as signed.
        later = np.repeat(runs[:, 1].astype(np.int32).astype(np.int64), runs[:, 0])
    key = np.ones(count, np.bool_)
    syncs = next(_inside(table, b"stss"), None)
    if syncs is not None:
        key[:] = False
        key[_runs(syncs, 1)[:, 0] - 1] = True
    return Samples(dts + later, dts, key, size.astype(np.int64))


def _furthest(table: bytes, count: int) -> int:
    """The sample that lies last in the file, as far as chunks do not overlap."""
    import numpy as np

    wide = next(_inside(table, b"co64"), None)
    places = _runs(_box(table, b"stco"), 1)[:, 0] if wide is None else \
        np.frombuffer(wide, ">u8", struct.unpack_from(">I", wide, 4)[0], 8).astype(np.int64)
    chunks = _runs(_box(table, b"stsc"), 3)
    repeats = np.diff(np.append(chunks[:, 0], len(places) + 1))
    ends = np.repeat(chunks[:, 1], repeats).cumsum()
    if len(ends) != len(places) or ends[-1] != count:
        raise ValueError("the chunks hold another number of samples")
    return int(ends[places.argmax()]) - 1


def _runs(box: bytes, width: int) -> Ints:
    """A table of 32-bit numbers behind their count, so many a row."""
    import numpy as np

    (length,) = struct.unpack_from(">I", box, 4)
    return np.frombuffer(box, ">u4", length * width, 8).astype(np.int64).reshape(-1, width)


def _box(box: bytes, kind: bytes) -> bytes:
    return next(_inside(box, kind), b"")


def _track(header: bytes) -> int | None:
    """A track's number, from its header: 32-bit times in version 0, 64-bit ones in version 1."""
    at = 20 if header[:1] == b"\1" else 12
    return struct.unpack_from(">I", header, at)[0] if len(header) >= at + 4 else None


def _movie(file: Any) -> bytes:
    """The content of the `moov` box; nothing where there is none of a sensible size."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(16)
        if len(head) < 8:
            return b""
        size, kind = struct.unpack_from(">I4s", head)
        start = 8
        if size == 1 and len(head) == 16:
            (size,), start = struct.unpack_from(">Q", head, 8), 16
        if kind == b"moov":
            file.seek(at + start)
            return bytes(file.read(size - start)) if start <= size <= _LARGEST else b""
        if size < start:  # 0: to the end of the file
            return b""
        at += size


def _inside(box: bytes, wanted: bytes) -> Iterator[bytes]:
    """The contents of the boxes of a kind that lie right in a box."""
    at = 0
    while at + 8 <= len(box):
        size, kind = struct.unpack_from(">I4s", box, at)
        if size < 8:
            return
        if kind == wanted:
            yield box[at + 8:at + size]
        at += size


def _down(box: bytes, *path: bytes) -> bytes | None:
    for kind in path:
        found = next(_inside(box, kind), None)
        if found is None:
            return None
        box = found
    return box
