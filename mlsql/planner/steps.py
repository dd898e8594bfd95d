"""A stage as a worker takes it: the calls in order, each with the rows it is wanted for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.planner.nodes import Conjunct, Stage
from mlsql.tree import copy_of, find_all


@dataclass(frozen=True)
class Order:
    """`calls` are numbers of the stage's calls; guards and `accept` are SQL, or None for all rows.

    In the SQL, out_i is the output of the i-th call in this order.
    """

    calls: tuple[int, ...]
    guards: tuple[str | None, ...]
    accept: str | None


def order_of(stage: Stage) -> Order:
    """The calls of the filters, each after the filters before it, then those of the tail."""
    taken = _Taken(stage)
    passed: list[exp.Expr] = []
    for conjunct in stage.filters:
        taken.condition(conjunct, passed)
        if conjunct.condition is not None:
            passed.append(conjunct.condition)
    for call in stage.tail:
        taken.call(call, passed)
    return Order(tuple(taken.calls), tuple(taken.guards), _sql(passed, taken.calls))


class _Taken:
    """The calls in order, while a stage is gone through."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.calls: list[int] = []
        self.guards: list[str | None] = []

    def condition(
        self, conjunct: Conjunct, passed: list[exp.Expr], failed: tuple[exp.Expr, ...] = ()
    ) -> None:
        """A condition's calls; an operand of OR is of no interest once one before it is TRUE."""
        for operand in conjunct.disjuncts:
            self.condition(operand, passed, failed)
            assert operand.condition is not None
            failed = (*failed, _not_true(operand.condition))
        for call in conjunct.calls:
            self.call(call, passed, failed)

    def call(
        self, call: int, passed: list[exp.Expr], failed: tuple[exp.Expr, ...] = ()
    ) -> None:
        """One call, where what is known by then leaves it of interest.

        What failed beside it says nothing of a call that is used elsewhere as well.
        """
        if call in self.calls:
            return
        made = self._stage.calls[call]
        alone = failed if made.uses == 1 else ()
        before = {f"call_{k}" for k in self.calls}
        known = [n for n in [*passed, *alone, *made.needs] if _speaks_of(n) <= before]
        self.guards.append(_sql(known, self.calls))
        self.calls.append(call)


@dataclass(frozen=True)
class Judgement:
    """A condition by its text: where it is reached (None: everywhere), and where it is then met.

    In the SQL, out_k is the output of the stage's call k.
    """

    text: str
    reached: str | None
    passed: str


def judgements(stage: Stage) -> list[Judgement]:
    """The conditions of a stage that say something of selectivity, operands of OR among them."""
    found: list[Judgement] = []
    every = list(range(len(stage.calls)))
    reached: list[exp.Expr] = []

    def judge(conjunct: Conjunct, known: list[exp.Expr]) -> None:
        if conjunct.condition is None:
            return
        passed = _sql([*known, conjunct.condition], every)
        if conjunct.calls and passed is not None:
            found.append(Judgement(conjunct.text, _sql(known, every), passed))
        failed: list[exp.Expr] = []
        for operand in conjunct.disjuncts:
            judge(operand, [*known, *failed])
            assert operand.condition is not None
            failed.append(_not_true(operand.condition))

    for conjunct in stage.filters:
        judge(conjunct, reached)
        if conjunct.condition is not None:
            reached.append(conjunct.condition)
    return found


def _not_true(condition: exp.Expr) -> exp.Expr:
    true = exp.Is(this=exp.paren(copy_of(condition), copy=False), expression=exp.true())
    return exp.not_(true, copy=False)


def _speaks_of(condition: exp.Expr) -> set[str]:
    return {c.name for c in find_all(condition, exp.Column) if c.name.startswith("call_")}


def _sql(conditions: list[exp.Expr], calls: list[int]) -> str | None:
    if not conditions:
        return None
    place = {f"call_{k}": f"out_{i}" for i, k in enumerate(calls)}
    joined = exp.paren(exp.and_(*[copy_of(c) for c in conditions], copy=False), copy=False)
    for column in list(find_all(joined, exp.Column)):
        if column.name in place:
            column.replace(exp.column(place[column.name]))
    return to_sql(joined)
