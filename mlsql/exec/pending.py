"""Outputs of one model that are not on disk yet, and can be looked up all the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mlsql.exec.runs import runs_of
from mlsql.exec.segments import Index, Rows, joined

if TYPE_CHECKING:
    from mlsql.exec.keys import Places
    from mlsql.udfs.spec import ModelSpec


class Pending:
    """Rows in the order they came; `flushed_at` is when they were last written (monotonic)."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.flushed_at = -float("inf")
        self.nbytes = 0
        self._parts: list[Rows] = []
        self._sorted: tuple[Rows, Index] | None = None

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, rows: Rows) -> None:
        """Take more rows in."""
        self._parts.append(rows)
        self._sorted = None
        self.nbytes += _size(rows)

    def rows(self) -> Rows:
        """All rows; there must be some."""
        return joined(self._parts)

    def clear(self) -> None:
        """Let go of all rows: they are written."""
        self._parts.clear()
        self._sorted = None
        self.nbytes = 0
        self.flushed_at = time.monotonic()

    def shrink(self, most: int) -> None:
        """Let go of the oldest rows until `most` bytes are left."""
        while self._parts and self.nbytes > most:
            self.nbytes -= _size(self._parts.pop(0))
            self._sorted = None

    def find(self, places: Places, rows: np.ndarray) -> np.ndarray:
        """For each of these rows of `places` its position, or -1."""
        return self._index()[1].find(places, rows)

    def outputs(self, positions: np.ndarray) -> pa.Array:
        """The outputs at positions that `find` gave."""
        return self._index()[0].outputs.take(pa.array(positions))

    def _index(self) -> tuple[Rows, Index]:
        if self._sorted is None:
            rows = self.rows().sorted()
            runs = runs_of(rows.high, rows.low, rows.frame)
            self._sorted = rows, Index(runs, len(rows), rows.frame)
        return self._sorted


def _size(rows: Rows) -> int:
    return 24 * len(rows) + int(rows.outputs.nbytes)
