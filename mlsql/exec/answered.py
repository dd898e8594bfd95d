"""What a stage's unknown inputs turned out to be, while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mlsql.exec.known import Unknown, choose, plain, taken
from mlsql.exec.stores import OutputStore

Array = np.ndarray[Any, Any]


class Answered:
    """The answers of one model to a chunk's unknown arguments, by their places among those."""

    def __init__(self, unknown: Unknown, kind: pa.DataType) -> None:
        self._unknown = unknown
        self._row = np.full(len(unknown.first), -1)  # of each argument, among the outputs
        self._outputs = [pa.array([], kind)]
        self._count = 0

    def add(self, places: Array, outputs: pa.Array) -> None:
        """Outputs for the arguments at those places."""
        self._row[places] = self._count + np.arange(len(places))
        self._count += len(places)
        self._outputs.append(plain(outputs).cast(self._outputs[0].type))

    def filled(self, rows: pa.Table, call: int) -> pa.Table:
        """The rows with the answers to a call, where it is not known otherwise."""
        key = np.asarray(rows[f"key_{call}"].combine_chunks().fill_null(-1))
        row = np.where(key >= 0, self._row[key], -1) if len(self._row) else key
        found = (row >= 0) & ~np.asarray(rows[f"known_{call}"])
        if not found.any():
            return rows
        new = self._taken(np.where(found, row, 0))
        old = plain(rows[f"out_{call}"])
        known = np.asarray(rows[f"known_{call}"]) | found
        for name, column in ((f"out_{call}", choose(pa.array(found), new, old)),
                             (f"known_{call}", pa.array(known))):
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    def put_into(self, store: OutputStore) -> None:
        """Give the store all answers, for every argument of the same input."""
        row = self._row[self._unknown.first]
        have = np.flatnonzero(row >= 0)
        if len(have):
            store.add(self._unknown.arguments.take(pa.array(have)), self._taken(row[have]))

    def _taken(self, rows: Array) -> pa.Array:
        self._outputs = [pa.concat_arrays(self._outputs)]
        return taken(self._outputs[0], rows)
