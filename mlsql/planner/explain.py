"""A plan as rows: what would be looked at, by which model, in which order and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Context, StageMemory
from mlsql.planner.cost import UNKNOWN_SELECTIVITY, conjunct_cost, conjunct_selectivity
from mlsql.planner.nodes import Conjunct, Materialise, Plan, Stage


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
    ends = stage.early is not None and stage.early.rows is not None
    early = f", ends after {stage.early.rows} that pass" if stage.early and ends else ""
    memory = context.remembered(stage)
    known, source = counts.rows, "counted"
    if known is None and memory is not None:
        known, source = memory.rows, "measured"
    reached = _reached(stage, context, known, memory)
    told = _Told(stage, context, replace(counts, rows=reached), device, memory)
    told.rows.append(ExplainRow(
        stage.name, "candidates", f"{stage.place}{early}: {to_sql(stage.rows)}", rows=known,
        source=None if known is None else source))
    left: float | None = reached
    for conjunct in stage.filters:
        told.condition(conjunct, left)
        if left is not None and conjunct.condition is not None:
            left *= conjunct_selectivity(conjunct, context)
    for call in stage.tail:
        told.call(call, left)
    return told.rows


def _reached(
    stage: Stage, context: Context, rows: int | None, memory: StageMemory | None
) -> int | None:
    """The candidates that are looked at before an early stop."""
    if stage.early is None or stage.early.rows is None or rows is None:
        return rows
    if memory is not None:
        return min(rows, memory.rows)
    passing = 1.0
    for conjunct in stage.filters:
        passing *= conjunct_selectivity(conjunct, context)
    return min(rows, round(stage.early.rows / passing)) if passing else rows


class _Told:
    """The rows of one stage, while its conditions are gone through in order."""

    def __init__(
        self, stage: Stage, context: Context, counts: Counts, device: str,
        memory: StageMemory | None,
    ) -> None:
        self._stage, self._context, self._counts = stage, context, counts
        self._device, self._memory = device, memory
        self._made: set[int] = set()
        self.rows: list[ExplainRow] = []

    def condition(self, conjunct: Conjunct, reached: float | None, what: str = "filter") -> None:
        """The calls of a condition, and then the condition."""
        left = reached
        for operand in conjunct.disjuncts:
            self.condition(operand, left, "or")
            if left is not None:
                left *= 1.0 - conjunct_selectivity(operand, self._context)
        for call in conjunct.calls:
            self.call(call, reached)
        self.rows.append(self._filter(conjunct, reached, what))

    def call(self, number: int, reached: float | None) -> None:
        """One call: of how many rows, how many of them known, and what the rest costs."""
        if number in self._made:
            return
        self._made.add(number)
        call = self._stage.calls[number]
        spec, ms = call.spec, self._context.cost_ms(call.spec)
        cached = self._counts.cached.get(f"{call.column}/{spec.name}")
        calls = self._expected(f"{call.column}/{spec.name}", reached, cached or 0)
        guarded = f", where {' AND '.join(map(to_sql, call.needs))}" if call.needs else ""
        self.rows.append(ExplainRow(
            self._stage.name, "infer", f"{call.column} = {to_sql(call.argument)}{guarded}",
            spec.name, spec.fingerprint[:12], self._device,
            None if reached is None else round(reached), calls=calls, cached=cached,
            ms_per_call=ms, seconds=None if calls is None else calls * ms / 1000))

    def _expected(self, call: str, reached: float | None, cached: int) -> int | None:
        """The calls to be made: as many for each unknown candidate as the last time, if any."""
        ratio = None if self._memory is None else self._memory.calls.get(call)
        if ratio is not None and self._counts.rows is not None:
            return round(ratio * max(0, self._counts.rows - cached))
        return None if reached is None else max(0, round(reached) - cached)

    def _filter(self, conjunct: Conjunct, reached: float | None, what: str) -> ExplainRow:
        if conjunct.condition is None:
            return ExplainRow(self._stage.name, what,
                              f"{conjunct.text} (judged by the final statement)")
        share = conjunct_selectivity(conjunct, self._context)
        kept = share if what == "or" else 1.0 - share
        rank = conjunct_cost(self._stage, conjunct, self._context) / kept if kept else float("inf")
        why = f"rank {rank:.3g} ms a row {'let through' if what == 'or' else 'dropped'}"
        known = self._context.selectivity(conjunct.text) is not None
        return ExplainRow(
            self._stage.name, what, f"{conjunct.text} ({why})",
            rows=None if reached is None else round(reached), selectivity=share,
            source="measured" if known else f"assumed {UNKNOWN_SELECTIVITY:g}")
