"""Running a stage: candidates, what is known of them, and the executor's answers for the rest."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mlsql.exec.cache import OutputCache
from mlsql.exec.known import Known
from mlsql.exec.learning import Learning
from mlsql.exec.limits import Guardrails
from mlsql.exec.measured import Measurements
from mlsql.exec.pieces import Piece, Pieces
from mlsql.exec.progress import Progress
from mlsql.exec.share import Answers, Executor
from mlsql.exec.stores import OutputStore, registered
from mlsql.exec.tally import Tally
from mlsql.planner.context import StageMemory
from mlsql.planner.nodes import Stage

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
                            self._stores)
        self._learning = Learning(use.measured)
        self._rows = 0
        self._asked = [0] * len(stage.calls)  # distinct inputs that were wanted and not known
        self._open = [0] * len(stage.calls)  # rows whose output was not known
        self.rows_seen = 0
        self.rows_passed = 0

    def run(self, rows_sql: str) -> None:
        """List the candidates and look at them, all or as many as an early stop needs."""
        with self._use.tally.sql():
            rows = self._use.connection.sql(rows_sql).to_arrow_table()
        early, self._rows = self._stage.early, len(rows)
        self._begin(None if early else len(rows))
        size = _EARLY_CHUNK if early else _CHUNK
        while self.rows_seen < len(rows):
            left = self._use.guardrails.calls_left
            most = size if left is None else min(size, max(1, left // max(1, len(self._calls))))
            self._chunk(rows.slice(self.rows_seen, most))
            if early and self.rows_passed >= early.rows:
                break
        if early:
            self._keep_evaluated(rows.slice(0, self.rows_seen))
        self._remember()

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
                f"CREATE TEMP TABLE {self._stage.early.table} AS FROM mlsql_seen")

    def _chunk(self, rows: pa.Table) -> None:
        unknown = self._known.unknown(rows)
        left = self._use.guardrails.calls_left
        if left == 0 and any(len(u.arguments) for u in unknown.values()):
            raise self._use.guardrails.call_limit()
        early = self._stage.early
        pieces = Pieces(self._stage, self._known.joined(rows, unknown), unknown, self._stores,
                        self._learning, self._use)
        pieces.total, pieces.wanted = self._rows, early.rows - self.rows_passed if early else None
        covered = self._look_at(pieces, len(rows))
        self._stage = pieces.stage
        self._count(pieces, rows, covered)

    def _look_at(self, pieces: Pieces, rows: int) -> int:
        """Run the pieces; how many rows were covered when all were, or enough had passed."""
        covered, ended = rows, False
        events = self._use.executor.run(pieces.shares())
        try:
            with closing(events):  # type: ignore[type-var]
                for number, event in events:
                    piece = pieces.opened[number]
                    if isinstance(event, Answers):  # what was computed is kept, come what may
                        self._take(event, piece, pieces)
                        continue
                    self._use.guardrails.check()
                    self.rows_passed += len(event.passed)
                    pieces.passed(len(event.passed))
                    done = piece.start + event.covered
                    self._use.progress.advance(self.rows_seen + done)
                    if pieces.wanted is not None and pieces.wanted <= 0 and not ended:
                        covered, ended = done, True
                        self._use.executor.enough()
        finally:
            pieces.store()
        pieces.judge_last(covered)
        return covered

    def _count(self, pieces: Pieces, rows: pa.Table, covered: int) -> None:
        self.rows_seen += covered
        for k, call in enumerate(self._calls):
            self._asked[k] += pieces.asked[k]
            self._open[k] += pieces.unknown_rows(k, covered)
            asked = covered - rows[call.column].slice(0, covered).null_count
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
            self._use.cache.write(spec, left.keys.take(places[good]), outputs.take(pa.array(good)))
        self._use.guardrails.judge(event, spec.name)
