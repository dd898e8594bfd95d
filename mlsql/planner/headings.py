"""Column headings as DuckDB would give them to the statement as it was written.

An expression without an alias is named by DuckDB's spelling of it. The statement that DuckDB gets
in the end is generated anew, with other expressions in the place of calls: so the names are set.
"""

from __future__ import annotations

from sqlglot import exp

from mlsql.parser.dialect import DIALECT
from mlsql.planner.context import Context
from mlsql.planner.trees import Query


def name_items(tree: exp.Expr, context: Context) -> None:
    """Give the nameless items of the SELECT that names a statement's columns their headings."""
    if isinstance(tree, Query):
        for item in list(_first_select(tree).expressions):
            if _is_nameless(item):
                name_item(item, context)


def name_item(item: exp.Expr, context: Context) -> None:
    """Give one item of a SELECT the heading that DuckDB would."""
    name = heading(item, context)
    hole = exp.Null()
    item.replace(hole)
    hole.replace(exp.alias_(item, name, quoted=True, copy=False))


def heading(item: exp.Expr, context: Context) -> str:
    """The name of an item without an alias."""
    written = item.meta.get("written")
    spelt = context.spelling(written) if written else None
    return spelt or item.sql(dialect=DIALECT, normalize_functions="lower")


def _first_select(tree: exp.Expr) -> exp.Select:
    """The SELECT that names the columns: of a set operation, its left side."""
    node = tree
    while not isinstance(node, exp.Select):
        node = node.this
    return node


def _is_nameless(item: exp.Expr) -> bool:
    """Whether an item is one column that is named by its spelling."""
    if isinstance(item, (exp.Alias, exp.Column, exp.Star, exp.Aliases)):
        return False
    if isinstance(item, exp.Func) and "(" not in item.meta.get("written", "("):
        return False  # current_date and the like: as an alias, DuckDB would take it for a column
    return not any(isinstance(n, (exp.Columns, exp.Unnest, exp.Explode)) or (
        isinstance(n, exp.Star) and not isinstance(n.parent, exp.Count)) for n in item.walk())
