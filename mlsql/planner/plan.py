"""From a statement's tree to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from mlsql.errors import InternalError, ProgrammingError
from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Context
from mlsql.planner.demand import hand_inward
from mlsql.planner.driver import optimise
from mlsql.planner.expand import expand
from mlsql.planner.headings import name_items
from mlsql.planner.names import Names, stub
from mlsql.planner.narrow import narrow
from mlsql.planner.nodes import Node, Plan, Stage
from mlsql.planner.peel import Peeler
from mlsql.planner.substitute import ARGUMENT, bad_inputs
from mlsql.planner.trees import Query
from mlsql.planner.tried import tried
from mlsql.tree import find
from mlsql.udfs.function import ModelOutput


def plan(root: exp.Expr, context: Context, prefix: str = "mlsql", *,
         peels: bool = True, skips: bool = False, limited: bool = False) -> Plan:
    """The plan of a statement whose sources are tables already. Runs no model.

    With peels=False every call is left to the recording look-ups: the independent check. With
    skips=True a row whose input cannot be used is lost, where the place of the call allows it.
    limited=True says that the statement may be ended before all its candidates were looked at.
    """
    names = Names(context)
    name_items(root, context)
    tree = expand(root, context, names)
    _bind(tree, context)
    if "hand_inward" not in context.switched_off() and not skips:
        hand_inward(tree, names, context)
    peeler = Peeler(context, names, prefix, peels, stops=not skips)
    peeler.statement(tree)
    nodes = _ended(peeler.nodes, tree, limited, bool(peeler.lookups))
    planned = Plan(nodes, tree, tuple(peeler.stores.values()),
                   tuple(peeler.lookups.values()), tuple(dict.fromkeys(peeler.notes)))
    finished = optimise(planned, context)
    for node in finished.nodes:
        if isinstance(node, Stage) and node.early is not None:
            _see_evaluated_only(node)
        if isinstance(node, Stage) and skips:
            _lose_unusable(node)
    _check_no_call_left(finished)
    for tree in _trees(finished):
        narrow(tree)
    return finished


def _bind(tree: exp.Expr, context: Context) -> None:
    """Let DuckDB judge the whole statement before any model is asked anything."""
    sql = to_sql(stub(tree))
    if isinstance(tree, exp.Pivot):
        return
    if isinstance(tree, Query):
        with suppress(ProgrammingError):  # whose complaint has no place in the text
            context.describe(sql)
            return
    context.bind(sql)


def _ended(
    nodes: Sequence[Node], tree: exp.Expr, limited: bool, recorded: bool
) -> tuple[Node, ...]:
    """The nodes, the last one so that it ends with what is certain, if it is the statement's own.

    It alone can be gone on with once the statement has shown how many rows it gives.
    """
    found = []
    for node in nodes:
        if isinstance(node, Stage):
            own = node is nodes[-1] and node.scope is tree and not recorded
            again = node.again and own
            node = replace(node, certain=own and limited and node.singly, again=again,
                           limit=node.limit if again or not node.again else None)
        found.append(node)
    return tuple(found)


def _see_evaluated_only(stage: Stage) -> None:
    """Let the final statement see only rows that an early-stopped stage has evaluated."""
    assert stage.early is not None and stage.scope is not None
    table = stage.early.table
    same = [exp.NullSafeEQ(this=exp.column(name, table=table), expression=tried(node))
            for name, node in stage.columns]
    found = exp.select(exp.column("mlsql_n", table=table)).from_(table).where(*same, copy=False)
    # No EXISTS: as a semi join DuckDB may give the rows in another order, and LIMIT take others.
    seen = exp.not_(exp.Is(this=found.subquery(), expression=exp.null()), copy=False)
    stage.scope.where(seen, copy=False)


def _lose_unusable(stage: Stage) -> None:
    """Let the final statement lose the rows with an input that a model could not use."""
    if stage.scope is None or stage.place not in ("WHERE", "SELECT"):
        return
    for call in stage.calls:
        table = bad_inputs(call.store)
        same = exp.NullSafeEQ(
            this=exp.column(ARGUMENT, table=table), expression=tried(call.argument))
        failed = exp.select("1").from_(table).where(same, copy=False).subquery()
        # No NOT EXISTS: as an anti join DuckDB may give the rows in another order.
        stage.scope.where(exp.Is(this=failed, expression=exp.null()), copy=False)


def _check_no_call_left(plan: Plan) -> None:
    """A call forgotten in a tree would run as who knows what: better to stop here."""
    if any(find(tree, ModelOutput) is not None for tree in _trees(plan)):
        raise InternalError("a model call was left in the plan")


def _trees(plan: Plan) -> list[exp.Expr]:
    """What DuckDB is to run of a plan."""
    return [plan.final] + [n.rows if isinstance(n, Stage) else n.query for n in plan.nodes]
