"""The cheapest proxy: the answers of neighbouring rows, interpolated inside each file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlsql.planner.estimate.arrays import Floats, Rows
from mlsql.planner.estimate.predict import labels_for_mean


def anchor_rows(starts: Rows, size: int, spacing: int) -> Rows:
    """Every spacing-th row of each file, and each file's last; file i begins at starts[i]."""
    ends = np.append(starts[1:], size)
    each = [np.append(np.arange(start, end, spacing), end - 1)
            for start, end in zip(starts, ends) if end > start]
    return np.unique(np.concatenate(each)) if each else np.zeros(0, np.int64)


def interpolated(starts: Rows, size: int, rows: Rows, values: Floats) -> Floats:
    """A score for every row: linear between labelled rows of its file, level outside them.

    rows ascend. Files without a labelled row get the mean. Every cached answer may be an anchor.
    """
    out = np.full(size, values.mean() if len(values) else 0.0)
    ends = np.append(starts[1:], size)
    firsts, lasts = np.searchsorted(rows, starts), np.searchsorted(rows, ends)
    for start, end, first, last in zip(starts, ends, firsts, lasts):
        if last > first:
            out[start:end] = np.interp(np.arange(start, end), rows[first:last], values[first:last])
    return out


def pilot_pairs(starts: Rows, size: int, lags: Sequence[int], each: int,
                rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
    """Pairs of rows of one file, `each` a lag: first rows, second rows, lags.

    First rows are uniform over those that have a row so far behind them.
    """
    ends = np.append(starts[1:], size)
    firsts, seconds, gaps = [], [], []
    for lag in lags:
        lengths = np.maximum(ends - starts - lag, 0)
        if lengths.sum() == 0:
            continue
        at = rng.integers(0, lengths.sum(), each)
        file = np.searchsorted(np.cumsum(lengths), at, side="right")
        first = starts[file] + at - (np.cumsum(lengths) - lengths)[file]
        firsts.append(first)
        seconds.append(first + lag)
        gaps.append(np.full(each, lag))
    if not firsts:
        return (np.zeros(0, np.int64),) * 3
    return np.concatenate(firsts), np.concatenate(seconds), np.concatenate(gaps)


def autocorrelation(first: Floats, second: Floats, gaps: Rows) -> tuple[Floats, Floats]:
    """Lags, ascending, and ρ at each: 1 − mean (y − y′)²/(2σ²), made to fall, within [0, 1]."""
    variance = float(np.var(np.concatenate([first, second]))) or 1.0
    lags = np.unique(gaps)
    halves = [np.mean((first - second)[gaps == lag] ** 2) / 2 for lag in lags]
    falling = np.minimum.accumulate(np.clip(1 - np.array(halves) / variance, 0.0, 1.0))
    return lags.astype(np.float64), falling


def residual_share(spacing: int, lags: Floats, correlations: Floats) -> float:
    """What share of σ² interpolation over `spacing` rows leaves, the best coefficient applied.

    For Ŷ = (1 − u)·Y₀ + u·Y_k in a stationary series: 1 − cov(Y, Ŷ)²/(σ²·var Ŷ), moments averaged
    over the places between two anchors.
    """
    at = np.unique(np.linspace(1, max(spacing - 1, 1), 16).astype(np.int64))
    u = at / spacing
    before, behind = _at(at, lags, correlations), _at(spacing - at, lags, correlations)
    whole = _at(np.array([spacing]), lags, correlations)[0]
    covariance = float(np.mean((1 - u) * before + u * behind))
    spread = float(np.mean((1 - u) ** 2 + u**2 + 2 * u * (1 - u) * whole))
    return float(np.clip(1 - covariance**2 / max(spread, 1e-12), 0.0, 1.0))


def _at(gap: Rows, lags: Floats, correlations: Floats) -> Floats:
    """ρ at any gap: linear in log lag between the measured ones, 1 at 0, 0 far behind the last."""
    known = np.log1p(np.concatenate([[0.0], lags, [10 * lags[-1]]]))
    at = np.interp(np.log1p(gap), known, np.concatenate([[1.0], correlations, [0.0]]))
    return np.asarray(at, np.float64)


def choose_spacing(variance: float, lags: Floats, correlations: Floats, starts: Rows, size: int,
                   span: float, error: float, delta: float) -> tuple[int, float]:
    """The anchors' spacing with the fewest labels in all, and that number; 0 for no anchors.

    Labels: anchors, and the control variate's draws with the residual variance of residual_share.
    """
    best, fewest = 0, labels_for_mean(variance, span, error, delta, size)
    spacing = 2
    while spacing <= size:
        anchors = size / spacing + len(starts)
        rest = variance * residual_share(spacing, lags, correlations)
        total = anchors + labels_for_mean(rest, 2 * span, error, delta, max(size - anchors, 1))
        if total < fewest:
            best, fewest = spacing, total
        spacing = max(spacing + 1, math.ceil(1.25 * spacing))
    return best, fewest
