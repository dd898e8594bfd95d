"""EXPLAIN and EXPLAIN ANALYZE as tables: counted candidates, cache hits, expected cost."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from mlsql.exec.approximate.explaining import explained_target
from mlsql.exec.device import resolved
from mlsql.parser.accuracy import split_accuracy
from mlsql.parser.dialect import parse, to_sql
from mlsql.parser.parameters import Parameters, bind
from mlsql.parser.statements import Explain, number_markers, one
from mlsql.planner.bounds_of_items import without_bounds
from mlsql.planner.explain import Counts, ExplainRow, explain
from mlsql.planner.nodes import Materialise, Stage
from mlsql.udfs.types import arrow_type

if TYPE_CHECKING:
    from mlsql.exec.sources import Sources
    from mlsql.exec.statement import Answer, Runner

_KINDS = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}


def explained(
    runner: Runner, wanted: Explain, parameters: Parameters, owns_transaction: bool
) -> Answer:
    """The plan of a statement; with ANALYZE it is run, and what was measured is added."""
    from mlsql.exec.statement import Answer

    whole = number_markers(one(wanted.inner))
    text, accuracy = split_accuracy(one(whole))
    sources = runner.sources()
    try:
        tree = sources.resolve(runner.opened(bind(parse(text), parameters)))
        target = explained_target(runner, tree, accuracy)
        plan = runner.planned(without_bounds(tree), text)
        made = {s.name for s in plan.stores} | {look.name for look in plan.lookups} | {
            n.table for n in plan.nodes if isinstance(n, Materialise)}
        rows = target + explain(
            plan, runner.context(), lambda stage: _counts(runner, stage, made),
            resolved(runner.settings.text("device")))
        if wanted.verbose:
            rows += [ExplainRow("", "rule", line) for line in plan.trace]
        rows = [_readable(row, sources) for row in rows]
    finally:
        sources.close()
    if not wanted.analyze:
        return Answer(_table(rows, wanted.json))
    ran = runner.run(whole, parameters, owns_transaction)
    rows += [*_measured(ran, rows), *_runtimes(runner, ran), *_approximated(ran)]
    return Answer(_table(rows, wanted.json), None, ran.stats, ran.errors, ran.notes,
                  ran.used_models)


def _approximated(ran: Answer) -> list[ExplainRow]:
    """How an accuracy target was met."""
    how = ran.approximation
    if how is None:
        return []
    ends = ", ".join(f"{i.column} in {i.low:.6g} to {i.high:.6g}" for i in how.intervals[:3])
    said = "; ".join(part for part in (how.target, how.method, ends, *how.notes) if part)
    return [ExplainRow("measured", "approximate", f"{said}; seed {how.seed}",
                       rows=how.labelled, calls=how.calls)]


def _readable(row: ExplainRow, sources: Sources) -> ExplainRow:
    """The row with sources as they were written, and names that are the same every time."""
    step, detail = row.step, row.detail
    for name, written in sources.written.items():
        detail = detail.replace(name, written)
    short = re.compile(r"mlsql_\d+_")
    return replace(row, step=short.sub("", step), detail=short.sub("", detail))


def _counts(runner: Runner, stage: Stage, made: set[str]) -> Counts:
    """How many candidates there are, and how many of them the cache knows.

    Only for a stage that needs nothing `made` by an earlier one: its candidates can be listed now.
    """
    if any(node.name in made for node in stage.rows.find_all(exp.Table, exp.Anonymous)):
        return Counts(None, {})
    rows = runner.connection.sql(to_sql(stage.rows)).to_arrow_table()
    cache = runner.cache()
    cached = {}
    for call in stage.calls if cache is not None else ():
        values = rows[call.column].combine_chunks().cast(arrow_type(call.spec.input_type))
        distinct = values.drop_null() if pa.types.is_nested(values.type) else values.unique()
        known, _ = cache.lookup(call.spec, cache.keys(distinct))  # type: ignore[union-attr]
        cached[f"{call.column}/{call.spec.name}"] = int(np.count_nonzero(np.asarray(known)))
    return Counts(len(rows), cached)


def _measured(ran: Answer, expected: list[ExplainRow]) -> list[ExplainRow]:
    """What was measured, a row a model, each beside what was expected of it."""
    rows = []
    for model in ran.stats.models:
        seconds = model.seconds_infer
        rows.append(ExplainRow(
            "measured", "infer",
            f"expected {_expected(expected, model.model)}; batches {model.batches}, "
            f"decoded {model.frames_decoded}, saved {model.saved}, "
            f"decode {model.seconds_decode:.3f} s, prepare {model.seconds_prepare:.3f} s, "
            f"wait {model.seconds_wait:.3f} s, errors {model.errors}", model.model,
            calls=model.calls, cached=model.cached,
            ms_per_call=1000 * seconds / model.calls if model.calls else None, seconds=seconds))
    count = None if ran.rows is None else _length(ran.rows)
    rows.append(ExplainRow("measured", "total", f"sql {ran.stats.seconds_sql:.3f} s", rows=count,
                           calls=ran.stats.calls, cached=ran.stats.cached,
                           seconds=ran.stats.seconds))
    return rows


def _expected(rows: list[ExplainRow], model: str) -> str:
    of_model = [row for row in rows if row.model == model and row.operation in ("infer", "look up")]
    if not of_model or any(row.calls is None for row in of_model):
        return "calls unknown"
    calls = sum(row.calls or 0 for row in of_model)
    return f"{calls:,} calls, {sum(row.seconds or 0.0 for row in of_model):.3f} s"


def _runtimes(runner: Runner, ran: Answer) -> list[ExplainRow]:
    """How each network was run and why; models elsewhere, and those never loaded, tell nothing."""
    told: dict[str, str] = getattr(runner.executor(), "runtimes", dict)()
    used = {model.model for model in ran.stats.models}
    return [ExplainRow("measured", "runtime", text, name)
            for name, text in told.items() if name in used]


def _length(rows: Any) -> int:
    return len(rows)


def _table(rows: list[ExplainRow], as_json: bool) -> pa.Table:
    plain = [asdict(row) for row in rows]
    if as_json:
        return pa.table({"plan": [json.dumps(plain)]})
    schema = pa.schema([(f.name, _KINDS[str(f.type).split(" ")[0]]) for f in fields(ExplainRow)])
    return pa.Table.from_pylist(plain, schema=schema)
