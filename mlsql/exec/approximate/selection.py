"""The rows of a statement whose condition asks models, with a recall or precision target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from mlsql.exec.approximate.anchors import anchor_rows
from mlsql.exec.approximate.decisions import Decision, decided, remember
from mlsql.exec.approximate.labelling import Price, label_until_proved
from mlsql.exec.approximate.labels import Labels
from mlsql.exec.approximate.limit import likeliest
from mlsql.exec.approximate.oracle import Oracle
from mlsql.exec.approximate.proxy import Features, proxy_features
from mlsql.exec.approximate.report import Approximation
from mlsql.exec.approximate.thresholds import by_precision, by_recall
from mlsql.exec.approximate.tracks import track_of
from mlsql.exec.stores import registered
from mlsql.planner.approximate import Selection
from mlsql.planner.estimate.total import Goal
from mlsql.planner.tried import tried

if TYPE_CHECKING:
    from mlsql.exec.approximate.run import Run

Rows = NDArray[np.int64]
Found = tuple[tuple[str, ...], Any, Approximation, tuple[str, ...]]

_FEWEST = 200
_PILOT = 150  # labels before anything is guessed, and more where there are many files
_A_FILE = 5
_EXPLAINED = 0.6  # of the variance, by neighbours in time: features would not pay


@dataclass(frozen=True)
class Chosen:
    """The rows that are returned, and what is known of them."""

    rows: Rows
    method: str
    exact: bool = False
    recall: float | None = None
    precision: tuple[float, float, float] | None = None
    notes: tuple[str, ...] = ()
    expected: int | None = None


def answer_selection(run: Run, shape: Selection) -> Found | None:
    """The rows; None where an exact run is as cheap."""
    oracle = Oracle(run.runner, run.use, shape.population, run.expressions(), run.owns)
    try:
        if oracle.size < _FEWEST:
            return None
        return _Choice(run, shape, oracle).found()
    finally:
        oracle.close()


class _Choice:
    def __init__(self, run: Run, shape: Selection, oracle: Oracle) -> None:
        self._run, self._shape, self._oracle = run, shape, oracle
        self._targets = run.targets
        self._agrees = run.targets.agreement is not None
        self._rng = np.random.default_rng([run.targets.seed, 7])

    def found(self) -> Found | None:
        oracle, targets = self._oracle, self._targets
        track = track_of(oracle, self._shape.population.arguments)
        if self._agrees and not track.has_neighbours:
            return None  # nothing to guess from
        decision = decided(self._run, oracle)
        known = oracle.known() if decision is None else decision.known
        if decision is None:
            remember(self._run, oracle, Decision(known))
        limit = self._shape.limit
        if limit is not None:
            return self._some(limit, Labels(oracle.ask, oracle.size, self._shape.judgement.formula,
                                            track), known)
        checked = self._agrees or (targets.recall is not None and (
            targets.checked or targets.precision is not None))
        labels = Labels(oracle.ask, oracle.size, self._shape.judgement.formula, track)
        self._pilot(labels, known)
        features = Features(None, "neighbours")
        if labels.explained < _EXPLAINED:
            features = proxy_features(self._run, self._shape.population, oracle, known,
                                      wanted=not checked)
            labels.features = features.columns
            labels.refit()
        self._proxy = features.words
        if checked:
            chosen = self._checked(labels)
        elif targets.recall is not None:
            chosen = by_recall(labels, targets, self._rng, self._allowed)
        else:
            chosen = by_precision(labels, targets, self._rng, self._allowed)
        chosen = replace(chosen, notes=(*features.notes, *chosen.notes))
        return self._answer(chosen)

    def _some(self, limit: int, labels: Labels, known: Rows) -> Found:
        """LIMIT without an order: any rows that the condition selects will do."""
        if len(known):
            labels.look(known)
        rows, _ = likeliest(labels, limit, self._rng, self._allowed)
        self._proxy = "neighbours" if labels.track.has_neighbours else "none"
        return self._answer(Chosen(
            rows, "likeliest rows first, every returned row checked", True, None, (1.0, 1.0, 1.0)))

    def _pilot(self, labels: Labels, known: Rows) -> None:
        """Label what is known, and rows at even steps of each file, or random ones."""
        if len(known):
            labels.look(known)
        wanted = min(_A_FILE * len(np.unique(labels.track.group)), labels.size // 40)
        step = max(2, labels.size // max(_PILOT, wanted))
        rows = anchor_rows(labels.track, step) if labels.track.has_neighbours else \
            self._rng.permutation(labels.size)[:_PILOT]
        rows = rows[~labels.seen[rows]]
        if len(known) > len(rows):
            rows = rows[:0]
        rows = rows[:self._allowed(len(rows))]
        if len(rows):
            labels.look(rows)
        labels.refit()

    def _allowed(self, count: int) -> int:
        return self._oracle.limited(count, self._targets.oracle_limit)

    def _checked(self, labels: Labels) -> Chosen:
        """Every returned row was looked at; the proof is about those that were not."""
        targets = self._targets
        goal = Goal(recall=targets.recall or 1.0)
        if self._agrees:
            assert targets.agreement is not None
            goal = Goal(missed=(1 - targets.agreement) * labels.size)
            labels.predicts = True
        foreseen: list[int] = []
        proof = label_until_proved(labels, goal, targets.delta, self._rng,
                                   allowed=self._allowed, told=self._tell(labels, foreseen))
        if proof is None:
            assert targets.oracle_limit is not None
            raise self._oracle.over_limit(targets.oracle_limit)
        rows = np.flatnonzero(labels.selected)
        what, words = "recall", "likeliest rows first, every returned row checked; "
        if self._agrees:
            what = f"at most {proof.missed:,} rows of {labels.size:,} wrong"
            words = "rows in doubt first, the others as guessed; "
        words += "all rows looked at: the answer is exact" if proof.exact else \
            f"{what} proved by {proof.drawn:,} uniform labels of the rest (hypergeometric)"
        return Chosen(rows, words, bool(labels.seen.all()),
                      None if self._agrees else proof.recall,
                      None if self._agrees else (1.0, 1.0, 1.0),
                      expected=foreseen[0] if foreseen else None)

    def _tell(self, labels: Labels, foreseen: list[int]) -> Any:
        progress = self._run.use.progress

        def told(wanted: Price) -> None:
            foreseen.append(int(labels.seen.sum()) + wanted.total)
            progress.estimate(float(labels.found), None, self._targets.confidence)

        return told

    # --- the answer -----------------------------------------------------------------------

    def _answer(self, chosen: Chosen) -> Found:
        """The final statement over the rows that were chosen, as any other statement."""
        oracle, targets = self._oracle, self._targets
        run = self._run
        names = [name for name, _ in self._shape.population.columns]
        table = f"{oracle.table}_c"
        with registered(run.use.connection, "mlsql_chosen", pa.table({"n": chosen.rows})):
            run.use.connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT DISTINCT {', '.join(names)} "
                f"FROM {oracle.table} AS p JOIN mlsql_chosen AS c ON p.mlsql_n = c.n")
        try:
            final = self._shape.final.copy()
            final.where(_is_among(table, self._shape.population.columns), copy=False)
            planned = run.runner.planned(final, run.text)
            answer = run.runner._run(planned, run.text, run.owns, run.tally, oracle.learned())
        finally:
            run.use.connection.execute(f"DROP TABLE IF EXISTS {table}")
        report = Approximation(
            chosen.method, targets.words(), targets.confidence, targets.seed, oracle.size,
            int(oracle.seen.sum()), expected_calls=chosen.expected, exact_calls=oracle.size,
            proxy=self._proxy, exact=chosen.exact, recall=chosen.recall,
            precision=chosen.precision, notes=chosen.notes)
        return answer.names or (), answer.rows, report, (*answer.notes, *chosen.notes)


def _is_among(table: str, columns: tuple[tuple[str, exp.Expr], ...]) -> exp.Expr:
    """Whether a row is one of those chosen: what its label hangs on is the same."""
    same = [exp.NullSafeEQ(this=exp.column(name, table=table), expression=tried(node))
            for name, node in columns]
    found = exp.select(exp.true()).from_(table).where(*same, copy=False).limit(1)
    # No EXISTS: as a semi join DuckDB may give the rows in another order.
    return exp.not_(exp.Is(this=found.subquery(), expression=exp.null()), copy=False)
