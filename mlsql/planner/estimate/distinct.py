"""COUNT(DISTINCT cheap key) under a model predicate: how many keys have a row that passes."""

from __future__ import annotations

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.betting import RatioSequence
from mlsql.planner.estimate.mean import Estimate, value_within
from mlsql.planner.estimate.sampling import uniform_order


class DistinctSearch:
    """The number of keys with a passing row, to ±error, with probability ≥ 1 − delta.

    Keys are drawn uniformly; of each, rows are labelled from the highest score down until one
    passes or none is left, and the share of keys that have one is a mean. keys: 0, 1, … of each
    row. scores only set the order within a key. Ask, tell, done and estimate as MeanSearch's.
    Keys are bet on in the order drawn, batch by batch: those that pass are settled sooner, and
    taking them as they come would favour them.
    """

    def __init__(self, keys: Rows, error: float, delta: float, rng: np.random.Generator, *,
                 scores: Floats | None = None, batch: int = 32) -> None:
        count = int(keys.max()) + 1 if len(keys) else 0
        self.error, self.count, self._batch = error, count, batch
        ranked = np.arange(len(keys)) if scores is None else np.argsort(-np.nan_to_num(scores))
        by_key = ranked[np.argsort(keys[ranked], kind="stable")]
        self._rows = np.split(by_key, np.cumsum(np.bincount(keys, minlength=count))[:-1])
        self._order = uniform_order(count, rng)
        self._fed = self._labels = self._total = 0
        self._at = np.zeros(count, np.int64)  # rows looked at, by key
        self._shows = np.zeros(count, bool)
        self._asked: list[int] = []
        self._sequence = RatioSequence(error / max(count, 1), delta, population=count)

    def _settled(self, key: int) -> bool:
        return bool(self._shows[key]) or self._at[key] == len(self._rows[key])

    @property
    def done(self) -> bool:
        """Whether the interval is as narrow as asked, or every key is settled."""
        if self._fed == self.count:
            return True
        low, high = self._interval(lazy=True)
        return high - low <= 2 * self.error

    def ask(self, limit: int) -> Rows:
        """The next row of each key of the batch that is still open, up to `limit`."""
        if self.done:
            return np.zeros(0, np.int64)
        batch = self._order[self._fed:self._fed + self._batch]
        self._asked = [int(key) for key in batch if not self._settled(key)][:limit]
        return np.array([self._rows[key][self._at[key]] for key in self._asked], np.int64)

    def tell(self, passed: Flags) -> None:
        """Whether the rows last asked for pass, in their order; a prefix of them will do."""
        asked = self._asked[:len(passed)]
        self._asked = self._asked[len(passed):]
        self._at[asked] += 1
        self._shows[asked] |= passed
        self._labels += len(asked)
        batch = self._order[self._fed:self._fed + self._batch]
        if all(self._settled(key) for key in batch):
            self._sequence.feed(self._shows[batch].astype(np.float64))
            self._total += int(self._shows[batch].sum())
            self._fed += len(batch)

    def estimate(self) -> Estimate:
        """The answer now."""
        if self._fed == self.count:
            total = float(self._total)
            return Estimate(total, total, total, self._labels, exact=True)
        low, high = self._interval()
        value = value_within(self.count * self._sequence.mean, low, high, self.error)
        return Estimate(value, low, high, self._labels)

    def _interval(self, lazy: bool = False) -> tuple[float, float]:
        low, high = self._sequence.interval(lazy)
        seen = int(self._shows.sum())
        return max(low * self.count, seen), high * self.count
