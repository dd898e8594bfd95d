"""Keeping the cache's folder small: merging segments, evicting, removing what was left behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from mlsql.exec.segments import Rows, Segment

_MOST_SMALL = 32
_SMALL_BYTES = 32 << 20
_FEWEST_MERGED = 8
_MERGED_BYTES = 64 << 20
_LEFTOVER_SECONDS = 3600.0
_ROOM = 0.9  # evicting goes to this share of the limit, so that it is not due at every write


def model_folders(outputs: Path) -> list[Path]:
    """The folders of all models."""
    with contextlib.suppress(OSError), os.scandir(outputs) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    return []


def all_segments(outputs: Path) -> Iterator[Segment]:
    """The segments of all models."""
    from mlsql.exec.segments import listed

    for folder in model_folders(outputs):
        yield from listed(folder)


def to_merge(segments: Collection[Segment]) -> list[Segment]:
    """Segments to make one of, the smallest first; none while they are few.

    One more is taken as long as it is no larger than those before it together, so that a row is
    rewritten a number of times that grows with the logarithm of the rows.
    """
    small = sorted((s for s in segments if s.size < _SMALL_BYTES), key=lambda s: s.size)
    if len(small) <= _MOST_SMALL:
        return []
    total = 0
    chosen: list[Segment] = []
    for segment in small:
        enough = len(chosen) >= _FEWEST_MERGED
        if total + segment.size > _MERGED_BYTES or (enough and segment.size > total):
            break
        chosen.append(segment)
        total += segment.size
    return chosen


def read(segment: Segment, kind: pa.DataType) -> Rows:
    """All rows of a segment; OSError or pa.ArrowException where it is gone or broken."""
    from mlsql.exec.segments import SegmentFile

    with contextlib.closing(SegmentFile(segment.path)) as file:
        return file.rows(kind)


def replace(folder: Path, segments: Collection[Segment], rows: Rows) -> Segment:
    """Write one segment with the rows of these, then remove them; it counts as used as they."""
    from mlsql.exec.segments import write_segment

    merged = write_segment(folder, rows)
    used = max(segment.used for segment in segments)
    with contextlib.suppress(OSError):
        os.utime(merged.path, (used, used))
    for segment in segments:
        remove(segment.path)
    return merged


def evict(outputs: Path, limit: int, keep: Collection[str]) -> tuple[int, list[str]]:
    """Remove the segments unused for longest until all fit well into `limit` bytes.

    Those of `keep` stay whatever the limit. Returns the bytes left and the paths removed.
    """
    segments = sorted(all_segments(outputs), key=lambda segment: segment.used)
    total = sum(segment.size for segment in segments)
    removed: list[str] = []
    if total <= limit:
        return total, removed
    for segment in segments:
        if total <= limit * _ROOM:
            break
        if segment.path not in keep and remove(segment.path):
            removed.append(segment.path)
            total -= segment.size
    return total, removed


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed process left in a model's folder an hour ago."""
    from mlsql.exec.segments import leftovers

    for path, written in leftovers(folder):
        if time.time() - written > _LEFTOVER_SECONDS:
            remove(path)


def remove(path: str) -> bool:
    """Remove a file; False where it cannot be, and is still there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
