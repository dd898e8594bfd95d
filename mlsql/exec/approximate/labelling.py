"""Finding the rows that a condition selects with few labels, and proving that few were missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.labels import Labels
from mlsql.planner.estimate.total import Goal, TotalBound, proof_labels

Allowed = Callable[[int], int]

_BATCH = 1 / 80  # of all rows, labelled in one round of a search
_SURPRISES = 0.1  # of them
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
    """How a goal was met: by proof from `drawn` uniform labels, or by all labels.

    Of all positives at least the share `recall` was found, and at most `missed` were not.
    """

    exact: bool
    drawn: int
    recall: float
    missed: int = 0


def price(labels: Labels, bound: TotalBound, goal: Goal) -> Price:
    """The cheapest split: label the likeliest rows first, prove the rest by uniform labels."""
    left = len(labels.left)
    chances = np.sort(labels.chances[labels.left])[::-1]
    gained = np.concatenate([[0.0], np.cumsum(np.minimum(labels.trust * chances, 1.0))])
    hidden = max(float(gained[-1]), labels.total - labels.found)
    best = _searched(labels, bound, goal, gained)
    for part in sorted({int(left * share) for share in _PARTS}):
        proof = proof_labels(labels.found + gained[part], hidden - gained[part], left - part,
                             goal, bound.next_delta)
        if part + proof < best.total:
            best = Price(part, proof)
    return best


def _searched(
    labels: Labels, bound: TotalBound, goal: Goal, gained: NDArray[np.float64]
) -> Price:
    """By the search alone: until all rows are labelled, or enough for what is proved by now."""
    missing = goal.recall * bound.at_most - goal.missed - labels.found
    return Price(min(int(np.searchsorted(gained, missing)) + 1, len(gained) - 1), 0)


def label_until_proved(
    labels: Labels, goal: Goal, delta: float, rng: np.random.Generator, *,
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
        if goal.met(labels.found, bound.at_most):
            return Proof(False, drawn, labels.found / max(bound.at_most, 1),
                         bound.at_most - labels.found)
        labels.refit()
        wanted = price(labels, bound, goal)
        told(wanted)
        count = _search(labels, goal, wanted.search, rng, allowed) if wanted.search else \
            _prove(labels, bound, max(wanted.proof, _FEWEST), goal, rng, allowed)
        if count is None:
            return None
        drawn += 0 if wanted.search else count
    return Proof(True, drawn, 1.0)


def _search(
    labels: Labels, goal: Goal, wanted: int, rng: np.random.Generator, allowed: Allowed
) -> int | None:
    """Label the likeliest rows, a round of them; None where no more may be asked.

    Where next to none may be missed, some are drawn from the others: a kind of row that the guess
    is wrong about is found that way, before a sample fails for it.
    """
    left = labels.left
    count = min(wanted, max(_FEWEST, int(labels.size * _BATCH)), len(left))
    if allowed(count) < count:
        return None
    drawn = int(_SURPRISES * count) if goal.recall == 1 else 0
    likely = left[np.argsort(-labels.chances[left], kind="stable")]
    first, others = likely[:count - drawn], likely[count - drawn:]
    _look_and_learn(labels, np.concatenate([first, rng.permutation(others)[:drawn]]))
    return count


def _prove(
    labels: Labels, bound: TotalBound, first: int, goal: Goal, rng: np.random.Generator,
    allowed: Allowed,
) -> int | None:
    """Draw a sample, which grows while its next look is likely to be a proof."""
    order = rng.permutation(labels.left)
    labels.predicts = False  # what is expected stays: the bound is of rows that differ from it
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
        if size == len(order) or goal.met(labels.found, bound.at_most) or then is None or \
                not goal.met(labels.found, then):
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
