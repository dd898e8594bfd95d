"""Taking what is wanted of an output inside the look-up, so that no whole output is carried around.

`len(list_filter((SELECT out FROM m0 WHERE …), …))` becomes
`(SELECT len(list_filter(out, …)) FROM m0 WHERE …)`: DuckDB's hash join then holds a number for each
input instead of a list of objects, which takes a fifth of the time.
"""

from __future__ import annotations

from sqlglot import exp

from mlsql.planner.substitute import OUTPUT
from mlsql.tree import find_all, walk

# Nodes that neither change from call to call, nor fail, nor speak of a row around the look-up.
_PLAIN = (
    exp.Literal, exp.Identifier, exp.Boolean, exp.Null, exp.DataType, exp.Paren, exp.Array,
    exp.Struct, exp.PropertyEQ, exp.Dot, exp.StructExtract, exp.Lambda, exp.ArrayFilter,
    exp.Transform, exp.ArrayContains, exp.Length, exp.And, exp.Or, exp.Not, exp.Is, exp.EQ,
    exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Case, exp.If, exp.Greatest,
)
_PLAIN_CALLS = {"LIST_SUM", "LIST_SELECT", "LIST_REDUCE"}
_MAPPED = "mlsql_o"  # a whole output, as our functions map over it; of NULL they make NULL


def narrow(root: exp.Expr) -> None:
    """Move functions of an output alone, which make NULL of NULL, into its look-up, in place.

    Evaluated there they see every output of the store, so that only what cannot fail is moved.
    """
    for found in list(find_all(root, exp.Subquery)):
        if _looks_up(found):
            while _taken_in(found):
                pass


def _looks_up(query: exp.Subquery) -> bool:
    select = query.this
    items = select.expressions if isinstance(select, exp.Select) else []
    return len(items) == 1 and isinstance(items[0], exp.Column) and items[0].name == OUTPUT


def _taken_in(query: exp.Subquery) -> bool:
    """Move the function right around a look-up into it; whether there was one."""
    return _list_function(query) or _mapping(query)


def _list_function(query: exp.Subquery) -> bool:
    """`f(look-up, …)` where f is strict in its first argument and the others are plain."""
    outer = query.parent
    if not isinstance(outer, exp.Expr) or query is not _first(outer):
        return False
    if not all(_plain(part) for part in _parts(outer) if part is not query):
        return False
    item = query.this.expressions[0]
    outer.replace(query)
    query.this.set("expressions", [outer])
    _put_first(outer, item)
    return True


def _first(outer: exp.Expr) -> exp.Expr | None:
    """The argument of which a function makes NULL if it is NULL; None for any other function."""
    if isinstance(outer, (exp.StructExtract, exp.ArrayFilter, exp.Transform)):
        return outer.this if isinstance(outer.this, exp.Expr) else None
    if isinstance(outer, exp.Cast) and _is_doubles(outer.to):
        return outer.this if isinstance(outer.this, exp.Expr) else None
    if isinstance(outer, exp.Anonymous) and outer.name.upper() in _PLAIN_CALLS:
        return outer.expressions[0] if outer.expressions else None
    return None


def _put_first(outer: exp.Expr, item: exp.Expr) -> None:
    if isinstance(outer, exp.Anonymous):
        outer.set("expressions", [item, *outer.expressions[1:]])
    else:
        outer.set("this", item)


def _mapping(query: exp.Subquery) -> bool:
    """`list_transform([(look-up)], lambda mlsql_o: …)[1]`."""
    inner: exp.Expr = query
    while isinstance(inner.parent, exp.Paren):
        inner = inner.parent
    array = inner.parent
    mapped = array.parent if isinstance(array, exp.Array) else None
    picked = mapped.parent if isinstance(mapped, exp.Transform) else None
    if not isinstance(picked, exp.Bracket) or mapped is None or mapped.this is not array:
        return False
    function = mapped.expression
    names = [name.name for name in function.expressions]
    if names != [_MAPPED] or len(array.expressions) != 1 or not _plain(function.this):
        return False
    body, item = function.this.copy(), query.this.expressions[0]
    picked.replace(query)
    query.this.set("expressions", [_with(body, item)])
    return True


def _with(body: exp.Expr, item: exp.Expr) -> exp.Expr:
    """The body of a mapping with the output in the place of its variable."""
    whole = exp.Paren(this=body)
    for node in [n for n in find_all(whole, exp.Identifier) if n.name == _MAPPED]:
        node.replace(item.copy())
    return whole


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """What stands directly in a node."""
    return [part for value in node.args.values()
            for part in (value if isinstance(value, list) else [value])
            if isinstance(part, exp.Expr)]


def _plain(root: exp.Expr) -> bool:
    return all(
        isinstance(node, _PLAIN)
        or (isinstance(node, exp.Anonymous) and node.name.upper() in _PLAIN_CALLS)
        or (isinstance(node, exp.Cast) and (_is_doubles(node.to) or _is_number(node)))
        for node in walk(root))


def _is_doubles(kind: exp.DataType) -> bool:
    return bool(kind.is_type("DOUBLE[]"))


def _is_number(cast: exp.Cast) -> bool:
    return isinstance(cast.this, exp.Literal) and not cast.this.is_string
