"""Labels placed at even steps in time: what they would save a mean, and where they go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.field import Kernel, Track
from mlsql.planner.estimate.predict import labels_for_mean

Rows = NDArray[np.int64]

PILOT = 64
# What a wide range costs, as a share of what labels_for_mean says: bets are up to .9 of the wealth.
RANGE = 0.72
_LAGS = (8.0, 30.0, 100.0)
_SHARES = (1 / 300, 1 / 200, 1 / 150, 1 / 100, 1 / 75, 1 / 50, 1 / 30, 1 / 20)


@dataclass(frozen=True)
class Choice:
    """How a mean is to be estimated: an anchor every `step` rows of a file, None for no anchors."""

    step: int | None
    labels: float  # expected in all, the pilot aside
    plain: float  # the same without anchors


def pilot_rows(track: Track, free: Rows, rng: np.random.Generator, count: int = PILOT) -> Rows:
    """Rows that tell how values vary: random ones, half of them with a neighbour at some distance.

    They are counted exactly afterwards, so that none is wasted.
    """
    if not track.has_neighbours:
        return np.sort(rng.choice(free, min(count, len(free)), replace=False))
    first = rng.choice(free, min(count // 2, len(free)), replace=False)
    known = {(int(g), float(p)): int(r) for r, g, p in zip(
        free, track.group[free], track.place[free], strict=True)}
    chosen = set(first.tolist())
    for i, row in enumerate(first.tolist()):
        lag = _LAGS[i % len(_LAGS)]
        for place in (track.place[row] + lag, track.place[row] - lag):
            other = known.get((int(track.group[row]), float(place)))
            if other is not None and other not in chosen:
                chosen.add(other)
                break
    return np.array(sorted(chosen), np.int64)


def anchor_rows(track: Track, step: int) -> Rows:
    """Every step-th row of each file, half a step in from its first; files come in time order."""
    order = np.lexsort((track.place, track.group))
    starts = np.flatnonzero(np.r_[True, np.diff(track.group[order]) != 0])
    sizes = np.diff(np.r_[starts, len(order)])
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    lengths = np.repeat(sizes, sizes)
    first = np.minimum(step // 2, lengths // 2)
    return np.sort(order[(within >= first) & ((within - first) % step == 0)]).astype(np.int64)


def rest_variance(kernel: Kernel, step: float) -> float:
    """The mean variance of a row between two anchors `step` apart, given both (kriging)."""
    at = np.array([0.0, step])
    matrix = kernel.between(at, at)
    matrix[np.diag_indices(2)] += max(kernel.noise * kernel.variance, 1e-9)
    where = (np.arange(16) + 0.5) * step / 16
    cross = kernel.between(where, at)
    explained = np.einsum("ij,jk,ik->i", cross, np.linalg.inv(matrix), cross)
    return float(np.mean(np.maximum(kernel.variance - explained, 0.0)))


def choose(
    kernel: Kernel, track: Track, span: float, error: float, delta: float, size: int
) -> Choice:
    """Anchors or none, by the labels that each is expected to take: N/k + those for what is left.

    The control variate widens the range by what it may be off: taken as two deviations.
    """
    plain = labels_for_mean(kernel.variance, RANGE * span, error, delta, size)
    best = Choice(None, plain, plain)
    if not track.has_neighbours:
        return best
    files = len(np.unique(track.group))
    spacing = _spacing(track)
    for share in _SHARES:
        step = max(2, round(1 / share))
        anchors = max(size / step, files)
        if anchors >= best.labels:
            continue
        rest = rest_variance(kernel, step * spacing)
        wide = span + 2 * np.sqrt(max(kernel.variance - rest, 0.0))
        labels = anchors + labels_for_mean(rest, RANGE * wide, error, delta, size - anchors)
        if labels < 0.9 * best.labels:
            best = Choice(step, labels, plain)
    return best


def _spacing(track: Track) -> float:
    """How far apart in place neighbouring rows of a file commonly are."""
    order = np.lexsort((track.place, track.group))
    same = np.diff(track.group[order]) == 0
    gaps = np.diff(track.place[order])[same]
    return float(np.median(gaps)) if len(gaps) else 1.0
