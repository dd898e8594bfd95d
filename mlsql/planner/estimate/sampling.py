"""Random orders of rows: uniform, within strata, by importance, and of clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsql.planner.estimate.arrays import Floats, Rows


def uniform_order(size: int, rng: np.random.Generator) -> Rows:
    """All rows in uniformly random order: every prefix is a sample without replacement."""
    return rng.permutation(size).astype(np.int64)


class UniformOrder:
    """Rows in uniformly random order, made as far as they are asked for.

    What uniform_order gives, without the cost of a permutation when a sample of millions of rows
    ends after thousands: uniform draws of which only first occurrences count, and a permutation of
    what is left once more than half is drawn. `without` are rows that it leaves out.
    """

    def __init__(self, size: int, rng: np.random.Generator, without: Rows | None = None) -> None:
        self._rng = rng
        self._free = np.ones(size, bool)
        if without is not None:
            self._free[without] = False
        self._total = size if without is None else int(self._free.sum())
        self._drawn: Rows = np.zeros(0, np.int64)
        self._made = 0

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, part: slice) -> Rows:
        """Rows of the order, by places: a slice without a step."""
        start, stop, _ = part.indices(self._total)
        while self._made < stop:
            self._extend(stop - self._made)
        return self._drawn[start:stop]

    def _extend(self, wanted: int) -> None:
        size = len(self._free)
        if 2 * (self._made + wanted) > size or 2 * self._total < size:
            rows = self._rng.permutation(np.flatnonzero(self._free))
        else:
            rows = self._rng.integers(0, size, 2 * wanted + 64)
            _, first = np.unique(rows, return_index=True)
            rows = rows[np.sort(first)]
            rows = rows[self._free[rows]]
        self._free[rows] = False
        self._keep(rows.astype(np.int64))

    def _keep(self, rows: Rows) -> None:
        end = self._made + len(rows)
        if end > len(self._drawn):
            grown = np.empty(max(end, 2 * len(self._drawn)), np.int64)
            grown[:self._made] = self._drawn[:self._made]
            self._drawn = grown
        self._drawn[self._made:end] = rows
        self._made = end


def stratified_orders(strata: Rows, rng: np.random.Generator) -> list[Rows]:
    """For each stratum 0, 1, … of the rows, its rows in uniformly random order."""
    shuffled = uniform_order(len(strata), rng)
    by_stratum = shuffled[np.argsort(strata[shuffled], kind="stable")]
    sizes = np.bincount(strata) if len(strata) else np.zeros(0, np.int64)
    return np.split(by_stratum, np.cumsum(sizes)[:-1]) if len(sizes) else []


@dataclass(frozen=True)
class Draws:
    """Independent draws with replacement: the row, and its weight 1/(N·probability)."""

    rows: Rows
    weights: Floats
    largest: float  # no row that exists has a larger weight


def importance_draws(scores: Floats, count: int, rng: np.random.Generator,
                     uniform: float = 0.1) -> Draws:
    """Draw rows ∝ (1 − uniform)·√A/Σ√A + uniform/N: no weight exceeds 1/uniform.

    scores: A ≥ 0, NULLs as NaN, which count as the highest. Kang et al., "Approximate selection
    with guarantees using proxies" (SUPG), 2020.
    """
    chances = importance_chances(scores, uniform)
    rows = rng.choice(len(chances), count, p=chances).astype(np.int64)
    weights = 1 / (len(chances) * chances)
    return Draws(rows, weights[rows], float(weights.max()))


def importance_chances(scores: Floats, uniform: float = 0.1) -> Floats:
    """The probability of each row under importance_draws; they sum to 1."""
    size = len(scores)
    filled = np.where(np.isnan(scores), np.nanmax(scores, initial=1.0), scores)
    roots = np.sqrt(np.maximum(filled, 0.0))
    total = roots.sum()
    if total <= 0:
        return np.full(size, 1 / size)
    chances = (1 - uniform) * roots / total + uniform / size
    return np.asarray(chances / chances.sum(), np.float64)


@dataclass(frozen=True)
class Clusters:
    """Groups of rows that are looked at together, such as groups of pictures, in random order."""

    order: Rows  # of the clusters
    starts: Rows
    sizes: Rows

    def rows(self, cluster: int) -> Rows:
        """The rows of one cluster."""
        start = self.starts[cluster]
        return np.arange(start, start + self.sizes[cluster], dtype=np.int64)


def cluster_order(starts: Rows, size: int, rng: np.random.Generator) -> Clusters:
    """Clusters in uniformly random order; cluster i holds rows starts[i] up to starts[i + 1]."""
    sizes = np.diff(np.append(starts, size)).astype(np.int64)
    return Clusters(uniform_order(len(starts), rng), starts.astype(np.int64), sizes)
