"""How many pictures one VP8 or VP9 packet shows: these codecs have packets that show none."""

from __future__ import annotations

from collections.abc import Callable


def shown_by(codec: str) -> Callable[[memoryview], int] | None:
    """What counts a packet's shown pictures; None for codecs of one picture a packet."""
    return {"vp8": _vp8, "vp9": _vp9}.get(codec)


def _vp8(packet: memoryview) -> int:
    return packet[0] >> 4 & 1  # RFC 6386, 9.1: show_frame


def _vp9(packet: memoryview) -> int:
    return sum(_vp9_frame_shown(part) for part in _vp9_frames(packet))


def _vp9_frames(packet: memoryview) -> list[memoryview]:
    """The frames of a superframe: VP9 bitstream specification, annex B."""
    marker = packet[-1]
    count, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
    index = 2 + count * width
    if marker & 0xE0 != 0xC0 or len(packet) < index or packet[-index] != marker:
        return [packet]
    at, frames = 0, []
    for k in range(count):
        first = len(packet) - index + 1 + k * width
        size = int.from_bytes(packet[first : first + width], "little")
        frames.append(packet[at : at + size])
        at += size
    return [frame for frame in frames if len(frame)]


def _vp9_frame_shown(frame: memoryview) -> bool:
    """show_frame or show_existing_frame: VP9 bitstream specification, 6.2."""
    bits = int.from_bytes(frame[:2].tobytes().ljust(2, b"\0"), "big")
    at = 4 if bits >> 12 & 3 != 3 else 5  # marker, profile, and a reserved bit in profile 3
    if bits >> (15 - at) & 1:
        return True
    return bool(bits >> (13 - at) & 1)
