"""When a call's output is wanted: the conditions on the way from the call to its clause."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from mlsql.planner.trees import is_volatile
from mlsql.tree import copy_of


def guards(call: exp.Expr, root: exp.Expr) -> list[exp.Expr]:
    """Conditions that must be TRUE for the value of `call` to matter within `root`.

    For `a OR b`, b matters where a is not true; for the branches of CASE and COALESCE likewise.
    A sibling written later counts only where it asks no model: the order is then ours to choose.
    """
    found: list[exp.Expr] = []
    below: exp.Expr = call
    while below is not root and below.parent is not None:
        above = below.parent
        found.extend(guard for guard in _at(above, below) if not is_volatile(guard))
        below = above
    return found


def _at(above: exp.Expr, below: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(above, (exp.And, exp.Or)):
        test = _not_true if isinstance(above, exp.Or) else _not_false
        sibling = above.expression if below.arg_key == "this" else above.this
        if below.arg_key == "expression" or not _asks(sibling):
            yield test(sibling)
    elif isinstance(above, exp.Case) and below.arg_key != "this":
        yield from _in_case(above, below)
    elif isinstance(above, exp.If) and isinstance(above.parent, exp.Case):
        if below.arg_key == "true":
            yield _true(_test(above.parent, above))
    elif isinstance(above, exp.If):
        if below.arg_key != "this":
            yield (_true if below.arg_key == "true" else _not_true)(above.this)
    elif isinstance(above, exp.Coalesce) and below.arg_key == "expressions":
        for earlier in [above.this, *above.expressions[: below.index]]:
            yield exp.Is(this=exp.paren(copy_of(earlier), copy=False), expression=exp.null())
    elif isinstance(above, exp.Filter) and below.arg_key == "this":
        yield _true(above.expression.this)


def _in_case(case: exp.Case, below: exp.Expr) -> Iterator[exp.Expr]:
    """Every WHEN before this branch must not have been taken; for ELSE that is all of them."""
    branches = case.args["ifs"]
    earlier = branches if below.arg_key == "default" else branches[: below.index]
    for branch in earlier:
        yield _not_true(_test(case, branch))


def _test(case: exp.Case, branch: exp.Expr) -> exp.Expr:
    """The condition under which a branch is taken: CASE x WHEN y is taken where x = y."""
    when: exp.Expr = branch.this
    if case.this is None:
        return when
    return exp.EQ(this=exp.paren(copy_of(case.this), copy=False),
                  expression=exp.paren(copy_of(when), copy=False))


def _asks(node: exp.Expr) -> bool:
    from mlsql.planner.trees import calls_models

    return calls_models(node)


def _true(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(copy_of(node), copy=False), expression=exp.true())


def _not_true(node: exp.Expr) -> exp.Expr:
    return exp.not_(_true(node), copy=False)


def _not_false(node: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(copy_of(node), copy=False), expression=exp.false()),
                    copy=False)
