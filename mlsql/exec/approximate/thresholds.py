"""Rows taken on the proxy's word: thresholds that keep recall or precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.labels import Labels
from mlsql.exec.approximate.targets import Targets
from mlsql.planner.estimate.distributions import share_at_least, share_at_most
from mlsql.planner.estimate.precision_search import PrecisionSearch
from mlsql.planner.estimate.recall import RecallSearch, positives_needed

if TYPE_CHECKING:
    from mlsql.exec.approximate.selection import Chosen

Rows = NDArray[np.int64]
Allowed = Callable[[int], int]

_TRAINING = (300, 450)  # labels that the proxy is made of, the pilot among them
_A_LABEL = 30  # rows for each of these labels, between the two
_POSITIVES = 0.025  # of all positives, that a threshold for recall is made of
_SURPLUS = 1.05  # rows asked for at once, over those that should do
_ROUND = 150  # labels of a round for a threshold's precision: each decodes a part of every file
_PATIENCE = 250  # labels that one threshold may take
_MARGIN = 0.4  # of the way from the target to 1: chances that are easy to certify


def train(labels: Labels, rng: np.random.Generator, allowed: Allowed) -> None:
    """Label more rows for the proxy: half at random, half where it is least sure."""
    left = labels.left
    least, most = _TRAINING
    wanted = min(max(least, labels.size // _A_LABEL), most) - int(labels.seen.sum())
    count = allowed(min(len(left), max(0, wanted)))
    if not count:
        return
    doubt = np.argsort(np.abs(labels.chances[left] - 0.5), kind="stable")[:4 * count]
    random = rng.permutation(left)[:count // 2]
    unsure = rng.permutation(left[doubt])[:count - len(random)]
    labels.look(np.union1d(random, unsure))
    labels.refit()


def by_recall(
    labels: Labels, targets: Targets, rng: np.random.Generator, allowed: Allowed
) -> Chosen:
    """A threshold by order statistics of fresh uniform labels; rows above it are not checked."""
    from mlsql.exec.approximate.selection import Chosen

    assert targets.recall is not None
    train(labels, rng, allowed)
    trained = np.flatnonzero(labels.seen)
    given = (trained, labels.label[trained])
    least = positives_needed(targets.recall, targets.delta)
    share = max(float(labels.chances.mean()), 1e-9)
    if least / share >= labels.size:
        labels.look(labels.left[:allowed(len(labels.left))])
        rows = np.flatnonzero(labels.label & labels.seen)
        return Chosen(rows, "too few positives for a threshold: all rows looked at",
                      bool(labels.seen.all()), 1.0, (1.0, 1.0, 1.0), expected=labels.size)
    wanted = int(min(3 * least, max(least, _POSITIVES * labels.size * share)))
    search = RecallSearch(labels.chances, targets.recall, targets.delta, rng, positives=wanted,
                          known=given)
    expected = int(len(trained) + wanted / share)
    scores = labels.chances.copy()
    drawn: list[Rows] = []
    while not search.done:
        # Few rounds: each decodes a part of every file anew.
        rows = search.ask(max(48, int(_SURPLUS * (wanted - search.found) / share)))
        rows = rows[:allowed(len(rows))]
        if not len(rows):
            break
        search.tell(labels.look(rows))
        drawn.append(rows)
    found = search.selection()
    positives = np.union1d(found.positives, trained[given[1]])
    fresh = np.concatenate(drawn) if drawn else np.zeros(0, np.int64)
    above = fresh[scores[fresh] >= found.threshold]
    precision = _precision(labels, above, len(found.unchecked), len(positives), targets.delta)
    notes = (found.note,) if found.note else ()
    return Chosen(np.union1d(positives, found.unchecked),
                  f"threshold by order statistics of {search.found} positives; returned rows "
                  "are not checked", not len(labels.left), targets.recall, precision, notes,
                  expected)


def by_precision(
    labels: Labels, targets: Targets, rng: np.random.Generator, allowed: Allowed
) -> Chosen:
    """The lowest threshold whose precision fresh uniform labels certify (fixed sequence)."""
    from mlsql.exec.approximate.selection import Chosen

    assert targets.precision is not None
    train(labels, rng, allowed)
    trained = np.flatnonzero(labels.seen)
    rest = labels.left
    share = float(labels.chances[rest].mean()) if len(rest) else 0.0
    grid = _grid(labels.chances[rest], max(30, int(share * len(rest))))
    aim = _certain(labels.chances[rest], grid, targets.precision)
    search = PrecisionSearch(labels.chances[rest], targets.precision, targets.delta, rng,
                             grid=grid, aim=aim, patience=_PATIENCE,
                             limit=max(500, labels.size // 14))
    while not search.done:
        rows = search.ask(_ROUND)
        rows = rows[:allowed(len(rows))]
        if not len(rows):
            break
        search.tell(labels.look(rest[rows]))
    found = search.selection()
    positives = np.flatnonzero(labels.label & labels.seen)
    taken = rest[found.unchecked]
    notes = (found.note,) if found.note else ()
    expected = len(trained) + 3 * _ROUND
    low = targets.precision
    return Chosen(np.union1d(positives, taken),
                  f"threshold by bets on {search.labels:,} uniform labels from it up; returned "
                  "rows are not checked", not len(labels.left), None, (low, low, 1.0), notes,
                  expected)


def _certain(scores: NDArray[np.float64], grid: NDArray[np.float64], precision: float) -> int:
    """The lowest threshold of the grid that is likely to be certified with few labels."""
    wanted = precision + _MARGIN * (1 - precision)
    likely = [float(scores[scores >= threshold].mean()) >= wanted for threshold in grid]
    return max((i for i, enough in enumerate(likely) if enough), default=0)


def _grid(scores: NDArray[np.float64], likely: int) -> NDArray[np.float64]:
    """Thresholds that let in a few of the likely positives, and then by and by more."""
    ordered = np.sort(scores)[::-1]
    counts = np.unique(np.clip((likely * np.array(
        [.12, .25, .4, .55, .7, .8, .9, 1.0, 1.1, 1.2, 1.35])).astype(int), 1, len(ordered)))
    return np.unique(ordered[counts - 1])[::-1]


def _precision(
    labels: Labels, above: Rows, unchecked: int, positives: int, delta: float
) -> tuple[float, float, float]:
    """Estimate and interval of the returned rows' precision (Clopper-Pearson, each end δ/2).

    The threshold was chosen on the same labels, of positives alone: take it for a description.
    """
    good, seen = int(labels.label[above].sum()), len(above)
    total = max(1, unchecked + positives)
    if not seen:
        return 0.0, positives / total, 1.0
    ends = (good / seen, share_at_least(good, seen, delta / 2),
            share_at_most(good, seen, delta / 2))
    value, low, high = ((positives + unchecked * end) / total for end in ends)
    return value, low, high
