"""Steps of a share that ask one model: what one of them learned, the others know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlsql.exec.share import Share


class Twins:
    """Outcomes by key, shared between the steps of one model. Costs nothing where each has its own.

    Only outcomes that another step may ask for are kept.
    """

    def __init__(self, share: Share) -> None:
        self._keys: dict[int, np.ndarray[Any, Any]] = {}
        self._wanted: dict[int, set[int]] = {}
        self._known: dict[int, dict[int, Any]] = {}
        for steps in _groups(share):
            known: dict[int, Any] = {}
            for step in steps:
                column = share.rows.column(f"key_{step}").combine_chunks()
                self._keys[step] = np.asarray(column.fill_null(-1))
                self._known[step] = known
            for step in steps:
                others = [self._keys[other] for other in steps if other != step]
                self._wanted[step] = set(np.intersect1d(
                    self._keys[step], np.concatenate(others)).tolist()) - {-1}

    def known(self, step: int, rows: Iterable[int]) -> dict[int, Any]:
        """The outcomes, by row, that another step has had already."""
        keys, known = self._keys.get(step), self._known.get(step)
        if keys is None or not known:
            return {}
        return {row: known[keys[row]] for row in rows if keys[row] in known}

    def learn(self, step: int, outcomes: Mapping[int, Any]) -> None:
        """Keep the outcomes, by row, that another step may ask for."""
        keys = self._keys.get(step)
        if keys is None:
            return
        wanted, known = self._wanted[step], self._known[step]
        known.update((int(keys[row]), outcome) for row, outcome in outcomes.items()
                     if int(keys[row]) in wanted)


def _groups(share: Share) -> list[list[int]]:
    """The steps of each deterministic model that several steps have, where they have keys."""
    by_model: dict[tuple[str, str], list[int]] = {}
    for position, step in enumerate(share.steps):
        if step.model.deterministic and f"key_{position}" in share.rows.column_names:
            by_model.setdefault((step.model.name, step.model.fingerprint), []).append(position)
    return [steps for steps in by_model.values() if len(steps) > 1]
