"""The calls of a SELECT above WHERE: which can be made now, and for which rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Context
from mlsql.planner.nodes import Lookup
from mlsql.planner.shape import (
    aggregates,
    group_keys,
    is_aggregated,
    key_items,
    resolved_order,
    top_rows,
)
from mlsql.planner.stages import spelt
from mlsql.planner.trees import calls_models, is_volatile, kept, nested, own
from mlsql.tree import find, find_all
from mlsql.udfs.function import ModelOutput

ABOVE_WHERE = ("group", "expressions", "having", "qualify", "order", "windows", "distinct")

PROVED = "mlsql_proved"  # a key of meta: a look-up function whose every answer is there by then

Lookups = Mapping[str, Lookup]
Calls = list[tuple[ModelOutput, exp.Expr]]  # each with the root of its clause


def first_calls(scope: exp.Select, context: Context, lookups: Lookups) -> Calls:
    """The ready row calls; under LIMIT those of ORDER BY first, and the others for its rows."""
    rows = row_calls(scope, context, lookups)
    order = resolved_order(scope) if top_rows(scope, context) is not None else None
    asked = {to_sql(c) for c in find_all(order, ModelOutput)} if order is not None else set()
    return [(c, part) for c, part in rows if to_sql(c) in asked] or rows


def row_calls(scope: exp.Select, context: Context, lookups: Lookups) -> Calls:
    """The ready calls above WHERE whose argument is a row's."""
    grouped = is_aggregated(scope, context)
    keys = key_items(scope) if grouped and group_keys(scope) is not None else []
    # A call that a key holds is the row's wherever it stands.
    held = {spelt(c) for part in [*keys, *parts(scope, "group")] if grouped
            for c in own(part, ModelOutput)}
    found = []
    for clause in ABOVE_WHERE:
        for part in parts(scope, clause):
            for call in own(part, ModelOutput):
                inside = not grouped or spelt(call) in held or \
                    aggregates(call, part, context)
                if inside and is_ready(call, lookups):
                    found.append((call, part))
    return found


def group_calls(scope: exp.Select, context: Context, lookups: Lookups) -> Calls:
    """The ready calls above GROUP BY, whose argument is a group's."""
    if not is_aggregated(scope, context):
        return []
    found = []
    for clause in ("expressions", "having", "qualify", "order"):
        for part in parts(scope, clause):
            found += [(call, part) for call in own(part, ModelOutput)
                      if is_ready(call, lookups)]
    return found


def shared_keys(scope: exp.Select) -> set[tuple[str, str]]:
    """The calls in keys of GROUP BY that a query nested above it makes as well."""
    keys = {spelt_call(call) for part in [*key_items(scope), *parts(scope, "group")]
            for call in own(part, ModelOutput)}
    if not keys:
        return set()
    return {key for clause in ABOVE_WHERE for part in parts(scope, clause)
            for query in nested(part) for call in find_all(query, ModelOutput)
            if (key := spelt_call(call)) in keys}


def spelt_call(call: ModelOutput) -> tuple[str, str]:
    """A call's model and argument, alike for calls that are alike."""
    return call.spec.name, spelt(call.this)


def is_ready(call: ModelOutput, lookups: Lookups) -> bool:
    """Whether a call's argument can be computed from the scope's rows, now and again."""
    argument = call.this
    if calls_models(argument) or is_volatile(argument):
        return False
    if find(argument, exp.Window, exp.Columns, exp.Star) is not None:
        return False
    if call.find_ancestor(exp.Lambda, exp.Comprehension, exp.WithinGroup) is not None:
        return False
    if is_recorded(argument, lookups):
        return False
    # any_value and the like may choose another row the second time.
    return find(argument, exp.AggFunc) is None


def parts(scope: exp.Select, clause: str) -> list[exp.Expr]:
    """The expressions of one clause of a SELECT."""
    node = scope.args.get(clause)
    if node is None:
        return []
    if clause in ("group", "order"):
        return list(node.expressions)
    if isinstance(node, list):
        return list(node)
    return [node]


def is_recorded(node: exp.Expr, lookups: Lookups) -> bool:
    """Whether an expression asks a look-up whose answer may still be missing."""
    names = {lookup.name for lookup in lookups.values()}
    return any(f.name in names and not kept(f, PROVED) for f in find_all(node, exp.Anonymous))
