"""What a condition costs and how many rows it lets through, as far as anyone knows."""

from __future__ import annotations

from mlsql.planner.context import Context
from mlsql.planner.nodes import Conjunct, Stage

# Nobody has measured the condition yet: a filter on a model's output is taken to keep a tenth
# (people look for what is rare), less exactly known than any measurement that replaces it.
UNKNOWN_SELECTIVITY = 0.1


def conjunct_selectivity(conjunct: Conjunct, context: Context) -> float:
    """The share of rows that a condition lets through; 1 where the stage cannot judge it."""
    if conjunct.condition is None:
        return 1.0
    known = context.selectivity(conjunct.text)
    return UNKNOWN_SELECTIVITY if known is None else known


def conjunct_cost(stage: Stage, conjunct: Conjunct, context: Context) -> float:
    """Milliseconds a row that the calls of a condition cost."""
    return sum(context.cost_ms(stage.calls[k].spec) for k in conjunct.calls)
