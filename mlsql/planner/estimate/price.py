"""What certification costs at least, before anything runs."""

from __future__ import annotations

import math

from mlsql.planner.estimate.predict import relative_entropy
from mlsql.planner.estimate.recall import positives_needed


def misses_allowed(positives: int, recall: float) -> int:
    """⌊(1 − γ)P⌋: how many positives a recall target lets go."""
    return math.floor((1 - recall) * positives + 1e-9)


def least_share(positives: int, recall: float, delta: float) -> float:
    """The share f of the rows below any threshold that has to be labelled, whatever the proxy.

    A sample that finds none of m + 1 positives down there, m = misses_allowed, is possible with
    probability (1 − f)^(m + 1), which has to be ≤ δ. P = 51, γ = .9, δ = .05: 39 %.
    """
    return float(-math.expm1(math.log(delta) / (misses_allowed(positives, recall) + 1)))


def recall_labels(size: int, positives: int, recall: float, delta: float,
                  wanted: int | None = None) -> float:
    """Expected labels of RecallSearch: until `wanted` positives come (the fewest that will do)."""
    wanted = wanted or positives_needed(recall, delta)
    if positives < wanted:
        return float(size)
    return min(float(size), wanted * (size + 1) / (positives + 1))


def precision_labels(precision: float, above: float, delta: float) -> float:
    """Expected labels for one threshold of a precision target, if `above` is the precision there.

    ln(1/δ) over the relative entropy of the two: the growth rate of the best bet (Kelly).
    """
    if above <= precision:
        return math.inf
    return math.log(1 / delta) / relative_entropy(above, precision)
