"""Thresholds above which enough rows are positive: precision targets by a fixed sequence."""

from __future__ import annotations

import math

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.distributions import share_at_least


def threshold_grid(scores: Floats, steps: int = 30, least: int = 30) -> Floats:
    """Thresholds to try, from the top down, without a look at any label.

    The i-th lets in least·r^i rows, up to all of them; ties come in together. NaN is left out.
    """
    ordered = np.sort(scores[~np.isnan(scores)])[::-1]
    if not len(ordered):
        return ordered
    least = min(least, len(ordered))
    counts = np.unique(np.geomspace(least, len(ordered), steps).astype(np.int64))
    return np.unique(ordered[counts - 1])[::-1]


def precision_threshold(scores: Floats, labels: Flags, grid: Floats, precision: float,
                        delta: float) -> float:
    """The lowest threshold of the grid with precision ≥ `precision`, P ≥ 1 − delta; inf if none.

    scores and labels of rows drawn uniformly from those at or above the grid's lowest threshold;
    the grid falls, and was fixed before any label was seen. At each threshold the Clopper-Pearson
    bound Beta⁻¹(δ; k, n − k + 1) has to reach the target; the first that does not ends the search,
    so that δ need not be split (fixed-sequence testing, Maurer et al. 1995).
    """
    kept = math.inf
    for threshold in grid:
        above = scores >= threshold
        n, k = int(above.sum()), int((above & labels).sum())
        if share_at_least(k, n, delta) < precision:
            break
        kept = float(threshold)
    return kept


def returned_rows(scores: Floats, threshold: float, labelled: Rows, labels: Flags) -> Rows:
    """Rows at or above the threshold and labelled positives; labelled negatives are dropped."""
    keep = scores >= threshold
    keep[labelled] = labels
    return np.flatnonzero(keep)
