"""Thresholds that keep a share of the positives: recall targets from uniform labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlsql.planner.estimate.arrays import Flags, Floats, Rows
from mlsql.planner.estimate.distributions import (
    binomial_below,
    draws_for,
    log_choose,
    marked_at_most,
)
from mlsql.planner.estimate.sampling import uniform_order


@dataclass(frozen=True)
class Selection:
    """What a target allows to return: found for certain, and taken on the proxy's word."""

    threshold: float  # of the score; -inf: every candidate has to be labelled
    positives: Rows  # labelled, and positive: returned whatever their score
    unchecked: Rows  # not labelled, and at or above the threshold
    labels: int
    note: str = ""


def positives_needed(recall: float, delta: float) -> int:
    """The fewest labelled positives from which any threshold follows: ⌈ln δ / ln γ⌉."""
    return draws_for(1 - recall, delta)


_FEW = 50  # times as many positives as were found: with more, the two formulas are the same


def order_statistic(found: int, recall: float, delta: float, at_most: int | None = None) -> int:
    """Which of `found` positives, counted from the lowest score, is the threshold; 0: none.

    The largest k with P[Bin(found, 1 − γ) ≥ k] ≥ 1 − δ, for any number of positives. Where no more
    than `at_most` can exist, draws without replacement do better: of P positives ⌊(1 − γ)P⌋ = m may
    be missed, labelled ones never are, and so more than m are only if fewer than k of the m + k
    lowest were drawn, for which P[Hyp(P, m + k, found) < k] ≤ δ has to hold at every P.
    """
    k = 0
    if at_most is None or at_most > _FEW * found:
        while k < found and binomial_below(k, found, 1 - recall) <= delta:
            k += 1
        return k
    totals = np.arange(found, at_most + 1, dtype=np.float64)
    missed = np.floor((1 - recall) * totals + 1e-9)
    while k < found and _missed_too_many(k + 1, found, totals, missed) <= delta:
        k += 1
    return k


def _missed_too_many(k: int, found: int, totals: Floats, missed: Floats) -> float:
    """The largest P[Hyp(P, m + k, found) < k] over the totals P."""
    can = missed + k <= totals
    totals, lowest = totals[can], (missed + k)[can]
    chance = np.zeros(len(totals))
    whole = log_choose(totals, np.full(len(totals), float(found)))
    for drawn in range(k):
        fits = (lowest >= drawn) & (totals - lowest >= found - drawn)
        some, others = lowest[fits], (totals - lowest)[fits]
        logs = log_choose(some, drawn + 0 * some) + log_choose(others, found - drawn + 0 * others)
        chance[fits] += np.exp(logs - whole[fits])
    return float(chance.max(initial=0.0))


def rare_positives(size: int, positives: int, recall: float, delta: float,
                   total: float = 0.1) -> int:
    """The fewest positives for RecallSearch with `total`, if so many are among `size` rows."""
    for found in range(1, positives + 1):
        labels = min(size, round(found * (size + 1) / (positives + 1)))
        most = marked_at_most(found, size, labels, total * delta)
        if order_statistic(found, recall, (1 - total) * delta, most):
            return found
    return positives


def recall_threshold(scores: Floats, labels: Flags, recall: float, delta: float) -> float:
    """A threshold that keeps recall ≥ `recall` of all positives, P ≥ 1 − delta; -inf if none can.

    scores and labels of rows drawn uniformly, a number of them that no score had a say in; rows at
    the threshold are in. Order statistics of a sample, see order_statistic.
    """
    found = np.sort(scores[labels])
    k = order_statistic(len(found), recall, delta)
    return float(found[k - 1]) if k else -math.inf


class RecallSearch:
    """Rows to label until a threshold for a recall target follows from them.

    Ask for rows, tell their labels, until `done`; `selection()` then says what to return, and its
    recall is ≥ `recall` with probability ≥ 1 − delta. Rows with a NaN score (NULL) are all asked
    for first, and so never lost; the rest comes in uniform order without replacement. The stop
    depends on the number of labels and positives alone, never on their scores, which would bias it.

    positives: how many to look for among the drawn rows; more cost labels and return fewer rows.
    total: a share of delta for a bound on how many positives there are, which pays where a good
    part of the rows has to be labelled anyway (rare events); see rare_positives.
    limit: labels after which to give up, in which case the threshold is -inf.
    known: labels at hand for rows that were not drawn here (cached); they are left out of the draw,
    their positives are returned, and the promise is kept on the rest.
    """

    def __init__(self, scores: Floats, recall: float, delta: float, rng: np.random.Generator, *,
                 positives: int | None = None, limit: int | None = None, total: float = 0.0,
                 known: tuple[Rows, Flags] | None = None) -> None:
        self.scores, self.recall, self.delta = scores, recall, delta
        self.total = total
        least = positives_needed(recall, delta)
        self.positives = positives or least if total else max(positives or 0, least)
        known_rows, known_labels = known or (np.zeros(0, np.int64), np.zeros(0, bool))
        apart = np.isnan(scores)
        self._first = np.setdiff1d(np.flatnonzero(apart), known_rows)
        apart[known_rows] = True
        rest = np.flatnonzero(~apart)
        self._drawn_from = len(rest)
        self._order = np.concatenate([self._first, rest[uniform_order(len(rest), rng)]])
        self.limit = len(self._order) if limit is None else min(limit, len(self._order))
        self._given = [known_rows[known_labels]]
        self._labels = np.zeros(len(self._order), bool)
        self._asked = 0

    @property
    def found(self) -> int:
        """Positives among the rows drawn uniformly."""
        return int(self._labels[len(self._first):self._asked].sum())

    @property
    def done(self) -> bool:
        """Whether no more labels are wanted."""
        return self._asked >= self.limit or self.found >= self.positives

    def ask(self, limit: int) -> Rows:
        """Up to `limit` rows to label next."""
        if self._asked < len(self._first):
            return self._order[self._asked:min(self._asked + limit, len(self._first))]
        if self.done:
            return self._order[:0]
        return self._order[self._asked:min(self._asked + limit, self.limit)]

    def tell(self, labels: Flags) -> None:
        """The labels of the next rows asked for, in their order; a prefix of them will do."""
        self._labels[self._asked:self._asked + len(labels)] = labels
        self._asked += len(labels)

    def selection(self) -> Selection:
        """What to return now: labelled positives, and unlabelled rows from the threshold up."""
        seen = self._order[:self._asked]
        labels = self._labels[:self._asked]
        kept = np.concatenate([*self._given, seen[labels]])
        left = self._order[self._asked:]
        if not len(left):
            return Selection(-math.inf, kept, left, self._asked, "every candidate was labelled")
        drawn = slice(len(self._first), None)
        threshold, note = self._threshold(self.scores[seen[drawn]], labels[drawn], len(left))
        return Selection(threshold, kept, left[self.scores[left] >= threshold], self._asked, note)

    def _threshold(self, scores: Floats, labels: Flags, left: int) -> tuple[float, str]:
        """The threshold that follows from the rows drawn, with `left` rows not labelled."""
        found = np.sort(scores[labels])
        most = len(found) + left
        if self.total:
            most = marked_at_most(len(found), self._drawn_from, len(labels),
                                  self.total * self.delta)
        k = order_statistic(len(found), self.recall, (1 - self.total) * self.delta, most)
        if k:
            return float(found[k - 1]), ""
        return -math.inf, f"{len(found)} of {self.positives} positives found"


def positives_at_most(found: int, population: int, labels: int, delta: float) -> int:
    """The most positives that can be among the population, P ≥ 1 − delta (hypergeometric)."""
    return marked_at_most(found, population, labels, delta)
