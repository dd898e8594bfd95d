"""Segments kept open between look-ups, within bounds, since engines come back to the same ones."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from mlsql.exec.keys import Places
    from mlsql.exec.segments import Index, SegmentFile

_MOST_FILES = 128
_INDEX_BYTES = 256 << 20
_OUTPUT_BYTES = 64 << 20


class Shelf:
    """Open segments, their indices and the outputs read last; the oldest go first."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[SegmentFile, Index]] = OrderedDict()
        self._index_bytes = 0
        self._outputs: OrderedDict[tuple[str, int], pa.Array] = OrderedDict()
        self._output_bytes = 0

    def find(self, path: str, places: Places, rows: np.ndarray) -> np.ndarray:
        """For each of these rows its position in the segment, or -1."""
        return self._segment(path)[1].find(places, rows)

    def pieces(
        self, path: str, positions: np.ndarray, kind: pa.DataType
    ) -> list[tuple[np.ndarray, pa.Array]]:
        """The outputs at these positions: which of the positions, and their outputs."""
        starts = self._segment(path)[0].starts
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        cuts = np.searchsorted(ascending, starts)
        pieces = []
        for group in np.flatnonzero(np.diff(cuts)).tolist():
            first, stop = cuts[group], cuts[group + 1]
            outputs = self._group(path, group, kind)
            local = ascending[first:stop] - starts[group]
            pieces.append((order[first:stop], _taken(outputs, local)))
        return pieces

    def forget(self, path: str) -> None:
        """Let go of a segment that is no more."""
        if path in self._open:
            file, index = self._open.pop(path)
            self._index_bytes -= index.nbytes
            file.close()
        for key in [key for key in self._outputs if key[0] == path]:
            self._output_bytes -= self._outputs.pop(key).nbytes

    def retain(self, folder: str, paths: Collection[str]) -> None:
        """Let go of the segments of a folder that it no longer lists: open, they take up disk."""
        for path in list(self._open):
            if path not in paths and os.path.dirname(path) == folder:
                self.forget(path)

    def close(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self.forget(path)

    def _segment(self, path: str) -> tuple[SegmentFile, Index]:
        from mlsql.exec.segments import SegmentFile

        if path not in self._open:
            file = SegmentFile(path)
            try:
                index = file.index()
            except BaseException:
                file.close()
                raise
            self._open[path] = (file, index)
            self._index_bytes += index.nbytes
            while len(self._open) > 1 and (
                len(self._open) > _MOST_FILES or self._index_bytes > _INDEX_BYTES
            ):
                self.forget(next(iter(self._open)))
        self._open.move_to_end(path)
        return self._open[path]

    def _group(self, path: str, group: int, kind: pa.DataType) -> pa.Array:
        key = (path, group)
        if key not in self._outputs:
            outputs = self._segment(path)[0].outputs(group, kind)
            self._outputs[key] = outputs
            self._output_bytes += outputs.nbytes
            while len(self._outputs) > 1 and self._output_bytes > _OUTPUT_BYTES:
                self._output_bytes -= self._outputs.popitem(last=False)[1].nbytes
        self._outputs.move_to_end(key)
        return self._outputs[key]


def _taken(outputs: pa.Array, rows: np.ndarray) -> pa.Array:
    """Outputs at ascending positions; a stretch without gaps is not copied."""
    first, count = int(rows[0]), len(rows)
    if int(rows[-1]) - first == count - 1 and (np.diff(rows) == 1).all():
        return outputs.slice(first, count)
    return outputs.take(pa.array(rows))
