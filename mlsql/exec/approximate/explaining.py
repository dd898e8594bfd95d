"""What EXPLAIN says of an accuracy target: method, expected calls, the fall-back, and why."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from mlsql.exec.approximate.anchors import RANGE
from mlsql.exec.approximate.run import read
from mlsql.exec.approximate.targets import Targets, any_target, targets
from mlsql.parser.accuracy import Accuracy
from mlsql.parser.dialect import to_sql
from mlsql.planner.approximate import Aggregates, Selection, Uncertified
from mlsql.planner.approximate_bounds import bounds
from mlsql.planner.estimate.predict import labels_for_mean
from mlsql.planner.estimate.price import least_share, misses_allowed
from mlsql.planner.explain import ExplainRow
from mlsql.udfs.function import ModelOutput

if TYPE_CHECKING:
    from mlsql.exec.statement import Runner

_ASSUMED_SHARE = 0.1  # of rows that a condition selects, where nothing is known of it
_ASSUMED_DOUBT = 1 / 3  # of rows, about which a guess is not sure
_ASSUMED_SPREAD = 1 / 8  # of the range: the deviation of values, where nothing is known of them


def explained_target(
    runner: Runner, resolved: exp.Expr, clause: Accuracy | None
) -> list[ExplainRow]:
    """Rows of EXPLAIN on the target; none where there is none. No model runs, nothing is drawn."""
    if not any_target(clause, runner.settings):
        return []
    wanted = targets(clause, runner.settings)
    try:
        shape = read(runner, resolved, wanted)
    except Uncertified as reason:
        return [ExplainRow("target", "fall back", f"exact run: {reason}")]
    if shape is None:
        return []
    size = _size(runner, shape)
    ms = _cost_ms(runner, shape)
    expected, why = _expected(shape, wanted, size)
    proxy = "neighbours in time, where the rows are pictures of videos; thumbnails where they pay"
    rows = [ExplainRow("target", "approximate", f"{wanted.words()}; {_method(shape, wanted)}",
                       rows=size, source="counted", calls=min(expected, size), ms_per_call=ms,
                       seconds=min(expected, size) * ms / 1000)]
    rows.append(ExplainRow("target", "proxy", proxy))
    rows.append(ExplainRow("target", "fall back", "exact run", rows=size, calls=size,
                           ms_per_call=ms, seconds=size * ms / 1000))
    rows.append(ExplainRow("target", "why", why))
    return rows


def _size(runner: Runner, shape: Aggregates | Selection) -> int:
    query = to_sql(shape.population.query)
    return int(runner.connection.sql(f"SELECT count(*) FROM ({query})").fetchall()[0][0])


def _cost_ms(runner: Runner, shape: Aggregates | Selection) -> float:
    trees = [e.value for e in shape.estimated if e.value is not None] \
        if isinstance(shape, Aggregates) else [shape.judgement.label]
    if shape.population.label is not None:
        trees.append(shape.population.label)
    specs = {c.spec.name: c.spec for tree in trees for c in tree.find_all(ModelOutput)}
    return sum(runner.context().cost_ms(spec) for spec in specs.values())


def _method(shape: Aggregates | Selection, wanted: Targets) -> str:
    if isinstance(shape, Aggregates):
        return ("uniform draws without replacement, betting confidence sequence; anchors as "
                "control variate if a pilot of 64 rows says that they pay")
    if shape.limit is not None:
        return "likeliest rows first, every returned row checked: exact"
    if wanted.agreement is not None:
        return "rows in doubt first, the others as guessed; agreement proved by uniform labels"
    if wanted.recall is None:
        return "threshold of the proxy by bets on its precision; returned rows are not checked"
    if not wanted.checked and wanted.precision is None:
        return "threshold of the proxy by order statistics; returned rows are not checked"
    return ("likeliest rows first, every returned row checked; recall proved by uniform labels of "
            "the rest (hypergeometric)")


def _expected(
    shape: Aggregates | Selection, wanted: Targets, size: int
) -> tuple[int, str]:
    if isinstance(shape, Aggregates):
        return _of_aggregates(shape, wanted, size)
    if shape.limit is not None:
        return min(size, 12 + 4 * shape.limit), "an assumption: one in four likely rows is one"
    if wanted.agreement is not None:
        return _of_agreement(wanted.agreement, wanted.delta, size)
    positives = round(_ASSUMED_SHARE * size)
    if wanted.recall is None:
        return min(size, 600), "about 300 labels for the proxy and 300 for its threshold"
    delta = wanted.delta
    share = least_share(positives, wanted.recall, delta)
    least = round(positives * wanted.recall + share * (size - positives))
    missed = misses_allowed(positives, wanted.recall)
    return min(size, 150 + least), (
        f"if {_ASSUMED_SHARE:.0%} of the rows are selected, {missed:,} may be missed, and to prove "
        f"it takes at least {share:.1%} of the rest")


def _of_agreement(agreement: float, delta: float, size: int) -> tuple[int, str]:
    """Rows in doubt, and of the others a share f with (1 - f)^(m + 1) <= delta, m may be wrong."""
    missed = int((1 - agreement) * size)
    share = 1 - delta ** (1 / (missed + 1))
    return round(size * (_ASSUMED_DOUBT + share * (1 - _ASSUMED_DOUBT))), (
        f"{missed:,} rows may be decided otherwise, and to prove it takes at least {share:.1%} of "
        f"those that a guess is sure of, if it is of {1 - _ASSUMED_DOUBT:.0%}; exact where rows "
        "are no pictures of videos")


def _of_aggregates(shape: Aggregates, wanted: Targets, size: int) -> tuple[int, str]:
    total, notes = 0.0, []
    for estimated in shape.estimated:
        if estimated.kind == "exact":
            continue
        low, high = 0.0, 1.0
        if estimated.kind != "count" and estimated.value is not None:
            low, high = bounds(estimated.value, {}, wanted.cap)
        if not np.isfinite([low, high]).all() or wanted.error is None:
            continue
        scale = 1 if estimated.kind == "avg" else max(size, 1)
        error = wanted.error * (abs(low + high) / 4 if wanted.relative else 1) / scale
        with suppress(ZeroDivisionError):
            need = labels_for_mean(((high - low) * _ASSUMED_SPREAD) ** 2, RANGE * (high - low),
                                   max(error, 1e-12), wanted.delta, max(size, 1))
            total = max(total, need)
            notes.append(f"{estimated.shown}: {need:,.0f} draws for a deviation of "
                         f"{_ASSUMED_SPREAD:g} of the range {low:g} to {high:g}")
    calls = 64 + round(total)
    verdict = "fewer than all rows" if calls < size else "no fewer than all rows: exact"
    return calls, f"{'; '.join(notes) or 'nothing is known of the range'}: {verdict}"
