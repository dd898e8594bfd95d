"""Probabilities of conditions on guessed values, made as often right as they say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsql.planner.approximate_score import Atom

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_PULL = 30.0  # labels that a guess is worth


def stabilised(counts: Floats) -> Floats:
    """Counts on a scale on which they vary alike whatever their mean: √(y + 3/8) (Anscombe)."""
    out: Floats = np.sqrt(np.maximum(counts, 0.0) + 0.375)
    return out


def drawn_chance(atom: Atom, mean: Floats, least: float) -> Floats:
    """The probability that a value that is 0 or 1 meets a condition, guessed as often 1 as `mean`.

    Nothing is taken for impossible: a guess is at least `least` away from 0 and 1.
    """
    often = np.clip(mean, least, 1 - least)
    meets = {">=": np.greater_equal, "<": np.less, ">": np.greater, "<=": np.less_equal,
             "=": np.equal, "<>": np.not_equal}[atom.op]
    found: Floats = often * meets(1.0, atom.bound) + (1 - often) * meets(0.0, atom.bound)
    return found


def held_chance(atom: Atom, mean: Floats, deviation: Floats, counts: bool) -> Floats:
    """The probability that a normal value meets a condition; counts lie half way between."""
    from scipy.special import ndtr

    spread = np.maximum(deviation, 1e-6)
    shift = 0.5 if counts else 0.0

    def above(bound: float) -> Floats:
        level = float(stabilised(np.array([bound]))[0]) if counts else bound
        return np.asarray(ndtr((mean - level) / spread), np.float64)

    if atom.op in (">=", "<"):
        least = above(atom.bound - shift)
        return least if atom.op == ">=" else 1 - least
    if atom.op in (">", "<="):
        more = above(atom.bound + shift)
        return more if atom.op == ">" else 1 - more
    inside = above(atom.bound - (shift or 0.5)) - above(atom.bound + (shift or 0.5))
    held: Floats = inside if atom.op == "=" else 1 - inside
    return held


def calibrated(
    raw: Floats, guessed: Floats, labels: Flags, weights: Floats | None = None
) -> Floats:
    """Chances as often right as they say: logistic, on what labelled rows were guessed before.

    `guessed` are forecasts made without the row's own label, as far as they can be of the time
    before it: rows are labelled because their forecast was high, so that it was too high on average
    (the winner's curse), and only forecasts of that time show by how much. Fits
    logit p = a + b · logit(guess) (Platt 1999), pulled towards a = 0, b = 1; the order stays.
    """
    if len(labels) < 20:
        return np.array(raw, np.float64)
    heavy = np.ones(len(labels)) if weights is None else weights
    x, given = _logit(guessed), np.array([0.0, 1.0])
    columns = np.stack([np.ones(len(x)), x], 1)
    at, pull = given.copy(), _PULL * np.diag([0.25, 1.0])
    for _ in range(12):
        held = 1 / (1 + np.exp(-columns @ at))
        slope = columns.T @ (heavy * (labels - held)) - pull @ (at - given)
        bend = columns.T @ (columns * (heavy * held * (1 - held))[:, None]) + pull
        at = np.clip(at + np.clip(np.linalg.solve(bend, slope), -1, 1), [-6, 0.05], [6, 4])
    known: Floats = 1 / (1 + np.exp(-(at[0] + at[1] * _logit(raw))))
    return known


def _logit(chances: Floats) -> Floats:
    inside = np.clip(chances, 1e-9, 1 - 1e-9)
    out: Floats = np.log(inside / (1 - inside))
    return out
