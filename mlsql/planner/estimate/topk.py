"""The k rows with the highest model score, without asking the model about all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from mlsql.planner.estimate.arrays import Floats, Rows

_ODDS = np.array([2.0, 4.0, 16.0])


def inflation(values: Floats, means: Floats, spreads: Floats) -> float:
    """The factor ≥ 1 on the spreads with which held-out rows are covered at every level above ½.

    values: the oracle's scores of rows drawn uniformly that the proxy was not trained on. With
    standardised residuals sorted, the j-th largest of n has to lie within κ·Φ⁻¹(1 − j/(n + 1)), the
    conformal rank (Vovk et al. 2005): κ is the largest of the quotients.
    """
    residuals = np.sort((values - means) / spreads)[::-1]
    n = len(residuals)
    ranks = np.arange(1, max(n // 3, 1) + 1)
    quantiles = special.ndtri(1 - ranks / (n + 1))
    usable = quantiles > 0
    if not n or not usable.any():
        return math.inf
    return max(1.0, float((residuals[:len(ranks)] / quantiles)[usable].max()))


@dataclass(frozen=True)
class TopK:
    """The rows found, best first, and the probability that no unseen row beats the last."""

    rows: Rows
    values: Floats
    confidence: float
    labels: int
    exact: bool
    inflation: float
    alarms: int


def recalibrated(values: Floats, means: Floats) -> tuple[float, float]:
    """(a, b) so that a + b·mean fits the held-out values, which mends an inverted proxy too."""
    spread = float(means.var()) if len(means) > 2 else 0.0
    if spread <= 1e-12:
        return (float(values.mean()) if len(values) else 0.0), 0.0
    slope = float(np.mean((means - means.mean()) * (values - values.mean()))) / spread
    return float(values.mean() - slope * means.mean()), slope


class TopKSearch:
    """Rows to ask the oracle about until its k best are known with probability ≥ 1 − delta.

    The score of an unseen row is taken to be normal, mean and spread from the proxy, the means
    fitted to held-out rows by a line, the spreads inflated until those rows are covered; it stops
    when Π P[score ≤ the k-th best found] over the unseen rows reaches 1 − delta (Lai et al.,
    "Everest: top-k deep video analytics", 2021).

    The promise rests on that calibration: beyond the held-out rows the tails are assumed no heavier
    than normal ones. It is re-checked while running: each row asked about had a probability to beat
    the k-th best, and a bet that it is larger by 2, 4 or 16 times raises the inflation by half
    whenever it has won 20 to 1.

    means, spreads: of all rows, spread > 0; NaN means (NULL) are asked first. known: rows and
    values of the held-out sample; it is required, there is no promise without. resolution: the step
    of scores that are counts (1), 0 for continuous ones.
    """

    def __init__(self, means: Floats, spreads: Floats, k: int, delta: float,
                 known: tuple[Rows, Floats], *, resolution: float = 0.0) -> None:
        self.k, self.delta, self.alarms = min(k, len(means)), delta, 0
        rows, values = known
        fit = ~np.isnan(means[rows])
        offset, slope = recalibrated(values[fit], means[rows][fit])
        means = offset + slope * means
        few = max(int(fit.sum()), 3)  # two degrees of freedom went into the line
        spreads = spreads * (few / (few - 2)) ** 0.5
        self.inflation = inflation(values[fit], means[rows][fit], spreads[rows][fit])
        self._means, self._spreads, self._resolution = means, spreads, resolution
        self._values = np.full(len(means), np.nan)
        self._values[rows] = values
        self._wealth = np.ones(len(_ODDS))
        self._asked: Rows = rows[:0]
        self._bar = -math.inf

    @property
    def bar(self) -> float:
        """The k-th highest value found so far."""
        found = self._values[~np.isnan(self._values)]
        return float(np.partition(found, -self.k)[-self.k]) if len(found) >= self.k else -math.inf

    def _unseen(self) -> tuple[Rows, Floats]:
        """Rows without a value, and each one's probability to beat the bar."""
        rows = np.flatnonzero(np.isnan(self._values))
        bar, means = self.bar, self._means[rows]
        if not math.isfinite(bar):
            return rows, np.ones(len(rows))
        chances = np.ones(len(rows))
        fit = ~np.isnan(means)
        if math.isfinite(self.inflation):
            spreads = self.inflation * self._spreads[rows][fit]
            chances[fit] = special.ndtr((means[fit] - bar - self._resolution / 2) / spreads)
        return rows, chances

    @property
    def confidence(self) -> float:
        """Π over the unseen rows of the probability not to beat the k-th best found."""
        _, chances = self._unseen()
        with np.errstate(divide="ignore"):
            return float(np.exp(np.log1p(-chances).sum()))

    @property
    def done(self) -> bool:
        """Whether the confidence is reached."""
        return self.confidence >= 1 - self.delta

    def ask(self, limit: int) -> Rows:
        """The rows likeliest to beat the k-th best, up to `limit`; none when done."""
        rows, chances = self._unseen()
        if self.done:
            return rows[:0]
        means = np.nan_to_num(self._means[rows], nan=np.inf)
        best = np.lexsort((-means, -chances))[:limit]
        self._asked, self._bar = rows[best], self.bar
        self._chances = chances[best]
        return self._asked

    def tell(self, values: Floats) -> None:
        """The oracle's scores of the rows last asked for, in their order; NULLs as -inf."""
        rows = self._asked[:len(values)]
        self._values[rows] = values
        for beats, chance in zip(values > self._bar, self._chances, strict=False):
            self._recheck(bool(beats), float(chance))

    def _recheck(self, beats: bool, chance: float) -> None:
        """Bet on odds higher than the proxy's; widen the spreads when that pays."""
        if not 0 < chance < 1:
            return
        others = np.minimum(_ODDS * chance, (1 + chance) / 2)
        self._wealth *= others / chance if beats else (1 - others) / (1 - chance)
        if self._wealth.mean() >= 20:
            self.inflation *= 1.5
            self.alarms += 1
            self._wealth = np.ones(len(_ODDS))

    def result(self) -> TopK:
        """The best rows found now."""
        found = np.flatnonzero(~np.isnan(self._values))
        best = found[np.argsort(-self._values[found], kind="stable")][:self.k]
        confidence = self.confidence
        exact = len(found) == len(self._values)
        return TopK(best, self._values[best], confidence, len(found), exact, self.inflation,
                    self.alarms)
