"""What past runs have shown: how many rows a condition lets through, what a model's call costs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.exec.stats import ModelStats
from mlsql.parser.dialect import to_sql
from mlsql.planner.context import StageMemory

if TYPE_CHECKING:
    from mlsql.planner.nodes import Stage
    from mlsql.udfs.spec import ModelSpec

# How much a new measurement weighs against all earlier ones.
_WEIGHT = 0.5
# A run of fewer calls says little of what a call costs.
_FEWEST_CALLS = 8
# What handing an input over costs: differences below it are noise.
LEAST_MS = 0.05
# The oldest of more entries than these are dropped from the file.
_MOST_KEPT = 2_000
_SECONDS_BETWEEN_SAVES = 5.0


class Measurements:
    """Selectivities, costs and sizes, kept in a file of `folder` for sessions to come.

    Costs go by model, weights and device; selectivities by the condition as it is written; sizes
    by the SQL that lists a stage's candidates.
    """

    def __init__(self, folder: Path | None = None, device: str = "cpu") -> None:
        self._file = None if folder is None else folder / "measured.json"
        self._device = device
        kept = _read(self._file)
        self._selectivity: dict[str, float] = kept.get("selectivity", {})
        self._cost_ms: dict[str, float] = kept.get("cost_ms", {})
        self._stages: dict[str, dict[str, Any]] = kept.get("stages", {})
        self._loaded: set[str] = set()
        self._changed, self._saved = False, time.monotonic()

    # --- conditions -----------------------------------------------------------------------

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

    # --- models ---------------------------------------------------------------------------

    def cost_ms(self, spec: ModelSpec) -> float | None:
        """Milliseconds a call on this device, if the model ever ran here."""
        found = self._cost_ms.get(self._key(spec))
        return None if found is None else max(LEAST_MS, found)

    def ran(self, spec: ModelSpec, stats: ModelStats) -> None:
        """A model ran; runs of a few calls say little of its cost and are left out."""
        if stats.calls:
            self._loaded.add(spec.name)
        if stats.calls >= _FEWEST_CALLS:
            seconds = stats.seconds_infer + stats.seconds_wait
            self._update(self._cost_ms, self._key(spec), 1000 * seconds / stats.calls)

    def is_loaded(self, model: str) -> bool:
        """Whether a model has run in this session."""
        return model in self._loaded

    def _key(self, spec: ModelSpec) -> str:
        return f"{spec.name}/{spec.fingerprint[:12]}/{self._device}"

    # --- stages ---------------------------------------------------------------------------

    def remembered(self, stage: Stage) -> StageMemory | None:
        """What the stage was like when it last ran."""
        found = self._stages.get(_named(stage))
        return None if found is None else StageMemory(found["rows"], found["calls"])

    def ran_stage(self, stage: Stage, memory: StageMemory) -> None:
        """A stage was run; calls that were not needed this time keep what is known of them."""
        before = self.remembered(stage)
        calls = {**(before.calls if before is not None else {}), **memory.calls}
        self._put(self._stages, _named(stage), asdict(StageMemory(memory.rows, calls)))

    # --- keeping it -----------------------------------------------------------------------

    def _update(self, table: dict[str, float], key: str, value: float) -> None:
        before = table.get(key)
        self._put(table, key, value if before is None else before + _WEIGHT * (value - before))

    def _put(self, table: dict[str, Any], key: str, value: Any) -> None:
        table.pop(key, None)  # the latest stand last
        table[key] = value
        self._changed = True

    def save(self, now: bool = False) -> None:
        """Write the file, if there is anything new and the last time is not just over."""
        recent = time.monotonic() - self._saved < _SECONDS_BETWEEN_SAVES
        if self._file is None or not self._changed or (recent and not now):
            return
        self._changed, self._saved = False, time.monotonic()
        tables: dict[str, dict[str, Any]] = {
            "selectivity": self._selectivity, "cost_ms": self._cost_ms, "stages": self._stages}
        text = json.dumps({name: dict(list(t.items())[-_MOST_KEPT:]) for name, t in tables.items()})
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            written = self._file.with_name(f"measured.{os.getpid()}.tmp")
            written.write_text(text)
            written.replace(self._file)
        except OSError:
            pass  # measurements only save time: without them the next session measures again


def _read(file: Path | None) -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(file.read_text()) if file is not None else {}
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _named(stage: Stage) -> str:
    """A name for a stage that is the same whenever its statement is planned."""
    text = re.sub(r"mlsql_\d+_", "", to_sql(stage.rows))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
