"""What of a statement a sample can answer: its population, its labels, its aggregates.

Nothing here runs a model or draws a row. A statement that no target can be certified for is
`Uncertified`, with the reason; it is then run exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from mlsql.planner.approximate_items import Estimated, estimated_items
from mlsql.planner.approximate_rows import RowColumns
from mlsql.planner.approximate_score import Judgement, judgement
from mlsql.planner.candidates import finish
from mlsql.planner.context import Context
from mlsql.planner.names import Names
from mlsql.planner.shape import group_keys, has_sample, is_aggregated, rows_wanted
from mlsql.planner.trees import (
    calls_models,
    conjunction,
    conjuncts,
    is_volatile,
    nested,
    own,
    sources,
)


class Uncertified(Exception):
    """Why no target can be certified for a statement; it is run exactly instead."""


@dataclass(frozen=True)
class Population:
    """The rows before any model is asked, and the part of WHERE that asks one.

    `query` selects for each row its `columns`: arguments of models (a0 …), other columns that the
    expressions over models name (x0 …) and keys (k0 …). `label` is the model part of WHERE over
    these columns, None where there is none.
    """

    query: exp.Select
    columns: tuple[tuple[str, exp.Expr], ...]
    arguments: tuple[str, ...]
    label: exp.Expr | None


@dataclass(frozen=True)
class Aggregates:
    """SELECT of aggregates: what is estimated of each group, and the statement over estimates."""

    population: Population
    estimated: tuple[Estimated, ...]
    keys: tuple[str, ...]
    final: exp.Select = field(compare=False, repr=False)


@dataclass(frozen=True)
class Selection:
    """SELECT of rows: the label is the whole of WHERE that asks a model.

    `final` is the statement with that part of WHERE left out; `limit` is how many rows are wanted.
    """

    population: Population
    judgement: Judgement
    final: exp.Select = field(compare=False, repr=False)
    limit: int | None = None


def recognise(tree: exp.Expr, context: Context, names: Names) -> Aggregates | Selection:
    """The statement, expanded and in tables, as something that a sample can answer."""
    scope = _scope(tree)
    if is_aggregated(scope, context):
        return _aggregates(scope, context, names)
    return _selection(scope, context, names)


def aggregates_models(tree: exp.Expr, context: Context) -> bool:
    """Whether a statement is one of aggregates that hang on a model."""
    return isinstance(tree, exp.Select) and calls_models(tree) and is_aggregated(tree, context)


def selects_by_models(tree: exp.Expr, context: Context) -> bool:
    """Whether a statement is one of rows that a model's answer selects."""
    if not isinstance(tree, exp.Select):
        return False
    where = tree.args.get("where")
    return where is not None and calls_models(where) and not is_aggregated(tree, context)


def _scope(tree: exp.Expr) -> exp.Select:
    """The one SELECT that asks models; what stands in the way is said."""
    if not isinstance(tree, exp.Select):
        raise Uncertified("a set operation or a statement that writes is run exactly")
    if any(calls_models(source) for source in sources(tree)) or any(
            calls_models(join.args.get("on") or exp.null())
            for join in tree.args.get("joins") or []):
        raise Uncertified("a model is asked in FROM")
    with_ = tree.args.get("with_")
    if with_ is not None and calls_models(with_):
        raise Uncertified("a model is asked in a CTE")
    if has_sample(tree):
        raise Uncertified("the rows are a sample already")
    for part in ("qualify", "windows", "distinct"):
        if tree.args.get(part) is not None:
            raise Uncertified(f"{part.upper()} looks at all rows")
    return tree


def _population(
    scope: exp.Select, rows: RowColumns, keys: Iterable[exp.Expr] = ()
) -> tuple[exp.Select, exp.Expr | None]:
    """The rows' query, without its columns as yet, and the label over them."""
    where = scope.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    asking = [c for c in parts if calls_models(c)]
    known = [c for c in parts if not calls_models(c)]
    if any(nested(c) for c in asking):
        raise Uncertified("a condition holds both a model and a subquery")
    if any(is_volatile(c) for c in parts):
        raise Uncertified("a condition is volatile")
    query = exp.Select()
    if scope.args.get("from_"):
        query.set("from_", scope.args["from_"].copy())
    query.set("joins", [join.copy() for join in scope.args.get("joins") or []])
    if known:
        query.where(*[c.copy() for c in known], copy=False)
    together = conjunction(asking)
    return query, None if together is None else rows.over(together)


def _with_columns(
    query: exp.Select, scope: exp.Select, rows: RowColumns, label: exp.Expr | None,
) -> Population:
    query.set("expressions", [exp.alias_(rows.tried(e), name) for name, e in rows.columns])
    return Population(finish(query, scope), tuple(rows.columns), tuple(rows.arguments), label)


def _aggregates(scope: exp.Select, context: Context, names: Names) -> Aggregates:
    if scope.args.get("having") is not None:
        raise Uncertified("HAVING would keep or drop groups by an estimate")
    if any(True for item in scope.expressions for _ in own(item, exp.Window)):
        raise Uncertified("a window looks at all rows")
    group = group_keys(scope)
    keys = list(group.expressions) if group is not None else []
    if group is not None and any(v for k, v in group.args.items() if k != "expressions"):
        raise Uncertified("GROUPING SETS, CUBE and ROLLUP are run exactly")
    if any(calls_models(k) or is_volatile(k) for k in keys):
        raise Uncertified("a key of GROUP BY asks a model")
    rows = RowColumns(names, scope)
    key_names = tuple(rows.column(key, "k") for key in keys)
    query, label = _population(scope, rows)
    final, estimated = estimated_items(scope, context, rows, dict(zip(key_names, keys)), label)
    return Aggregates(_with_columns(query, scope, rows, label), estimated, key_names, final)


def _selection(scope: exp.Select, context: Context, names: Names) -> Selection:
    where = scope.args.get("where")
    if where is None or not calls_models(where):
        raise Uncertified("no condition asks a model")
    if any(True for item in scope.expressions for _ in own(item, exp.Window)):
        raise Uncertified("a window looks at all rows")
    rows = RowColumns(names, scope)
    query, label = _population(scope, rows)
    assert label is not None
    population = _with_columns(query, scope, rows, label)
    final = scope.copy()
    known = [c.copy() for c in conjuncts(where.this) if not calls_models(c)]
    final.set("where", exp.Where(this=exp.and_(*known, copy=False)) if known else None)
    limit, order = rows_wanted(scope, context)
    if limit is not None and order is not None:
        limit = None
    return Selection(population, judgement(label), final, limit)
