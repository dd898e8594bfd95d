"""One trial of each method on each table: did the promise hold, and what did it cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.guarantee_peers import bernstein_stop, supg_recall_threshold
from benchmarks.guarantee_tables import (
    HOUR,
    Floats,
    Scored,
    counts,
    data_folder,
    drawn,
    proxy_for,
    selection_tables,
)
from mlsql.planner.estimate.clusters import ClusterSearch
from mlsql.planner.estimate.distinct import DistinctSearch
from mlsql.planner.estimate.groups import GroupSearch
from mlsql.planner.estimate.importance import weighted_recall_threshold
from mlsql.planner.estimate.mean import Estimate, Known, MeanSearch
from mlsql.planner.estimate.neighbours import anchor_rows, interpolated
from mlsql.planner.estimate.precision import precision_threshold, returned_rows, threshold_grid
from mlsql.planner.estimate.precision_search import PrecisionSearch
from mlsql.planner.estimate.recall import RecallSearch
from mlsql.planner.estimate.sampling import UniformOrder, importance_draws, uniform_order
from mlsql.planner.estimate.topk import TopKSearch
from mlsql.planner.estimate.total import TotalBound
from mlsql.planner.estimate.variate import fit_variate, variate_offsets
from mlsql.planner.estimate.weighted import WeightedSearch, stratum_chances

DELTA = 0.05
TARGET = 0.9  # recall and precision
DRAWS = 1_000  # labels of the methods that take a fixed number
Rng = np.random.Generator


@dataclass(frozen=True)
class Trial:
    """What one run came to. `answer`: rows returned, or the half-width of the interval."""

    labels: int
    answer: float
    exact: bool
    failed: bool


@dataclass(frozen=True)
class Cell:
    """A method on a table.

    promised: whether its failures count against the project's promise. most: trials that will do.
    """

    method: str
    table: str
    trial: Callable[[Rng], Trial]
    promised: bool = True
    most: int = 1_000_000


def all_cells() -> list[Cell]:
    """Every cell for which there is data."""
    return [*selections(), *made_aggregates(), *real_aggregates(), *top_k()]


# Selections


def selections() -> Iterator[Cell]:
    """Recall and precision targets of 90 % on every table."""
    methods: dict[str, tuple[Callable[[Scored, Rng], Trial], bool]] = {
        "recall, uniform labels": (recall_uniform, True),
        "recall, uniform labels, the fewest": (recall_fewest, True),
        "recall, every row checked": (recall_checked, True),
        "recall, importance draws, betting": (recall_importance, True),
        "recall, SUPG's published rule": (recall_supg, False),
        "precision, betting": (precision_betting, True),
        "precision, Clopper-Pearson": (precision_fixed, True),
    }
    for name, table in selection_tables().items():
        for method, (trial, promised) in methods.items():
            yield Cell(method, name, bound(trial, table), promised)
        if name in ("imagenet", "prevalence 0.1 %"):
            yield Cell("recall, uniform labels, rare", name, bound(recall_rare, table))


def bound(trial: Callable[..., Trial], *arguments: Any) -> Callable[[Rng], Trial]:
    """The trial on its table, wanting only a generator."""
    return lambda rng: trial(*arguments, rng)


def recall_fewest(table: Scored, rng: Rng) -> Trial:
    """RecallSearch for the 29 positives that a threshold needs at least."""
    return recall_uniform(table, rng, 29)


def recall_rare(table: Scored, rng: Rng) -> Trial:
    """RecallSearch for 24 positives, with a bound on how many there are."""
    return recall_uniform(table, rng, min(24, int(table.labels.sum())), 0.1)


def recall_uniform(table: Scored, rng: Rng, positives: int = 60, total: float = 0.0) -> Trial:
    """RecallSearch for 60 positives."""
    search = RecallSearch(table.scores, TARGET, DELTA, rng, positives=positives, total=total)
    while len(rows := search.ask(128)):
        search.tell(table.labels[rows])
    chosen = search.selection()
    returned = np.concatenate([chosen.positives, chosen.unchecked])
    return _recalled(table, returned, chosen.labels, chosen.threshold == -np.inf)


def recall_checked(table: Scored, rng: Rng) -> Trial:
    """Rows labelled by descending score and samples of the rest in turns, until TotalBound proves.

    The rows that are returned are the positives among those with a label.
    """
    size = len(table.scores)
    bound_, seen = TotalBound(size, DELTA), np.zeros(size, bool)
    by_score = np.argsort(-np.nan_to_num(table.scores, nan=2.0), kind="stable")
    step, found = max(20, size // 50), 0
    while not seen.all() and found < TARGET * bound_.at_most:
        seen[by_score[~seen[by_score]][:step]] = True
        before, found = found, int(table.labels[seen].sum())
        if found > 1.02 * before or found >= TARGET * bound_.at_most:
            continue
        left = np.flatnonzero(~seen)
        bound_.begin(found, len(left), max(step, len(left) // 8))
        sample = left[uniform_order(len(left), rng)]
        for at in bound_.sizes:
            seen[sample[:at]] = True
            bound_.look(int(table.labels[sample[:at]].sum()))
            found = int(table.labels[seen].sum())
            if found >= TARGET * bound_.at_most:
                break
    returned = np.flatnonzero(seen & table.labels.astype(bool))
    return _recalled(table, returned, int(seen.sum()), bool(seen.all()))


def recall_importance(table: Scored, rng: Rng) -> Trial:
    """The betting bound on SUPG's draws; NULLs come in unasked."""
    draws = importance_draws(table.scores, DRAWS, rng)
    filled = np.nan_to_num(table.scores, nan=2.0)
    grid = np.unique(np.quantile(filled, np.linspace(0, 0.99, 100)))
    labels = table.labels[draws.rows]
    threshold = weighted_recall_threshold(filled, draws, labels, TARGET, DELTA, grid)
    return _from_draws(table, filled, draws.rows, threshold)


def recall_supg(table: Scored, rng: Rng) -> Trial:
    """The published rule on the same draws."""
    draws = importance_draws(table.scores, DRAWS, rng)
    filled = np.nan_to_num(table.scores, nan=2.0)
    labels = table.labels[draws.rows]
    threshold = supg_recall_threshold(filled[draws.rows], draws.weights, labels, TARGET, DELTA)
    return _from_draws(table, filled, draws.rows, threshold)


def _from_draws(table: Scored, scores: Floats, rows: np.ndarray, threshold: float) -> Trial:
    labelled = np.unique(rows)
    returned = returned_rows(scores, threshold, labelled, table.labels[labelled])
    return _recalled(table, returned, len(labelled), threshold == -np.inf)


def _recalled(table: Scored, returned: np.ndarray, labels: int, exact: bool) -> Trial:
    total, found = int(table.labels.sum()), int(table.labels[returned].sum())
    return Trial(labels, len(returned), exact, found < TARGET * total - 1e-9)


def precision_betting(table: Scored, rng: Rng) -> Trial:
    """PrecisionSearch with at most 2,000 labels."""
    search = PrecisionSearch(table.scores, TARGET, DELTA, rng, limit=2 * DRAWS)
    while len(rows := search.ask(64)):
        search.tell(table.labels[rows])
    chosen = search.selection()
    returned = np.concatenate([chosen.positives, chosen.unchecked])
    return _precise(table, returned, chosen.labels)


def precision_fixed(table: Scored, rng: Rng) -> Trial:
    """Fixed-sequence Clopper-Pearson, 1,000 labels from the top tenth of the rows."""
    grid = threshold_grid(table.scores)
    top = max(len(table.scores) // 10, 2)
    grid = grid[[int((table.scores >= t).sum()) <= top for t in grid]]
    rows = np.flatnonzero(table.scores >= grid[-1]) if len(grid) else np.zeros(0, np.int64)
    rows = rows[uniform_order(len(rows), rng)][:DRAWS]
    labels = table.labels[rows]
    threshold = precision_threshold(table.scores[rows], labels, grid, TARGET, DELTA)
    return _precise(table, returned_rows(table.scores, threshold, rows, labels), len(rows))


def _precise(table: Scored, returned: np.ndarray, labels: int) -> Trial:
    right = int(table.labels[returned].sum())
    return Trial(labels, len(returned), labels >= len(table.labels),
                 right < TARGET * len(returned) - 1e-9)


# Aggregates


def run_search(search: Any, values: Floats, passed: np.ndarray | None = None,
               batch: int = 1_024) -> Estimate:
    """Label until done, in batches that begin with 16 rows."""
    asked = 16
    while len(rows := search.ask(min(asked, batch))):
        asked += len(rows) // 4
        if passed is None:
            search.tell(values[rows])
        else:
            search.tell(values[rows], passed[rows])
    return search.estimate()


def judged(estimate: Estimate, truth: float, error: float) -> Trial:
    """Whether the truth is within ±error of the value and in the interval."""
    outside = not estimate.low - 1e-9 <= truth <= estimate.high + 1e-9
    far = abs(estimate.value - truth) > error * (1 + 1e-9)
    return Trial(estimate.labels, (estimate.high - estimate.low) / 2, estimate.exact,
                 bool(outside or far))


def mean_cell(values: Floats, top: float, error: float, rng: Rng) -> Trial:
    """AVG without a proxy."""
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng)
    return judged(run_search(search, values), float(values.mean()), error)


def bernstein_cell(values: Floats, top: float, error: float, rng: Rng) -> Trial:
    """AVG by textbook empirical Bernstein stopping."""
    order, size = UniformOrder(len(values), rng), 16_384
    while (stop := bernstein_stop(values[order[:size]], top, error, DELTA)) > size < len(values):
        size *= 2
    value = float(values[order[:stop]].mean())
    return Trial(stop, error, stop >= len(values), abs(value - float(values.mean())) > error)


def variate_cell(values: Floats, scores: Floats, top: float, error: float, rng: Rng) -> Trial:
    """AVG with a control variate, 200 pilot labels counted."""
    pilot = UniformOrder(len(values), rng)[:200]
    fit = fit_variate(values[pilot], scores[pilot])
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng,
                        known=Known(pilot, values[pilot]),
                        offsets=variate_offsets(scores, fit.coefficient))
    return judged(run_search(search, values), float(values.mean()), error)


def neighbours_cell(values: Floats, top: float, error: float, spacing: int, rng: Rng) -> Trial:
    """AVG with anchors every `spacing` rows, interpolated; anchors and pilot counted."""
    starts = np.zeros(1, np.int64)
    anchors = anchor_rows(starts, len(values), spacing)
    scores = interpolated(starts, len(values), anchors, values[anchors])
    pilot = np.setdiff1d(UniformOrder(len(values), rng)[:200], anchors)
    fit = fit_variate(values[pilot], scores[pilot])
    rows = np.concatenate([anchors, pilot])
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng, known=Known(rows, values[rows]),
                        offsets=variate_offsets(scores, fit.coefficient))
    return judged(run_search(search, values), float(values.mean()), error)


def filtered_cell(values: Floats, passed: np.ndarray, top: float, error: float, rng: Rng) -> Trial:
    """AVG under a model predicate."""
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng)
    truth = float(values[passed].mean())
    return judged(run_search(search, values, passed), truth, error)


def biased_known_cell(values: Floats, top: float, error: float, rng: Rng) -> Trial:
    """AVG with the 5 % highest rows known beforehand, as a cache may hold them."""
    rows = np.argsort(values)[-len(values) // 20:]
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng, known=Known(rows, values[rows]))
    return judged(run_search(search, values), float(values.mean()), error)


def relative_cell(values: Floats, top: float, error: float, rng: Rng) -> Trial:
    """AVG to a relative error."""
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng, relative=True)
    truth = float(values.mean())
    return judged(run_search(search, values), truth, error * truth)


def weighted_cell(values: Floats, passed: np.ndarray, scores: Floats, top: float, error: float,
                  rng: Rng) -> Trial:
    """AVG under a predicate with five strata by score, a pilot of 300 for their allocation."""
    edges = np.quantile(scores, [0.2, 0.4, 0.6, 0.8])
    strata = np.searchsorted(edges, scores)
    pilot = UniformOrder(len(values), rng)[:300]
    shares = np.array([(passed[p].sum() + 0.5) / (len(p) + 1)
                       for p in (pilot[strata[pilot] == k] for k in range(5))])
    search = WeightedSearch(stratum_chances(strata, shares, np.ones(5)), (0.0, top), error, DELTA,
                            rng)
    trial = judged(run_search(search, values, passed), float(values[passed].mean()), error)
    return replace(trial, labels=trial.labels + len(pilot))


def top_stratum_cell(values: Floats, passed: np.ndarray, scores: Floats, top: float, error: float,
                     rng: Rng) -> Trial:
    """AVG under a predicate with the 1 % highest scores labelled in full."""
    rows = np.argsort(-scores)[:len(scores) // 100]
    search = MeanSearch(len(values), (0.0, top), error, DELTA, rng,
                        known=Known(rows, values[rows], passed[rows]))
    return judged(run_search(search, values, passed), float(values[passed].mean()), error)


def cluster_cell(values: Floats, top: float, error: float, size: int, rng: Rng) -> Trial:
    """AVG from whole groups of pictures."""
    search = ClusterSearch(np.arange(0, len(values), size), len(values), (0.0, top), error, DELTA,
                           rng)
    return judged(run_search(search, values, batch=size), float(values.mean()), error)


def group_cell(values: Floats, groups: np.ndarray, truths: Floats, top: float, error: float,
               rng: Rng) -> Trial:
    """AVG of every group; it fails if one of them does."""
    search = GroupSearch(groups, (0.0, top), error, DELTA, rng)
    while len(rows := search.ask(256)):
        search.tell(values[rows])
    trials = [judged(one, truth, error)
              for one, truth in zip(search.estimates(), truths, strict=True)]
    return Trial(sum(t.labels for t in trials), max(t.answer for t in trials),
                 all(t.exact for t in trials), any(t.failed for t in trials))


def distinct_cell(keys: np.ndarray, passed: np.ndarray, error: float, rng: Rng) -> Trial:
    """COUNT(DISTINCT key) under a model predicate."""
    search = DistinctSearch(keys, error, DELTA, rng)
    while len(rows := search.ask(64)):
        search.tell(passed[rows])
    return judged(search.estimate(), float(len(np.unique(keys[passed]))), error)


def grouped(values: Floats, groups: np.ndarray, top: float,
            error: float) -> Callable[[Rng], Trial]:
    """group_cell with the truth known."""
    truths = np.bincount(groups, values) / np.bincount(groups)
    return bound(group_cell, values, groups, truths, top, error)


def made_aggregates() -> Iterator[Cell]:
    """Aggregates on tables drawn here: hard cases, and every kind of query."""
    rng = np.random.default_rng(5)
    values = np.minimum(rng.poisson(1.5, 20_000), 10).astype(float)
    ordered = np.sort(values)
    for share in (0.5, 0.01, 0.001):
        ones = drawn(20_000, round(20_000 * share)).labels.astype(float)
        yield Cell("share ±.02", f"prevalence {share:.1%}", bound(mean_cell, ones, 1.0, 0.02))
    for name, positives in (("no positive", 0), ("one positive", 1), ("all positive", 2_000)):
        ones = drawn(2_000, positives).labels.astype(float)
        yield Cell("share ±.02", name, bound(mean_cell, ones, 1.0, 0.02))
    yield Cell("AVG ±.1", "sorted by value", bound(mean_cell, ordered, 10.0, 0.1))
    yield Cell("AVG ±.1", "rows < budget", bound(mean_cell, values[:200], 10.0, 0.1))
    two = np.where(values > 1, 9.0, 1.0)
    yield Cell("AVG ±.25", "ties: two values", bound(mean_cell, two, 10.0, 0.25))
    yield Cell("AVG ±10 % relative", "poisson 1.5", bound(relative_cell, values, 10.0, 0.1))
    yield Cell("AVG ±.1, biased cache", "poisson 1.5", bound(biased_known_cell, values, 10.0, 0.1))
    proxies = {
        "proxy ρ .9": proxy_for(values, 0.9), "constant proxy": np.ones(20_000),
        "inverted proxy": -proxy_for(values, 0.9), "useless proxy": rng.normal(size=20_000),
        "over-confident proxy": 10.0 * (values > 1),
    }
    for name, scores in proxies.items():
        yield Cell("AVG ±.1, control variate", name,
                   bound(variate_cell, values, scores, 10.0, 0.1))
    yield from _made_filtered(values)
    hundreds = np.arange(500) // 100
    runs = np.sort(values.reshape(-1, 100), axis=1).ravel()
    yield Cell("AVG ±.1, GROUP BY", "5 groups of 100",
               grouped(values[:500], hundreds, 10.0, 0.1))
    uneven = np.searchsorted([2_000, 2_100, 9_000, 9_010], np.arange(20_000), side="right")
    yield Cell("AVG ±.25, GROUP BY", "5 uneven groups",
               grouped(values, uneven, 10.0, 0.25))
    yield Cell("AVG ±.5, clusters of 100", "runs", bound(cluster_cell, runs, 10.0, 0.5, 100))
    keys = rng.permutation(np.arange(5_000) // 5)
    yield Cell("COUNT(DISTINCT) ±100", "1,000 keys",
               bound(distinct_cell, keys, values[:5_000] >= 4, 100.0))


def _made_filtered(values: Floats) -> Iterator[Cell]:
    for share in (0.5, 0.1, 0.01):
        table = drawn(20_000, round(20_000 * share))
        name = f"{share:.0%} pass"
        yield Cell("AVG ±.5 under a predicate", name,
                   bound(filtered_cell, values, table.labels, 10.0, 0.5))
        yield Cell("AVG ±.5 under a predicate, strata", name,
                   bound(weighted_cell, values, table.labels, table.scores, 10.0, 0.5))
    sharp, many = drawn(60_000, 600, apart=4.0), np.tile(values, 3)
    name = "1% pass, sharp proxy"
    yield Cell("AVG ±.5 under a predicate", name,
               bound(filtered_cell, many, sharp.labels, 10.0, 0.5))
    yield Cell("AVG ±.5 under a predicate, strata", name,
               bound(weighted_cell, many, sharp.labels, sharp.scores, 10.0, 0.5))
    yield Cell("AVG ±.5 under a predicate, top 1 % in full", name,
               bound(top_stratum_cell, many, sharp.labels, sharp.scores, 10.0, 0.5))
    inverted = drawn(20_000, 2_000)
    yield Cell("AVG ±.5 under a predicate, strata", "inverted proxy",
               bound(weighted_cell, values, inverted.labels, 1 - inverted.scores, 10.0, 0.5))


def real_aggregates() -> Iterator[Cell]:
    """Aggregates on the day-long streams, each in its own order of time."""
    if data_folder() is None:
        return
    for name in ("jackson", "taipei", "grand-canal"):
        values = counts(name)
        top = float(values.max())
        for error in (0.1, 0.05, 0.02):
            yield Cell(f"AVG ±{error}", name, bound(mean_cell, values, top, error))
            yield Cell(f"AVG ±{error}, empirical Bernstein", name,
                       bound(bernstein_cell, values, top, error), promised=False, most=50)
    values = counts("taipei")
    good = proxy_for(values, 0.89)
    for error in (0.1, 0.05, 0.02):
        yield Cell(f"AVG ±{error}, control variate", "taipei, ρ .89",
                   bound(variate_cell, values, good, 8.0, error))
    part = values[:300_000]
    yield Cell("AVG ±.02, anchors every 100", "taipei, first 300,000",
               bound(neighbours_cell, part, 8.0, 0.02, 100))
    yield Cell("AVG ±.1 under a predicate", "taipei, at least 3",
               bound(filtered_cell, values, values >= 3, 8.0, 0.1))
    hours = np.arange(4 * HOUR) // HOUR
    yield Cell("AVG ±.2, GROUP BY hour", "taipei, four hours",
               grouped(values[:4 * HOUR], hours, 8.0, 0.2))
    yield Cell("AVG ±.2, clusters of 30", "taipei, first 300,000",
               bound(cluster_cell, part, 8.0, 0.2, 30))


# Top-k


def top_k_cell(values: Floats, means: Floats, spreads: Floats, step: float, rng: Rng) -> Trial:
    """The ten best of the table; it fails if an unseen row beats the tenth."""
    held = UniformOrder(len(values), rng)[:200]
    search = TopKSearch(means, spreads, 10, DELTA, (held, values[held]), resolution=step)
    while len(rows := search.ask(128)):
        search.tell(values[rows])
    found = search.result()
    best = float(np.partition(values, -10)[-10])
    return Trial(found.labels, len(found.rows), found.exact, bool(found.values[-1] < best))


def top_k() -> Iterator[Cell]:
    """Everest's top-k with spreads that are right, too small, or useless."""
    rng = np.random.default_rng(6)
    means = rng.gamma(2.0, 2.0, 5_000)
    values = means + rng.normal(size=5_000)
    ones = np.ones(5_000)
    yield Cell("top 10", "calibrated", bound(top_k_cell, values, means, ones, 0.0))
    yield Cell("top 10", "spreads half", bound(top_k_cell, values, means, ones / 2, 0.0))
    yield Cell("top 10", "inverted", bound(top_k_cell, values, means.max() - means, ones, 0.0))
    few = ones[:1_000]
    yield Cell("top 10", "constant", bound(top_k_cell, values[:1_000], few, few, 0.0))
    whole = np.round(np.maximum(values, 0))
    yield Cell("top 10", "counts, ties", bound(top_k_cell, whole, means, ones, 1.0))
    wide = means + rng.normal(size=5_000) * (0.5 + means / 8)
    yield Cell("top 10", "spread grows with score", bound(top_k_cell, wide, means, ones, 0.0))
