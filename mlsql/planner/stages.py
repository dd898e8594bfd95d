"""A clause's calls become a stage: its rows, its conditions over them, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.planner.guards import guards
from mlsql.planner.nodes import Conjunct, ModelCall
from mlsql.planner.trees import as_written, calls_models, disjuncts, is_volatile, names_parameter
from mlsql.tree import copy_of, find, find_all
from mlsql.udfs.function import ModelOutput

Needs = tuple[exp.Expr, ...]

_PARTS = (exp.Lambda, exp.DataType, exp.If, exp.PropertyEQ, exp.Kwarg, exp.Slice, exp.Interval)

# What may stand in a condition that a worker judges: the rest is computed by DuckDB beforehand.
_NEVER = (exp.Subquery, exp.Exists, exp.Window, exp.AggFunc, exp.Query, exp.Column)


@dataclass
class StageBuilder:
    """Collects the calls and columns of one stage while its conditions are read."""

    store: Callable[[ModelOutput], str]
    is_builtin: Callable[[str], bool]
    columns: list[tuple[str, exp.Expr]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)

    def conjunct(self, condition: exp.Expr, wanted: Iterable[ModelOutput]) -> Conjunct:
        """A condition of WHERE: the stage's calls in it, and the condition over its columns."""
        calls = list(wanted)
        operands = disjuncts(condition)
        if len(operands) > 1 and all(self._can_judge(operand, calls) for operand in operands):
            return self._disjunction(condition, operands, calls)
        numbers = self.add(calls, condition)
        return Conjunct(numbers, self.translate(condition), as_written(condition))

    def _disjunction(
        self, condition: exp.Expr, operands: list[exp.Expr], calls: list[ModelOutput]
    ) -> Conjunct:
        """An OR: which of its operands is tried first is then a matter of cost."""
        judged = tuple(self.conjunct(operand, [c for c in calls if _is_in(c, operand)])
                       for operand in operands)
        together = exp.or_(*[copy_of(d.condition) for d in judged if d.condition is not None],
                           copy=False)
        numbers = tuple(dict.fromkeys(k for d in judged for k in d.calls))
        return Conjunct(numbers, together, as_written(condition), judged)

    def _can_judge(self, operand: exp.Expr, calls: list[ModelOutput]) -> bool:
        """Whether a stage with these calls can say if a condition is TRUE."""
        trial = StageBuilder(lambda call: "", self.is_builtin)
        mine = [c for c in calls if _is_in(c, operand)]
        if any(not any(c is m for m in mine) for c in find_all(operand, ModelOutput)):
            return False
        trial.add(mine, operand)
        return trial.translate(operand) is not None

    def add(self, wanted: Iterable[ModelOutput], root: exp.Expr) -> tuple[int, ...]:
        """The numbers of the calls; new ones are added with the conditions they stand under."""
        return tuple(dict.fromkeys(self._call(node, root) for node in wanted))

    def _call(self, node: ModelOutput, root: exp.Expr) -> int:
        key = (node.spec.name, spelt(node.this))
        needs = tuple(g for g in map(self.translate, guards(node, root)) if g is not None)
        if key not in self._places:
            self._places[key] = len(self.calls)
            column = self.column(node.this, "a")
            self.calls.append(ModelCall(node.spec, copy_of(node.this), column, self.store(node),
                                        needs, uses=0))
        place = self._places[key]
        known = self.calls[place]
        either = needs if known.uses == 0 else _either(known.needs, needs)
        self.calls[place] = replace(known, needs=either, uses=known.uses + 1)
        return place

    def column(self, node: exp.Expr, letter: str) -> str:
        """The name of the stage's column that holds an expression."""
        text = spelt(node)
        if text not in self._names:
            self._names[text] = f"{letter}{len(self._names)}"
            self.columns.append((self._names[text], copy_of(node)))
        return self._names[text]

    def translate(self, node: exp.Expr) -> exp.Expr | None:
        """The condition over the stage's columns and call_k; None where it cannot be judged so."""
        if isinstance(node, ModelOutput):
            key = (node.spec.name, spelt(node.this))
            place = self._places.get(key)
            return None if place is None else exp.column(f"call_{place}")
        if not calls_models(node):
            return self._plain(node)
        if not self._may_stand(node) or _compares_with_query(node):
            return None
        return self._rebuilt(node)

    def _plain(self, node: exp.Expr) -> exp.Expr | None:
        if is_volatile(node) or find(node, exp.AggFunc, exp.Window):
            return None
        if isinstance(node, (exp.Any, exp.All)):
            return None  # a part of the comparison before it
        if not find(node, exp.Column, exp.Subquery, exp.Exists, exp.Parameter):
            return copy_of(node) if self._may_stand(node, deep=True) else None
        if not names_parameter(node) and _is_value(node):
            return exp.column(self.column(node, "x"))
        return self._rebuilt(node) if self._may_stand(node) else None

    def _rebuilt(self, node: exp.Expr) -> exp.Expr | None:
        copied = copy_of(node)
        pairs = list(zip(_children(node), _children(copied), strict=True))
        for child, twin in pairs:
            changed = self.translate(child)
            if changed is None:
                return None
            twin.replace(changed)
        return copied

    def _may_stand(self, node: exp.Expr, deep: bool = False) -> bool:
        if isinstance(node, _NEVER):
            return False
        nodes = node.walk() if deep else [node]
        for part in nodes:
            if isinstance(part, exp.Anonymous) and not self.is_builtin(part.name):
                return False
            if isinstance(part, exp.DataType) and part.this == exp.DType.USERDEFINED:
                return False
        return True


def _either(first: Needs, second: Needs) -> Needs:
    """What must hold for an output that is wanted where `first` holds, and where `second` does."""
    if first == second or not first:
        return first
    if not second:
        return second
    both = [exp.and_(*map(copy_of, needs), copy=False) for needs in (first, second)]
    return (exp.or_(*both, copy=False),)


def _is_in(node: exp.Expr, root: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not root:
        above = above.parent
    return above is root


def _compares_with_query(node: exp.Expr) -> bool:
    """x IN (SELECT …), = ANY (SELECT …): the query in it is no scalar."""
    return isinstance(node, (exp.Any, exp.All)) or (
        isinstance(node, exp.In) and node.args.get("query") is not None)


def spelt(node: exp.Expr) -> str:
    """One spelling for expressions that differ only in the case of names."""
    copied = copy_of(node)
    for name in find_all(copied, exp.Identifier):
        name.set("this", name.this.lower())
        name.set("quoted", False)
    return to_sql(copied)


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())


def _is_value(node: exp.Expr) -> bool:
    """Whether a node is an expression with a value, not a mere part of one."""
    return isinstance(node, (exp.Condition, exp.Subquery, exp.Exists, exp.Cast, exp.Func)) and \
        not isinstance(node, _PARTS)
