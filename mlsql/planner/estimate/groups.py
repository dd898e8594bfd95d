"""GROUP BY a cheap key: one mean a group, all of them right at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.confidence import delta_by_group
from mlsql.planner.estimate.mean import Estimate, MeanSearch
from mlsql.planner.estimate.predict import labels_for_mean


class GroupSearch:
    """The mean of every group to ±error; P[all intervals hold] ≥ 1 − delta.

    groups: the group 0, 1, … of each candidate. Each group that is sampled takes δ/G; those too
    small for any sample to do (fewer rows than span·ln(2/δ)/ε) are labelled in full and take
    none. errors: one for all, or one a group, as SUMs need. Options are MeanSearch's.
    Ask, tell and done as there; `estimates()` has one a group.
    """

    def __init__(self, groups: Rows, span: tuple[float, float], errors: float | Floats,
                 delta: float, rng: np.random.Generator, **options: Any) -> None:
        by_group = np.argsort(groups, kind="stable").astype(np.int64)
        self._rows = np.split(by_group, np.cumsum(np.bincount(groups))[:-1])
        each = np.broadcast_to(np.asarray(errors, np.float64), len(self._rows))
        sizes = [len(rows) for rows in self._rows]
        fewest = labels_for_mean(0.0, span[1] - span[0], float(each.max(initial=1e-12)), delta)
        deltas = delta_by_group(delta, sizes, fewest)
        self.searches = [
            MeanSearch(size, span, error if share else 0.0, share or delta, rng, **options)
            for size, error, share in zip(sizes, each, deltas, strict=True)
        ]
        self._asked: list[tuple[int, int]] = []  # group, rows

    @property
    def done(self) -> bool:
        """Whether every group is done."""
        return all(search.done for search in self.searches)

    def ask(self, limit: int) -> Rows:
        """Up to `limit` rows, from the groups in proportion to what each still expects."""
        open_groups = [group for group, search in enumerate(self.searches) if not search.done]
        wanted = np.array([max(self.searches[group].expected_more, 1) for group in open_groups])
        shares = np.ceil(limit * wanted / max(wanted.sum(), 1)).astype(int)
        self._asked, out, left = [], [np.zeros(0, np.int64)], limit
        for group, share in sorted(zip(open_groups, shares), key=lambda pair: -pair[1]):
            local = self.searches[group].ask(min(int(share), left))
            if len(local):
                self._asked.append((group, len(local)))
                out.append(self._rows[group][local])
                left -= len(local)
        return np.concatenate(out)

    def tell(self, values: Floats, passed: Flags | None = None) -> None:
        """The labels of all rows last asked for, in their order."""
        start = 0
        for group, count in self._asked:
            part = slice(start, start + count)
            self.searches[group].tell(values[part], None if passed is None else passed[part])
            start += count
        self._asked = []

    def estimates(self) -> list[Estimate]:
        """One a group, in the order of their numbers."""
        return [search.estimate() for search in self.searches]
