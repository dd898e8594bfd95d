"""order_steps: the conditions of a stage in the cheapest order."""

from __future__ import annotations

from mlsql.planner.context import Context
from mlsql.planner.cost import ordered
from mlsql.planner.nodes import Stage


def order_steps(stage: Stage, context: Context) -> Stage:
    """Try first what drops the most rows for its cost; a running stage may change that order."""
    return ordered(stage, context)
