"""Means over the rows that pass, drawn by importance or by strata: for predicates few rows pass."""

from __future__ import annotations

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.betting import RatioSequence
from mlsql.planner.estimate.mean import Estimate, value_within


def stratum_chances(strata: Rows, shares: Floats, deviations: Floats,
                    uniform: float = 0.5) -> Floats:
    """The probability of each row: T_k ∝ W_k·√p̂_k·σ̂_k shared out within its stratum.

    shares p̂ (that pass) and deviations σ̂ of each stratum come from a pilot that is not drawn
    again; `uniform` of all draws ignore them, so that no weight exceeds 1/uniform, which the bets
    pay for, and a wrong pilot costs at most that factor. Kang et al., "Accelerating approximate
    aggregation queries with expensive predicates" (ABae), 2021.
    """
    size = len(strata)
    wanted = (np.sqrt(shares) * deviations)[strata]
    total = wanted.sum()
    if total <= 0:
        return np.full(size, 1 / size)
    out = (1 - uniform) * wanted / total + uniform / size
    return np.asarray(out / out.sum(), np.float64)


def weighted_labels(variance: float, share: float, largest: float, span: float, error: float,
                    delta: float) -> float:
    """Draws that WeightedSearch needs: 2V·ln(2/δ)/(pε)² and W·span·ln(2/δ)/(pε), as for a mean.

    variance: V = E[w²·passed·(y − mean)²] under the draws, `largest`: W, the largest weight.
    """
    ask = float(np.log(2 / delta)) / (share * error)
    return float(np.hypot(2 * variance * ask / (share * error), largest * span * ask))


class WeightedSearch:
    """The mean over the rows that pass, to ±error, from draws by given probabilities.

    Promise as MeanSearch's: P ≥ 1 − delta at every stop, for any chances > 0. Draws are
    independent, with replacement; a row drawn again is not labelled again. Bets on
    w·passed·(value − m), w = 1/(N·chance), whose mean under the draws is 0 at the true mean, and
    which lies within ± the largest weight. With chances from strata this is stratified sampling
    with one δ: a union bound over K strata would cost up to K times the labels.
    Ask, tell, done and estimate as MeanSearch's.
    """

    def __init__(self, chances: Floats, span: tuple[float, float], error: float, delta: float,
                 rng: np.random.Generator) -> None:
        self.error = error
        self.beyond = False
        self._span, self._rng = span, rng
        self._cumulative = np.cumsum(chances) / chances.sum()
        weights = chances.sum() / (len(chances) * chances)
        self._weights = weights / weights.max()
        self._values = np.zeros(len(chances))
        self._passed = np.zeros(len(chances), bool)
        self._seen = np.zeros(len(chances), bool)
        self._draws: Rows = np.zeros(0, np.int64)
        self._asked: Rows = self._draws
        self._sequence = RatioSequence(error / (span[1] - span[0]), delta)

    def ask(self, limit: int) -> Rows:
        """Up to `limit` rows not labelled yet, for the next draws; none when done."""
        if self.done:
            return self._draws[:0]
        if self.beyond:
            self._asked = np.flatnonzero(~self._seen)[:limit]
            return self._asked
        while (fresh := self._fresh()).size < limit and len(self._draws) < 4 * len(self._seen):
            more = np.searchsorted(self._cumulative, self._rng.random(max(limit, 64)), side="right")
            more = np.minimum(more, len(self._seen) - 1)
            self._draws = np.concatenate([self._draws, more.astype(np.int64)])
        self._asked = fresh[:limit] if fresh.size else np.flatnonzero(~self._seen)[:limit]
        return self._asked

    def tell(self, values: Floats, passed: Flags) -> None:
        """The labels of the rows last asked for, in their order; a prefix of them will do."""
        rows = self._asked[:len(values)]
        self._asked = self._asked[len(values):]
        self._values[rows], self._passed[rows] = values, passed
        self._seen[rows] = True
        kept = values[passed]
        self.beyond |= bool(len(kept) and not (kept.min() >= self._span[0]
                                               and kept.max() <= self._span[1]))
        self._feed()

    def _fresh(self) -> Rows:
        """Rows drawn and not labelled, in the order of their first draw."""
        waiting = self._draws[~self._seen[self._draws]]
        unique, first = np.unique(waiting, return_index=True)
        return unique[np.argsort(first)]

    def _feed(self) -> None:
        """Bet on the draws up to the first whose row has no label yet."""
        known = self._seen[self._draws]
        ready = len(known) if known.all() else int(np.argmin(known))
        rows, self._draws = self._draws[:ready], self._draws[ready:]
        counts = self._weights[rows] * self._passed[rows]
        low, high = self._span
        if not self.beyond:
            self._sequence.feed(counts * (self._values[rows] - low) / (high - low), counts)

    @property
    def done(self) -> bool:
        """Whether the interval is as narrow as asked, or every row is labelled."""
        if self._seen.all():
            return True
        low, high = self._interval(lazy=True)
        return not self.beyond and high - low <= 2 * self.error

    def estimate(self) -> Estimate:
        """The answer now."""
        labels = int(self._seen.sum())
        if labels == len(self._seen):
            mean = float(self._values[self._passed].mean()) if self._passed.any() else float("nan")
            return Estimate(mean, mean, mean, labels, exact=True)
        low, high = (-np.inf, np.inf) if self.beyond else self._interval()
        start, end = self._span
        mean = start + (end - start) * self._sequence.mean
        return Estimate(value_within(mean, low, high, self.error), low, high, labels)

    def _interval(self, lazy: bool = False) -> tuple[float, float]:
        low, high = self._sequence.interval(lazy)
        start, end = self._span
        return start + (end - start) * low, start + (end - start) * high
