"""Where each content stands in sorted rows, small enough to lie in a segment's footer."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

_SHORT = 8  # rows a content: with fewer of them the runs would be as large as the rows


@dataclass(frozen=True)
class Runs:
    """Stretches of rows of one content. All are numpy arrays, an entry a run.

    A run's rows begin at `starts`. Its frames are first, first + step, …; a step of 0 says that
    they are not so regular.
    """

    high: np.ndarray
    low: np.ndarray
    starts: np.ndarray
    first: np.ndarray
    step: np.ndarray

    @property
    def regular(self) -> bool:
        """Whether the runs alone say where each frame is."""
        return bool((self.step > 0).all())


def runs_of(high: np.ndarray, low: np.ndarray, frame: np.ndarray) -> Runs:
    """The runs of rows that are sorted by content and frame."""
    new = np.ones(len(high), bool)
    new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(high)))
    step = np.ones(len(starts), np.int64)
    several = lengths > 1
    step[several] = frame[starts[several] + 1] - frame[starts[several]]
    gaps = np.diff(frame, prepend=frame[:1])
    regular = np.where(new, True, gaps == np.repeat(step, lengths))
    if len(starts):
        step = np.where(np.logical_and.reduceat(regular, starts), step, 0)
    return Runs(high[starts], low[starts], starts, frame[starts], step)


def written(runs: Runs, rows: int) -> bytes | None:
    """The runs as text, with a checksum; None where they would take as much room as the rows."""
    if len(runs.starts) * _SHORT > rows:
        return None
    parts = (runs.high, runs.low, runs.starts, runs.first, runs.step)
    return base64.b64encode(zlib.compress(b"".join(p.astype("<u8").tobytes() for p in parts)))


def read(text: bytes, rows: int) -> Runs:
    """The runs again; pa.ArrowInvalid where that is not what they were."""
    try:
        raw = zlib.decompress(base64.b64decode(text, validate=True))
        high, low, *rest = np.frombuffer(raw, "<u8").reshape(5, -1).astype(np.uint64)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise pa.ArrowInvalid(f"its runs cannot be read: {error}") from error
    starts, first, step = (part.astype(np.int64) for part in rest)
    if len(starts) and (starts[0] != 0 or starts[-1] >= rows or (np.diff(starts) <= 0).any()):
        raise pa.ArrowInvalid("its runs are not those of its rows")
    return Runs(high, low, starts, first, step)
