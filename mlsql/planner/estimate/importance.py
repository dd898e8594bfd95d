"""A recall threshold from importance draws that holds: betting in place of normal bounds."""

from __future__ import annotations

import math

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats
from mlsql.planner.estimate.sampling import Draws

_FRACTIONS = np.array([0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95])


def weighted_recall_threshold(scores: Floats, draws: Draws, labels: Flags, recall: float,
                              delta: float, grid: Floats) -> float:
    """The highest threshold of the grid with recall ≥ `recall`, P ≥ 1 − delta; -inf if none.

    scores: of all rows; labels: of the draws (sampling.importance_draws), whose number was fixed.
    grid: rising, fixed before any label. At each threshold τ it bets on Z = w·O·(1[A ≥ τ] − γ),
    whose mean is ≤ 0 if recall is at most γ, and which is ≥ −γW, W the largest weight of a row
    below τ: the mean over fractions f of Π(1 + f·Z/(γW)) reaches 1/δ with probability ≤ δ
    (Markov). Recall falls along the grid, and the first failure ends it (fixed sequence).

    In place of the normal bounds of Kang et al. (SUPG), 2020, which miss more often than they say.
    What certifies a recall is rows looked at below τ, which these draws avoid: for rare positives
    uniform labels (RecallSearch) are as a rule cheaper.
    """
    chosen = scores[draws.rows]
    weights = draws.weights * labels
    kept = -math.inf
    for threshold in grid:
        if _log_wealth(chosen >= threshold, weights, recall, draws.largest) < math.log(1 / delta):
            break
        kept = float(threshold)
    return kept


def _log_wealth(above: Flags, weights: Floats, recall: float, largest: float) -> float:
    """log of the mean over fractions of the wealth."""
    gains = weights * (above - recall) / (recall * largest)
    logs = np.log1p(_FRACTIONS[:, None] * gains).sum(axis=1)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))
