"""What conditions cost, how many rows they let through, and the cheapest order to try them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from mlsql.planner.nodes import Conjunct, Stage
from mlsql.planner.trees import is_volatile
from mlsql.tree import find

# Nobody has measured the condition yet: a filter on a model's output is taken to keep a tenth
# (people look for what is rare), less exactly known than any measurement that replaces it.
UNKNOWN_SELECTIVITY = 0.1


class Estimates(Protocol):
    """What is believed of a stage, before it runs or while it does."""

    def call_ms(self, stage: Stage, call: int) -> float:
        """Milliseconds that a call costs for one row that reaches it, cached ones counted."""

    def selectivity(self, key: str) -> float | None:
        """The share of the rows reaching a condition that it let through; None if never judged."""


def conjunct_selectivity(conjunct: Conjunct, believed: Estimates) -> float:
    """The share of rows that a condition lets through; 1 where the stage cannot judge it."""
    if conjunct.condition is None:
        return 1.0
    known = believed.selectivity(conjunct.text)
    if known is None and conjunct.disjuncts:
        failed = 1.0
        for operand in conjunct.disjuncts:
            failed *= 1.0 - conjunct_selectivity(operand, believed)
        return 1.0 - failed
    return UNKNOWN_SELECTIVITY if known is None else known


def conjunct_cost(stage: Stage, conjunct: Conjunct, believed: Estimates) -> float:
    """Milliseconds for each row that reaches a condition."""
    if not conjunct.disjuncts:
        # What hangs on no row is asked once, however many rows there are.
        return sum(believed.call_ms(stage, k) for k in conjunct.calls
                   if not _is_constant(stage.calls[k].argument))
    cost, reached = 0.0, 1.0
    for operand in conjunct.disjuncts:
        cost += reached * conjunct_cost(stage, operand, believed)
        reached *= 1.0 - conjunct_selectivity(operand, believed)
    return cost


def stage_cost(stage: Stage, believed: Estimates) -> float:
    """Milliseconds for each candidate of a stage, its filters tried in their order."""
    cost, reached = 0.0, 1.0
    for conjunct in stage.filters:
        cost += reached * conjunct_cost(stage, conjunct, believed)
        reached *= conjunct_selectivity(conjunct, believed)
    return cost + reached * sum(believed.call_ms(stage, k) for k in stage.tail)


def ordered(stage: Stage, believed: Estimates) -> Stage:
    """The filters by ascending c / (1 - s), the operands of an OR by ascending c / s.

    c is the cost of a condition's calls, s the share of rows that it lets through. These orders
    are optimal for independent conditions (Hellerstein and Stonebraker 1993). A filter that cannot
    be judged within the stage drops nothing and goes last.
    """
    filters = [_with_ordered_operands(stage, f, believed) for f in stage.filters]

    def rank(conjunct: Conjunct) -> float:
        dropped = 1.0 - conjunct_selectivity(conjunct, believed)
        return _over(conjunct_cost(stage, conjunct, believed), dropped)

    return replace(stage, filters=tuple(sorted(filters, key=rank)))


def _with_ordered_operands(stage: Stage, conjunct: Conjunct, believed: Estimates) -> Conjunct:
    operands = [_with_ordered_operands(stage, d, believed) for d in conjunct.disjuncts]

    def rank(operand: Conjunct) -> float:
        return _over(conjunct_cost(stage, operand, believed),
                     conjunct_selectivity(operand, believed))

    return replace(conjunct, disjuncts=tuple(sorted(operands, key=rank))) if operands else conjunct


def _over(cost: float, share: float) -> float:
    # Rounded: what is equal but for the last digits stays as it was written.
    return float(f"{cost / share:.9g}") if share > 0 else float("inf")


def _is_constant(argument: exp.Expr) -> bool:
    return find(argument, exp.Column, exp.Query) is None and not is_volatile(argument)
