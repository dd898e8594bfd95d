"""Arguments that fail, where the row may not matter to the statement."""

from __future__ import annotations

from sqlglot import exp

from mlsql.planner.trees import keep, kept, own
from mlsql.tree import copy_of, find, find_all, walk

_GUARDED = "mlsql_guarded"  # a key of meta: what raises where its argument does


def may_raise(argument: exp.Expr) -> bool:
    """Whether evaluating an argument may be an error, as a cast of a text to a number is."""
    if isinstance(argument, (exp.Column, exp.Literal)):
        return False
    return find(argument, exp.Cast, exp.Div, exp.Anonymous) is not None and \
        find(argument, exp.Struct) is None


def guarded(found: exp.Expr, argument: exp.Expr) -> exp.Expr:
    """What was found for an argument, or the argument's error where the row is reached."""
    asked = exp.Is(this=exp.paren(copy_of(argument), copy=False), expression=exp.null())
    case = exp.Case(ifs=[exp.If(this=exp.not_(asked, copy=False), true=found)])
    guard = exp.paren(case, copy=False)
    keep(guard, _GUARDED, True)
    return guard


def tried(node: exp.Expr, grouped: bool = False) -> exp.Expr:
    """The expression, NULL where it would raise: an argument that fails is not looked at.

    The statement itself raises, if the row matters to it. Above GROUP BY a key is to stay one: it
    may stand in TRY, but not be another expression.
    """
    if isinstance(node, (exp.Column, exp.Literal)):
        return copy_of(node)
    if find(node, exp.Query, exp.Exists, exp.In):
        return copy_of(node) if grouped else _with_tried_casts(node)
    raises = any(f.name.upper() == "ERROR" for f in find_all(node, exp.Anonymous))
    if raises or find(node, exp.AggFunc, exp.Window):
        return copy_of(node)
    return exp.Anonymous(this="TRY", expressions=[copy_of(node)])


def _with_tried_casts(node: exp.Expr) -> exp.Expr:
    """The same as far as it goes around a subquery, which TRY does not take."""
    root = exp.paren(copy_of(node), copy=False)
    for part in list(walk(root)):
        if kept(part, _GUARDED):
            part.replace(part.this.args["ifs"][0].args["true"])
    for cast in list(own(root, exp.Cast)):
        if not isinstance(cast, exp.TryCast):
            cast.replace(exp.TryCast(**cast.args))
    found: exp.Expr = root.this
    found.pop()
    return found
