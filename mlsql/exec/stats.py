"""What a statement cost, as its result tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelStats:
    """One model's share of a statement. Times are in seconds.

    `calls` counts inputs given to the model, `cached` the answers found on disk, and `saved` the
    answers that needed neither, because another row asked the same.
    """

    model: str
    calls: int = 0
    cached: int = 0
    saved: int = 0
    batches: int = 0
    frames_decoded: int = 0
    seconds_decode: float = 0.0
    seconds_prepare: float = 0.0
    seconds_infer: float = 0.0
    seconds_wait: float = 0.0
    errors: int = 0


@dataclass(frozen=True)
class Stats:
    """A statement's cost: one row a model, their totals, and the seconds of SQL and of it all."""

    models: tuple[ModelStats, ...] = ()
    seconds_sql: float = 0.0
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        """Inputs given to models."""
        return sum(m.calls for m in self.models)

    @property
    def cached(self) -> int:
        """Answers found in the cache."""
        return sum(m.cached for m in self.models)

    @property
    def saved(self) -> int:
        """Answers that rows with the same input shared: rows answered minus calls minus cached."""
        return sum(m.saved for m in self.models)

    @property
    def batches(self) -> int:
        """Batches that models were called with."""
        return sum(m.batches for m in self.models)

    @property
    def frames_decoded(self) -> int:
        """Pictures decoded, each once however many models looked at it."""
        return sum(m.frames_decoded for m in self.models)

    @property
    def errors(self) -> int:
        """Inputs that could not be used."""
        return sum(m.errors for m in self.models)

    @property
    def seconds_decode(self) -> float:
        """Seconds of decoding, summed over threads."""
        return sum(m.seconds_decode for m in self.models)

    @property
    def seconds_prepare(self) -> float:
        """Seconds of making inputs ready for models, summed over threads."""
        return sum(m.seconds_prepare for m in self.models)

    @property
    def seconds_infer(self) -> float:
        """Seconds inside models."""
        return sum(m.seconds_infer for m in self.models)

    @property
    def seconds_wait(self) -> float:
        """Seconds that models waited for inputs."""
        return sum(m.seconds_wait for m in self.models)
