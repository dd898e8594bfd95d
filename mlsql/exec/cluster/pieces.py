"""A share cut into pieces that several workers can take without asking for one input twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mlsql.exec.batches import Outlook
from mlsql.exec.share import Share, Step
from mlsql.udfs.spec import ModelSpec

Array = np.ndarray


class Uncut:
    """The rows of a share that may need a model, from which pieces are cut from the front.

    Rows that ask the costliest step for the same input stay together, with the first of them.
    """

    def __init__(self, share: Share, outlooks: Sequence[Outlook]) -> None:
        rows = np.flatnonzero(needy(outlooks, len(share.rows)))
        groups = grouped(share, outlooks)[rows]
        order = np.lexsort((rows, groups))
        self._rows, ordered = rows[order], groups[order]
        new = np.ones(len(rows), bool)
        new[1:] = ordered[1:] != ordered[:-1]
        self._starts = np.append(np.flatnonzero(new), len(rows))
        costs = np.concatenate([[0.0], np.cumsum(_costs(share, outlooks)[self._rows])])
        self._costs = costs[self._starts]
        self._next = 0

    @property
    def inputs(self) -> int:
        """How many groups of rows are left, each of about one input."""
        return len(self._starts) - 1 - self._next

    @property
    def cost(self) -> float:
        """What is left, in expected milliseconds of model."""
        return float(self._costs[-1] - self._costs[self._next])

    def count(self, cost: float) -> int:
        """How many of the next inputs come to that cost."""
        reached = np.searchsorted(self._costs, self._costs[self._next] + cost, side="right")
        return max(0, int(reached) - 1 - self._next)

    def take(self, inputs: int) -> tuple[Array, float]:
        """The rows of so many inputs, ascending, and what they cost."""
        first, self._next = self._next, min(self._next + inputs, len(self._starts) - 1)
        rows = self._rows[self._starts[first] : self._starts[self._next]]
        return np.sort(rows), float(self._costs[self._next] - self._costs[first])


@dataclass(frozen=True)
class Ahead:
    """Inputs that rows of several pieces need for certain, to be found before anything is cut."""

    share: Share
    ids: Array  # of its rows: the numbers of the inputs


def shared_inputs(share: Share, outlooks: Sequence[Outlook]) -> list[Ahead]:
    """For each model the inputs that several pieces would ask for, however the share is cut."""
    groups = grouped(share, outlooks)
    found = []
    for steps in same_model(share).values():
        spec = share.steps[steps[0]].model
        if not spec.deterministic or (len(steps) == 1 and len(share.steps) == 1):
            continue
        ids = [numbers(share, outlooks, step) for step in steps]
        rows = [np.flatnonzero(outlooks[step].sure) for step in steps]
        number = np.concatenate([i[r] for i, r in zip(ids, rows)])
        row = np.concatenate(rows)
        step = np.repeat(steps, [len(r) for r in rows])
        spread, first = _in_several(number, groups[row])
        if len(spread):
            found.append(Ahead(_asking(share, spec, row[first], step[first]), spread))
    return found


def needy(outlooks: Sequence[Outlook], count: int) -> Array:
    """The rows for which a model may be asked, as a mask."""
    masks = [outlook.sure | outlook.maybe for outlook in outlooks]
    found: Array = np.logical_or.reduce(masks) if masks else np.zeros(count, bool)
    return found


def numbers(share: Share, outlooks: Sequence[Outlook], step: int) -> Array:
    """For each row a number of the step's input: equal where steps of one model ask the same."""
    outlook = outlooks[step]
    if share.steps[step].model.deterministic and f"key_{step}" in share.rows.column_names:
        key = share.rows.column(f"key_{step}").combine_chunks()
        own = np.asarray(key.fill_null(-1))
        return np.where(own >= 0, own, -1 - outlook.leader)
    # Without keys, inputs of different steps are not known to be the same.
    return outlook.leader + step * len(outlook.leader)


def same_model(share: Share) -> dict[tuple[str, str], list[int]]:
    """The steps of each model."""
    steps: dict[tuple[str, str], list[int]] = {}
    for position, step in enumerate(share.steps):
        steps.setdefault((step.model.name, step.model.fingerprint), []).append(position)
    return steps


def grouped(share: Share, outlooks: Sequence[Outlook]) -> Array:
    """For each row the first one that asks the costliest step for the same input, else itself."""
    costs = [int(outlook.heavy.sum()) * share.steps[i].model.cost_ms
             for i, outlook in enumerate(outlooks)]
    rows = np.arange(len(share.rows))
    if not any(costs):
        return rows
    outlook = outlooks[int(np.argmax(costs))]
    return np.where(outlook.sure | outlook.maybe, outlook.leader, rows)


def _in_several(number: Array, group: Array) -> tuple[Array, Array]:
    """The numbers found with more than one group, ascending, and where each is first."""
    order = np.lexsort((group, number))
    n, g = number[order], group[order]
    differs = np.zeros(len(n), bool)
    differs[1:] = (n[1:] == n[:-1]) & (g[1:] != g[:-1])
    spread = np.unique(n[differs])
    values, first = np.unique(number, return_index=True)
    return spread, first[np.searchsorted(values, spread)]


def _asking(share: Share, spec: ModelSpec, rows: Array, steps: Array) -> Share:
    """A share that asks a model for the inputs of these rows and steps, in this order."""
    columns = [share.rows.column(share.steps[s].argument).combine_chunks() for s in set(steps)]
    place = {s: n for n, s in enumerate(set(steps))}
    at = np.array([place[s] for s in steps], dtype=np.int64) * len(share.rows) + rows
    both = pa.chunked_array([c.cast(columns[0].type) for c in columns]).take(pa.array(at))
    return Share(pa.table({"a": both}), (Step(spec, "a"),))


def _costs(share: Share, outlooks: Sequence[Outlook]) -> Array:
    """For each row the milliseconds of model that it brings; what may not be asked costs half."""
    total = np.zeros(len(share.rows))
    for step, outlook in zip(share.steps, outlooks):
        leads = outlook.leader == np.arange(len(outlook.leader))
        cost = max(step.model.cost_ms, 1e-3)
        total += cost * leads * (outlook.sure + 0.5 * outlook.maybe)
    return np.maximum(total, 1e-3)
