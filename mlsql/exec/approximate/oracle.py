"""The rows of a statement, and what its models say of those that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from mlsql.errors import CallLimit
from mlsql.exec.engine import Engine
from mlsql.exec.stage_run import Machinery
from mlsql.exec.stores import registered
from mlsql.parser.dialect import to_sql
from mlsql.udfs.function import ModelOutput
from mlsql.udfs.types import arrow_type

if TYPE_CHECKING:
    from mlsql.exec.statement import Runner
    from mlsql.planner.approximate import Population

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Oracle:
    """The population as a temporary table, and a plan that runs the models on some of its rows."""

    def __init__(
        self, runner: Runner, use: Machinery, population: Population,
        expressions: Sequence[exp.Expr], owns_transaction: bool,
    ) -> None:
        self._runner, self._use, self._owns = runner, use, owns_transaction
        self._population, self._expressions = population, tuple(expressions)
        number = runner.next_number()
        self.table = f"mlsql_{number}_p"
        self._sample = f"mlsql_{number}_s"
        with use.tally.sql():
            self._execute(f"CREATE TEMP TABLE {self.table} AS SELECT row_number() OVER () - 1 "
                          f"AS mlsql_n, mlsql_r.* FROM ({to_sql(population.query)}) AS mlsql_r")
            self._execute(f"CREATE TEMP TABLE {self._sample} AS FROM {self.table} LIMIT 0")
        self.size = int(self.sql(f"SELECT count(*) FROM {self.table}").fetchall()[0][0])
        self._plan = runner.planned(self._query(), "")
        self._learned: dict[str, Any] = {}
        self._answers = np.full((self.size, len(expressions)), np.nan)
        self.seen = np.zeros(self.size, bool)

    @property
    def calls(self) -> int:
        """Model calls so far."""
        return self._use.tally.calls

    @property
    def models(self) -> tuple[str, ...]:
        """The models that a label asks."""
        return tuple(store.spec.name for store in self._plan.stores)

    @property
    def calls_a_row(self) -> int:
        """The most calls that one row costs."""
        return max(1, len({to_sql(c) + c.spec.name for e in self._expressions
                           for c in e.find_all(ModelOutput)}))

    def cost_ms(self) -> float:
        """Milliseconds that the models take for one row, measured or by their priors."""
        context = self._runner.context()
        return sum(context.cost_ms(store.spec) for store in self._plan.stores)

    def sql(self, query: str) -> Any:
        """A relation over the population and what else is there."""
        return self._use.connection.sql(query)

    def _execute(self, statement: str) -> None:
        self._use.connection.execute(statement)

    def _query(self) -> exp.Select:
        items: list[exp.Expr] = [exp.column("mlsql_n")]
        for i, expression in enumerate(self._expressions):
            number = exp.cast(exp.paren(expression.copy(), copy=False), "DOUBLE", copy=False)
            items.append(exp.alias_(number, f"v{i}", copy=False))
        return exp.Select(expressions=items).from_(self._sample)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of the population, in row order."""
        return self.sql(f"SELECT {name} FROM {self.table} ORDER BY mlsql_n").to_arrow_table()[name]

    def ask(self, rows: Rows) -> Floats:
        """The expressions of these rows, one a column, NaN for NULL; models run where needed."""
        new = rows[~self.seen[rows]]
        if len(new):
            self._infer(np.unique(new))
        return self._answers[rows]

    def _infer(self, rows: Rows) -> None:
        with registered(self._use.connection, "mlsql_drawn", pa.table({"n": rows})):
            self._execute(f"CREATE OR REPLACE TEMP TABLE {self._sample} AS SELECT p.* FROM "
                          f"{self.table} AS p JOIN mlsql_drawn AS d ON p.mlsql_n = d.n "
                          "ORDER BY p.mlsql_n")
        engine = Engine(self._plan, self._use, self._runner.measured.learn, self._owns)
        if self._use.cache is None:
            engine.know(self._learned)
        try:
            _, relation = engine.run()
            table = relation.to_arrow_table()
        finally:
            if self._use.cache is None:
                self._learned = engine.learned()
        numbers = np.asarray(table["mlsql_n"])
        for i in range(len(self._expressions)):
            values = table[f"v{i}"].combine_chunks()
            self._answers[numbers, i] = values.fill_null(np.nan).to_numpy(zero_copy_only=False)
        self.seen[numbers] = True

    def known(self) -> Rows:
        """The rows whose models' answers all lie in the cache, or were computed before."""
        found = np.ones(self.size, bool)
        if self._use.cache is None or not self.size:
            return np.flatnonzero(self.seen)
        for call in self._calls():
            found &= self._cached(call)
            if not found.any():
                break
        return np.flatnonzero(found)

    def _calls(self) -> list[ModelOutput]:
        calls = {to_sql(c) + c.spec.name: c for e in self._expressions
                 for c in e.find_all(ModelOutput)}
        return list(calls.values())

    def _cached(self, call: ModelOutput) -> NDArray[np.bool_]:
        cache = self._use.cache
        assert cache is not None
        if not isinstance(call.this, exp.Column) or not call.spec.deterministic:
            return np.zeros(self.size, bool)
        values = self.column(call.this.name).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
        values = values.cast(arrow_type(call.spec.input_type))
        keys = cache.keys(values, self._use.guardrails.check)
        known, _ = cache.lookup(call.spec, keys)
        return np.asarray(known, bool)

    def learned(self) -> dict[str, Any]:
        """What the models have answered, for a statement that is to use it without a cache."""
        return self._learned

    def limited(self, count: int, limit: int | None) -> int:
        """So many rows as ORACLE LIMIT still allows, at most `count`."""
        if limit is None:
            return count
        return max(0, min(count, (limit - self.calls) // self.calls_a_row))

    def over_limit(self, limit: int) -> CallLimit:
        """The error where a target wants more answers than it may have."""
        return CallLimit(f"ORACLE LIMIT {limit:,}: the target cannot be certified with so few "
                         "calls of the model; what was computed is kept")

    def estimate(self, value: float, half_width: float, confidence: float) -> None:
        """Tell whoever listens what the answer is by now."""
        self._use.progress.estimate(value, half_width, confidence)

    def close(self) -> None:
        """Remove the tables."""
        with suppress(Exception):  # the user's transaction is aborted: it can only be rolled back
            for table in (self.table, self._sample):
                self._execute(f"DROP TABLE IF EXISTS {table}")
