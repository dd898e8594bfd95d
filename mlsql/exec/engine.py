"""Runs a plan: its nodes, then the statement itself, again where a pass found outputs missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from mlsql.errors import NotSupportedError, OperationalError
from mlsql.exec.recording import Recorder
from mlsql.exec.stage_run import Machinery, StageRun
from mlsql.exec.stores import OutputStore, registered
from mlsql.foreign import held
from mlsql.parser.dialect import to_sql
from mlsql.planner.nodes import Materialise, ModelCall, Plan, Stage
from mlsql.planner.trees import Query

if TYPE_CHECKING:
    pass

# Passes end when nothing is missing; an argument that changes at each evaluation never gets there.
_MOST_PASSES = 50

Learn = Callable[[Stage, int, int], None]


class Engine:
    """One plan on one connection. Everything it makes there is gone when it is closed."""

    def __init__(
        self, plan: Plan, use: Machinery, learn: Learn, owns_transaction: bool,
        leaves_open: bool = False,
    ) -> None:
        """`leaves_open`: what the statement writes waits for a commit that others ask for."""
        self._plan = plan
        self._use = use
        self._learn = learn
        self._owns = owns_transaction
        self._leaves_open = leaves_open
        self._stores = {s.name: OutputStore(use.connection, s) for s in plan.stores}
        self._recorders = [Recorder(look, self._stores[look.store], may_cut=owns_transaction)
                           for look in plan.lookups]
        self._tables: list[str] = []

    def learned(self) -> dict[str, pa.Table]:
        """What the models have answered so far, by model: arguments and outputs."""
        return {store.spec.name: store.rows() for store in self._stores.values()}

    def know(self, learned: Mapping[str, pa.Table]) -> None:
        """Take over what another engine has learned."""
        for store in self._stores.values():
            if store.spec.name in learned:
                store.know(learned[store.spec.name])

    def run(self) -> Any:
        """The columns' names and the rows as a DuckDB relation; None where there are none."""
        for recorder in self._recorders:
            recorder.register(self._use.connection)
        try:
            return self._passes()
        finally:
            for recorder in self._recorders:
                recorder.unregister(self._use.connection)

    def _passes(self) -> Any:
        if self._plan.recorded and self._writes and not self._owns:
            raise NotSupportedError(
                "this statement may have to run more than once, which a transaction that you "
                "began does not allow: COMMIT first, or select the rows into a table beforehand")
        for _ in range(_MOST_PASSES):
            self._begin()
            done = False
            try:
                rows = self._pass_or_cut()
                done = not self._fill_in()
                if done:
                    return rows
            finally:
                self._end(keep=done)
        raise OperationalError(
            f"outputs were still missing after {_MOST_PASSES} passes: the argument of "
            f"{self._plan.lookups[0].spec.name} changes each time it is evaluated")

    def _pass_or_cut(self) -> Any:
        """A pass; one that failed, and missed something, proves nothing: it leaves a new one."""
        import duckdb

        try:
            return self._pass()
        except duckdb.Error:
            cut = any([recorder.was_cut for recorder in self._recorders])
            if not self._owns or not (cut or any(r.missed for r in self._recorders)):
                raise
            self._end(keep=False)
            self._begin()
            return None

    def _pass(self) -> Any:
        last: StageRun | None = None
        for node in self._plan.nodes:
            self._use.guardrails.check()
            if isinstance(node, Materialise):
                self._materialise(node)
            else:
                last = self._stage(node)
        return self._final() if last is None else self._enough(last)

    def _enough(self, last: StageRun) -> Any:
        """The statement's rows; those of SELECT DISTINCT … LIMIT may take more than one look."""
        found, early = self._final(), last.early
        if early is None or not early.again or found is None:
            return found
        wanted = early.rows or 0
        while len(found[1]) < wanted and last.go_on(wanted - len(found[1])):
            found = self._final()
        return found

    def _begin(self) -> None:
        if self._owns:
            self._use.connection.execute("BEGIN TRANSACTION")
        for store in self._stores.values():
            store.create()

    def _end(self, keep: bool) -> None:
        """Leave nothing behind but what the statement itself wrote."""
        connection = self._use.connection
        if self._owns and not (keep and self._writes):
            self._roll_back()
        else:
            self._drop()
            if self._owns and not self._leaves_open:
                connection.execute("COMMIT")
        self._tables = []

    def _roll_back(self) -> None:
        """End the transaction; a stop that came late may interrupt this as well, once."""
        import duckdb

        try:
            self._use.connection.execute("ROLLBACK")
        except duckdb.Error:
            with suppress(duckdb.Error):  # no transaction is left then
                self._use.connection.execute("ROLLBACK")

    def _drop(self) -> None:
        try:
            for table in self._tables:
                self._use.connection.execute(f"DROP TABLE IF EXISTS {table}")
            for store in self._stores.values():
                store.drop()
        except Exception:  # the user's transaction is aborted: it can only be rolled back
            if self._owns:
                raise

    @property
    def left_open(self) -> bool:
        """Whether the transaction of a run that went well waits for its commit."""
        return self._owns and self._leaves_open and self._writes

    @property
    def _writes(self) -> bool:
        return not isinstance(self._plan.final, Query)

    def _materialise(self, node: Materialise) -> None:
        self._tables.append(node.table)
        for _ in range(_MOST_PASSES):
            with self._use.tally.sql():
                self._use.connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE {node.table} AS {to_sql(node.query)}")
            if not self._fill_in():
                return

    def _stage(self, stage: Stage) -> StageRun:
        run = StageRun(stage, self._stores, self._use)
        run.run(to_sql(stage.rows))
        if stage.early is not None:
            self._tables.append(stage.early.table)
        self._learn(stage, run.rows_judged, run.rows_passed)
        return run

    def _final(self) -> Any:
        sql = to_sql(self._plan.final)
        with self._use.tally.sql(), self._use.guardrails.finishing():
            rows = self._use.connection.sql(sql)
            if rows is None or rows.columns == ["Success"]:
                return None
            # Held in memory, the columns that are alike are numbered.
            return tuple(rows.columns), held(rows)

    def _fill_in(self) -> bool:
        """Run the models on what look-ups missed; whether there was anything."""
        found = False
        for recorder in self._recorders:
            misses = recorder.take_misses()
            if len(misses):
                self._infer(recorder, misses)
                found = True
        return found

    def _infer(self, recorder: Recorder, misses: pa.Array) -> None:
        """A stage over the missing arguments alone."""
        lookup = recorder.lookup
        call = ModelCall(lookup.spec, exp.column("a0"), "a0", lookup.store)
        stage = Stage(f"{lookup.name}_misses", "look-up", exp.select("a0").from_("mlsql_misses"),
                      (("a0", exp.column("a0")),), (call,), tail=(0,))
        with registered(self._use.connection, "mlsql_misses", pa.table({"a0": misses})):
            StageRun(stage, self._stores, self._use).run(to_sql(stage.rows))
