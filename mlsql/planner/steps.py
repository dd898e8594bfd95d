"""A stage as a worker takes it: the calls in order, each with the rows it is wanted for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.parser.tree import copy_of, find_all
from mlsql.planner.nodes import Stage


@dataclass(frozen=True)
class Order:
    """`calls` are numbers of the stage's calls; guards and `accept` are SQL, or None for all rows.

    In the SQL, out_i is the output of the i-th call in this order.
    """

    calls: tuple[int, ...]
    guards: tuple[str | None, ...]
    accept: str | None


def order_of(stage: Stage) -> Order:
    """The calls of the filters, each after the filters before it, then those of the tail."""
    calls: list[int] = []
    guards: list[str | None] = []
    passed: list[exp.Expr] = []
    for conjunct in stage.filters:
        for call in conjunct.calls:
            if call not in calls:
                guards.append(_guard(stage, call, calls, passed))
                calls.append(call)
        if conjunct.condition is not None:
            passed.append(conjunct.condition)
    for call in stage.tail:
        if call not in calls:
            guards.append(_guard(stage, call, calls, passed))
            calls.append(call)
    return Order(tuple(calls), tuple(guards), _sql(passed, calls))


def _guard(
    stage: Stage, call: int, before: list[int], passed: list[exp.Expr]
) -> str | None:
    """What is known by then: the filters passed, and the needs that speak of earlier calls only."""
    known = {f"call_{k}" for k in before}
    needs = [n for n in stage.calls[call].needs
             if all(c.name in known for c in find_all(n, exp.Column) if c.name.startswith("call_"))]
    return _sql([*passed, *needs], before)


def _sql(conditions: list[exp.Expr], calls: list[int]) -> str | None:
    if not conditions:
        return None
    place = {f"call_{k}": f"out_{i}" for i, k in enumerate(calls)}
    joined = exp.paren(exp.and_(*[copy_of(c) for c in conditions], copy=False), copy=False)
    for column in list(find_all(joined, exp.Column)):
        if column.name in place:
            column.replace(exp.column(place[column.name]))
    return to_sql(joined)
