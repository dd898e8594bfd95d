"""Counting what a statement costs while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

from mlsql.exec.share import Counters, RowError
from mlsql.exec.stats import ModelStats, Stats


class Tally:
    """The counters of one statement, a row a model."""

    def __init__(self) -> None:
        self._models: dict[str, ModelStats] = {}
        self._answered: dict[str, int] = {}
        self._seconds_sql = 0.0
        self._started = time.perf_counter()
        self.errors: list[RowError] = []
        self._bad: set[tuple[object, ...]] = set()

    @property
    def calls(self) -> int:
        """Model calls so far."""
        return sum(m.calls for m in self._models.values())

    @property
    def answers_cached(self) -> int:
        """Answers from the cache so far."""
        return sum(m.cached for m in self._models.values())

    def cached(self, model: str, count: int) -> None:
        """Answers that came from the cache."""
        row = self._row(model)
        self._models[model] = replace(row, cached=row.cached + count)

    def answered(self, model: str, count: int) -> None:
        """Rows that were given an answer, however it came about."""
        self._row(model)
        self._answered[model] = self._answered.get(model, 0) + count

    def worked(self, model: str, counters: Counters, errors: tuple[RowError, ...]) -> None:
        """A batch of a model."""
        row = self._row(model)
        errors = self._new(errors)
        names = {f.name for f in fields(Counters)} & {f.name for f in fields(ModelStats)}
        sums = {n: getattr(row, n) + getattr(counters, n) for n in names}
        self._models[model] = replace(row, **sums, errors=row.errors + len(errors))
        self.errors.extend(errors)

    def _new(self, errors: tuple[RowError, ...]) -> tuple[RowError, ...]:
        """The errors but for those of inputs that are known to be bad: rows may share one."""
        new = []
        for error in errors:
            place = (error.model, error.uri, error.frame, error.value)
            if place[1:] == (None, None, None) or place not in self._bad:
                new.append(error)
                self._bad.add(place)
        return tuple(new)

    @contextmanager
    def sql(self) -> Iterator[None]:
        """Seconds that DuckDB took."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds_sql += time.perf_counter() - started

    def stats(self) -> Stats:
        """The statement's cost so far."""
        models = tuple(
            replace(m, saved=max(0, self._answered.get(name, 0) - m.calls - m.cached))
            for name, m in self._models.items())
        return Stats(models, self._seconds_sql, time.perf_counter() - self._started)

    def _row(self, model: str) -> ModelStats:
        return self._models.setdefault(model, ModelStats(model))
