"""UPDATE and DELETE read as the SELECT that finds their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from mlsql.tree import copy_of


@contextmanager
def as_select(statement: exp.Update | exp.Delete) -> Iterator[exp.Select]:
    """A SELECT over the same sources that holds, for the length of the block, the very clauses.

    DELETE FROM t WHERE c is SELECT FROM t WHERE c; the new values of an UPDATE are its items. What
    is changed in them is changed in the statement.
    """
    scope = exp.Select(from_=exp.From(this=copy_of(statement.this)))
    for node in _others(statement):
        scope.append("joins", exp.Join(this=copy_of(node), kind="CROSS"))
    sets = statement.expressions if isinstance(statement, exp.Update) else []
    for assignment in sets:
        scope.append("expressions", assignment.expression)
    for clause in ("where", "with_"):
        if statement.args.get(clause) is not None:
            scope.set(clause, statement.args[clause])
    try:
        yield scope
    finally:
        for assignment, value in zip(sets, list(scope.expressions), strict=True):
            assignment.set("expression", value)
        for clause in ("where", "with_"):
            if scope.args.get(clause) is not None:
                statement.set(clause, scope.args[clause])


def _others(statement: exp.Update | exp.Delete) -> list[exp.Expr]:
    """The sources beside the target: FROM of an UPDATE, USING of a DELETE."""
    found = statement.args.get("from_") or statement.args.get("using")
    if not found:
        return []
    nodes = found if isinstance(found, list) else [found.this]
    joins = [j.this for node in nodes for j in node.args.get("joins") or []]
    return [*nodes, *joins]
