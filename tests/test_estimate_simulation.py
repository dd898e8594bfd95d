"""The promises kept in simulation, in short; benchmarks/guarantees.py runs it in full."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.guarantee_cells import (
    DELTA,
    Cell,
    bound,
    made_aggregates,
    mean_cell,
    real_aggregates,
    recall_supg,
    selections,
    top_k,
)
from benchmarks.guarantee_predictions import predictions
from benchmarks.guarantee_tables import made_tables
from mlsql.planner.estimate.distributions import binomial_below

TRIALS = 12
SLOW = ("±0.02", "±.02,", "GROUP BY hour", "clusters of 30", "sharp proxy")


def failures(cell: Cell, trials: int = TRIALS) -> int:
    return sum(cell.trial(np.random.default_rng((11, number))).failed for number in range(trials))


def most(trials: int) -> int:
    """Failures that one cell in 10,000 exceeds, if each trial fails with probability δ."""
    return next(k for k in range(trials + 1) if 1 - binomial_below(k, trials, DELTA) < 1e-4)


def broken(cells: Iterable[Cell]) -> list[str]:
    return [f"{cell.method}: {cell.table}" for cell in cells
            if cell.promised and failures(cell) > most(TRIALS)]


def test_selections_keep_their_promise() -> None:
    large = ("imagenet", "temporal runs")
    assert broken(cell for cell in selections() if cell.table not in large) == []


def test_aggregates_keep_their_promise() -> None:
    assert broken(cell for cell in made_aggregates()
                  if not any(word in cell.method + cell.table for word in SLOW)) == []


def test_aggregates_of_streams_keep_their_promise(data: Path) -> None:
    cells = [cell for cell in real_aggregates()
             if cell.promised and not any(word in cell.method for word in SLOW)]
    assert len(cells) >= 6 and broken(cells) == []


def test_top_k_keeps_its_promise() -> None:
    assert broken(top_k()) == []


def test_the_harness_catches_a_rule_that_does_not_hold() -> None:
    table = made_tables()["over-confident proxy"]
    assert failures(Cell("", "", bound(recall_supg, table))) > most(TRIALS)


def test_labels_are_those_predicted(data: Path) -> None:
    few = [one for one in predictions(3) if one.error >= 0.05 and "GROUP" not in one.query]
    assert len(few) == 15
    assert [(one.query, one.stream, one.error, one.quotient) for one in few if not one.close] == []


@pytest.mark.parametrize(("error", "most_labels"), [(0.1, 1_000), (0.05, 3_900)])
def test_labels_of_taipei_without_a_proxy(data: Path, error: float, most_labels: int) -> None:
    from benchmarks.guarantee_tables import counts

    values = counts("taipei")
    labels = [mean_cell(values, 8.0, error, np.random.default_rng((12, n))).labels
              for n in range(20)]
    assert np.mean(labels) <= most_labels
