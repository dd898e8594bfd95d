"""The segments on disk as one reader sees them: searching them, merging them, losing some."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlsql.exec import upkeep
from mlsql.exec.keys import Places
from mlsql.exec.segments import Segment, as_type, joined, listed
from mlsql.exec.shelf import Shelf

FAILURES = (OSError, pa.ArrowException)
_TOUCH_SECONDS = 60.0
_LISTINGS = 4


class StoredOutputs:
    """Reads segments that other processes may merge, evict or have torn.

    `warn(subject, message)` is told of what cannot be read; nothing here raises for it.
    """

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn
        self._shelf = Shelf()

    def forget(self, paths: Iterable[str]) -> None:
        """Let go of segments that were removed."""
        for path in paths:
            self._shelf.forget(path)

    def close(self) -> None:
        """Close all files."""
        self._shelf.close()

    def search(self, folder: Path, places: Places, found: Found) -> None:
        """Look into the segments; where one vanished it was merged, so they are listed anew."""
        searched: set[str] = set()
        for _ in range(_LISTINGS):
            gone = False
            segments = self._segments(folder)
            self._shelf.retain(str(folder), {segment.path for segment in segments})
            for segment in sorted(segments, key=lambda s: -s.rows):
                if segment.path in searched:
                    continue
                searched.add(segment.path)
                rows = found.missing(places)
                if not len(rows):
                    return
                with self._survived(segment) as outcome:
                    self._search_segment(segment, places, rows, found)
                gone = gone or outcome.gone
            if not gone:
                return

    def merge(self, folder: Path, kind: pa.DataType) -> tuple[set[str], set[str]]:
        """Merge segments where they are many; returns the paths removed and those written."""
        parts, merged_from = [], []
        for segment in upkeep.to_merge(self._segments(folder)):
            with self._survived(segment):
                parts.append(upkeep.read(segment, kind))
                merged_from.append(segment)
        if len(parts) < 2:
            return set(), set()
        try:
            merged = upkeep.replace(folder, merged_from, joined(parts))
        except FAILURES:  # a full disk, say: they stay as many as they are
            return set(), set()
        paths = {segment.path for segment in merged_from}
        self.forget(paths)
        return paths, {merged.path}

    def _search_segment(
        self, segment: Segment, places: Places, rows: np.ndarray, found: Found
    ) -> None:
        positions = self._shelf.find(segment.path, places, rows)
        hits = np.flatnonzero(positions >= 0)
        if not len(hits):
            return
        for which, outputs in self._shelf.pieces(segment.path, positions[hits], found.kind):
            found.add(rows[hits[which]], outputs)
        if time.time() - segment.used > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(segment.path)

    def _segments(self, folder: Path) -> list[Segment]:
        try:
            return listed(folder)
        except OSError as error:
            self._warn("read", f"the cache {folder} cannot be read: {error}")
            return []

    @contextlib.contextmanager
    def _survived(self, segment: Segment) -> Iterator[Outcome]:
        """Reading a segment that may be gone (no matter) or broken (a Warning; it is removed)."""
        outcome = Outcome()
        try:
            yield outcome
        except FileNotFoundError:
            outcome.gone = True
            self._shelf.forget(segment.path)
        except FAILURES as error:
            self._shelf.forget(segment.path)
            # An errno is the machine's trouble; without one it is the bytes that are wrong.
            removed = getattr(error, "errno", None) is None and upkeep.remove(segment.path)
            self._warn(segment.path, f"the cache segment {segment.path} cannot be read"
                       f"{' and was removed' if removed else ''}: {first_line(error)}")


class Found:
    """Outputs found so far, in pieces, for the rows of one look-up."""

    def __init__(self, count: int, kind: pa.DataType) -> None:
        self.kind = kind
        self._place = np.full(count, -1, np.int64)  # in the pieces, one behind the other
        self._rows: list[np.ndarray] = []
        self._pieces: list[pa.Array] = []
        self._total = 0

    def missing(self, places: Places) -> np.ndarray:
        """The rows that have a key and no output yet."""
        return np.flatnonzero((places.content >= 0) & (self._place < 0))

    def add(self, rows: np.ndarray, outputs: pa.Array) -> None:
        """The outputs of these rows."""
        self._place[rows] = self._total + np.arange(len(rows))
        self._rows.append(rows)
        self._pieces.append(outputs)
        self._total += len(rows)

    def as_stored(self) -> tuple[np.ndarray, pa.ChunkedArray]:
        """The rows that are known, piece by piece, and their outputs."""
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        pieces = [as_type(piece, self.kind) for piece in self._pieces]
        return rows, pa.chunked_array(pieces, self.kind)

    def result(self) -> tuple[pa.Array, pa.Array]:
        """Which rows are known, and the outputs of all, in order."""
        known = self._place >= 0
        if not self._pieces:
            return pa.array(known), pa.nulls(len(known), self.kind)
        outputs = pa.concat_arrays(self._pieces)
        if len(outputs) != len(known) or (self._place != np.arange(len(known))).any():
            outputs = outputs.take(pa.array(self._place, mask=~known))
        return pa.array(known), as_type(outputs, self.kind)


@dataclass
class Outcome:
    """How reading a segment went."""

    gone: bool = False


def first_line(error: BaseException) -> str:
    """What an error says, without its further lines."""
    return (str(error).splitlines() or [type(error).__name__])[0]
