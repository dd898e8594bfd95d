"""Pieces of a share, the jobs they become at workers, and how long a job may still take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mlsql.exec.cluster.remote import RemoteWorker
from mlsql.exec.share import Share

PRIOR_SPEED = 1000.0
"""Expected milliseconds of model that a worker does in a second, until it was measured."""


@dataclass(eq=False)
class Piece:
    """Rows that are given out together; `alone` where they are one input under suspicion."""

    rows: np.ndarray
    cost: float
    deaths: int = 0
    alone: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)


@dataclass(eq=False)
class Job:
    """A piece, or what was left of it, at one worker. Times are monotonic, in seconds.

    `mark` is when it last told of progress, `begun` when it first told anything, and `prior` the
    speed that its worker had by then.
    """

    worker: RemoteWorker
    piece: Piece
    rows: np.ndarray
    share: Share
    cost: float
    mark: float
    begun: float | None = None
    prior: float | None = None
    covered: int = 0

    @property
    def left(self) -> float:
        """What is still to be done, in expected milliseconds of model."""
        return self.cost * (1 - self.covered / max(1, len(self.rows)))

    def heard(self, now: float) -> None:
        """The worker has told something of it."""
        self.mark = now
        if self.begun is None:
            self.begun, self.prior = now, self.worker.speed

    def measure(self) -> None:
        """Learn the worker's speed from what there is of the job."""
        assert self.begun is not None
        speed = (self.cost - self.left) / max(self.mark - self.begun, 1e-3)
        self.worker.speed = speed if self.prior is None else (self.prior + speed) / 2


def seconds_left(job: Job, jobs: Mapping[int, Job], batch: int, now: float) -> float:
    """Of a job and those before it; what has been silent for long is taken to be slow."""
    total = 0.0
    for number in job.worker.jobs:
        other = jobs.get(number)
        if other is None:
            continue
        one_batch = other.cost * min(1.0, batch / max(1, len(other.rows)))
        silent = max(now - other.mark, 1e-3) if other.begun is not None else 1e-3
        total += other.left / min(job.worker.speed or math.inf, one_batch / silent)
        if other is job:
            break
    return total
