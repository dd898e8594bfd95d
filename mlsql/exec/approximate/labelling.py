"""Finding the rows that a condition selects with few labels, and proving that few were missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.labels import Labels
from mlsql.planner.estimate.total import TotalBound, proof_labels

Allowed = Callable[[int], int]

_BATCH = 1 / 80  # of all rows, labelled in one round of a search
_FEWEST = 32  # rows of a round
# Chances are taken for too low where a round found more than they foretold, never for too high:
# draws that prove nothing cost more than a round too many.
_TRUST = (1.0, 1.5)
_PARTS = (0, .005, .01, .015, .02, .03, .04, .05, .06, .08, .1, .12, .15, .18, .21, .25, .3, .35,
          .4, .5, .6, .7, .8, .9)  # of the rows left, that may be searched before a sample


@dataclass(frozen=True)
class Price:
    """What finding and proving would still cost: rows to label first, then to draw, and in all."""

    search: int
    proof: int

    @property
    def total(self) -> int:
        """All labels still to come."""
        return self.search + self.proof


@dataclass(frozen=True)
class Proof:
    """How a recall target was kept: by proof from `drawn` uniform labels, or by all labels."""

    exact: bool
    drawn: int
    recall: float


def price(labels: Labels, bound: TotalBound, recall: float) -> Price:
    """The cheapest split: label the likeliest rows first, prove the rest by uniform labels."""
    left = len(labels.left)
    chances = np.sort(labels.chances[labels.left])[::-1]
    gained = np.concatenate([[0.0], np.cumsum(np.minimum(labels.trust * chances, 1.0))])
    hidden = max(float(gained[-1]), labels.total - labels.found)
    best = _searched(labels, bound, recall, gained)
    for part in sorted({int(left * share) for share in _PARTS}):
        proof = proof_labels(labels.found + gained[part], hidden - gained[part], left - part,
                             recall, bound.next_delta)
        if part + proof < best.total:
            best = Price(part, proof)
    return best


def _searched(
    labels: Labels, bound: TotalBound, recall: float, gained: NDArray[np.float64]
) -> Price:
    """By the search alone: until all rows are labelled, or enough for what is proved by now."""
    missing = recall * bound.at_most - labels.found
    return Price(min(int(np.searchsorted(gained, missing)) + 1, len(gained) - 1), 0)


def label_until_proved(
    labels: Labels, recall: float, delta: float, rng: np.random.Generator, *,
    allowed: Allowed, told: Callable[[Price], None] = lambda _: None,
) -> Proof | None:
    """Label likely rows and draw others, until few can be missed; None where no more may be asked.

    Whatever was labelled before, a sample is uniform over the rows left by then, and bounds how
    many positives there are in all (TotalBound): so the promise holds for any guess, and for any
    order of searching and drawing. At worst every row is labelled.
    """
    bound = TotalBound(labels.size, delta)
    drawn = 0
    while len(labels.left):
        if _is_proved(labels, bound, recall):
            return Proof(False, drawn, labels.found / max(bound.at_most, 1))
        labels.refit()
        wanted = price(labels, bound, recall)
        told(wanted)
        count = _search(labels, wanted.search, allowed) if wanted.search else \
            _prove(labels, bound, max(wanted.proof, _FEWEST), recall, rng, allowed)
        if count is None:
            return None
        drawn += 0 if wanted.search else count
    return Proof(True, drawn, 1.0)


def _is_proved(labels: Labels, bound: TotalBound, recall: float) -> bool:
    return labels.found >= recall * bound.at_most - 1e-9


def _search(labels: Labels, wanted: int, allowed: Allowed) -> int | None:
    """Label the likeliest rows, a round of them; None where no more may be asked."""
    left = labels.left
    count = min(wanted, max(_FEWEST, int(labels.size * _BATCH)), len(left))
    if allowed(count) < count:
        return None
    _look_and_learn(labels, left[np.argsort(-labels.chances[left], kind="stable")][:count])
    return count


def _prove(
    labels: Labels, bound: TotalBound, first: int, recall: float, rng: np.random.Generator,
    allowed: Allowed,
) -> int | None:
    """Draw a sample, which grows while its next look is likely to prove the recall."""
    order = rng.permutation(labels.left)
    bound.begin(labels.found, len(order), first)
    got = start = 0
    for size in bound.sizes:
        if allowed(size - start) < size - start:
            return None
        if size > start:
            got += _look_and_learn(labels, order[start:size])
        bound.look(got)
        start = size
        then = bound.foreseen(got)
        if size == len(order) or _is_proved(labels, bound, recall) or then is None or \
                labels.found < recall * then:
            break
    hidden = got * (len(order) / start - 1)
    foretold = float(labels.chances[labels.left].sum())
    labels.total = labels.found + (hidden + foretold) / 2
    return start


def _look_and_learn(labels: Labels, rows: NDArray[np.int64]) -> int:
    """Label rows, and see how far their chances could be trusted: the rest is like the last."""
    foretold = float(labels.chances[rows].sum())
    got = int(labels.look(rows).sum())
    ratio = (got + 1) / (foretold + 1)
    labels.trust = float(np.clip(0.4 * labels.trust + 0.6 * ratio, *_TRUST))
    return got
