"""CI_LOW(x) and CI_HIGH(x): the ends of the interval of an aggregate, as functions in SQL."""

from __future__ import annotations

from sqlglot import exp

LOW, HIGH = "CI_LOW", "CI_HIGH"


def without_bounds(tree: exp.Expr) -> exp.Expr:
    """The statement with CI_LOW(x) and CI_HIGH(x) as x, in place: so they are where x is exact."""
    items = list(tree.expressions) if isinstance(tree, exp.Select) else []
    for item in items:  # an item keeps the heading that it was written with
        if not isinstance(item, exp.Alias) and any(map(_is_bound, item.find_all(exp.Anonymous))):
            hole = exp.Null()
            item.replace(hole)
            hole.replace(exp.alias_(item, item.meta.get("written") or item.sql("duckdb"),
                                    quoted=True, copy=False))
    for call in list(tree.find_all(exp.Anonymous)):
        if _is_bound(call):
            call.replace(call.expressions[0])
    return tree


def _is_bound(call: exp.Anonymous) -> bool:
    return call.name.upper() in (LOW, HIGH) and len(call.expressions) == 1
