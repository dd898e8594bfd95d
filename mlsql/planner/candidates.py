"""The query that lists what a model must look at: a scope's rows, as far as they are known."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mlsql.parser.dialect import DIALECT
from mlsql.planner.guards import guards
from mlsql.planner.names import with_ctes
from mlsql.planner.shape import group_keys, joins_inner, resolved_order
from mlsql.planner.trees import (
    calls_models,
    conjuncts,
    is_volatile,
    kept,
    owner,
    place,
    sources,
    visible_ctes,
)
from mlsql.planner.tried import tried
from mlsql.tree import copy_of

Columns = Sequence[tuple[str, exp.Expr]]


def candidates(
    scope: exp.Select, columns: Columns, *, join: int | None = None, grouped: bool = False,
    only: frozenset[int] | None = None, top: int | None = None, before: int | None = None,
    more: Sequence[exp.Expr] = (), alone: bool = False,
) -> exp.Select:
    """The distinct values of `columns` over the rows of `scope` that reach the place asked for.

    Conditions that ask a model are left out, which can only add rows. With `join`, the place is
    the ON of that join: its sources so far, the two sides taken together wherever the rest of ON
    allows. With `grouped`, it is above GROUP BY. With `only`, the other sources (joined by inner
    joins, and tied to these by no known condition) need just have a row. With `top`, only the
    first so many rows of the scope's order count, and those that tie with the last of them. With
    `before`, the place is the source of that join: the sources before it, where `more` holds. What
    stands `alone` speaks of no scope around this one.
    """
    query = exp.Select(expressions=[exp.alias_(tried(e, grouped), name) for name, e in columns])
    if before is not None:
        _take_sources(query, scope, until=before)
        for condition in more:
            query.where(copy_of(condition), copy=False)
    elif only is not None:
        _take_some(query, scope, only)
    else:
        _take_sources(query, scope, join)
        if join is None:
            _filter(query, scope, "where", kept(scope, "demand", ()))
    if grouped:
        keys = group_keys(scope)
        if keys is not None:
            query.set("group", keys)
        _filter(query, scope, "having")
        if keys is None:  # one group, of no rows even
            query.having("count(*) >= 0", dialect=DIALECT, copy=False)
    if top is not None:
        rank = exp.Window(this=exp.Anonymous(this="rank"), order=resolved_order(scope))
        within = exp.LTE(this=rank, expression=exp.Literal.number(top))
        query.set("qualify", exp.Qualify(this=within))
    query.set("distinct", exp.Distinct())
    if alone:
        return _under_ctes(query, scope)
    return finish(query, scope)


def finish(query: exp.Select, scope: exp.Select) -> exp.Select:
    """The query over the rows of the scopes around `scope`, under the CTEs that it sees."""
    return _under_ctes(_wrapped(query, scope), scope)


def _under_ctes(query: exp.Select, scope: exp.Select) -> exp.Select:
    finished: exp.Select = with_ctes(query, list(visible_ctes(scope)))  # type: ignore
    return finished


def cheap(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conjuncts that ask no model and are the same whenever they are evaluated."""
    return [c for c in conjuncts(condition) if not calls_models(c) and not is_volatile(c)]


def _take_sources(
    query: exp.Select, scope: exp.Select, join: int | None = None, until: int | None = None
) -> None:
    """The sources joined as they are, but that of number `join`, the last one, is opened."""
    if scope.args.get("from_"):
        query.set("from_", copy_of(scope.args["from_"]))
    joins = scope.args.get("joins") or []
    for i, node in enumerate(joins[:until] if join is None else joins[: join + 1]):
        copied = copy_of(node)
        if i == join or calls_models(copied.args.get("on") or exp.null()):
            for condition in _open_join(copied):
                query.where(condition, copy=False)
        query.append("joins", copied)


def _take_some(query: exp.Select, scope: exp.Select, only: frozenset[int]) -> None:
    """Some of the inner-joined sources, the conditions on them, and a row from each other one."""
    taken = [copy_of(node) for i, node in enumerate(sources(scope)) if i in only]
    if taken:
        query.set("from_", exp.From(this=taken[0]))
    for node in taken[1:]:
        query.append("joins", exp.Join(this=node, kind="CROSS"))
    # Of outer joins a side may be looked at although the other has no row: none is asked for then.
    others = [_some_row(node, kept(scope, "apart", {}).get(i, ()))
              for i, node in enumerate(sources(scope)) if i not in only and joins_inner(scope)]
    known = [copy_of(c) for c in kept(scope, "tied")[only]] + others
    if known:
        query.set("where", exp.Where(this=exp.and_(*known, copy=False)))


def _some_row(source: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Exists:
    """Whether a source has a row for which the conditions on it alone hold."""
    query = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=copy_of(source)))
    for condition in conditions:
        query.where(copy_of(condition), copy=False)
    return exp.Exists(this=query)


def _open_join(join: exp.Join) -> list[exp.Expr]:
    """Make it an inner join on nothing; what is known of ON, to be asked of the pairs instead.

    In WHERE it may speak of scopes around this one, in ON of a lateral query it may not.
    """
    known = [copy_of(c) for c in cheap(join.args.get("on"))]
    join.set("on", exp.true())
    for part in ("side", "kind", "method"):
        join.set(part, None)
    return known


def _filter(
    query: exp.Select, scope: exp.Select, clause: str, more: Sequence[exp.Expr] = ()
) -> None:
    node = scope.args.get(clause)
    known = [*(cheap(node.this) if node is not None else []), *more]
    for condition in known:
        (query.where if clause == "where" else query.having)(copy_of(condition), copy=False)


def _wrapped(query: exp.Select, scope: exp.Select) -> exp.Select:
    """A scope that refers to ones around it is taken row by row of theirs, by LATERAL."""
    outer = owner(scope)
    if outer is None or not scope.meta.get("correlated"):
        return query
    around = exp.Select(expressions=[exp.column(exp.Star(), table="mlsql_l")])
    around.set("distinct", exp.Distinct())
    _take_sources(around, outer, None)
    lateral = exp.Lateral(this=exp.Subquery(this=query),
                          alias=exp.TableAlias(this=exp.to_identifier("mlsql_l")))
    around = around.join(lateral, copy=False)
    known = _outer_conditions(outer, scope)
    if known:
        around.set("where", exp.Where(this=exp.and_(*known, copy=False)))
    return _wrapped(around, outer)


def _outer_conditions(outer: exp.Select, scope: exp.Select) -> list[exp.Expr]:
    where = outer.args.get("where")
    if where is None:
        return []
    known = [copy_of(c) for c in cheap(where.this)]
    if place(scope, outer) != "where":
        return known
    holder = next((c for c in conjuncts(where.this) if _within(scope, c)), None)
    if holder is not None:
        known = [c for c in known if c != holder]
        known += [g for g in guards(scope, holder) if not calls_models(g)]
    return known


def _within(node: exp.Expr, root: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None:
        if above is root:
            return True
        above = above.parent
    return False
