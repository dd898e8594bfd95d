"""The published rules beside which the project's own are run: for comparison only."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bernstein_stop(values: Floats, span: float, error: float, delta: float) -> int:
    """When empirical Bernstein stopping is within ±error, or the number of values + 1.

    Audibert, Munos and Szepesvári 2007; Mnih et al. 2008, with d_t = δ(p − 1)/(p·t^p), p = 1.1.
    """
    t = np.arange(1, len(values) + 1)
    mean = np.cumsum(values) / t
    variance = np.maximum(np.cumsum(values**2) / t - mean**2, 0)
    log = np.log(3 * 1.1 * t**1.1 / (0.1 * delta))
    width = np.sqrt(2 * variance * log / t) + 3 * span * log / t
    below = np.flatnonzero(width <= error)
    return int(below[0]) + 1 if len(below) else len(values) + 1


def supg_recall_threshold(scores: Floats, weights: Floats, labels: NDArray[np.bool_],
                          recall: float, delta: float) -> float:
    """SUPG's threshold for a recall target from importance draws, with its normal bounds.

    Kang et al., "Approximate selection with guarantees using proxies", 2020, IS-CI-R.
    """
    first = _empirical(scores, weights * labels, recall)
    above = weights * labels * (scores >= first)
    below = weights * labels * (scores < first)
    most, least = _bound(above, delta / 2, 1), _bound(below, delta / 2, -1)
    if most <= 0:
        return -math.inf
    return _empirical(scores, weights * labels, min(1.0, most / (most + max(least, 0.0))))


def _bound(terms: Floats, delta: float, sign: int) -> float:
    spread = float(terms.std()) / math.sqrt(len(terms))
    return float(terms.mean()) + sign * spread * math.sqrt(2 * math.log(1 / delta))


def _empirical(scores: Floats, found: Floats, recall: float) -> float:
    """The highest threshold that keeps a weighted share `recall` of the positives drawn."""
    order = np.argsort(-scores, kind="stable")
    kept = np.cumsum(found[order])
    if not len(kept) or kept[-1] <= 0:
        return -math.inf
    at = int(np.searchsorted(kept, recall * kept[-1] - 1e-12))
    return float(scores[order[min(at, len(order) - 1)]])
