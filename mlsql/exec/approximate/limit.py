"""LIMIT without an order: the likeliest rows first, every returned row looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.labels import Labels

Rows = NDArray[np.int64]

_FIRST = 12  # rows looked at before anything is guessed
_ROUND = 5
_GOOD = 0.3  # a chance that is taken at once


def likeliest(
    labels: Labels, wanted: int, rng: np.random.Generator, allowed: Any
) -> tuple[Rows, int]:
    """At least `wanted` positives where there are so many, and how many rows were looked at.

    Rounds of the rows that are likeliest by all labels so far; at first a spread of rows. When a
    guess leads nowhere, rounds double, so that a bad one costs little more than the order of rows.
    """
    labels.refit()
    size = _ROUND
    spread = _spread(labels, rng)
    while labels.found < wanted and len(labels.left):
        left = labels.left
        if int(labels.seen.sum()) < _FIRST:
            rows = spread[~labels.seen[spread]][:_FIRST]
        else:
            rows = _next(labels, left, min(size, 2 * (wanted - labels.found) + 2), rng)
        rows = rows[:allowed(len(rows))]
        if not len(rows):
            break
        before = labels.found
        labels.look(rows)
        labels.refit()
        size = _ROUND if labels.found > before else min(2 * size, 256)
    return np.flatnonzero(labels.label & labels.seen), int(labels.seen.sum())


def _next(labels: Labels, left: Rows, count: int, rng: np.random.Generator) -> Rows:
    """The likeliest rows; in a round that has no good ones, rows far apart, some at random."""
    shuffled = rng.permutation(left)  # rows that nothing is known of are alike: not in their order
    likely = shuffled[np.argsort(-labels.chances[shuffled], kind="stable")]
    if labels.chances[likely[0]] > _GOOD or count < 4:
        return likely[:count]
    random = shuffled[:count // 8]
    return np.union1d(_apart(labels, likely, count - len(random)), random)


def _apart(labels: Labels, likely: Rows, count: int) -> Rows:
    """Likely rows that are no close neighbours of each other: one of them tells of the others."""
    track = labels.track
    chosen: list[int] = []
    for row in likely[:400 * count]:
        own = [other for other in chosen if track.group[row] == track.group[other] >= 0]
        if not own or np.abs(track.place[own] - track.place[row]).min() >= _distance(labels, row):
            chosen.append(int(row))
        if len(chosen) == count:
            break
    return np.array(chosen or likely[:count].tolist(), np.int64)


def _distance(labels: Labels, row: int) -> float:
    """How far apart two rows of a file are to be looked at in one round."""
    places = labels.track.place[labels.track.group == labels.track.group[row]]
    reach = max((g.kernel.reach for g in labels.guesses.values()), default=0.0)
    return max(5.0, min(float(np.ptp(places)) / 3, 3 * reach))


def _spread(labels: Labels, rng: np.random.Generator) -> Rows:
    """Rows of as many files as there are, in random order."""
    files = labels.track.group
    order = rng.permutation(labels.size)
    _, first = np.unique(files[order], return_index=True)
    heads = order[np.sort(first)] if len(first) > 1 else order
    rest = np.setdiff1d(order[:4 * _FIRST], heads)
    return np.concatenate([heads, rng.permutation(rest)]).astype(np.int64)
