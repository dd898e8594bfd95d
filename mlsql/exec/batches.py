"""What can be said of a share before anything runs, and the batches it is cut into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from mlsql.exec.conditions import Conditions, mask_of, outputs_named
from mlsql.exec.share import Share

FREE_STRETCH = 64
"""So many rows in a row that need no model are a batch of their own: LIMIT may stop after them."""


@dataclass(frozen=True)
class Outlook:
    """One step seen ahead; each array has an entry a row of the share.

    `sure` rows will need the model, `maybe` rows may, by outputs not known yet; the other rows'
    output is known or NULL. `leader` is the first of those rows with the same argument (for a
    model that is not deterministic, the row itself), and `first` marks each group's first sure row.
    """

    sure: np.ndarray
    maybe: np.ndarray
    leader: np.ndarray
    first: np.ndarray

    @property
    def heavy(self) -> np.ndarray:
        """The rows that may cost a model call which no earlier row has made."""
        leading = self.leader == np.arange(len(self.leader))
        heavy: np.ndarray = (self.sure | self.maybe) & leading
        return heavy


def outlooks(share: Share, conditions: Conditions) -> list[Outlook]:
    """Each step's outlook. The guards are asked in bulk, once a step."""
    found: list[Outlook] = []
    for position, step in enumerate(share.steps):
        column = share.rows.column(step.argument)
        candidates = ~_known(share, position) & mask_of(pc.is_valid(column))
        clear = candidates.copy()
        for earlier in outputs_named(step.guard):
            if earlier < position:
                clear &= ~(found[earlier].sure | found[earlier].maybe)
        sure = clear.copy()
        sure[clear] = conditions.passing(share.rows, step.guard, np.flatnonzero(clear))
        found.append(_outlook(share, position, conditions, sure, candidates & ~clear))
    return found


def batches(share: Share, ahead: Sequence[Outlook], sizes: Sequence[int]) -> Iterator[range]:
    """Ranges of the share's rows, in order, each with about one model batch of inputs.

    `sizes` are each step's; that of the step with most inputs counts. An empty share is one empty
    range.
    """
    heavy = [outlook.heavy for outlook in ahead]
    counts = [int(mask.sum()) for mask in heavy]
    if not any(counts):
        yield range(len(share.rows))
        return
    size = max(1, sizes[int(np.argmax(counts))])
    yield from _ranges(np.flatnonzero(np.logical_or.reduce(heavy)), size, len(share.rows))


def _ranges(heavy: np.ndarray, size: int, rows: int) -> Iterator[range]:
    start = 0
    for at in range(0, len(heavy), size):
        group = heavy[at : at + size]
        if group[0] - start >= (1 if at == 0 else FREE_STRETCH):
            yield range(start, int(group[0]))
            start = int(group[0])
        yield range(start, int(group[-1]) + 1)
        start = int(group[-1]) + 1
    if start < rows:
        yield range(start, rows)


def _known(share: Share, step: int) -> np.ndarray:
    name = f"known_{step}"
    if name not in share.rows.column_names:
        return np.zeros(len(share.rows), dtype=bool)
    return mask_of(share.rows.column(name))


def _outlook(
    share: Share, position: int, conditions: Conditions, sure: np.ndarray, maybe: np.ndarray
) -> Outlook:
    step = share.steps[position]
    leader = np.arange(len(sure))
    rows = np.flatnonzero(sure | maybe)
    if step.model.deterministic:
        column = share.rows.column(step.argument)
        leader[rows] = conditions.leaders(column, rows, step.model.takes_media)
    first = np.zeros(len(sure), dtype=bool)
    asked = np.flatnonzero(sure)
    first[asked[np.unique(leader[asked], return_index=True)[1]]] = True
    return Outlook(sure, maybe, leader, first)
