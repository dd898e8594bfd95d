"""Rows to label until a threshold for a precision target follows from them."""

from __future__ import annotations

import math

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.precision import threshold_grid
from mlsql.planner.estimate.recall import Selection
from mlsql.planner.estimate.sampling import uniform_order


class PrecisionSearch:
    """Goes down the thresholds while the precision of the rows from each up is certified.

    Ask for rows, tell their labels, until `done`; of what `selection()` returns, a share of at
    least `precision` is positive with probability ≥ 1 − delta, and labels may stop at any moment.
    At each threshold the rows from it up come in uniform order without replacement (one order for
    all, so that labels are used again) and a bet Π(1 + λᵢ(Xᵢ − γᵢ)) has to reach 1/δ, γᵢ the share
    of positives left if precision were γ. Its bets may look at the past, so it is valid at every
    stop; the thresholds are fixed before any label and the first that is given up ends the search,
    so that δ is not split. Betting as in BARGAIN (Zeighami et al. 2025) and Waudby-Smith and
    Ramdas 2023; fixed sequence: Maurer et al. 1995.

    aim: the threshold whose rows are asked for first; as one order serves all, the same labels
    settle those above it.
    patience: labels that a threshold may take beyond those known before it is given up.
    Rows with a NaN score (NULL) are never taken unchecked. known: labels at hand (cached), used as
    they are met in the order. Returned rows and the meaning of Selection: see recall.py.
    """

    def __init__(self, scores: Floats, precision: float, delta: float, rng: np.random.Generator, *,
                 grid: Floats | None = None, aim: int = 0, patience: int = 300,
                 limit: int | None = None,
                 known: tuple[Rows, Flags] | None = None) -> None:
        self.scores, self.precision, self.delta = scores, precision, delta
        self.patience, self._aim = patience, aim
        self.limit = len(scores) if limit is None else limit
        self.threshold = math.inf
        self._grid = threshold_grid(scores) if grid is None else grid
        self._order = uniform_order(len(scores), rng)
        self._labels = np.zeros(len(scores), np.int8)  # 0: none yet, 1: positive, -1: negative
        if known is not None:
            self._labels[known[0]] = np.where(known[1], 1, -1)
        self.labels = 0
        self._asked = self._order[:0]
        self._level = -1
        self._descend()

    def ask(self, limit: int) -> Rows:
        """Up to `limit` rows to label next; none when done."""
        limit = min(limit, self.limit - self.labels)
        if self.done or limit <= 0:
            return self._order[:0]
        waiting = self._rows[self._at:]
        if self._level < self._aim < len(self._grid):
            waiting = self._order[self.scores[self._order] >= self._grid[self._aim]]
        self._asked = waiting[self._labels[waiting] == 0][:limit]
        return self._asked

    def tell(self, labels: Flags) -> None:
        """The labels of the rows last asked for, in their order; a prefix of them will do."""
        rows = self._asked[:len(labels)]
        self._asked = self._asked[len(labels):]
        self._labels[rows] = np.where(labels, 1, -1)
        self.labels += len(rows)
        if not self.done:
            self._spent += int((self.scores[rows] >= self._grid[self._level]).sum())
        self._bet()

    @property
    def done(self) -> bool:
        """Whether a threshold was given up, all hold, or the limit is reached."""
        return self._level >= len(self._grid) or self.labels >= self.limit

    def _descend(self) -> None:
        """Begin with the next threshold."""
        self._level += 1
        self._at = self._spent = 0
        self._positives = 0
        self._log_wealth = 0.0
        if self._level < len(self._grid):
            from_here_up = self.scores[self._order] >= self._grid[self._level]
            self._rows = self._order[from_here_up]
            self._bet()

    def _bet(self) -> None:
        """Bet on the labels known in order; go down when it has won, end when it will not."""
        labels = self._labels[self._rows[self._at:]]
        ready = len(labels) if labels.all() else int(np.argmax(labels == 0))
        if self._won(labels[:ready] > 0):
            self.threshold = float(self._grid[self._level])
            self._descend()
        elif self._at == len(self._rows) or self._spent >= self.patience:
            self._level = len(self._grid)

    def _won(self, labels: Flags) -> bool:
        """Whether the next labels certify the precision: by the bets, or as enough were found.

        Bets are Kelly's fraction for the share of positives so far, as if two rows of (1 + γ)/2 had
        come first; `fair` is the share among the rows left if the precision were just γ.
        """
        rows = len(self._rows)
        before = np.arange(self._at, self._at + len(labels))
        found = self._positives + np.cumsum(labels)
        known = found - labels
        fair = (rows * self.precision - known) / (rows - before)
        lost, open_ = fair >= 1, (fair > 0) & (fair < 1)
        fair = np.where(open_, fair, 0.5)
        bets = ((known + 1 + self.precision) / (before + 2) - fair) / (fair * (1 - fair))
        gains = np.log1p(np.clip(bets, 0.0, 0.99 / fair) * (labels - fair))
        logs = self._log_wealth + np.cumsum(np.where(open_, gains, 0.0))
        logs[np.logical_or.accumulate(lost)] = -math.inf
        self._at += len(labels)
        if len(labels):
            self._positives, self._log_wealth = int(found[-1]), float(logs[-1])
        enough = self._positives >= self.precision * rows
        return bool(enough or (logs >= math.log(1 / self.delta)).any())

    def selection(self) -> Selection:
        """What to return now: labelled positives, and unlabelled rows from the threshold up."""
        positives = np.flatnonzero(self._labels == 1)
        taken = np.flatnonzero((self._labels == 0) & (self.scores >= self.threshold))
        note = "" if math.isfinite(self.threshold) else "no threshold reached the precision"
        return Selection(self.threshold, positives, taken, self.labels, note)
