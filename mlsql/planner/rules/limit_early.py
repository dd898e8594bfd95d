"""limit_early: a stage under a limit takes rows in the query's order and ends with enough."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mlsql.planner.context import Context
from mlsql.planner.nodes import EarlyStop, Stage
from mlsql.planner.shape import resolved_order
from mlsql.tree import copy_of


def limit_early(stage: Stage, context: Context) -> Stage:
    """SELECT DISTINCT a FROM t becomes: each a, with the number of the first row that has it.

    Rows are numbered in the query's own ORDER BY; where no condition asks a model, only the rows
    that LIMIT lets through are taken at all.
    """
    if stage.scope is None or (stage.limit is None and not stage.certain):
        return stage
    inner = copy_of(stage.rows)
    inner.set("distinct", None)
    order = None if stage.limit is None or stage.again else resolved_order(stage.scope)
    window = exp.Window(this=exp.RowNumber(), order=order)
    inner.select(exp.alias_(window, "mlsql_n"), append=True, copy=False)
    if not stage.filters and stage.limit is not None and not stage.again:
        inner.set("order", exp.Order(expressions=[exp.column("mlsql_n")]))
        inner.set("limit", exp.Limit(expression=exp.Literal.number(stage.limit)))
    names = [name for name, _ in stage.columns]
    outer = exp.select(*names, "min(mlsql_n) AS mlsql_n").from_(inner.subquery("mlsql_r"))
    outer = outer.group_by(*names).order_by("mlsql_n")
    with_ = inner.args.get("with_")
    return replace(stage, rows=_hoisted(outer, with_),
                   early=EarlyStop(stage.limit, f"{stage.name}_e", stage.certain,
                                   stage.again))


def _hoisted(outer: exp.Select, with_: exp.With | None) -> exp.Select:
    if with_ is not None:
        inner = outer.args["from_"].this.this
        inner.set("with_", None)
        outer.set("with_", with_)
    return outer
