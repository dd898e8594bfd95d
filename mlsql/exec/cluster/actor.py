"""What runs in a Ray actor: a worker, the shares it is sent, and the wish to drop one of them."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from mlsql.errors import DatabaseError, Interrupted, OperationalError
from mlsql.exec.cluster.causes import Cause, packed
from mlsql.exec.cluster.parcels import Parcel, ShareParcel, Token, parcel_of, share_of
from mlsql.exec.share import BatchDone
from mlsql.exec.worker import Worker, WorkerOptions
from mlsql.udfs.spec import ModelSpec

_BUNDLE_SECONDS = 0.1

Bundle = list[Parcel] | tuple[Cause, ...]


class WorkerActor:
    """Runs one share at a time; `drop` and `about` may be called meanwhile."""

    def __init__(self, options: WorkerOptions, path: Sequence[str]) -> None:
        known = set(sys.path)
        sys.path += [entry for entry in path if entry not in known and os.path.isdir(entry)]
        self._worker = Worker(options)
        self._specs: dict[Token, ModelSpec] = {}
        self._lock = threading.Lock()
        self._current: int | None = None
        self._dropped: set[int] = set()

    def about(self) -> int:
        """The process's id; that it comes at all says that the actor is up."""
        return os.getpid()

    def runtimes(self) -> dict[str, str]:
        """How the networks of the loaded models are run, and why, by the models' names."""
        return self._worker.runtimes()

    def run(self, job: int, parcel: ShareParcel, specs: Mapping[Token, Any]) -> Iterator[Bundle]:
        """The share's events, some at a time; last its error, if it has one.

        The first bundle is empty: it says that the job has begun.
        """
        with self._lock:
            if job in self._dropped:
                self._dropped.discard(job)
                return
            self._current = job
        yield []
        try:
            yield from self._bundles(job, parcel, specs)
        except Interrupted:
            return
        except DatabaseError as error:
            yield packed(error)
        except Exception as error:
            failed = OperationalError(f"a worker failed: {type(error).__name__}: {error}")
            failed.__cause__ = error
            yield packed(failed)
        finally:
            with self._lock:
                self._current = None
                self._dropped.discard(job)

    def drop(self, jobs: Sequence[int]) -> None:
        """Nobody waits for these jobs any more: end the one that runs, forget the others."""
        with self._lock:
            self._dropped.update(jobs)
            if self._current in jobs:
                self._worker.cancel()

    def close_files(self) -> None:
        """A statement has ended: files may change now."""
        self._worker.close_files()

    def _bundles(
        self, job: int, parcel: ShareParcel, specs: Mapping[Token, Any]
    ) -> Iterator[list[Parcel]]:
        share = share_of(parcel, lambda token: self._spec(token, specs))
        bundle: list[Parcel] = []
        since = time.monotonic()
        try:
            with closing(self._worker.run(share)) as events:
                for event in events:
                    bundle.append(parcel_of(event))
                    if job in self._dropped:
                        raise Interrupted("the job was dropped")
                    whole = isinstance(event, BatchDone)
                    if whole and time.monotonic() - since >= _BUNDLE_SECONDS:
                        yield bundle
                        bundle, since = [], time.monotonic()
        except DatabaseError:
            if bundle:
                yield bundle
            raise
        if bundle:
            yield bundle

    def _spec(self, token: Token, specs: Mapping[Token, Any]) -> ModelSpec:
        if token not in self._specs:
            import ray

            try:
                self._specs[token] = pickle.loads(ray.get(specs[token]))
            except Exception as error:
                raise OperationalError(
                    f"model {token[1]!r} cannot be brought to a Ray worker, "
                    f"{type(error).__name__}: {error} (its module must be importable there; what "
                    f"is defined in the script itself travels by value)") from error
        return self._specs[token]
