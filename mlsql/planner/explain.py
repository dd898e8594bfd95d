"""A plan as rows: what would be looked at, by which model, in which order and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Context
from mlsql.planner.cost import UNKNOWN_SELECTIVITY, conjunct_cost, conjunct_selectivity
from mlsql.planner.nodes import Conjunct, Materialise, Plan, Stage
from mlsql.planner.steps import order_of


@dataclass(frozen=True)
class ExplainRow:
    """One line of EXPLAIN. `rows` go in, `calls` of them are expected to reach the model."""

    step: str
    operation: str
    detail: str
    model: str | None = None
    fingerprint: str | None = None
    device: str | None = None
    rows: int | None = None
    selectivity: float | None = None
    source: str | None = None  # of rows or selectivity: 'counted', 'measured', 'assumed'
    calls: int | None = None
    cached: int | None = None
    ms_per_call: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Counts:
    """What is known of a stage's candidates without a model: how many, and how many are cached."""

    rows: int | None
    cached: dict[str, int]  # by argument column and model: f'{column}/{model}'


def explain(
    plan: Plan, context: Context, counts: Callable[[Stage], Counts], device: str
) -> list[ExplainRow]:
    """The rows of EXPLAIN, in the order of execution, the final statement last."""
    rows: list[ExplainRow] = []
    for node in plan.nodes:
        if isinstance(node, Materialise):
            rows.append(ExplainRow(node.table, "materialise", to_sql(node.query)))
        else:
            rows += _stage(node, context, counts(node), device)
    for lookup in plan.lookups:
        rows.append(ExplainRow(
            lookup.name, "look up", "arguments are noted while the statement runs, which is then "
            "run again", lookup.spec.name, lookup.spec.fingerprint[:12], device,
            ms_per_call=context.cost_ms(lookup.spec)))
    rows += [ExplainRow("", "note", note) for note in plan.notes]
    rows.append(ExplainRow("final", "sql", to_sql(plan.final)))
    rows.append(_total(rows))
    return rows


def _total(rows: list[ExplainRow]) -> ExplainRow:
    """What is expected in all; no figure where some part of it cannot be told yet."""
    made = [row for row in rows if row.operation in ("infer", "look up")]
    known = all(row.calls is not None for row in made)
    return ExplainRow(
        "total", "total", "" if known else "what later stages will cost is not known yet",
        calls=sum(row.calls or 0 for row in made) if known else None,
        cached=sum(row.cached or 0 for row in made) if known else None,
        seconds=sum(row.seconds or 0.0 for row in made) if known else None)


def _stage(
    stage: Stage, context: Context, counts: Counts, device: str
) -> list[ExplainRow]:
    early = f", ends after {stage.early.rows} that pass" if stage.early else ""
    rows = [ExplainRow(stage.name, "candidates", f"{stage.place}{early}: {to_sql(stage.rows)}",
                       rows=counts.rows, source=None if counts.rows is None else "counted")]
    left: float | None = counts.rows
    made: set[int] = set()
    for conjunct in stage.filters:
        for call in conjunct.calls:
            if call not in made:
                rows.append(_infer(stage, call, context, counts, left, device))
                made.add(call)
        rows.append(_filter(stage, conjunct, context, left))
        if left is not None and conjunct.condition is not None:
            left *= conjunct_selectivity(conjunct, context)
    for call in order_of(stage).calls:
        if call not in made:
            rows.append(_infer(stage, call, context, counts, left, device))
    return rows


def _infer(
    stage: Stage, number: int, context: Context, counts: Counts, rows: float | None, device: str
) -> ExplainRow:
    call = stage.calls[number]
    spec, ms = call.spec, context.cost_ms(call.spec)
    cached = counts.cached.get(f"{call.column}/{spec.name}")
    calls = None if rows is None else max(0, round(rows) - (cached or 0))
    guarded = f", where {' AND '.join(map(to_sql, call.needs))}" if call.needs else ""
    return ExplainRow(
        stage.name, "infer", f"{call.column} = {to_sql(call.argument)}{guarded}", spec.name,
        spec.fingerprint[:12], device, None if rows is None else round(rows), calls=calls,
        cached=cached, ms_per_call=ms, seconds=None if calls is None else calls * ms / 1000)


def _filter(
    stage: Stage, conjunct: Conjunct, context: Context, rows: float | None
) -> ExplainRow:
    if conjunct.condition is None:
        return ExplainRow(stage.name, "filter", f"{conjunct.text} (judged by the final statement)")
    share = conjunct_selectivity(conjunct, context)
    known = context.selectivity(conjunct.text) is not None
    dropped = 1 - share
    rank = conjunct_cost(stage, conjunct, context) / dropped if dropped else float("inf")
    why = f"{conjunct.text} (rank {rank:.3g} ms a row dropped)"
    source = "measured" if known else f"assumed {UNKNOWN_SELECTIVITY:g}"
    return ExplainRow(stage.name, "filter", why, rows=None if rows is None else round(rows),
                      selectivity=share, source=source)
