"""How many positives there are at most, while rows are searched and some of the others drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mlsql.planner.estimate.arrays import Floats
from mlsql.planner.estimate.distributions import marked_at_most

_FIRST, _NEXT = 0.75, 0.12  # of delta: the first sample, the second; half of it for each further
_LOOKS = (1.0, 1.4, 2.0)  # sizes of one sample, fixed before it is drawn
_LOOK_SHARES = (0.8, 0.13, 0.07)  # of the sample's share
_NONE = 0.3  # positives on average, of which a sample is likely to show none
_DOUBT = 1.0  # deviations above the average that a sample is planned for


@dataclass(frozen=True)
class Goal:
    """How many of all positives must be found: a share of them, and but for so many."""

    recall: float = 1.0
    missed: float = 0.0

    def least(self, total: Floats) -> Floats:
        """The number to be found, if there are so many."""
        return self.recall * total - self.missed

    def met(self, found: float, total: float) -> bool:
        """Whether so many found are enough."""
        return found >= self.recall * total - self.missed - 1e-9


class TotalBound:
    """An upper bound of the number of positives among `size` rows, P ≥ 1 − delta at every moment.

    Rows may be labelled for any reason. A sample is drawn uniformly from all rows that have no
    label when it begins, and looked at in up to three sizes fixed by then: each look inverts the
    exact hypergeometric test at its own share of delta, so that by the union bound all looks of
    all samples hold together. A bound of the total stays true while the search goes on: what is
    found later counts towards it, which a bound of what is hidden at the end would not allow.
    """

    def __init__(self, size: int, delta: float) -> None:
        self.size, self._delta = size, delta
        self.at_most = size
        self.samples = 0
        self._found = self._left = self._look = 0
        self.sizes: tuple[int, ...] = ()

    @property
    def next_delta(self) -> float:
        """The share of delta that the first look of the next sample has."""
        return self._share(self.samples) * _LOOK_SHARES[0]

    def _share(self, sample: int) -> float:
        return self._delta * (_NEXT * 0.5 ** (sample - 1) if sample else _FIRST)

    def begin(self, found: int, left: int, first: int) -> None:
        """A sample of `first` rows begins, out of `left` without a label; `found` are positive."""
        self._found, self._left, self._look = found, left, 0
        self.sizes = tuple(min(left, max(1, int(first * part))) for part in _LOOKS)
        self.samples += 1

    def look(self, got: int) -> None:
        """The sample has the next of its sizes, and shows so many positives."""
        at = self.size_now
        delta = self._share(self.samples - 1) * _LOOK_SHARES[self._look]
        self.at_most = min(self.at_most, self._bound(got, at, delta))
        self._look += 1

    @property
    def size_now(self) -> int:
        """The sample's size at the next look."""
        return self.sizes[self._look]

    def foreseen(self, got: int) -> int | None:
        """The bound after the next look, if the sample goes on as it began; None after the last."""
        if self._look == len(self.sizes):
            return None
        before, at = self.sizes[self._look - 1], self.size_now
        delta = self._share(self.samples - 1) * _LOOK_SHARES[self._look]
        return self._bound(round(got * at / before), at, delta)

    def _bound(self, got: int, at: int, delta: float) -> int:
        return self._found + (got if at >= self._left else marked_at_most(
            got, self._left, at, delta))


def proof_labels(found: float, hidden: float, left: int, goal: Goal, delta: float) -> int:
    """About how many uniform labels of the rest prove the goal, if `hidden` positives lie there.

    With x found in a share f of the rest, at most M lie there where P[Bin(M, f) ≤ x] = δ (normal
    approximation; for x = 0 exactly). x is taken for its mean and a deviation, so that the proof
    succeeds more often than not. `left` where no smaller number does.
    """
    if left < 2:
        return left
    share = np.geomspace(1 / left, 1.0, 200)[:-1]
    got = hidden * share + _DOUBT * np.sqrt(hidden * share * (1 - share))
    most = _most(got, share, delta)
    enough = found + np.minimum(got, hidden) >= goal.least(found + most)
    return max(1, int(np.ceil(share[np.argmax(enough)] * left))) if enough.any() else left


def _most(got: Floats, share: Floats, delta: float) -> Floats:
    """About the most positives that are credible when a share of the rows shows so many."""
    spread = -float(special.ndtri(delta)) * np.sqrt(share * (1 - share))
    root = (spread + np.sqrt(spread**2 + 4 * share * (got + 0.5))) / (2 * share)
    none = np.log(delta) / np.log1p(-share)
    most: Floats = np.where(got < _NONE, none, np.maximum(root**2, none))
    return most
