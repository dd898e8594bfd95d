"""What shape a SELECT has: aggregated or not, repeatable or not, able to stop early or not."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from mlsql.parser.dialect import parse
from mlsql.planner.context import Context
from mlsql.planner.substitute import ARGUMENT, OUTPUT
from mlsql.planner.trees import calls_models, is_volatile, kept, nested, own, sources
from mlsql.tree import copy_of, find, find_all


def is_aggregate(node: exp.Expr, context: Context) -> bool:
    """Whether a node is a call of an aggregate (not as a window)."""
    over = node
    while isinstance(over.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)) \
            and over.arg_key == "this":
        over = over.parent
    if isinstance(over.parent, exp.Window) and over.arg_key == "this":
        return False
    if isinstance(node, exp.AggFunc):
        return True
    return isinstance(node, (exp.Anonymous, exp.Func)) and _aggregate_name(node, context)


def _aggregate_name(node: exp.Expr, context: Context) -> bool:
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()  # type: ignore
    return context.function_type(str(name)) == "aggregate"


def aggregates(call: exp.Expr, root: exp.Expr, context: Context) -> bool:
    """Whether a call stands inside an aggregate's arguments or FILTER."""
    node = call
    while node is not root and node.parent is not None:
        node = node.parent
        if is_aggregate(node, context):
            return True
        if isinstance(node, exp.Filter) and is_aggregate(node.this, context):
            return True
    return False


def is_aggregated(scope: exp.Select, context: Context) -> bool:
    """Whether a SELECT groups its rows."""
    if scope.args.get("group") is not None or scope.args.get("having") is not None:
        return True
    parts = list(scope.expressions)
    if scope.args.get("order"):
        parts += scope.args["order"].expressions
    return any(is_aggregate(n, context) for part in parts for n in own(part, exp.Func))


def key_items(scope: exp.Select) -> list[exp.Expr]:
    """The items of SELECT that GROUP BY names by number, by alias, or all of them by ALL."""
    group = scope.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [i for i in scope.expressions if find(i, exp.AggFunc) is None]
    found = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            found.append(scope.expressions[int(key.this) - 1])
        elif isinstance(key, exp.Column) and not key.table:
            found += [i for i in scope.expressions if isinstance(i, exp.Alias)
                      and i.alias.lower() == key.name.lower()]
    return found


def group_keys(scope: exp.Select) -> exp.Group | None:
    """GROUP BY with the expressions themselves in the place of numbers, aliases and ALL."""
    group = scope.args.get("group")
    if group is None:
        return None
    if group.args.get("all"):
        return _grouped(i.unalias() for i in key_items(scope))
    copied: exp.Group = copy_of(group)
    items = {i.alias.lower(): i.this for i in scope.expressions if isinstance(i, exp.Alias)}
    for key in list(copied.expressions):
        if isinstance(key, exp.Literal) and not key.is_string:
            key.replace(_as_key(scope.expressions[int(key.this) - 1].unalias()))
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in items:
            item = items[key.name.lower()]
            if all(c.name.lower() != key.name.lower() for c in find_all(item, exp.Column)):
                key.replace(_as_key(item))
    return copied


def _as_key(item: exp.Expr) -> exp.Expr:
    """A copy for GROUP BY, where a bare number would be a position, in parentheses too."""
    twin = copy_of(item)
    if isinstance(item, exp.Literal) and not item.is_string:
        return exp.Add(this=twin, expression=exp.Literal.number(0))
    return twin


def _grouped(keys: Iterable[exp.Expr]) -> exp.Group | None:
    """GROUP BY the keys but for constants: a number would be a position, and they group nothing."""
    # A look-up of a constant has columns, those of the store.
    kept = [copy_of(key) for key in keys if any(
        c.name not in (ARGUMENT, OUTPUT) for c in find_all(key, exp.Column))]
    # Of constants alone DuckDB makes one group, of no rows even: that of no keys.
    return exp.Group(expressions=kept) if kept else None


def joins_inner(scope: exp.Select) -> bool:
    """Whether all sources are joined by inner or cross joins, so that ON is as good as WHERE."""
    for join in scope.args.get("joins") or []:
        if join.args.get("using") or join.side or join.method:
            return False
        if join.kind not in ("", "INNER", "CROSS"):
            return False
        if isinstance(join.this, (exp.Lateral, exp.Unnest)):
            return False
    return True


def is_repeatable(query: exp.Expr, context: Context) -> bool:
    """Whether a query is filter, project, join and union only: the same rows at each evaluation."""
    if isinstance(query, exp.Subquery):
        return is_repeatable(query.this, context)
    if isinstance(query, exp.Union):
        return query.args.get("distinct") is False and _plain_end(query) and \
            is_repeatable(query.left, context) and is_repeatable(query.right, context)
    if isinstance(query, exp.Table):
        return _is_repeatable_table(query, context)
    if not isinstance(query, exp.Select):
        return False
    blocked = ("group", "having", "distinct", "qualify", "windows")
    if any(query.args.get(b) is not None for b in blocked) or not _plain_end(query):
        return False
    if is_volatile(query) or find(query, exp.Window) or is_aggregated(query, context):
        return False
    return all(is_repeatable(source, context) or _unnest(source) for source in sources(query)) \
        and all(is_repeatable(q, context) for q in nested(query))


def _is_repeatable_table(table: exp.Table, context: Context) -> bool:
    if table.args.get("sample") is not None or isinstance(table.this, exp.Func):
        return table.args.get("sample") is None
    view = context.view(table)
    return view is None or is_repeatable(parse(view), context)


def _plain_end(query: exp.Expr) -> bool:
    return all(query.args.get(k) is None for k in ("limit", "offset", "sample", "fetch"))


def _unnest(source: exp.Expr) -> bool:
    return isinstance(source, (exp.Unnest, exp.Lateral, exp.Values))


def has_sample(scope: exp.Select) -> bool:
    """Whether a SELECT samples its rows (USING SAMPLE), after its sources are joined."""
    return scope.args.get("sample") is not None


def stops_early(scope: exp.Select, context: Context) -> int | None:
    """How many rows a SELECT wants, where it may stop once it has them; None where it may not.

    LIMIT with literal numbers (its own, or what a SELECT around it was found to want), nothing
    that looks at all rows, and an order, if any, that no model decides.
    """
    rows, order = rows_wanted(scope, context)
    if rows is None or (order is not None and calls_models(order)):
        return None
    return rows


def gives_rows_singly(scope: exp.Select, context: Context) -> bool:
    """Whether each row of a SELECT is certain once its own source row is known."""
    if scope.args.get("limit") is not None or scope.args.get("offset") is not None:
        return (stops_early(scope, context) or distinct_wanted(scope, context)) is not None
    return not scope.meta.get("correlated") and (
        passes_rows_on(scope, context, ends=False) or _is_distinct(scope, context))


def distinct_wanted(scope: exp.Select, context: Context) -> int | None:
    """How many rows SELECT DISTINCT … LIMIT gives, where any that are found will do."""
    rows = _number(scope.args.get("limit"))
    return rows if scope.args.get("order") is None and _is_distinct(scope, context) else None


def _is_distinct(scope: exp.Select, context: Context) -> bool:
    """Whether a SELECT is one of single rows, but for leaving out those that are equal."""
    distinct = scope.args.get("distinct")
    if distinct is None or distinct.args.get("on") is not None or scope.meta.get("correlated"):
        return False
    return takes_rows_singly(scope, context, ends=False, distinct=True)


def top_rows(scope: exp.Select, context: Context) -> int | None:
    """How many rows LIMIT leaves of an order, where the rest of them need no further item."""
    rows, order = rows_wanted(scope, context)
    return rows if order is not None else None


def rows_wanted(scope: exp.Select, context: Context) -> tuple[int | None, exp.Order | None]:
    """How many rows are wanted, and in which order; (None, None) where all rows must be seen."""
    if scope.meta.get("correlated") or not passes_rows_on(scope, context, ends=False):
        return None, None
    if _plain_end(scope) and scope.args.get("order") is None:
        wanted: tuple[int | None, exp.Order | None] = kept(scope, "wanted", (None, None))
        return wanted
    rows = _number(scope.args.get("limit"))
    skipped = _number(scope.args.get("offset")) if scope.args.get("offset") else 0
    order = resolved_order(scope)
    unclear = scope.args.get("order") is not None and order is None
    if rows is None or skipped is None or unclear:
        return None, None
    if order is not None and is_volatile(order):
        return None, None
    return rows + skipped, order


def passes_rows_on(scope: exp.Select, context: Context, ends: bool = True) -> bool:
    """Whether a SELECT gives one row for each that its WHERE lets through, whatever the others.

    With `ends`, also without LIMIT, OFFSET and the like.
    """
    return takes_rows_singly(scope, context, ends) and not any(map(multiplies, scope.expressions))


def multiplies(item: exp.Expr) -> bool:
    """Whether an item of SELECT may make several rows of one, or none."""
    return find(item, exp.Unnest, exp.Explode) is not None


def takes_rows_singly(
    scope: exp.Select, context: Context, ends: bool = True, distinct: bool = False
) -> bool:
    """Whether what a SELECT makes of a row (one row, or several) hangs on that row alone.

    With `distinct` it may leave out rows that are equal.
    """
    if any(scope.args.get(k) for k in ("qualify", "having", "group", "windows", "sample")):
        return False
    if scope.args.get("distinct") is not None and not distinct:
        return False
    if ends and (not _plain_end(scope) or scope.args.get("order") is not None):
        return False
    return not is_aggregated(scope, context) and not any(True for _ in own(scope, exp.Window))


def resolved_order(scope: exp.Select) -> exp.Order | None:
    """ORDER BY with aliases and numbers replaced by what they stand for: a window sees neither.

    None where there is no order, or one that says ALL.
    """
    order = scope.args.get("order")
    if order is None:
        handed: exp.Order | None = kept(scope, "wanted", (None, None))[1]
        return handed
    items = {i.alias.lower(): i.this for i in scope.expressions if isinstance(i, exp.Alias)}
    copied: exp.Order = copy_of(order)
    for key in copied.expressions:
        bare = key.this
        if bare.name.upper() == "ALL" or isinstance(bare, exp.All):
            return None
        if isinstance(bare, exp.Column) and not bare.table:
            if bare.name.lower() in items:
                bare.replace(copy_of(items[bare.name.lower()]))
        elif isinstance(bare, exp.Literal) and not bare.is_string:
            item = scope.expressions[int(bare.this) - 1]
            bare.replace(item.unalias().copy())
    return copied


def wants_nothing(query: exp.Expr) -> bool:
    """Whether a query says LIMIT 0."""
    return _number(query.args.get("limit")) == 0


def _number(node: exp.Expr | None) -> int | None:
    if node is None or node.args.get("limit_options") is not None:
        return None  # a percentage, or WITH TIES
    value = node.expression
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return int(value.this)
    return None
