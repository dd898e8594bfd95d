"""Running a stage: candidates, what is known of them, and the executor's answers for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mlsql.errors import CallLimit, TimeLimit
from mlsql.exec.cache import OutputCache
from mlsql.exec.known import Known, Unknown, taken
from mlsql.exec.learning import Learning
from mlsql.exec.limits import Guardrails
from mlsql.exec.measured import Measurements
from mlsql.exec.pieces import SAMPLE, Piece, Pieces, evenly
from mlsql.exec.progress import Progress
from mlsql.exec.share import Answers, Executor
from mlsql.exec.stores import OutputStore, registered
from mlsql.exec.tally import Tally
from mlsql.planner.context import StageMemory
from mlsql.planner.nodes import EarlyStop, Stage

if TYPE_CHECKING:
    import duckdb

_CHUNK = 65_536
_EARLY_CHUNK = 4_096


@dataclass(frozen=True)
class Machinery:
    """What running a statement needs: DuckDB, models, the cache, and the limits to keep."""

    connection: duckdb.DuckDBPyConnection
    executor: Executor
    cache: OutputCache | None
    tally: Tally
    guardrails: Guardrails
    progress: Progress = field(default_factory=Progress)
    measured: Measurements = field(default_factory=Measurements)
    adapts: bool = True  # off: conditions are tried in the order of the plan


class StageRun:
    """One stage over its candidates."""

    def __init__(self, stage: Stage, stores: dict[str, OutputStore], use: Machinery) -> None:
        self._stage = stage
        self._use = use
        self._calls = stage.calls
        self._stores = [stores[call.store] for call in stage.calls]
        self._known = Known(use.connection, use.cache, use.tally, use.guardrails, stage.calls,
                            self._stores, distinct=stage.rows.args.get("distinct") is not None)
        self._learning = Learning(use.measured)
        self._rows = 0
        self._asked = [0] * len(stage.calls)  # distinct inputs that were wanted and not known
        self._open = [0] * len(stage.calls)  # rows whose output was not known
        self._candidates = pa.table({})
        self._wanted: int | None = None  # rows that are to pass; None: all
        self._ended = False  # by a limit
        self._covered = 0  # rows of the chunk, from the first on, that were looked at in full
        self.rows_seen = 0
        self.rows_judged = 0  # not all that are seen: what passes is known to the last statement
        self.rows_passed = 0

    def run(self, rows_sql: str) -> None:
        """List the candidates and look at them, all or as many as an early stop needs."""
        with self._use.tally.sql():
            self._candidates = self._use.connection.sql(rows_sql).to_arrow_table()
        early, self._rows = self._stage.early, len(self._candidates)
        self._wanted = None if early is None else early.rows
        self._begin(None if early else self._rows)
        self._on()
        self._remember()

    @property
    def early(self) -> EarlyStop | None:
        """How the stage may end early, if it may."""
        return self._stage.early

    def go_on(self, missing: int) -> bool:
        """Look at more candidates, as the statement lacks so many rows; False if there are none.

        Each of these gives a row at most: a few more are taken, not to ask the statement each time.
        """
        if self.rows_seen >= self._rows or self._ended:
            return False
        self._wanted = self.rows_passed + max(missing, self.rows_passed // 8)
        self._on()
        return True

    def _on(self) -> None:
        early, rows = self._stage.early, self._candidates
        if early and early.certain:
            self._until_a_limit(rows)
        else:
            self._chunks(rows)
        if early:
            self._keep_evaluated(rows.slice(0, self.rows_seen))

    def _chunks(self, rows: pa.Table) -> None:
        early = self._stage.early
        size = _EARLY_CHUNK if early else _CHUNK
        while self.rows_seen < len(rows) and not self._has_enough:
            left = self._use.guardrails.calls_left
            most = size if left is None else min(size, max(1, left // max(1, len(self._calls))))
            self._chunk(rows.slice(self.rows_seen, most))

    @property
    def _has_enough(self) -> bool:
        return self._wanted is not None and self.rows_passed >= self._wanted

    def _until_a_limit(self, rows: pa.Table) -> None:
        """End with the rows that are certain, and say so, where a limit is reached."""
        guardrails = self._use.guardrails
        try:
            with guardrails.calmly(self._use.executor.cancel):
                self._chunks(rows)
        except Exception as error:
            reason = guardrails.reason(error)
            if not isinstance(reason, (CallLimit, TimeLimit)):
                raise
            self._ended = True
            guardrails.notes.append(
                f"not the whole answer: {reason}; the rows are those of the first "
                f"{self.rows_seen:,} of {len(rows):,} candidates")

    def _remember(self) -> None:
        """Tell what the stage has shown to those who plan the next one."""
        for text, (reached, passed) in self._learning.total.items():
            self._use.measured.saw(text, reached, passed)
        asked = {call.column + "/" + call.spec.name: self._asked[k] / self._open[k]
                 for k, call in enumerate(self._calls) if self._open[k]}
        self._use.measured.ran_stage(self._stage, StageMemory(self.rows_seen, asked))

    def _begin(self, total: int | None) -> None:
        specs = [call.spec for call in self._calls]
        unit = "frames" if any(spec.takes_media for spec in specs) else "rows"
        names = list(dict.fromkeys(spec.name for spec in specs))
        self._use.progress.begin(self._stage.place, names, unit, total)

    def _keep_evaluated(self, rows: pa.Table) -> None:
        assert self._stage.early is not None
        names = [*(name for name, _ in self._stage.columns), "mlsql_n"]
        with registered(self._use.connection, "mlsql_seen", rows.select(names)):
            self._use.connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {self._stage.early.table} AS FROM mlsql_seen")

    def _chunk(self, rows: pa.Table) -> None:
        unknown = self._known.unknown(rows)
        left = self._use.guardrails.calls_left
        if left is not None and sum(len(u.arguments) for u in unknown.values()) > left:
            raise self._use.guardrails.call_limit()
        early = self._stage.early
        if early is None and not any(len(u.arguments) for u in unknown.values()):
            self._take_as_known(rows, unknown)
            return
        pieces = self._pieces(rows, unknown)
        if self._wanted is not None:
            pieces.wanted = self._wanted - self.rows_passed
        self._covered = 0
        try:
            self._look_at(pieces, len(rows))
        finally:
            self._stage = pieces.stage
            self._count(pieces, rows, self._covered)

    def _pieces(self, rows: pa.Table, unknown: Mapping[str, Unknown]) -> Pieces:
        pieces = Pieces(self._stage, self._known.joined(rows, unknown), unknown, self._stores,
                        self._learning, self._use)
        pieces.total = self._rows
        return pieces

    def _take_as_known(self, rows: pa.Table, unknown: Mapping[str, Unknown]) -> None:
        """Rows with nothing left to ask: no worker needs to see them, nor which of them pass.

        A condition that was never judged is, on some of them, for the plans to come.
        """
        filters = self._stage.filters
        if len(filters) == 1 and self._use.measured.selectivity(filters[0].text) is None:
            at = evenly(len(rows), SAMPLE)
            self._look_at(self._pieces(rows.take(pa.array(at)), unknown), len(at))
            self.rows_judged += len(at)
        self._use.guardrails.check()
        self._count_answers(rows)
        self._use.progress.advance(self.rows_seen)

    def _look_at(self, pieces: Pieces, rows: int) -> None:
        """Run the pieces until all rows are covered, or enough have passed."""
        ended = False
        events = self._use.executor.run(pieces.shares())
        try:
            with closing(events):  # type: ignore[type-var]
                for number, event in events:
                    piece = pieces.opened[number]
                    if isinstance(event, Answers):  # what was computed is kept, come what may
                        self._take(event, piece, pieces)
                        continue
                    self._use.guardrails.check()
                    if pieces.counts_passed:
                        self.rows_passed += len(event.passed)
                        pieces.passed(len(event.passed))
                    done = piece.start + event.covered
                    self._use.progress.advance(self.rows_seen + done)
                    if not ended:
                        self._covered = done
                    if pieces.wanted is not None and pieces.wanted <= 0 and not ended:
                        ended = True
                        self._use.executor.enough()
        finally:
            pieces.store()
        if not ended:
            self._covered = rows
        pieces.judge_last(self._covered)

    def _count(self, pieces: Pieces, rows: pa.Table, covered: int) -> None:
        self.rows_judged += covered if pieces.counts_passed else 0
        self._count_answers(rows.slice(0, covered))
        for k in range(len(self._calls)):
            self._asked[k] += pieces.asked[k]
            self._open[k] += pieces.unknown_rows(k, covered)

    def _count_answers(self, rows: pa.Table) -> None:
        self.rows_seen += len(rows)
        for call in self._calls:
            asked = len(rows) - rows[call.column].null_count
            self._use.tally.answered(call.spec.name, asked * call.uses)

    def _take(self, event: Answers, piece: Piece, pieces: Pieces) -> None:
        """New outputs: into the cache at once, into the store at the end of the chunk."""
        call = piece.calls[event.step]
        spec, store = self._calls[call].spec, self._stores[call]
        self._use.tally.worked(spec.name, event.counters, event.errors)
        self._learning.ran(spec.name, event.counters)
        bad = {e.row for e in event.errors}
        places, first, outputs = pieces.learn(call, piece, event)
        left = pieces.unknown[store.name]
        if bad:
            failed = pieces.places(call, piece, sorted(bad))
            same = np.flatnonzero(np.isin(left.first, failed))
            store.add_bad(left.arguments.take(pa.array(same)))
        if self._use.cache is not None and left.keys is not None:
            numbers = np.asarray(event.rows)[first]
            good = np.flatnonzero([int(n) not in bad for n in numbers])
            self._use.cache.write(spec, left.keys.take(places[good]), taken(outputs, good))
        self._use.guardrails.judge(event, spec.name)
