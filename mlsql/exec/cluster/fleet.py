"""The Ray actors of an executor: started, asked, watched and ended."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from mlsql.errors import OperationalError, Warning
from mlsql.exec.cluster import link
from mlsql.exec.cluster.actor import WorkerActor
from mlsql.exec.cluster.parcels import Token, share_parcel, token_of
from mlsql.exec.cluster.remote import RemoteWorker, Report, Specs, portable, said
from mlsql.exec.cluster.sizes import Sizes, sizes
from mlsql.exec.share import Share, Step
from mlsql.exec.worker import WorkerOptions

START_SECONDS = 2.0
"""What starting an actor is taken to cost until one was seen to start."""

_MOST_FALSE_STARTS = 3
_SAY_WAITING = 10.0
_IDLE_SECONDS = 300.0

_fleets: weakref.WeakSet[Fleet] = weakref.WeakSet()


class Fleet:
    """The actors there are. Ray is connected to when the first of them is wanted."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options, self._pool = portable(options), options.pool
        self.workers: list[RemoteWorker] = []
        self.start_seconds = START_SECONDS
        self._streams: dict[Any, tuple[RemoteWorker, int]] = {}
        self._ray: Any = None
        self._specs = Specs(None)
        self._sizes = Sizes(0, 1, 1)
        self._measured: frozenset[Token] = frozenset()
        self._false_starts = 0
        self._waiting_since: float | None = None
        self._busy = False
        self._lock = threading.RLock()  # the timer ends idle actors from a thread of its own
        self._timer: threading.Timer | None = None
        link.hold()
        _fleets.add(self)

    @property
    def most(self) -> int:
        """How many actors there may be, as far as that is known: nothing is started for it."""
        return max(1, self._sizes.most if self._ray is not None else self._pool.most)

    def want(self, count: int) -> None:
        """Start actors until there are so many, within the bounds."""
        with self._lock:
            self._busy = True
        self._connect()
        wanted = max(1, min(max(count, self._pool.least), self._sizes.most))
        if not self.workers and self._ray.available_resources().get("CPU", 0) < self._sizes.cpus:
            _make_room(self)
        while len(self.workers) < wanted:
            self.workers.append(self._started())

    def measure_anew(self, steps: Sequence[Step]) -> None:
        """Forget speeds, unless they are those of just these models."""
        models = frozenset(token_of(step.model) for step in steps)
        if models != self._measured:
            self._measured = models
            for worker in self.workers:
                worker.speed = None

    def submit(self, worker: RemoteWorker, job: int, share: Share) -> None:
        """Give an actor a share to run after those it has."""
        references = self._specs.references(share)
        call = worker.handle.run.options(num_returns="streaming")
        stream = call.remote(job, share_parcel(share), references)
        worker.jobs.append(job)
        worker.heard_at = max(worker.heard_at, time.monotonic())
        self._streams[stream] = (worker, job)

    def drop(self, jobs: Sequence[int]) -> None:
        """Tell the actors that have them that nobody waits for these jobs."""
        for worker in self.workers:
            theirs = [job for job in worker.jobs if job in jobs]
            if theirs:
                with contextlib.suppress(Exception):
                    worker.handle.drop.options(concurrency_group="control").remote(theirs)

    def poll(self, seconds: float) -> Iterator[Report]:
        """What has come of any job, after at most so many seconds if nothing has."""
        starting = {w.ready: w for w in self.workers if not w.up}
        watched = [*self._streams, *starting]
        if not watched:
            return
        found, _ = self._ray.wait(watched, num_returns=1, timeout=seconds, fetch_local=False)
        if found:
            found, _ = self._ray.wait(watched, num_returns=len(watched), timeout=0,
                                      fetch_local=False)
        for one in found:
            if one in starting:
                yield from self._came_up(starting[one])
            elif one in self._streams:
                yield from self._read(one)
        self._say_waiting()

    def runtimes(self) -> dict[str, str]:
        """How an actor runs the networks of its models; of several one speaks for all."""
        for worker in self.workers:
            if worker.up:
                with contextlib.suppress(Exception):
                    call = worker.handle.runtimes.options(concurrency_group="control")
                    told: dict[str, str] = self._ray.get(call.remote(), timeout=1)
                    return told
        return {}

    def kill(self, worker: RemoteWorker) -> None:
        """End an actor at once, whatever it is doing."""
        for stream in [s for s, (w, _) in self._streams.items() if w is worker]:
            del self._streams[stream]
        if worker in self.workers:
            self.workers.remove(worker)
        with contextlib.suppress(Exception):
            self._ray.kill(worker.handle, no_restart=True)

    def end_silent(self, seconds: float) -> None:
        """End the actors that still have jobs and said nothing for so long."""
        now = time.monotonic()
        for worker in [w for w in self.workers if w.jobs and now - w.heard_at >= seconds]:
            self.kill(worker)

    def rest(self) -> None:
        """A statement has ended: files are closed, and after a while actors beyond the least."""
        for worker in self.workers:
            if worker.up:
                with contextlib.suppress(Exception):
                    worker.handle.close_files.remote()
        with self._lock:
            self._busy = False
            if self._timer is not None:
                self._timer.cancel()
            if self.workers:
                self._timer = threading.Timer(_IDLE_SECONDS, self.retire, [self._pool.least])
                self._timer.daemon = True
                self._timer.start()

    def retire(self, left: int) -> None:
        """End all actors but `left`, unless a statement runs."""
        with self._lock:
            while not self._busy and len(self.workers) > left:
                self.kill(self.workers[-1])

    def close(self) -> None:
        """End all actors, and Ray if it was begun here."""
        with self._lock:
            self._busy = False
            if self._timer is not None:
                self._timer.cancel()
        self.retire(0)
        self._specs = Specs(None)
        link.let_go()

    def _connect(self) -> None:
        if self._ray is not None and self._ray.is_initialized():
            return
        self.workers.clear()
        self._streams.clear()
        self._ray = link.connected(self._pool.address)
        self._specs = Specs(self._ray)
        self._sizes = sizes(self._ray.cluster_resources(), self._pool, self._options.device)

    def _started(self) -> RemoteWorker:
        remote = self._ray.remote(concurrency_groups={"control": 1})(WorkerActor)
        each = self._sizes
        handle = remote.options(num_cpus=each.cpus, num_gpus=each.gpus, max_restarts=0).remote(
            self._options, [os.path.abspath(entry) for entry in sys.path])
        ready = handle.about.options(concurrency_group="control").remote()
        return RemoteWorker(handle, ready, time.monotonic())

    def _came_up(self, worker: RemoteWorker) -> Iterator[Report]:
        from ray.exceptions import RayTaskError

        try:
            self._ray.get(worker.ready)
        except Exception as error:
            self._false_starts += 1
            self.kill(worker)
            raised = isinstance(error, RayTaskError) or "creation task" in str(error)
            if raised or self._false_starts >= _MOST_FALSE_STARTS:
                raise OperationalError(f"Ray workers do not start: {said(error)}") from error
            yield Report(worker, None, died=said(error))
            return
        worker.up, self._waiting_since, self._false_starts = True, None, 0
        self.start_seconds = time.monotonic() - worker.asked_at

    def _read(self, stream: Any) -> Iterator[Report]:
        worker, job = self._streams[stream]
        worker.heard_at = time.monotonic()
        try:
            bundle = self._ray.get(next(stream))
        except StopIteration:
            del self._streams[stream]
            worker.jobs.remove(job)
            yield Report(worker, job, ended=True)
        except Exception as error:
            del self._streams[stream]
            yield from self._left_by(worker)
            self.kill(worker)
            yield Report(worker, job, died=said(error))
        else:
            yield Report(worker, job, bundle)

    def _left_by(self, worker: RemoteWorker) -> Iterator[Report]:
        """What an actor that died had told, and nobody has heard yet."""
        for stream, (_, job) in [(s, v) for s, v in self._streams.items() if v[0] is worker]:
            with contextlib.suppress(Exception, StopIteration):
                while True:
                    yield Report(worker, job, self._ray.get(next(stream)))
            self._streams.pop(stream, None)

    def _say_waiting(self) -> None:
        """A cluster without room starts nothing and says nothing."""
        if any(worker.up for worker in self.workers):
            return
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        if now - self._waiting_since > _SAY_WAITING:
            self._waiting_since = math.inf
            has = self._ray.available_resources()
            free = ", ".join(f"{has.get(kind, 0):g} {kind}" for kind in ("CPU", "GPU"))
            warnings.warn(
                f"no Ray worker has started yet: each takes {self._sizes.cpus:g} CPU and "
                f"{self._sizes.gpus:g} GPU, and free are {free}", Warning, stacklevel=2)


def _make_room(fleet: Fleet) -> None:
    """Idle actors of other sessions of this process would be waited for in vain."""
    for other in list(_fleets):
        if other is not fleet:
            other.retire(0)
