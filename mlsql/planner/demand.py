"""What an outer SELECT wants of the rows of a derived table: conditions and LIMIT, handed inward.

The statement itself is not changed (DuckDB moves filters on its own). A derived table's candidates
are only those rows that the outer conditions let through, and it may stop where the outer LIMIT
has enough:

    SELECT * FROM (SELECT ts, CONTAINS(frame, 'bird') AS b FROM v) WHERE ts < 9 LIMIT 3

looks at frames before second 9, and at no more than it takes for three rows. With `AND b` the
three are of those with a bird: a condition on a model's output is judged where the model is asked.
"""

from __future__ import annotations

from sqlglot import exp

from mlsql.planner.context import Context
from mlsql.planner.names import Names
from mlsql.planner.shape import (
    joins_inner,
    multiplies,
    passes_rows_on,
    rows_wanted,
    takes_rows_singly,
)
from mlsql.planner.trees import (
    calls_models,
    conjuncts,
    ctes,
    is_volatile,
    keep,
    kept,
    nested,
    sources,
    visible_ctes,
)
from mlsql.tree import copy_of, find, find_all
from mlsql.udfs.function import ModelOutput


def hand_inward(root: exp.Expr, names: Names, context: Context) -> None:
    """Note on each derived table's SELECT what the SELECT around it wants, outermost first."""
    for exists in find_all(root, exp.Exists):
        inner = exists.this
        if isinstance(inner, exp.Select) and passes_rows_on(inner, context):
            keep(inner, "unused", {id(item.unalias()) for item in inner.expressions})
            if not names.is_correlated(inner):
                keep(inner, "wanted", (1, None))
    for scope in find_all(root, exp.Select):
        if not joins_inner(scope):
            continue
        for position, source in enumerate(sources(scope)):
            holder = _holder_of(source, scope, root)
            inner = holder.this if holder is not None else None
            if isinstance(inner, exp.Select) and calls_models(inner) \
                    and takes_rows_singly(inner, context):
                items = _items([*_columns(source), *_columns(holder)[len(_columns(source)):]],
                               inner, names)
                _hand(scope, position, items, inner, names, context)


def _columns(node: exp.Expr | None) -> list[str]:
    """The names that an alias gives to columns."""
    alias = node.args.get("alias") if node is not None else None
    return [c.name for c in alias.args.get("columns") or []] if alias is not None else []


def _holder_of(source: exp.Expr, scope: exp.Select, root: exp.Expr) -> exp.Expr | None:
    """What holds the query of a source: the derived table itself, or a CTE read nowhere else."""
    if isinstance(source, exp.Subquery):
        return source
    if not isinstance(source, exp.Table) or source.args.get("db") or source.args.get("sample"):
        return None
    name = source.name.lower()
    read = sum(t.name.lower() == name for t in find_all(root, exp.Table))
    defined = [c for c in visible_ctes(scope) if c.alias.lower() == name]
    if read != 1 or len(defined) != 1 or sum(
            c.alias.lower() == name for q in [root, *nested(root)] for c in ctes(q)) != 1:
        return None
    return defined[0]


def _hand(
    scope: exp.Select, position: int, items: dict[str, exp.Expr], inner: exp.Select,
    names: Names, context: Context,
) -> None:
    keep(inner, "unused", _unused(scope, items))
    where = scope.args.get("where")
    own = conjuncts(where.this) if where is not None else []
    wanted = [*own, *kept(scope, "demand", []), *kept(scope, "asked", [])]
    singly = passes_rows_on(inner, context)
    handed = [_inward(c, items, asks=singly) for c in wanted
              if names.sources_of(scope, c) == {position} and names.binds(scope, c)
              and not nested(c) and not is_volatile(c)]
    found = [c for c in handed if c is not None]
    keep(inner, "demand", [c for c in found if not calls_models(c)])
    keep(inner, "asked", [c for c in found if calls_models(c)])
    if len(sources(scope)) == 1 and len(found) == len(wanted) and singly:
        _hand_limit(scope, inner, items, context)


def _hand_limit(
    scope: exp.Select, inner: exp.Select, items: dict[str, exp.Expr], context: Context
) -> None:
    rows, order = rows_wanted(scope, context)
    if rows is None:
        return
    keys = None
    if order is not None:
        keys = copy_of(order)
        for key, own in zip(keys.expressions, order.expressions, strict=True):
            moved = _inward(own.this, items)
            if moved is None:
                return
            key.set("this", moved)
    keep(inner, "wanted", (rows, keys))


def _unused(scope: exp.Select, items: dict[str, exp.Expr]) -> set[int]:
    """The items, by identity, that nothing in the SELECT around them names."""
    if any(isinstance(star, exp.Star) and not isinstance(star.parent, exp.Count)
           for star in find_all(scope, exp.Star)) or find(scope, exp.Columns) is not None:
        return set()
    if any(join.args.get("using") or join.method for join in scope.args.get("joins") or []):
        return set()
    named = {part.name.lower() for column in find_all(scope, exp.Column) for part in column.parts}
    return {id(item) for name, item in items.items() if name not in named and not multiplies(item)}


def _items(given: list[str], inner: exp.Select, names: Names) -> dict[str, exp.Expr]:
    """What the columns of a derived table stand for; only items that have a name of their own."""
    if given:
        return _named_by_place(given, inner)
    if any(item.is_star for item in inner.expressions):
        return _before_stars(inner, names)
    own = [item.alias_or_name for item in inner.expressions]
    if len({n.lower() for n in own}) != len(own):
        return {}
    return {name.lower(): item.unalias() for name, item in zip(own, inner.expressions,
                                                             strict=True) if name}


def _named_by_place(given: list[str], inner: exp.Select) -> dict[str, exp.Expr]:
    """The columns that an alias names, up to the first item that may be several of them."""
    found: dict[str, exp.Expr] = {}
    for place, item in enumerate(inner.expressions):
        if item.is_star or multiplies(item):
            break
        name = given[place] if place < len(given) else item.alias_or_name
        if name:
            found.setdefault(name.lower(), item.unalias())
    return found


def _before_stars(inner: exp.Select, names: Names) -> dict[str, exp.Expr]:
    """The columns up to the first star whose columns are not known: of two alike the first counts.

    A plain star over known sources stands for their columns.
    """
    found: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        if not item.is_star:
            if item.alias_or_name:
                found.setdefault(item.alias_or_name.lower(), item.unalias())
            continue
        known = names.sources(inner)
        if type(item) is not exp.Star or item.args.get("except_") or item.args.get("replace") or \
                item.args.get("rename") or inner.args.get("joins"):
            return found
        for source in known:
            if source.columns is None:
                return found
            for name in source.columns:
                found.setdefault(name, exp.column(exp.to_identifier(name, quoted=True)))
    return found


def _inward(
    condition: exp.Expr, items: dict[str, exp.Expr], asks: bool = False
) -> exp.Expr | None:
    """The condition over what its columns stand for inside.

    None where that cannot be told, or asks a model and may not.
    """
    if calls_models(condition) and not asks:
        return None
    held = exp.paren(copy_of(condition), copy=False)
    for column in list(find_all(held, exp.Column)):
        item = items.get(column.name.lower())
        if item is None or len(column.parts) > 2 or multiplies(item) or is_volatile(item) or \
                (calls_models(item) and not asks):
            return None
        column.replace(exp.paren(copy_of(item), copy=False))
    # A call of a call needs a stage of its own, over all rows: nothing would end early.
    deep = any(calls_models(call.this) for call in find_all(held, ModelOutput))
    return None if deep else held
