"""A guess of every row's value from the rows that are labelled: features, and neighbours in time.

A guess costs nothing but arithmetic. It orders rows and narrows samples; no promise rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_FOR_TREND = 400  # labelled rows that the regression is made of
_MOST = 96  # labelled rows of one block: its kernel matrix is factored
_FOR_FIT = 24  # labelled rows of a block that the kernel is chosen by
_STEADY = (0.0, 0.3, 0.6, 0.8)  # the grid of kernels: shares of the variance
_NOISES = (0.02, 0.05, 0.1, 0.2, 0.5)
_REACHES = (0.03, 0.1, 0.3, 1.0)  # of the stretch of time that a block's labels span
_RIDGES = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Track:
    """Where rows lie in time: `group` numbers the file, `place` the picture in it; -1: no file."""

    group: Rows
    place: Floats

    @property
    def has_neighbours(self) -> bool:
        """Whether some file has several rows."""
        used = self.group[self.group >= 0]
        return len(used) > 0 and len(np.unique(used)) < len(used)


@dataclass(frozen=True)
class Kernel:
    """Covariance of values: whole-file share, share that fades over `reach`, and noise."""

    variance: float
    steady: float
    noise: float
    reach: float

    def between(self, a: Floats, b: Floats) -> Floats:
        """Covariances of the rows at places `a` (down) and `b` (across), noise left out."""
        fading = max(0.0, 1.0 - self.steady - self.noise)
        apart = np.abs(a[:, None] - b[None, :])
        found: Floats = self.variance * (self.steady + fading * np.exp(-apart / self.reach))
        return found


@dataclass(frozen=True)
class Guess:
    """Mean and standard deviation of each row's value, as guessed; `explained` is 1 − e²/σ².

    e is the error on labelled rows, each guessed without itself.
    """

    mean: Floats
    deviation: Floats
    explained: float
    kernel: Kernel
    left_out: Floats  # for each labelled row what it was guessed without itself


def guess(
    track: Track, labelled: Rows, values: Floats, features: NDArray[np.float32] | None = None,
    kernel: Kernel | None = None, centre: float | None = None,
) -> Guess:
    """Ridge regression on the features, and what is left of it interpolated within each file.

    `features` has a row each, standardised; the ridge is chosen by its error on rows left out, and
    the interpolation is that of a Gaussian process whose kernel maximises the likelihood (kriging
    of residuals: Hengl et al. 2007). `centre` is what a row without neighbours is like, else the
    mean of the values, which misleads where the labelled rows were chosen for their values.
    O(files · labels per block³).
    """
    size = len(track.group)
    trend, rest = _trend(track, features, labelled, values, centre)
    kernel = kernel or fitted_kernel(track, labelled, rest)
    mean, variance = trend.copy(), np.full(size, kernel.variance)
    left_out = trend[labelled] + 0 * rest
    for rows, own in _blocks(track, labelled):
        moved, spread, alone = _interpolated(track, kernel, rows, labelled[own], rest[own])
        mean[rows] += moved
        variance[rows] = spread
        left_out[own] = values[own] - rest[own] + alone
    noise = max(kernel.noise * kernel.variance, 1e-12)
    error = float(np.mean((values - left_out) ** 2)) if len(values) else 0.0
    total = float(np.var(values)) if len(values) else 0.0
    return Guess(mean, np.sqrt(np.maximum(variance, 0) + noise),
                 0.0 if total <= 0 else 1.0 - error / total, kernel, left_out)


def _trend(
    track: Track, features: NDArray[np.float32] | None, labelled: Rows, values: Floats,
    given: float | None,
) -> tuple[Floats, Floats]:
    """The regression's value for each row, and labelled rows' errors when their file is left out.

    Neighbours look alike and count alike: with them at hand any regression would seem good.
    """
    size = len(track.group)
    centre = given if given is not None else float(values.mean()) if len(values) else 0.0
    if features is None or len(labelled) < 20:
        count = max(len(values), 2)
        return np.full(size, centre), (values - centre) * count / (count - 1)
    used = np.arange(len(labelled))
    if len(used) > _FOR_TREND:
        used = np.unique(np.linspace(0, len(used) - 1, _FOR_TREND).astype(np.int64))
    known = features[labelled[used]].astype(np.float64)
    aims = values[used] - centre
    gram = known @ known.T + 1.0  # the one stands for an intercept that shrinks, too
    powers, vectors = np.linalg.eigh(gram)
    best: tuple[float, Floats, Floats, Floats] | None = None
    for ridge in _RIDGES:
        strength = ridge * max(float(np.trace(gram)) / len(gram), 1e-9) / 10
        inverse = (vectors / (np.maximum(powers, 0) + strength)) @ vectors.T
        weights = inverse @ aims
        left = _without_file(track.group[labelled[used]], inverse, weights)
        error = float(np.mean(left**2))
        if best is None or error < best[0]:
            best = error, weights, left, inverse
    assert best is not None
    _, weights, left, inverse = best

    def of(rows: Rows, by: Floats) -> Floats:
        coefficients = (known.T @ by).astype(features.dtype)
        return np.asarray(centre + features[rows] @ coefficients + float(by.sum()), np.float64)

    trend = of(np.arange(size), weights)
    rest = values - trend[labelled]
    rest[used] = left
    group = track.group[labelled[used]]
    for file in np.unique(group[group >= 0]):
        rows, own = np.flatnonzero(track.group == file), np.flatnonzero(group == file)
        if len(rows) > 1 and len(own) < len(group):
            # Interpolated are errors of a trend that the file had no say in: so must be its trend.
            alone = np.linalg.solve(inverse[np.ix_(own, own)], weights[own])
            trend[rows] = of(rows, weights - inverse[:, own] @ alone)
            inside = track.group[labelled] == file
            rest[inside] = (values - trend[labelled])[inside]
    return trend, rest


def _without_file(group: Rows, inverse: Floats, weights: Floats) -> Floats:
    """Errors of a kernel ridge on rows whose whole file is left out: (inverse_BB)⁻¹ weights_B."""
    left = weights / np.maximum(np.diag(inverse), 1e-12)
    for file in np.unique(group[group >= 0]):
        own = np.flatnonzero(group == file)
        if 1 < len(own) < len(group):
            left[own] = np.linalg.solve(inverse[np.ix_(own, own)], weights[own])
    return left


def _blocks(track: Track, labelled: Rows) -> list[tuple[Rows, Rows]]:
    """Stretches of a file with few enough labels: their rows, and which labels lie in them."""
    order = np.lexsort((track.place, track.group))
    order = order[track.group[order] >= 0]
    mark = np.full(len(track.group), -1)
    mark[labelled] = np.arange(len(labelled))
    found = []
    cuts = np.flatnonzero(np.diff(track.group[order])) + 1
    for rows in np.split(order, cuts):
        own = mark[rows]
        counts = np.cumsum(own >= 0)
        parts = np.flatnonzero(np.diff((counts - 1).clip(0) // _MOST)) + 1
        for part in np.split(rows, parts):
            inside = mark[part]
            inside = inside[inside >= 0]
            if len(inside):
                found.append((part, inside))
    return found


def _interpolated(
    track: Track, kernel: Kernel, rows: Rows, known: Rows, rest: Floats
) -> tuple[Floats, Floats, Floats]:
    """What to add to the trend of the rows, its variance, and the same for known rows left out."""
    at, where = track.place[known], track.place[rows]
    matrix = kernel.between(at, at)
    matrix[np.diag_indices(len(at))] += max(kernel.noise * kernel.variance, 1e-9)
    inverse = np.linalg.inv(matrix)
    cross = kernel.between(where, at)
    weights = cross @ inverse
    spread = kernel.variance * (1 - kernel.noise) - np.einsum("ij,ij->i", weights, cross)
    solved = inverse @ rest
    alone = rest - solved / np.maximum(np.diag(inverse), 1e-12)
    return weights @ rest, np.maximum(spread, 0.0), alone


def fitted_kernel(track: Track, labelled: Rows, rest: Floats) -> Kernel:
    """The kernel under which the labels are likeliest, among a grid; its variance by formula.

    Rows that were labelled for what others said do no harm to a likelihood, as they would to the
    mean square of the values.
    """
    variance = max(float(np.mean(rest**2)) if len(rest) else 0.0, 1e-9)
    blocks = [_thinned(track.place[labelled[own]], rest[own])
              for _, own in _blocks(track, labelled)]
    if not any(len(p) > 1 for p, _ in blocks):
        return Kernel(variance, 0.0, 1.0, 1.0)
    spans = [float(np.ptp(p)) for p, _ in blocks if len(p) > 1]
    span = max(float(np.median(spans)), 1e-6)
    best, top = Kernel(variance, 0.0, 1.0, span / 10), -np.inf
    shapes = [(0.0, 1.0, span / 10)] + [
        (steady, noise, span * part) for steady, noise, part in product(
            _STEADY, _NOISES, _REACHES) if steady + noise < 1]
    for steady, noise, reach in shapes:
        value, likely = _likelihood(Kernel(1.0, steady, noise, reach), blocks)
        if value > top:
            best, top = Kernel(max(likely, 1e-9), steady, noise, reach), value
    return best


def _thinned(places: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """At most _FOR_FIT of a block's labels, spread over it."""
    if len(places) <= _FOR_FIT:
        return places, rest
    kept = np.unique(np.linspace(0, len(places) - 1, _FOR_FIT).astype(np.int64))
    return places[kept], rest[kept]


def _likelihood(kernel: Kernel, blocks: list[tuple[Floats, Floats]]) -> tuple[float, float]:
    """The log-likelihood of a kernel's shape, up to a constant, at its likeliest variance."""
    total = squares = 0.0
    count = 0
    for places, rest in blocks:
        matrix = kernel.between(places, places)
        matrix[np.diag_indices(len(places))] += kernel.noise + 1e-9
        factor = np.linalg.cholesky(matrix)
        scaled = np.linalg.solve(factor, rest)
        total += float(np.log(np.diag(factor)).sum())
        squares += float(scaled @ scaled)
        count += len(rest)
    variance = squares / max(count, 1)
    return -total - 0.5 * count * float(np.log(max(variance, 1e-12))), variance
