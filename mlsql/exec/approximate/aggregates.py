"""The rows of a statement of aggregates, out of the estimates of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from mlsql.exec.approximate.aggregate import (
    Group,
    Method,
    expressions,
    prepare,
    run,
    sampled,
    start,
)
from mlsql.exec.approximate.decisions import Decision, decided, remember
from mlsql.exec.approximate.oracle import Oracle
from mlsql.exec.approximate.report import Approximation, Interval
from mlsql.exec.approximate.tracks import track_of
from mlsql.exec.stores import registered
from mlsql.foreign import held
from mlsql.parser.dialect import to_sql
from mlsql.planner.approximate import Aggregates, Uncertified
from mlsql.planner.approximate_bounds import Range, bounds
from mlsql.planner.approximate_items import Estimated
from mlsql.planner.estimate.sampling import UniformOrder
from mlsql.udfs.function import ModelOutput

if TYPE_CHECKING:
    from mlsql.exec.approximate.run import Run

Rows = NDArray[np.int64]
Found = tuple[tuple[str, ...], Any, Approximation, tuple[str, ...]]

_FEWEST = 200  # candidates below which a sample is not worth its trouble
_FIRST = 20  # draws that tell whether an earlier statement drew the same
_PROBE = 1_000_000.0


def answer_aggregates(run_: Run, shape: Aggregates) -> Found | None:
    """The estimates of all groups; None where an exact run is as cheap."""
    oracle = Oracle(run_.runner, run_.use, shape.population, expressions(shape), run_.owns)
    try:
        return _Aggregation(run_, shape, oracle).found()
    finally:
        oracle.close()


class _Aggregation:
    def __init__(self, run_: Run, shape: Aggregates, oracle: Oracle) -> None:
        self._run, self._shape, self._oracle = run_, shape, oracle
        self._targets = run_.targets
        self._estimated = sampled(shape)

    def found(self) -> Found | None:
        oracle, targets = self._oracle, self._targets
        spans = self._spans()
        self._keys = self._key_rows()
        if oracle.size < _FEWEST:
            return None  # exact is as cheap, and no caveat is needed
        groups = self._groups(spans)
        track = track_of(oracle, self._shape.population.arguments)
        decision = decided(self._run, oracle)
        rng = np.random.default_rng([targets.seed, 1_000_003])
        known = oracle.known() if decision is None else decision.known
        if decision is None and self._walked(groups[0], known):
            known = known[:0]  # the draws begin with rows that are known: they cost nothing
        self._say(f"{len(known):,} rows known before" if len(known) else "")
        method = prepare(oracle, track, groups, targets, known, rng)
        if decision is None:
            remember(self._run, oracle, Decision(known))
        for group in groups:
            start(group, oracle, method, targets, targets.seed)
        notes = run(oracle, groups, targets, method)
        names, rows, intervals = self._rows(groups)
        return names, rows, self._report(groups, method, intervals), (*self._caps(), *notes)

    def _walked(self, group: Group, known: Rows) -> bool:
        """Whether an earlier statement drew the rows that this one would draw first."""
        rng = np.random.default_rng([self._targets.seed, group.number])
        first = group.rows[UniformOrder(len(group.rows), rng)[:_FIRST]]
        return float(np.isin(first, known).mean()) > 0.9

    def _say(self, note: str) -> None:
        self._note = note

    def _spans(self) -> list[tuple[float, float]]:
        """The range of each estimate's values; one that has none cannot be certified."""
        columns = self._column_ranges()
        found = []
        for estimated in self._estimated:
            if estimated.kind == "count":
                found.append((0.0, 1.0))
                continue
            assert estimated.value is not None
            span = bounds(estimated.value, columns, self._targets.cap)
            if not np.isfinite(span).all():
                raise Uncertified(f"the range of the values of {estimated.shown} is not known")
            if estimated.kind == "sum" or self._targets.relative:
                span = min(span[0], 0.0), max(span[1], 0.0)
            if self._targets.relative and span[0] < 0:
                raise Uncertified("a relative error needs values that are never negative")
            found.append(span if span[1] > span[0] else (span[0], span[0] + 1.0))
        return found

    def _column_ranges(self) -> dict[str, Range]:
        """Least and greatest value of the numeric columns that values are computed from."""
        used = {c.name for e in self._estimated if e.value is not None
                for c in e.value.find_all(exp.Column) if not isinstance(c.parent, ModelOutput)}
        used &= {name for name, _ in self._shape.population.columns}
        found = {}
        for name in sorted(used):
            if not self._castable(name):
                continue
            low, high = self._oracle.sql(
                f"SELECT min(CAST({name} AS DOUBLE)), max(CAST({name} AS DOUBLE)) "
                f"FROM {self._oracle.table}").fetchall()[0]
            if low is not None and np.isfinite([low, high]).all():
                found[name] = (float(low), float(high))
        return found

    def _castable(self, name: str) -> bool:
        kind = self._oracle.column(name).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind)
                    or pa.types.is_decimal(kind) or pa.types.is_boolean(kind))

    def _key_rows(self) -> pa.Table:
        """One row a group: its number mlsql_g, its keys, and the aggregates that need no model."""
        keys, table = self._shape.keys, self._oracle.table
        rank = f"dense_rank() OVER (ORDER BY {', '.join(keys)}) - 1" if keys else "0"
        exact = [f"{to_sql(e.sql)} AS {e.name}" for e in self._shape.estimated
                 if e.kind == "exact" and e.sql is not None]
        self._numbers = np.asarray(self._oracle.sql(
            f"SELECT {rank} AS g FROM {table} ORDER BY mlsql_n").to_arrow_table()["g"], np.int64)
        wanted = ", ".join([*keys, *exact, "mlsql_g"])
        return self._oracle.sql(
            f"SELECT {wanted} FROM (SELECT *, {rank} AS mlsql_g FROM {table}) "
            f"GROUP BY {', '.join([*keys, 'mlsql_g'])} ORDER BY mlsql_g").to_arrow_table()

    def _groups(self, spans: list[tuple[float, float]]) -> list[Group]:
        count = len(self._keys)
        delta = self._targets.delta / max(1, count * len(self._estimated))
        slopes = [self._slopes(e) for e in self._estimated]
        found = []
        for number in range(count):
            rows = np.flatnonzero(self._numbers == number)
            for column, estimated in enumerate(self._estimated):
                error = self._error(slopes[column][number], spans[column], len(rows), estimated)
                found.append(Group(number, rows, estimated, column, error, delta, spans[column]))
        return found

    def _error(
        self, slope: float, span: tuple[float, float], rows: int, estimated: Estimated
    ) -> float:
        """The error that an aggregate may have for its item to keep the target."""
        if self._targets.error is None:  # ORACLE LIMIT alone: as narrow as it gets
            scale = 1.0 if estimated.kind == "avg" else rows
            return scale * (span[1] - span[0]) / max(self._targets.oracle_limit or 1, 1)
        if self._targets.relative or slope == 0 or not np.isfinite(slope):
            return self._targets.error
        return self._targets.error / abs(slope)

    def _slopes(self, estimated: Estimated) -> list[float]:
        """How much an item moves with its aggregate, one a group: the item is linear in it."""
        if estimated.target is None:
            return [1.0] * len(self._keys)
        item = estimated.target[1]
        ends = [self._item(item, estimated.name, value) for value in (0.0, _PROBE)]
        if self._targets.relative and any(end not in (0.0, None) for end in ends[0]):
            raise Uncertified("a relative error of an aggregate plus something else")
        return [((b or 0.0) - (a or 0.0)) / _PROBE for a, b in zip(*ends, strict=True)]

    def _item(self, item: exp.Expr, name: str, value: float) -> list[float | None]:
        written = exp.Paren(this=item.copy())
        for column in list(written.find_all(exp.Column)):
            if column.name in (name, f"{name}_low", f"{name}_high"):
                column.replace(exp.Literal.number(repr(value)))
        with registered(self._run.use.connection, "mlsql_estimates", self._keys):
            found = self._oracle.sql(f"SELECT CAST({to_sql(written)} AS DOUBLE) "
                                     "FROM mlsql_estimates ORDER BY mlsql_g").fetchall()
        return [row[0] for row in found]

    # --- the answer -----------------------------------------------------------------------

    def _rows(self, groups: list[Group]) -> tuple[tuple[str, ...], Any, tuple[Interval, ...]]:
        """The result, and the interval of each of its estimated items."""
        names, rows = self._final(groups, 0)
        lows, highs = (self._final(groups, end)[1].fetchall() for end in (1, 2))
        values = rows.fetchall()
        intervals = []
        keys = [i for i, item in enumerate(self._shape.final.expressions)
                if any(c.name in self._shape.keys for c in item.find_all(exp.Column))]
        for estimated in self._estimated:
            if estimated.target is None or self._of_bound(estimated):
                continue
            place = estimated.target[0]
            for row, low, high in zip(values, lows, highs, strict=True):
                if row[place] is None or low[place] is None or high[place] is None:
                    continue
                ends = sorted((float(low[place]), float(high[place])))
                group = tuple(str(row[i]) for i in keys)
                intervals.append(self._interval(names[place], float(row[place]), ends, group,
                                                groups))
        return names, rows, tuple(intervals)

    def _of_bound(self, estimated: Estimated) -> bool:
        """Whether the item that an estimate stands in is an end of its interval only."""
        assert estimated.target is not None
        return not any(c.name == estimated.name
                       for c in estimated.target[1].find_all(exp.Column))

    def _interval(
        self, column: str, value: float, ends: list[float], group: tuple[str, ...],
        groups: list[Group],
    ) -> Interval:
        low, high = ends
        error = self._targets.error
        if error is None:
            met = True
        elif self._targets.relative:
            met = high - low <= error * (high + low) * (1 + 1e-9)
        else:
            met = high - low <= 2 * error * (1 + 1e-9) + 1e-12
        return Interval(column, value, low, high, groups[0].delta, group, met)

    def _final(self, groups: list[Group], end: int) -> tuple[tuple[str, ...], Any]:
        """The final statement over the estimates, or over one end of their intervals."""
        table = self._keys
        for column, estimated in enumerate(self._estimated):
            found = [g.interval() for g in groups if g.column == column]
            for name, place in ((estimated.name, end), (f"{estimated.name}_low", 1),
                                (f"{estimated.name}_high", 2)):
                numbers = [f[place] for f in found]
                table = table.append_column(name, _column(numbers, estimated, place))
        connection = self._run.use.connection
        with registered(connection, "mlsql_estimates", table):
            rows = held(connection.sql(to_sql(self._shape.final)))
        return tuple(rows.columns), rows

    def _report(
        self, groups: list[Group], method: Method, intervals: tuple[Interval, ...]
    ) -> Approximation:
        oracle, targets = self._oracle, self._targets
        labelled = int(oracle.seen.sum())
        each = f"δ = {targets.delta:.3g} split over {len(groups)} estimates: {groups[0].delta:.3g}"
        notes = [n for n in (self._note, each if len(groups) > 1 else "") if n]
        return Approximation(
            method.words, targets.words(), targets.confidence, targets.seed, oracle.size,
            labelled, expected_calls=(method.expected + len(method.known)) * oracle.calls_a_row,
            exact_calls=oracle.size * oracle.calls_a_row, proxy=method.proxy,
            exact=labelled == oracle.size, intervals=intervals, notes=tuple(notes))

    def _caps(self) -> tuple[str, ...]:
        """What the intervals assume of the range of counts."""
        if not any("COUNT_OBJECTS" in e.shown.upper() or self._counts(e)
                   for e in self._estimated):
            return ()
        return (f"counts of objects are taken to be at most {self._targets.cap} (count_cap), "
                "checked on every answer seen",)

    def _counts(self, estimated: Estimated) -> bool:
        from mlsql.planner.trees import WRITTEN

        if estimated.value is None:
            return False
        return any(str(n.meta.get(WRITTEN, "")).upper().startswith("COUNT_OBJECTS")
                   for n in estimated.value.walk())


def _column(numbers: list[float], estimated: Estimated, place: int) -> pa.Array:
    if not estimated.whole:
        return pa.array([None if np.isnan(n) else n for n in numbers], pa.float64())
    rounding = (np.rint, np.ceil, np.floor)[place]
    return pa.array([None if np.isnan(n) else int(rounding(n - (1e-9, 1e-9, -1e-9)[place] *
                                                           (place > 0)))
                     for n in numbers], pa.int64())
