"""Tails of the binomial and the hypergeometric, and the bounds that follow from them."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from mlsql.planner.estimate.arrays import Floats


def binomial_below(k: int, n: int, p: float) -> float:
    """P[Bin(n, p) ≤ k]."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else float(special.bdtr(k, n, p))


def log_choose(n: Floats, k: Floats) -> Floats:
    """log of n over k, for 0 ≤ k ≤ n."""
    gammaln = special.gammaln
    out: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return out


def hypergeometric_below(k: int, population: int, marked: int, drawn: int) -> float:
    """P[at most k marked rows among `drawn`, without replacement, of which `marked` exist]."""
    least = max(0, drawn - (population - marked))
    if k < least:
        return 0.0
    if k >= min(marked, drawn):
        return 1.0
    x = np.arange(least, k + 1, dtype=np.float64)
    total = log_choose(np.float64(population), np.float64(drawn))
    logs = log_choose(np.float64(marked), x) + log_choose(population - marked + 0 * x, drawn - x)
    return min(1.0, float(np.exp(logs - total).sum()))


def share_at_least(k: int, n: int, delta: float) -> float:
    """The lower Clopper-Pearson bound Beta⁻¹(delta; k, n − k + 1): share ≥ it, P ≥ 1 − delta."""
    return 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, delta))


def share_at_most(k: int, n: int, delta: float) -> float:
    """The upper Clopper-Pearson bound Beta⁻¹(1 − delta; k + 1, n − k)."""
    return 1.0 if k >= n else float(special.betaincinv(k + 1, n - k, 1 - delta))


def marked_at_most(k: int, population: int, drawn: int, delta: float) -> int:
    """The most marked rows that k marked ones among `drawn` leave credible, P ≥ 1 − delta.

    The largest M with P[Hyp(population, M, drawn) ≤ k] > delta (inverted exact test). Also right
    when drawing went on until the k-th marked row: stopping there is no likelier than k of `drawn`.
    """
    low, high = k, population - drawn + k
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeometric_below(k, population, middle, drawn) > delta:
            low = middle
        else:
            high = middle - 1
    return low


def marked_at_least(k: int, population: int, drawn: int, delta: float) -> int:
    """The fewest marked rows that k marked ones among `drawn` leave credible, P ≥ 1 − delta."""
    unmarked = marked_at_most(drawn - k, population, drawn, delta)
    return population - unmarked


def draws_for(share: float, delta: float) -> int:
    """How many of a sort are needed so that none of a `share` of them is missed: ln δ / ln(1−s)."""
    return math.ceil(math.log(delta) / math.log1p(-share))
