"""EXPLAIN and EXPLAIN ANALYZE as tables: counted candidates, cache hits, expected cost."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from mlsql.exec.device import resolved
from mlsql.parser.dialect import parse, to_sql
from mlsql.parser.parameters import Parameters, bind
from mlsql.parser.statements import Explain, number_markers, one
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

    text = number_markers(one(wanted.inner))
    sources = runner.sources()
    try:
        tree = sources.resolve(runner.views.expand(bind(parse(text), parameters)))
        plan = runner.planned(tree, text)
        made = {s.name for s in plan.stores} | {
            n.table for n in plan.nodes if isinstance(n, Materialise)}
        rows = explain(plan, runner.context(), lambda stage: _counts(runner, stage, made),
                       resolved(runner.settings.text("device")))
        if wanted.verbose:
            rows += [ExplainRow("", "rule", line) for line in plan.trace]
        rows = [_readable(row, sources) for row in rows]
    finally:
        sources.close()
    if not wanted.analyze:
        return Answer(_table(rows, wanted.json))
    ran = runner.run(text, parameters, owns_transaction)
    rows += _measured(ran)
    return Answer(_table(rows, wanted.json), None, ran.stats, ran.errors, ran.notes,
                  ran.used_models)


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
    if any(table.name in made for table in stage.rows.find_all(exp.Table)):
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


def _measured(ran: Answer) -> list[ExplainRow]:
    rows = []
    for model in ran.stats.models:
        seconds = model.seconds_infer
        rows.append(ExplainRow(
            "measured", "infer",
            f"batches {model.batches}, decoded {model.frames_decoded}, saved {model.saved}, "
            f"decode {model.seconds_decode:.3f} s, prepare {model.seconds_prepare:.3f} s, "
            f"wait {model.seconds_wait:.3f} s, errors {model.errors}", model.model,
            calls=model.calls, cached=model.cached,
            ms_per_call=1000 * seconds / model.calls if model.calls else None, seconds=seconds))
    count = None if ran.rows is None else _length(ran.rows)
    rows.append(ExplainRow("measured", "total", f"sql {ran.stats.seconds_sql:.3f} s", rows=count,
                           calls=ran.stats.calls, cached=ran.stats.cached,
                           seconds=ran.stats.seconds))
    return rows


def _length(rows: Any) -> int:
    return len(rows) if isinstance(rows, pa.Table) else int(rows.count("*").fetchall()[0][0])


def _table(rows: list[ExplainRow], as_json: bool) -> pa.Table:
    plain = [asdict(row) for row in rows]
    if as_json:
        return pa.table({"plan": [json.dumps(plain)]})
    schema = pa.schema([(f.name, _KINDS[str(f.type).split(" ")[0]]) for f in fields(ExplainRow)])
    return pa.Table.from_pylist(plain, schema=schema)
