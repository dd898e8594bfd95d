"""One actor as the driver sees it, what it reports, and the models it has been sent."""

from __future__ import annotations

import os
import pickle
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from mlsql.errors import OperationalError
from mlsql.exec.cluster.actor import Bundle
from mlsql.exec.cluster.parcels import Token, token_of
from mlsql.exec.share import Share
from mlsql.exec.worker import WorkerOptions
from mlsql.udfs.spec import ModelSpec


@dataclass(eq=False)
class RemoteWorker:
    """One actor. `speed` is in expected milliseconds of model a second, None until measured."""

    handle: Any
    ready: Any
    asked_at: float
    up: bool = False
    speed: float | None = None
    jobs: deque[int] = field(default_factory=deque)  # in the order they run
    heard_at: float = 0.0  # monotonic


@dataclass(frozen=True)
class Report:
    """What came of a job: a bundle of it, its end, or (None: before any job) its actor's death."""

    worker: RemoteWorker
    job: int | None
    bundle: Bundle = field(default_factory=list)
    ended: bool = False
    died: str | None = None


class Specs:
    """The models that travelled: each once, by reference from then on."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._sent: dict[Token, tuple[ModelSpec, Any]] = {}  # the spec: its token holds an id

    def references(self, share: Share) -> dict[Token, Any]:
        """A reference to each model of the share."""
        return {token_of(step.model): self._reference(step.model) for step in share.steps}

    def _reference(self, spec: ModelSpec) -> Any:
        token = token_of(spec)
        if token not in self._sent:
            self._sent[token] = (spec, self._ray.put(_pickled(spec)))
        return self._sent[token][1]


def portable(options: WorkerOptions) -> WorkerOptions:
    """The options for a worker that may stand elsewhere, where `workers` counted actors."""
    directories = tuple(os.path.abspath(d) for d in options.limits.directories)
    limits = replace(options.limits, directories=directories)
    return replace(options, limits=limits, decode_threads=0)


def said(error: BaseException) -> str:
    """The line that says most: of a remote traceback the last one."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if any("Traceback" in line for line in lines):
        return lines[-1]
    return lines[0] if lines else type(error).__name__


def _pickled(spec: ModelSpec) -> bytes:
    if isinstance(spec.loader, str):
        return pickle.dumps(spec)
    from ray import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps(spec)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise OperationalError(
            f"model {spec.name!r} cannot be sent to Ray workers: {said(error)} (give a class whose "
            f"__init__ loads what cannot travel: it is made there)") from error
    return pickled
