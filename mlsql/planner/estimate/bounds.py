"""Hard bounds: what is certain whatever the rows not looked at yet turn out to be."""

from __future__ import annotations

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows


def mean_bounds(values: Floats, unseen: int, span: tuple[float, float]) -> tuple[float, float]:
    """The mean over all rows, each unseen one at its lowest and at its highest (ThalamusDB)."""
    rows = len(values) + unseen
    if not rows:
        return span
    total = float(values.sum())
    return (total + unseen * span[0]) / rows, (total + unseen * span[1]) / rows


def filtered_mean_bounds(values: Floats, passed: Flags, unseen: int,
                         span: tuple[float, float]) -> tuple[float, float]:
    """The mean over the rows that pass: each unseen row passes at its worst, or not at all."""
    total, count = float(values[passed].sum()), int(passed.sum())
    if not count:
        return span
    low, high = (total + unseen * span[0]), (total + unseen * span[1])
    rows = count + unseen
    return min(low / rows, total / count), max(high / rows, total / count)


def sum_bounds(values: Floats, passed: Flags, unseen: int,
               span: tuple[float, float]) -> tuple[float, float]:
    """The sum over the rows that pass; an unseen row that does not pass adds 0."""
    total = float(values[passed].sum())
    return total + unseen * min(span[0], 0.0), total + unseen * max(span[1], 0.0)


def count_bounds(passed: Flags, unseen: int) -> tuple[int, int]:
    """How many rows pass."""
    return int(passed.sum()), int(passed.sum()) + unseen


def distinct_bounds(keys: Rows, seen: Flags, passed: Flags) -> tuple[int, int]:
    """How many keys have a row that passes: those that show one, up to those that still may.

    keys: of all rows, 0, 1, …; passed counts where seen.
    """
    size = int(keys.max()) + 1 if len(keys) else 0
    certain = np.zeros(size, bool)
    certain[keys[seen & passed]] = True
    possible = certain.copy()
    possible[keys[~seen]] = True
    return int(certain.sum()), int(possible.sum())
