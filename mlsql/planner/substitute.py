"""What stands in a call's place once its output is in a store."""

from __future__ import annotations

from sqlglot import exp

from mlsql.planner.nodes import Lookup
from mlsql.udfs.function import ModelOutput

ARGUMENT, OUTPUT = "mlsql_arg", "mlsql_out"

# Keys of a node's meta: the type of what was put in a call's place; the query that a table which
# is still to be made will hold.
TYPE, QUERY = "mlsql_type", "mlsql_query"


def look_up(call: ModelOutput, store: str) -> exp.Expression:
    """The output as a scalar subquery over the store: DuckDB plans it as one hash join."""
    same = exp.NullSafeEQ(this=exp.column(ARGUMENT, table=store), expression=call.this.copy())
    query = exp.select(exp.column(OUTPUT, table=store)).from_(store).where(same, copy=False)
    return _typed(exp.Subquery(this=query), call)


def look_up_call(call: ModelOutput, lookup: Lookup) -> exp.Expression:
    """The output as a call of a look-up function."""
    return _typed(exp.Anonymous(this=lookup.name, expressions=[call.this.copy()]), call)


def _typed(node: exp.Expression, call: ModelOutput) -> exp.Expression:
    """Remember the type: what binds names while nothing of this exists in DuckDB yet needs it."""
    node.meta[TYPE] = call.spec.output_type
    return node


def allows_subquery(call: ModelOutput) -> bool:
    """Whether DuckDB takes a subquery in the place where a call stands."""
    if call.find_ancestor(exp.Lambda, exp.Comprehension, exp.WithinGroup, exp.Unnest,
                          exp.Pivot, exp.Returning) is not None:
        return False
    return call.this.find(exp.AggFunc, exp.Window) is None
