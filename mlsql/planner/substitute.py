"""What stands in a call's place once its output is in a store."""

from __future__ import annotations

from sqlglot import exp

from mlsql.planner.nodes import Lookup
from mlsql.planner.trees import own
from mlsql.planner.tried import guarded, may_raise, tried
from mlsql.tree import copy_of, find
from mlsql.udfs.function import ModelOutput

ARGUMENT, OUTPUT = "mlsql_arg", "mlsql_out"

# Keys of a node's meta: the type of what was put in a call's place; the query that a table which
# is still to be made will hold.
TYPE, QUERY = "mlsql_type", "mlsql_query"


def bad_inputs(store: str) -> str:
    """The table of the inputs that a store's model could not use."""
    return f"{store}_bad"


def look_up(call: ModelOutput, store: str) -> exp.Expr:
    """The output as a scalar subquery over the store: DuckDB plans it as one hash join."""
    raises = may_raise(call.this)
    argument = tried(call.this) if raises else copy_of(call.this)
    same = exp.NullSafeEQ(this=exp.column(ARGUMENT, table=store), expression=argument)
    query = exp.Select(expressions=[exp.column(OUTPUT, table=store)],
                       from_=exp.From(this=exp.Table(this=exp.to_identifier(store))),
                       where=exp.Where(this=same))
    found = exp.Subquery(this=query)
    if raises:
        # Nor would DuckDB, over a store without rows, evaluate the argument.
        return _typed(guarded(found, call.this), call)
    if isinstance(call.parent, exp.Array):
        # Bare, sqlglot would print [(SELECT ...)] as the list of all rows of a query.
        return _typed(exp.paren(found, copy=False), call)
    return _typed(found, call)


def look_up_call(call: ModelOutput, lookup: Lookup) -> exp.Expr:
    """The output as a call of a look-up function."""
    return _typed(exp.Anonymous(this=lookup.name, expressions=[copy_of(call.this)]), call)


def _typed(node: exp.Expr, call: ModelOutput) -> exp.Expr:
    """Remember the type: what binds names while nothing of this exists in DuckDB yet needs it."""
    node.meta[TYPE] = call.spec.output_type
    return node


def allows_subquery(call: ModelOutput) -> bool:
    """Whether DuckDB takes a subquery in the place where a call stands."""
    if call.find_ancestor(exp.Lambda, exp.Comprehension, exp.WithinGroup, exp.Unnest, exp.Explode,
                          exp.Pivot, exp.Returning, exp.Try) is not None:
        return False
    if find(call.this, exp.PositionalColumn) is not None:
        return False  # #1 is of the sources right there
    window = call.find_ancestor(exp.Window)
    if window is not None and window.args.get("spec") is not None:
        return False  # DuckDB cannot copy a subquery that stands by a frame
    if window is not None and not any(own(call.this, exp.Column)):
        return False  # what speaks of no row is volatile to it there
    return find(call.this, exp.AggFunc, exp.Window) is None
