"""Confidence sequences by betting, for means and ratios of bounded values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mlsql.planner.estimate.arrays import Floats
from mlsql.planner.estimate.predict import labels_left

_GROUP = 16  # factors multiplied before a logarithm is taken: each lies in about .05 to 1e9


class RatioSequence:
    """An interval for R = Σa/Σb that holds at every stop at once with probability 1 − delta.

    Rows carry 0 ≤ a ≤ b ≤ 1. A mean of values x in [0, 1] has a = x and b = 1; a mean over the rows
    that pass a condition has a = x·passed and b = passed; rows drawn with weights w ≤ W have both
    times w/W; a cluster has its two totals, divided by the size of the largest.

    Promise: P[R in interval() at every t] ≥ 1 − delta, at any sample size and for any population.
    Assumes that rows come uniformly at random: without replacement out of `population` rows, or
    independent draws with E[a − bR] = 0 where population is None. `known` are the sums of a and b
    over rows that were looked at before and are not among the `population`.

    Formula: K±(m) = Π(1 ± λᵢ(aᵢ − bᵢm − cᵢ)), cᵢ the mean of what is left if R were m, and
    λᵢ = e/(v̂ + e·s) from the rows before, e = error·b̄, v̂ the mean of (a − bR)² and s, where it is
    against the bet, the third moment over the second (Kelly's fraction to the second order, exact
    for values 0 and 1), clipped so that no factor falls below 1 − stake. The interval is
    {m : ½max(K⁺, K⁻) < 1/delta}, intersected over the rows, looked at 16 by 16. K⁺ falls and K⁻
    grows with m, and so do their highest values so far, so that its ends are roots. Waudby-Smith
    and Ramdas, "Estimating means of bounded random variables by betting", 2023 (their §5 for
    sampling without replacement).
    """

    def __init__(self, error: float, delta: float, *, population: int | None = None,
                 known: tuple[float, float] = (0.0, 0.0), relative: bool = False,
                 origin: float = 0.0,
                 prior: tuple[float, float, float] = (0.5, 0.25, 1.0),
                 stake: float = 0.75) -> None:
        """Tune the bets to `error` (relative: times R + origin).

        prior: a mean and a variance to begin with, and how many rows they weigh.
        stake: the most of the wealth that one row may lose, below 1. ½ is the common choice; a
        range that is hardly used wants more.
        """
        self.error, self.delta, self.relative, self.origin = error, delta, relative, origin
        self.population = population
        self.count = 0
        self.low, self.high = 0.0, 1.0
        self._known = known
        self._sums = np.zeros(2)  # of a and b, over the rows fed
        mean, variance, self._weight = prior
        self._prior = (mean * self._weight, variance * self._weight)
        self._squares = self._cubes = 0.0
        self._terms = _Terms(stake)
        self._bounded_at = self._next = 0

    @property
    def mean(self) -> float:
        """R if what is left is like what was drawn; the interval's middle when nothing counts."""
        unseen = 0 if self.population is None else self.population - self.count
        a, b = self._known + self._sums * (1 + unseen / max(self.count, 1))
        return float(a / b) if b > 0 else (self.low + self.high) / 2

    @property
    def half_width(self) -> float:
        """Half the length of the interval as last asked for."""
        return (self.high - self.low) / 2

    def feed(self, a: Floats, b: Floats | None = None) -> None:
        """Take the next rows, in the order in which they were drawn."""
        if not len(a):
            return
        b = np.ones(len(a)) if b is None else b
        a_before = self._sums[0] + np.concatenate(([0.0], np.cumsum(a)))
        b_before = self._sums[1] + np.concatenate(([0.0], np.cumsum(b)))
        means = (self._prior[0] + a_before) / (self._weight + b_before)
        residuals = a - b * means[1:]
        squares, cubes = np.cumsum(residuals**2), np.cumsum(residuals**3)
        variances = self._prior[1] + self._squares + np.concatenate(([0.0], squares[:-1]))
        errors = self._goal(means[:-1])
        counts = self._weight + self.count + np.arange(len(a))
        left = self._left(len(a))
        drift_a = (a_before[:-1] + self._known[0]) / left
        drift_b = (b_before[:-1] + self._known[1]) / left
        reach = (self._weight + b_before[:-1]) / counts + drift_b
        goals = errors * reach
        skews = (self._cubes + np.concatenate(([0.0], cubes[:-1]))) / variances
        rising, falling = (goals / (variances / counts + goals * np.maximum(side, 0.0))
                           for side in (-skews, skews))
        self._terms.extend(a + drift_a, b + drift_b, drift_a, drift_b, rising, falling)
        self._sums = np.array([a_before[-1], b_before[-1]])
        self._squares += float(squares[-1])
        self._cubes += float(cubes[-1])
        self.count += len(a)

    def _left(self, more: int) -> Floats:
        """How many rows are left before each draw; infinity when rows are put back."""
        if self.population is None:
            return np.full(more, np.inf)
        if self.count + more > self.population:
            raise ValueError(f"{self.count + more} rows fed out of {self.population}")
        return (self.population - self.count - np.arange(more)).astype(np.float64)

    def _goal(self, mean: Floats) -> Floats:
        """The half-width that the bets are for."""
        if not self.relative:
            return np.full(len(mean), self.error)
        return np.asarray(self.error * np.maximum(mean + self.origin, 1e-9), np.float64)

    def interval(self, lazy: bool = False) -> tuple[float, float]:
        """The interval after the rows fed so far; it never widens. O(rows) time.

        lazy: for a look at every batch; computed anew about when that may have become worthwhile.
        """
        if self.population == self.count and self._sums[1] + self._known[1] > 0:
            self.low = self.high = self.mean
        elif self.error > 0 and self.count >= (self._next if lazy else self._bounded_at + 1):
            self._bound()
        return self.low, self.high

    def _bound(self) -> None:
        goal, inside = float(self._goal(np.array([self.mean]))[0]), self.mean
        threshold, tolerance = math.log(2 / self.delta), max(1e-3 * goal, 1e-10)
        self.low = _raised(self._terms.rising, self.low, inside, threshold, tolerance)
        self.high = 1 - _raised(self._terms.falling, 1 - self.high, 1 - inside, threshold,
                                tolerance)
        self._certain()
        self._empty()
        self._bounded_at = self.count
        more = labels_left(self.count, self.half_width, goal) // 3
        self._next = self.count + max(1, self.count // 100, min(more, self.count))

    def _certain(self) -> None:
        """Nor can R be where it is not with every row left at its worst."""
        if self.population is not None:
            a, b = self._sums + self._known
            rows = b + self.population - self.count
            self.low = max(self.low, float(a / rows))
            self.high = min(self.high, 1 - float((b - a) / rows))

    def _empty(self) -> None:
        """Keep an interval when the ends have crossed, which happens with probability ≤ delta."""
        if self.low > self.high:
            self.low = self.high = (self.low + self.high) / 2


class _Terms:
    """The factors of both wealths as arrays, with room to grow."""

    def __init__(self, stake: float) -> None:
        self._stake = stake
        self._arrays = np.empty((6, 256))
        self._size = 0

    def extend(self, *columns: Floats) -> None:
        """Append rows: a and b with their drifts, the drifts, the bets of both wealths."""
        end = self._size + len(columns[0])
        if end > self._arrays.shape[1]:
            grown = np.empty((6, max(end, 2 * self._arrays.shape[1])))
            grown[:, :self._size] = self._arrays[:, :self._size]
            self._arrays = grown
        for kept, column in zip(self._arrays, columns, strict=True):
            kept[self._size:end] = column
        self._size = end

    def rising(self, m: float) -> float:
        """log K⁺(m): large when R is above m; infinite when R cannot be as low as m."""
        a, b, drift_a, drift_b, bets, _ = self._arrays[:, :self._size]
        return _log_wealth(a - m * b, m + (m * drift_b - drift_a), bets, self._stake)

    def falling(self, m: float) -> float:
        """log K⁻(1 − m): large when R is below 1 − m."""
        a, b, drift_a, drift_b, _, bets = self._arrays[:, :self._size]
        return _log_wealth((1 - m) * b - a, m - ((1 - m) * drift_b - drift_a), bets,
                           self._stake)


def _log_wealth(gains: Floats, worst: Floats, bets: Floats, stake: float = 0.5) -> float:
    """The highest Σ log(1 + λ·gain) that was reached at any row, or 0 before the first.

    With λ·worst loss ≤ stake; infinity when a loss could not even occur. The highest, looked at
    every few rows, since the interval is the intersection over all times.
    """
    if worst.min(initial=1.0) < -1e-12:
        return math.inf
    factors = 1 + np.minimum(bets, stake / np.maximum(worst, 1e-300)) * gains
    whole = len(factors) - len(factors) % _GROUP
    grouped = factors[:whole].reshape(-1, _GROUP).prod(axis=1)
    reached = np.cumsum(np.log(grouped))
    last = float(reached[-1]) if len(reached) else 0.0
    last += float(np.log(factors[whole:]).sum())
    return max(float(reached.max(initial=0.0)), last)


def _raised(log_wealth: Callable[[float], float], low: float, inside: float, threshold: float,
            tolerance: float) -> float:
    """The largest m, to the tolerance and never above it, whose log wealth reaches the threshold.

    log_wealth falls with m. `low` is a bound known already; `inside` a guess above the answer.
    """
    at_low = log_wealth(low) - threshold
    if at_low < 0:
        return low
    high = inside if inside > low else 1.0
    at_high = log_wealth(high) - threshold
    if at_high >= 0:
        low, at_low, high = high, at_high, 1.0
        at_high = log_wealth(1.0) - threshold
        if at_high >= 0:
            return 1.0
    return _bracketed(log_wealth, low, high, at_low, at_high, threshold, tolerance)


def _bracketed(log_wealth: Callable[[float], float], low: float, high: float, at_low: float,
               at_high: float, threshold: float, tolerance: float) -> float:
    """The lower end of a bracket of at most the tolerance around the root.

    Secant steps, pushed half a tolerance towards the longer side so that the root is soon caught
    between two of them; a bisection whenever the bracket has not halved in two steps.
    """
    steps, length = 0, high - low
    while high - low > tolerance:
        middle = (low + high) / 2
        if math.isfinite(at_low) and steps % 3 != 2:
            at = low + (high - low) * at_low / (at_low - at_high)
            at += math.copysign(tolerance / 2, middle - at)
        else:
            at = middle
        at = min(max(at, low + tolerance / 4), high - tolerance / 4)
        value = log_wealth(at) - threshold
        if value >= 0:
            low, at_low = at, value
        else:
            high, at_high = at, value
        steps = steps + 1 if high - low > length / 2 else 0
        length = min(length, 2 * (high - low))
    return low
