"""What each batch will need for certain: the inputs that can be made ready ahead of the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mlsql.exec.batches import Outlook
from mlsql.exec.media.handle import Handle
from mlsql.exec.share import Share


@dataclass(frozen=True)
class Input:
    """One argument that a step will ask its model about: a Handle or a plain value.

    `row` is where it is first needed, `leader` the row that stands for all rows with it.
    """

    step: int
    row: int
    leader: int
    value: Any


@dataclass(frozen=True)
class Work:
    """What one batch needs ahead; `kept` are the rows whose picture a later step may need too."""

    batch: range
    inputs: tuple[Input, ...] = ()
    kept: frozenset[int] = frozenset()


def work(share: Share, outlooks: Sequence[Outlook], batches: Sequence[range]) -> Iterator[Work]:
    """The work of each batch, found when it is asked for."""
    for batch in batches:
        inputs: list[Input] = []
        for step, outlook in enumerate(outlooks):
            rows = np.flatnonzero(outlook.first[batch.start : batch.stop]) + batch.start
            if len(rows):
                leaders = outlook.leader[rows].tolist()
                values = arguments(share, step, rows)
                inputs += map(Input, [step] * len(rows), rows.tolist(), leaders, values)
        yield Work(batch, tuple(inputs), _kept(share, outlooks, inputs))


def arguments(share: Share, step: int, rows: np.ndarray) -> list[Any]:
    """The step's arguments on those rows: Handles for media, else Python values."""
    found = share.rows.column(share.steps[step].argument).take(pa.array(rows)).combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.chunks else pa.array([], found.type)
    if not share.steps[step].model.takes_media:
        values: list[Any] = found.to_pylist()
        return values
    parts = [found.field(name).to_pylist() for name in ("uri", "frame", "data")]
    return list(map(Handle, *parts))


def _kept(share: Share, outlooks: Sequence[Outlook], inputs: Sequence[Input]) -> frozenset[int]:
    rows = {item.row for item in inputs if isinstance(item.value, Handle)}
    return frozenset(
        row
        for step, outlook in enumerate(outlooks)
        if share.steps[step].model.takes_media
        for row in rows
        if outlook.maybe[row]
    )
