"""Where the rows of a population lie in their files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mlsql.exec.approximate.field import Track
from mlsql.exec.approximate.oracle import Oracle
from mlsql.exec.keys import is_media


def track_of(oracle: Oracle, arguments: tuple[str, ...]) -> Track:
    """The file and picture that each row's first media argument names; group -1 where none."""
    nowhere = Track(np.full(oracle.size, -1), np.zeros(oracle.size))
    for name in arguments:
        values = handles(oracle, name)
        if values is None:
            continue
        files = values.field("uri").dictionary_encode()
        group = np.asarray(files.indices.fill_null(-1), np.int64)
        frames = values.field("frame")
        place = np.asarray(frames.fill_null(0).cast(pa.float64()))
        group = np.where(np.asarray(frames.is_valid()), group, -1)
        if (group >= 0).any():
            return Track(group, place)
    return nowhere


def handles(oracle: Oracle, name: str) -> pa.StructArray | None:
    """A column of the population as handles of pictures; None where it holds none."""
    column = oracle.column(name)
    if not is_media(column.type):
        return None
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
