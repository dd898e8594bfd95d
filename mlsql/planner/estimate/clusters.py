"""Means from whole clusters, such as groups of pictures that are decoded together."""

from __future__ import annotations

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.betting import RatioSequence
from mlsql.planner.estimate.mean import Estimate, value_within
from mlsql.planner.estimate.predict import labels_for_mean
from mlsql.planner.estimate.sampling import cluster_order


def clusters_for_mean(variance: float, correlation: float, sizes: Rows, span: float, error: float,
                      delta: float) -> float:
    """Clusters that ClusterSearch needs, if rows of one cluster correlate by `correlation`.

    The variance of a cluster's mean is σ²·(ρ + (1 − ρ)/M), which for neighbouring frames is hardly
    less than one row's; times E[M²]/E[M]² for sizes that differ.
    """
    mean = float(sizes.mean())
    uneven = float(np.mean(sizes.astype(np.float64) ** 2)) / mean**2
    within = variance * (correlation + (1 - correlation) / max(mean, 1)) * uneven
    return labels_for_mean(within, span * float(sizes.max()) / mean, error, delta, len(sizes))


class ClusterSearch:
    """The mean over the rows (that pass) to ±error, from whole clusters drawn uniformly.

    Promise as MeanSearch's, with the clusters as what is drawn: rows of one cluster are never taken
    for independent. Bets on Σ(value − m) over a cluster, divided by the size of the largest.
    starts: the first row of each cluster, ascending from 0. Ask, tell, done, estimate as
    MeanSearch's; `ask` gives whole clusters, and more than `limit` rows only when one has more.
    """

    def __init__(self, starts: Rows, size: int, span: tuple[float, float], error: float,
                 delta: float, rng: np.random.Generator) -> None:
        self.error = error
        self.beyond = False
        self._clusters = cluster_order(starts, size, rng)
        self._span = span
        self._asked: list[int] = []  # clusters
        self._next = 0
        self._totals = np.zeros(2)
        self._labels = 0
        self._sequence = RatioSequence(error / (span[1] - span[0]), delta, population=len(starts))

    def ask(self, limit: int) -> Rows:
        """The rows of the next clusters, up to about `limit`; none when done."""
        self._asked = []
        if self.done:
            return np.zeros(0, np.int64)
        rows = 0
        for cluster in self._clusters.order[self._next:]:
            rows += int(self._clusters.sizes[cluster])
            if self._asked and rows > limit:
                break
            self._asked.append(int(cluster))
        return np.concatenate([self._clusters.rows(cluster) for cluster in self._asked])

    def tell(self, values: Floats, passed: Flags | None = None) -> None:
        """The labels of all rows last asked for, in their order."""
        counts = np.ones(len(values)) if passed is None else passed.astype(np.float64)
        kept = values[counts > 0]
        low, high = self._span
        self.beyond |= bool(len(kept) and not (kept.min() >= low and kept.max() <= high))
        values = np.where(counts > 0, values, low)
        self._totals += ((values * counts).sum(), counts.sum())
        sizes = self._clusters.sizes[self._asked]
        firsts = np.cumsum(sizes) - sizes
        largest = float(self._clusters.sizes.max())
        scaled = np.clip((values - low) / (high - low), 0, 1) * counts
        if not self.beyond:
            self._sequence.feed(np.add.reduceat(scaled, firsts) / largest,
                                np.add.reduceat(counts, firsts) / largest)
        self._next += len(sizes)
        self._labels += len(values)

    @property
    def done(self) -> bool:
        """Whether the interval is as narrow as asked, or every cluster is labelled."""
        if self._next == len(self._clusters.order):
            return True
        low, high = self._interval(lazy=True)
        return not self.beyond and high - low <= 2 * self.error

    def estimate(self) -> Estimate:
        """The answer now."""
        if self._next == len(self._clusters.order):
            total, count = self._totals
            mean = float(total / count) if count else float("nan")
            return Estimate(mean, mean, mean, self._labels, exact=True)
        low, high = (-np.inf, np.inf) if self.beyond else self._interval()
        start, end = self._span
        mean = start + (end - start) * self._sequence.mean
        return Estimate(value_within(mean, low, high, self.error), low, high, self._labels)

    def _interval(self, lazy: bool = False) -> tuple[float, float]:
        low, high = self._sequence.interval(lazy)
        start, end = self._span
        return start + (end - start) * low, start + (end - start) * high
