"""What planning may ask of the world: handed in, so that planning itself stays pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from mlsql.planner.nodes import Stage
from mlsql.udfs.function import Models
from mlsql.udfs.spec import ModelSpec

Column = tuple[str, str]  # name as written, DuckDB type


@dataclass(frozen=True)
class StageMemory:
    """A stage that ran: its candidates, and for each call the inputs asked per unknown candidate.

    Calls go by f'{column}/{model}'.
    """

    rows: int
    calls: Mapping[str, float] = field(default_factory=dict)


class Context(Models, Protocol):
    """DuckDB, the models and the measurements, as planning sees them."""

    def describe(self, sql: str) -> Sequence[Column]:
        """The columns of a query, bound by DuckDB, not run; its error if it does not bind."""

    def bind(self, sql: str) -> None:
        """Raise DuckDB's error if a statement that is no query does not bind; it is not run."""

    def function_type(self, name: str) -> str | None:
        """What DuckDB's function of that name is: 'scalar', 'aggregate', 'table', 'macro' …

        None where DuckDB has none, or only one of the user's.
        """

    def spelling(self, expression: str) -> str | None:
        """DuckDB's own spelling of an expression, None where it cannot be read."""

    def view(self, table: exp.Table) -> str | None:
        """The query of DuckDB's view that a table names, if it is one."""

    def predictor(self, name: str) -> ModelSpec | None:
        """The registered model that is called by its own name, if there is one."""

    def call_ms(self, stage: Stage, call: int) -> float:
        """Milliseconds that one of a stage's calls costs for a row that reaches it."""

    def cost_ms(self, spec: ModelSpec) -> float:
        """Milliseconds that one input costs: measured where it has been, else the spec's prior."""

    def selectivity(self, key: str) -> float | None:
        """The share of rows that a condition let through when it was last run, if it was."""

    def remembered(self, stage: Stage) -> StageMemory | None:
        """What the stage was like when it last ran, if it did."""

    def switched_off(self) -> frozenset[str]:
        """The names of the rules that must not be applied."""
