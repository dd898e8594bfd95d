"""How many labels an aggregate will take: what the planner compares before anything runs."""

from __future__ import annotations

import math


def labels_for_mean(variance: float, span: float, error: float, delta: float,
                    population: float = math.inf) -> float:
    """Labels that MeanSearch needs: √((2σ²·ln(2/δ)/ε²)² + (span·ln(2/δ)/ε)²), less what N saves.

    The first is the sequence's rate with bets tuned to ε, the second the price of a wide range,
    whose bets are clipped; that they add up so is a fit to runs on counts and shares. Without
    replacement the variance of what is left shrinks: n/(1 + n/N).
    """
    ask = math.log(2 / delta)
    alone = math.hypot(2 * variance * ask / error**2, span * ask / error)
    return alone / (1 + alone / population)


def labels_for_share(share: float, error: float, delta: float,
                     population: float = math.inf) -> float:
    """Labels for a share (a COUNT over N): ln(2/δ) over the relative entropy to share ± ε.

    The rate of the best bet on values 0 and 1, for the harder of the two sides.
    """
    sides = (min(share, 1 - share) + error, max(share, 1 - share) + error)
    p = (min(share, 1 - share), max(share, 1 - share))
    rates = [relative_entropy(a, b) for a, b in zip(p, sides) if b < 1]
    alone = math.log(2 / delta) / min(rates) if rates else 1.0
    return alone / (1 + alone / population)


def relative_entropy(p: float, q: float) -> float:
    """KL(p‖q) of two shares, q between 0 and 1: how fast a bet against q grows if p is right."""
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def labels_with_variate(variance: float, correlation: float, span: float, coefficient: float,
                        error: float, delta: float, population: float = math.inf) -> float:
    """The same with a control variate: variance·(1 − ρ²), span·(1 + |c|)."""
    rest = variance * (1 - correlation**2)
    return labels_for_mean(rest, span * (1 + abs(coefficient)), error, delta, population)


def labels_for_filtered_mean(variance: float, share: float, span: float, error: float,
                             delta: float, population: float = math.inf) -> float:
    """Labels for an AVG under a predicate that a `share` of the candidates passes."""
    alone = labels_for_mean(variance, span, error, delta) / max(share, 1e-12)
    return alone / (1 + alone / population)


def labels_left(labels: int, half_width: float, error: float) -> int:
    """Labels still to come: the half-width is about error/2 + something that falls as 1/labels."""
    if half_width <= error:
        return 0
    excess = half_width / error - 1 if error > 0 else math.inf
    return max(1, math.ceil(min(2 * labels * excess, 1e15)))
