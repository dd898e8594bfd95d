"""Calls of aggregates on day-long streams against what the planner's formulas predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.guarantee_cells import DELTA, Rng, Trial, bound, grouped, mean_cell
from benchmarks.guarantee_tables import COUNTS, HOUR, Floats, counts, data_folder
from mlsql.planner.estimate.predict import labels_for_mean, labels_for_share

TRIALS = 10


@dataclass(frozen=True)
class Prediction:
    """Mean labels of some runs, and the labels expected."""

    query: str
    stream: str
    error: float
    labels: float
    predicted: float
    missed: int
    trials: int

    @property
    def quotient(self) -> float:
        """Labels over prediction."""
        return self.labels / self.predicted

    @property
    def close(self) -> bool:
        """Whether the labels are within 30 % of the prediction."""
        return 0.7 <= self.quotient <= 1.3


def predictions(trials: int = TRIALS) -> Iterator[Prediction]:
    """AVG, SUM, COUNT with a predicate and GROUP BY hour at three widths on each stream."""
    if data_folder() is None:
        return
    for stream in COUNTS:
        values = counts(stream)
        top = float(values.max())
        for error in (0.1, 0.05, 0.02):
            yield _mean("AVG", stream, values, top, error, trials)
            # a SUM to ±error·N is N times a mean to ±error
            under = np.where(values >= 2, values, 0.0)
            yield _mean("SUM where at least 2", stream, under, top, error, trials)
        ones = (values >= 2).astype(float)
        for error in (0.05, 0.02, 0.01):
            expected = labels_for_share(float(ones.mean()), error, DELTA, len(ones))
            yield _run("COUNT where at least 2", stream, error, expected, trials,
                       bound(mean_cell, ones, 1.0, error))
        for error in (0.3, 0.2, 0.1):
            yield _grouped(stream, values, top, error, trials)


def _mean(query: str, stream: str, values: Floats, top: float, error: float,
          trials: int) -> Prediction:
    expected = labels_for_mean(float(values.var()), top, error, DELTA, len(values))
    return _run(query, stream, error, expected, trials,
                bound(mean_cell, values, top, error))


def _grouped(stream: str, values: Floats, top: float, error: float, trials: int) -> Prediction:
    hours = np.arange(len(values)) // HOUR
    count = int(hours.max()) + 1
    expected = 0.0
    for hour in range(count):
        rows = values[hours == hour]
        expected += labels_for_mean(float(rows.var()), top, error, DELTA / count, len(rows))
    return _run("AVG, GROUP BY hour", stream, error, expected, trials,
                grouped(values, hours, top, error))


def _run(query: str, stream: str, error: float, expected: float, trials: int,
         trial: Callable[[Rng], Trial]) -> Prediction:
    found = [trial(np.random.default_rng((7, number))) for number in range(trials)]
    labels = float(np.mean([one.labels for one in found]))
    missed = sum(one.failed for one in found)
    return Prediction(query, stream, error, labels, expected, missed, trials)
