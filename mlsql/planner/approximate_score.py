"""A label as a formula of numbers that a proxy can predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from mlsql.planner.trees import calls_models

Floats = NDArray[np.float64]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.EQ: "=", exp.NEQ: "<>"}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Atom:
    """A condition on one number of a row: `value <op> bound`; a plain boolean is value >= ½."""

    value: int  # position among Judgement.values
    op: str
    bound: float


@dataclass(frozen=True)
class Not:
    """The condition does not hold."""

    part: Formula


@dataclass(frozen=True)
class Both:
    """All parts hold, or with `any` at least one."""

    parts: tuple[Formula, ...]
    any: bool = False


Formula = Atom | Not | Both
# (value number, op, bound) -> the probability of the condition, one a row
Chance = Callable[[Atom], Floats]


@dataclass(frozen=True)
class Judgement:
    """The label of a row: the condition itself, and the numbers that it is a formula of."""

    label: exp.Expr
    values: tuple[exp.Expr, ...]
    formula: Formula


def judgement(label: exp.Expr) -> Judgement:
    """The label taken apart at AND, OR, NOT and comparisons with numbers."""
    values: list[exp.Expr] = []
    formula = _formula(label, values)
    return Judgement(label, tuple(values), formula)


def _formula(node: exp.Expr, values: list[exp.Expr]) -> Formula:
    bare = node.unnest()
    if isinstance(bare, exp.Not):
        return Not(_formula(bare.this, values))
    if isinstance(bare, (exp.And, exp.Or)):
        parts = tuple(_formula(p, values) for p in bare.flatten())
        return Both(parts, isinstance(bare, exp.Or))
    compared = _compared(bare)
    if compared is not None:
        number, op, bound = compared
        return Atom(_place(number, values), op, bound)
    return Atom(_place(bare, values), ">=", 0.5)


def _compared(node: exp.Expr) -> tuple[exp.Expr, str, float] | None:
    """A comparison of something that asks a model with a number; None for anything else."""
    op = _COMPARISONS.get(type(node))
    if op is None:
        return None
    left, right = node.this, node.expression
    for asks, against, sign in ((left, right, op), (right, left, _FLIPPED[op])):
        number = _number(against)
        if calls_models(asks) and number is not None:
            return asks, sign, number
    return None


def _number(node: exp.Expr) -> float | None:
    bare = node.unnest()
    if isinstance(bare, exp.Neg):
        inner = _number(bare.this)
        return None if inner is None else -inner
    if isinstance(bare, exp.Literal) and not bare.is_string:
        return float(bare.this)
    return None


def _place(node: exp.Expr, values: list[exp.Expr]) -> int:
    for i, known in enumerate(values):
        if known == node:
            return i
    values.append(node.copy())
    return len(values) - 1


def chance(formula: Formula, of: Chance) -> Floats:
    """The probability of a label, its parts taken for independent; NaN where one is not known."""
    if isinstance(formula, Atom):
        return of(formula)
    if isinstance(formula, Not):
        return 1.0 - chance(formula.part, of)
    parts: Sequence[Floats] = [chance(part, of) for part in formula.parts]
    if formula.any:
        either: Floats = 1.0 - np.prod([1.0 - p for p in parts], axis=0)
        return either
    product: Floats = np.prod(parts, axis=0)
    return product
