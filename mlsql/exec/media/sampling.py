"""Which pictures of a video a source gives: a rate, a stride, key pictures, a stretch of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsql.errors import ProgrammingError

if TYPE_CHECKING:
    import numpy as np

    from mlsql.exec.media.listing import VideoListing

_SLACK = 1e-6  # of a tick: times are decimal fractions, which floats do not hold


@dataclass(frozen=True)
class Sampling:
    """Options of `read_video`, checked. At most one of fps, every, stride, keyframes is given.

    `fps` and `every` (seconds) give the first picture at or after each tick, ticks being counted
    from `start`; `stride` each n-th picture from the first in the stretch; `start` is inclusive,
    `end` exclusive, both in seconds from the first picture.
    """

    fps: float | None = None
    every: float | None = None
    stride: int | None = None
    keyframes: bool = False
    start: float | None = None
    end: float | None = None

    def __post_init__(self) -> None:
        chosen = [n for n in ("fps", "every", "stride") if getattr(self, n) is not None]
        chosen += ["keyframes"] if self.keyframes else []
        if len(chosen) > 1:
            raise ProgrammingError(f"{' and '.join(chosen)} contradict each other: give one")
        for name, least, strict in (
            ("fps", 0, True), ("every", 0, True), ("start", 0, False), ("end", 0, True),
        ):
            _check(name, getattr(self, name), least, strict)
        if self.stride is not None and (
            isinstance(self.stride, bool) or self.stride != int(self.stride) or self.stride < 1
        ):
            raise ProgrammingError(f"stride takes a whole number from 1 on, not {self.stride!r}")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ProgrammingError(f"start ({self.start:g}) must be before end ({self.end:g})")

    @property
    def takes_all(self) -> bool:
        """Whether every picture is taken."""
        return self == Sampling()


def _check(name: str, value: Any, least: float, strict: bool) -> None:
    if value is None:
        return
    number = math.nan if isinstance(value, (bool, str)) else float(value)
    if not math.isfinite(number) or number < least or (strict and number == least):
        words = "a number above 0" if strict else "a number from 0 on"
        raise ProgrammingError(f"{name} takes {words}, not {value!r}")


def chosen(listing: VideoListing, sampling: Sampling) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The frame_ids that the options take, ascending."""
    import numpy as np

    ts = listing.ts
    inside = np.ones(len(ts), np.bool_)
    if sampling.start is not None:
        inside &= ts >= sampling.start
    if sampling.end is not None:
        inside &= ts < sampling.end
    if sampling.keyframes:
        inside &= listing.keyframe
    ids = np.flatnonzero(inside)
    if sampling.stride is not None:
        return ids[:: int(sampling.stride)]
    fps = sampling.fps if sampling.every is None else 1 / sampling.every
    if fps is None or not len(ids):
        return ids
    tick = np.floor((ts[ids] - (sampling.start or 0.0)) * fps + _SLACK)
    # A picture answers for all ticks since the one before it.
    return ids[np.diff(tick, prepend=-1) > 0]
