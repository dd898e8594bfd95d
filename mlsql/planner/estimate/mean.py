"""Means, sums, counts and shares within ±error, from as few labels as the promise allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.betting import RatioSequence
from mlsql.planner.estimate.predict import labels_left
from mlsql.planner.estimate.sampling import UniformOrder


@dataclass(frozen=True)
class Estimate:
    """An answer with its interval, which holds the oracle's answer with the confidence asked."""

    value: float
    low: float
    high: float
    labels: int
    exact: bool = False

    def times(self, factor: float) -> Estimate:
        """The same for a multiple: a sum is the number of rows times a mean. factor ≥ 0."""
        return replace(self, value=self.value * factor, low=self.low * factor,
                       high=self.high * factor)


@dataclass(frozen=True)
class Known:
    """Rows whose labels are known beforehand: a pilot, anchors, cached answers."""

    rows: Rows
    values: Floats
    passed: Flags | None = None


class MeanSearch:
    """The mean of values over the rows that pass, to ±error, with probability ≥ 1 − delta.

    Ask for rows, tell their values, until `done`; `estimate()` is valid at any moment. Rows are
    drawn uniformly without replacement out of the `size` candidates that are not `known`; known
    rows enter exactly, however they were chosen, so long as the order of the draws was not.

    - AVG: tell(values); AVG under a model predicate, or of values that may be NULL:
      tell(values, passed). The kept rows are a uniform sample of the passing ones, and Σ passed
      need not be known: the bets are on passed·(value − m), whose mean over the candidates is 0.
    - share: values 0 or 1; COUNT: the share .times(size); SUM: values 0 where a row does not pass,
      span with 0 in it, .times(size), the error divided by size.

    span: lowest and highest value that may occur. A value outside it makes the promise void:
    `beyond` is set, and every remaining row is asked for. offsets: a control variate's, one a row
    with mean 0 (see variate.py). relative: the error is a multiple of the answer, for values ≥ 0.
    """

    def __init__(self, size: int, span: tuple[float, float], error: float, delta: float,
                 rng: np.random.Generator, *, relative: bool = False, known: Known | None = None,
                 offsets: Floats | None = None, stake: float = 0.75,
                 prior: tuple[float, float, float] | None = None) -> None:
        """stake and prior, in the values' units, are those of RatioSequence."""
        self.size, self.error, self.relative = size, error, relative
        self.beyond = False
        self._offsets = offsets
        self._values_span = span
        self._span = _widened(span, offsets)
        self._labels = 0 if known is None else len(known.rows)
        self._totals = np.zeros(2)
        start = (0.0, 0.0) if known is None else self._scaled(known)
        self._order = UniformOrder(size, rng, None if known is None else known.rows)
        self._asked = 0
        width = self._span[1] - self._span[0]
        if relative and span[0] < 0:
            raise ValueError("a relative error needs values that are never negative")
        self._sequence = RatioSequence(error if relative else error / width, delta,
                                       population=len(self._order), known=start, relative=relative,
                                       origin=self._span[0] / width, stake=stake,
                                       prior=_scaled_prior(prior, self._span))

    def ask(self, limit: int) -> Rows:
        """Up to `limit` further rows to label, fewer close to the end; none when done."""
        if self.done:
            return np.zeros(0, np.int64)
        if not self.beyond:
            # expected_more errs on either side, and a row too many costs a call
            limit = min(limit, max(2 * self.expected_more // 3, 16))
        return self._order[self._asked:self._asked + limit]

    def tell(self, values: Floats, passed: Flags | None = None) -> None:
        """The labels of the next rows asked for, in their order; a prefix of them will do."""
        rows = self._order[self._asked:self._asked + len(values)]
        self._asked += len(rows)
        self._labels += len(rows)
        a, b = self._terms(rows, values, passed)
        if not self.beyond:
            self._sequence.feed(a, b)

    @property
    def done(self) -> bool:
        """Whether the interval is as narrow as asked, or every row is labelled."""
        if self._asked == len(self._order):
            return True
        if self.beyond:
            return False
        low, high = self._interval(lazy=True)
        return _narrow(low, high, self.error, self.relative)

    def estimate(self) -> Estimate:
        """The answer now: the sample's mean, moved no further than ±error of both ends needs."""
        exact = self._asked == len(self._order)
        if exact:
            total, count = self._totals
            value = float(total / count) if count else float("nan")
            return Estimate(value, value, value, self._labels, exact=True)
        if self.beyond:
            return Estimate(float(self._totals[0] / max(self._totals[1], 1)), -np.inf, np.inf,
                            self._labels)
        low, high = self._interval()
        return Estimate(self._value(low, high), low, high, self._labels)

    @property
    def expected_more(self) -> int:
        """About how many rows more the stop will take, from the width so far."""
        if not self._asked:
            return len(self._order)
        low, high = self._interval(lazy=True)
        error = self.error * self._value(low, high) if self.relative else self.error
        return min(labels_left(self._asked, (high - low) / 2, error),
                   len(self._order) - self._asked)

    def _interval(self, lazy: bool = False) -> tuple[float, float]:
        low, high = self._sequence.interval(lazy)
        start, width = self._span[0], self._span[1] - self._span[0]
        least, most = self._values_span
        return max(start + width * low, least), min(start + width * high, most)

    def _value(self, low: float, high: float) -> float:
        if self.relative:
            return 2 * low * high / (low + high) if low + high > 0 else 0.0
        start, width = self._span[0], self._span[1] - self._span[0]
        return value_within(start + width * self._sequence.mean, low, high, self.error)

    def _terms(self, rows: Rows, values: Floats, passed: Flags | None) -> tuple[Floats, Floats]:
        """Values of the rows in [0, 1] and whether they count; notes what breaks the span."""
        counts = np.ones(len(rows)) if passed is None else passed.astype(np.float64)
        values = np.where(counts > 0, values, self._span[0])
        self._totals += ((values * counts).sum(), counts.sum())
        least, most = self._values_span
        kept = values[counts > 0]
        if self._offsets is not None and not counts.all():
            self.beyond = True  # a control variate corrects every row's value
        if len(kept) and not (kept.min() >= least and kept.max() <= most):
            self.beyond = True
        shift = 0.0 if self._offsets is None else self._offsets[rows]
        a = (values + shift - self._span[0]) / (self._span[1] - self._span[0]) * counts
        return np.clip(a, 0.0, counts), counts

    def _scaled(self, known: Known) -> tuple[float, float]:
        a, b = self._terms(known.rows, known.values, known.passed)
        return float(a.sum()), float(b.sum())


def value_within(mean: float, low: float, high: float, error: float) -> float:
    """The value next to the mean that is within ±error of both ends, or at least between them."""
    if high - low >= 2 * error:
        return float(np.clip(mean, low, high))
    return float(np.clip(mean, high - error, low + error))


def _scaled_prior(
    prior: tuple[float, float, float] | None, span: tuple[float, float]
) -> tuple[float, float, float]:
    """A prior mean, variance and weight for values that are scaled to [0, 1]."""
    if prior is None:
        return 0.5, 0.25, 1.0
    width = span[1] - span[0]
    return (prior[0] - span[0]) / width, max(prior[1] / width**2, 1e-6), prior[2]


def _widened(span: tuple[float, float], offsets: Floats | None) -> tuple[float, float]:
    low, high = span
    if offsets is not None and len(offsets):
        low, high = low + float(offsets.min()), high + float(offsets.max())
    return low, high if high > low else low + 1.0


def _narrow(low: float, high: float, error: float, relative: bool) -> bool:
    """Whether some value is within ±error of both ends, in units or as a multiple of each."""
    if relative:
        return high - low <= error * (high + low) and low > 0
    return high - low <= 2 * error
