"""The range of an expression's values, where it can be told: what makes a small sample enough."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from math import inf, isfinite

from sqlglot import exp

from mlsql.planner.trees import WRITTEN
from mlsql.udfs.function import ModelOutput

Range = tuple[float, float]

_ANY = (-inf, inf)
_BOOLEAN = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean, exp.Exists)


def bounds(node: exp.Expr, columns: Mapping[str, Range], cap: int) -> Range:
    """The least and greatest value of an expression; infinite where there is no telling.

    `columns` are the ranges of a population's own columns. Counts of objects lie in 0 to `cap`, a
    stated assumption that is checked on every answer; booleans and scores lie in 0 to 1.
    """
    written = str(node.meta.get(WRITTEN, "")).upper()
    if written.startswith("COUNT_OBJECTS"):
        return 0.0, float(cap)
    if written.startswith(("SCORE(", "CONTAINS", "AI_FILTER")):
        return 0.0, 1.0
    if isinstance(node, (exp.Paren, exp.Alias, exp.Cast)):
        return bounds(node.this, columns, cap)
    if isinstance(node, _BOOLEAN):
        return 0.0, 1.0
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this), float(node.this)
    if isinstance(node, exp.Column):
        return columns.get(node.name, _ANY)
    if isinstance(node, ModelOutput):
        return (0.0, 1.0) if node.spec.output_type.upper() == "BOOLEAN" else _ANY
    return _computed(node, columns, cap)


def _computed(node: exp.Expr, columns: Mapping[str, Range], cap: int) -> Range:
    def of(parts: list[exp.Expr]) -> list[Range]:
        return [bounds(p, columns, cap) for p in parts if not isinstance(p, exp.Null)]

    if isinstance(node, exp.Neg):
        low, high = bounds(node.this, columns, cap)
        return -high, -low
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return _arithmetic(node, *of([node.this, node.expression]))
    if isinstance(node, (exp.Least, exp.Greatest)):
        ends = of([node.this, *node.expressions])
        pick = min if isinstance(node, exp.Least) else max
        return pick(e[0] for e in ends), pick(e[1] for e in ends)
    if isinstance(node, exp.Coalesce):
        return _hull(of([node.this, *node.expressions]))
    if isinstance(node, exp.If):
        return _hull(of([p for p in (node.args.get("true"), node.args.get("false")) if p]))
    if isinstance(node, exp.Case):
        last = node.args.get("default")
        return _hull(of([b.args["true"] for b in node.args["ifs"]] + ([last] if last else [])))
    return _ANY


def _hull(parts: list[Range]) -> Range:
    return (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else _ANY


def _arithmetic(node: exp.Expr, left: Range, right: Range) -> Range:
    if _ANY in (left, right) or not all(map(isfinite, (*left, *right))):
        return _ANY
    if isinstance(node, exp.Div) and right[0] <= 0 <= right[1]:
        return _ANY
    ways: dict[type[exp.Expr], Callable[[float, float], float]] = {
        exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul,
        exp.Div: operator.truediv}
    way = ways[type(node)]
    ends = [way(a, b) for a, b in product(left, right)]
    return min(ends), max(ends)
