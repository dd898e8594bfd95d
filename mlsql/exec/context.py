"""The world as planning sees it: DuckDB's catalog, the registered models, past measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.exec.measured import Measurements
from mlsql.exec.views import Views
from mlsql.planner.context import Column, StageMemory
from mlsql.planner.nodes import Stage
from mlsql.udfs.registry import Registry
from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import duckdb

_FUNCTION_TYPES: dict[str, str] = {}
_SPELLINGS: dict[str, str] = {}  # they hang on DuckDB's parser alone
_MOST_SPELLINGS = 4096


class EngineContext:
    """Answers what the planner asks."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, registry: Registry,
        measured: Measurements, views: Views, off: frozenset[str] = frozenset(),
        precision: str = "fp32",
    ) -> None:
        self._views = views
        self._connection = connection
        self._registry = registry
        self._measured = measured
        self._off = off
        self._precision = precision

    def describe(self, sql: str) -> Sequence[Column]:
        """The columns of a query: bound, not run; what does not bind ends no transaction."""
        import duckdb

        try:
            bound = self._connection.sql(sql)
        except duckdb.Error as error:
            raise ProgrammingError(str(error)) from error
        return list(zip(bound.columns, map(str, bound.types), strict=True))

    def bind(self, sql: str) -> None:
        """Raise DuckDB's error if a statement does not bind."""
        self._ask(f"EXPLAIN {sql}")

    def _ask(self, sql: str, values: Sequence[str] = ()) -> list[tuple[str, ...]]:
        import duckdb

        try:
            found: list[tuple[str, ...]] = self._connection.execute(
                sql, list(values)).fetchall()
        except duckdb.Error as error:
            raise ProgrammingError(str(error)) from error
        return found

    def function_type(self, name: str) -> str | None:
        """The type of DuckDB's own function of that name."""
        if not _FUNCTION_TYPES:
            found = self._connection.execute(
                "SELECT lower(function_name), any_value(function_type) FROM duckdb_functions() "
                "WHERE internal GROUP BY 1").fetchall()
            _FUNCTION_TYPES.update(dict(found))
        return _FUNCTION_TYPES.get(name.lower())

    def spelling(self, expression: str) -> str | None:
        """DuckDB's own spelling of an expression: parsed and written again, not bound."""
        found = _SPELLINGS.get(expression)
        if found is None:
            found = self._spelling(expression)
            if found is not None and len(_SPELLINGS) < _MOST_SPELLINGS:
                _SPELLINGS[expression] = found
        return found

    def _spelling(self, expression: str) -> str | None:
        import duckdb

        try:
            # Beside the connection: an error there would end a transaction of the user's.
            found = self._connection.cursor().execute(
                "SELECT json_deserialize_sql(json_serialize_sql($1))",
                [f"SELECT {expression}"]).fetchall()[0][0]
        except duckdb.Error:
            return None
        return found.removeprefix("SELECT ") if found else None

    def view(self, table: exp.Table) -> str | None:
        """The query of the view that a table names."""
        return self._views.query(table)

    def predictor(self, name: str) -> ModelSpec | None:
        """The registered model of that name, if it is one of the user's own."""
        spec = self._registry.own(name)
        return None if spec is None else spec.variant(self._precision)

    def named(self, name: str) -> ModelSpec:
        """The model of that name, in the precision that is set."""
        return self._registry.named(name).variant(self._precision)

    def default(self, task: str | None, labels: Sequence[str]) -> ModelSpec:
        """The model that the rule chooses for the labels, in the precision that is set."""
        return self._registry.default(task, labels).variant(self._precision)

    def call_ms(self, stage: Stage, call: int) -> float:
        """Milliseconds that one of a stage's calls costs for a row that reaches it."""
        return self.cost_ms(stage.calls[call].spec)

    def embedders(self) -> Sequence[ModelSpec]:
        """The models for 'embed', those that come with mlsql first."""
        return [spec for spec in self._registry if spec.task == "embed"]

    def cost_ms(self, spec: ModelSpec) -> float:
        """Milliseconds a call: measured, else the spec's prior."""
        measured = self._measured.cost_ms(spec)
        return spec.cost_ms if measured is None else measured

    def selectivity(self, key: str) -> float | None:
        """The share of rows that a condition let through, if it was judged before."""
        return self._measured.selectivity(key)

    def remembered(self, stage: Stage) -> StageMemory | None:
        """What the stage was like when it last ran."""
        return self._measured.remembered(stage)

    def switched_off(self) -> frozenset[str]:
        """The rules that must not be applied."""
        return self._off
