"""What past runs have shown: how many rows a condition lets through, what a model's call costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsql.exec.stats import ModelStats

if TYPE_CHECKING:
    from mlsql.planner.nodes import Stage

# How much a new measurement weighs against all earlier ones.
_WEIGHT = 0.5


class Measurements:
    """Selectivities and costs seen in this session."""

    def __init__(self) -> None:
        self._selectivity: dict[str, float] = {}
        self._cost_ms: dict[str, float] = {}

    def selectivity(self, condition: str) -> float | None:
        """The share of rows that the condition let through, if it was ever judged."""
        return self._selectivity.get(condition)

    def saw(self, condition: str, rows: int, passed: int) -> None:
        """A condition was judged on some rows."""
        if rows:
            self._update(self._selectivity, condition, passed / rows)

    def learn(self, stage: Stage, rows: int, passed: int) -> None:
        """A stage was run: what it says of a condition, where it had just one."""
        if len(stage.filters) == 1 and stage.filters[0].condition is not None:
            self.saw(stage.filters[0].text, rows, passed)

    def cost_ms(self, model: str) -> float | None:
        """Milliseconds a call, if the model ever ran."""
        return self._cost_ms.get(model)

    def ran(self, stats: ModelStats) -> None:
        """A model ran; runs of a few calls say little and are left out."""
        if stats.calls >= 8:
            seconds = stats.seconds_infer + stats.seconds_wait
            self._update(self._cost_ms, stats.model, 1000 * seconds / stats.calls)

    def _update(self, table: dict[str, float], key: str, value: float) -> None:
        before = table.get(key)
        table[key] = value if before is None else before + _WEIGHT * (value - before)
