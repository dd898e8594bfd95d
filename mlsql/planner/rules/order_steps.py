"""order_steps: the conditions of a stage in the cheapest order."""

from __future__ import annotations

from dataclasses import replace

from mlsql.planner.context import Context
from mlsql.planner.cost import conjunct_cost, conjunct_selectivity
from mlsql.planner.nodes import Stage


def order_steps(stage: Stage, context: Context) -> Stage:
    """Sort the filters by ascending c / (1 - s): cost of the calls over share of rows dropped.

    That order is optimal for independent conditions (Hellerstein and Stonebraker 1993). A filter
    that cannot be judged within the stage drops nothing and goes last.
    """
    def rank(position: int) -> tuple[float, int]:
        conjunct = stage.filters[position]
        dropped = 1.0 - conjunct_selectivity(conjunct, context)
        cost = conjunct_cost(stage, conjunct, context)
        return (cost / dropped if dropped > 0 else float("inf"), position)

    order = sorted(range(len(stage.filters)), key=rank)
    return replace(stage, filters=tuple(stage.filters[i] for i in order))
