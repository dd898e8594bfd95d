"""Applies the rules to the stages of a plan: one choke point that traces and can switch off."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from mlsql.errors import InternalError
from mlsql.planner.context import Context
from mlsql.planner.nodes import ModelCall, Plan, Stage

Rule = Callable[[Stage, Context], Stage]

ORDER = ("order_steps", "limit_early")


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """The rules by name, found in the folder rules/: those of ORDER first, then any others."""
    from mlsql.planner import rules as folder

    found = {}
    for module in pkgutil.iter_modules(folder.__path__):
        loaded = importlib.import_module(f"{folder.__name__}.{module.name}")
        found[module.name] = getattr(loaded, module.name)
    named = [n for n in ORDER if n in found] + sorted(n for n in found if n not in ORDER)
    return {name: found[name] for name in named}


def optimise(plan: Plan, context: Context) -> Plan:
    """The plan after all rules; a rule that changes what a stage is about is a fault, by name."""
    off = context.switched_off()
    nodes, trace = list(plan.nodes), []
    for name, rule in rules().items():
        if name in off:
            continue
        for i, node in enumerate(nodes):
            if not isinstance(node, Stage):
                continue
            changed = rule(node, context)
            _check(name, node, changed)
            if changed != node:
                trace.append(f"{name}: {node.name}")
            nodes[i] = changed
    return replace(plan, nodes=tuple(nodes), trace=tuple(trace))


def _check(rule: str, before: Stage, after: Stage) -> None:
    same = before.columns == after.columns and \
        _calls(before.calls) == _calls(after.calls) and _texts(before) == _texts(after)
    if not same:
        raise InternalError(f"rule {rule} changed the columns, calls or conditions of a stage")


def _texts(stage: Stage) -> list[str]:
    return sorted(conjunct.text for conjunct in stage.filters)


def _calls(calls: Sequence[ModelCall]) -> set[tuple[str, str, str]]:
    return {(call.spec.name, call.column, call.store) for call in calls}
