"""Which worker does what of a share: sizes by measured speed, again after a death, copies last."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mlsql.errors import OperationalError, Warning
from mlsql.exec.batches import Outlook
from mlsql.exec.cluster.causes import unpacked
from mlsql.exec.cluster.fleet import Fleet
from mlsql.exec.cluster.jobs import PRIOR_SPEED, Job, Piece, seconds_left
from mlsql.exec.cluster.merge import Merged
from mlsql.exec.cluster.parcels import event_of
from mlsql.exec.cluster.pieces import Uncut, grouped
from mlsql.exec.cluster.remote import RemoteWorker, Report
from mlsql.exec.share import Answers, Event, Share

Array = np.ndarray
Poison = Callable[[Array, int], Iterator[Event]]

PIECE_SECONDS = 1.0
"""How long a piece should take its worker: long against a message, short against a query."""

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 0.4  # for what is dropped; a worker that needs longer is ended
_REAP_SECONDS = 0.02  # for the word that a job whose answers are all here has ended
_PATIENCE = 5.0  # with a worker that is still busy with what was dropped before
_MOST_DEATHS = 2  # of a piece, before its inputs are tried one by one
_DEATHS_IN_A_ROW = 12  # without any progress: it is not the inputs then

_numbers = itertools.count(1)


class Dispatch:
    """One share on its way through the workers of a fleet."""

    def __init__(
        self, share: Share, outlooks: Sequence[Outlook], fleet: Fleet, merged: Merged,
        batch_size: int, poison: Poison,
    ) -> None:
        self._share, self._fleet, self._merged, self._poison = share, fleet, merged, poison
        self._uncut = Uncut(share, outlooks)
        self._groups = grouped(share, outlooks)
        self._batch = batch_size or max(step.model.batch_size for step in share.steps)
        self._copies = all(step.model.deterministic for step in share.steps)
        fleet.measure_anew(share.steps)
        fleet.end_silent(_PATIENCE)
        self._again: deque[Piece] = deque()
        self._open: list[Piece] = []
        self._jobs: dict[int, Job] = {}
        self._deaths = 0  # in a row
        self._warned = False

    def events(self, stopped: Callable[[], bool]) -> Iterator[Event]:
        """The events, until all is done; once it is to stop, only the answers still to be had."""
        finished = False
        try:
            while (self._uncut.inputs or self._open) and not stopped():
                self._grow()
                self._give()
                for report in self._fleet.poll(_POLL_SECONDS):
                    yield from self._hear(report)
            if stopped():
                yield from self._last_answers()
            else:
                finished = True
        finally:
            self._end(finished)

    # --- giving out -----------------------------------------------------------------------

    def _grow(self) -> None:
        """As many workers as are worth their start."""
        speeds = [w.speed for w in self._fleet.workers if w.speed]
        speed = sum(speeds) / len(speeds) if speeds else PRIOR_SPEED
        left = self._uncut.cost + sum(piece.cost for piece in self._again)
        self._fleet.want(math.ceil(left / speed / (2 * self._fleet.start_seconds)))

    def _give(self) -> None:
        for worker in [w for w in self._fleet.workers if w.up]:
            while self._has_room(worker) and (piece := self._next(worker)) is not None:
                self._submit(worker, piece)

    def _has_room(self, worker: RemoteWorker) -> bool:
        """One job runs, and a second waits, so that the worker never does; for a LIMIT, none."""
        if self._share.wanted is not None or worker.speed is None:
            return not worker.jobs
        waiting = sum(self._jobs[job].cost for job in worker.jobs if job in self._jobs)
        return len(worker.jobs) < 2 and waiting / worker.speed < PIECE_SECONDS

    def _next(self, worker: RemoteWorker) -> Piece | None:
        if self._again:
            return self._again.popleft()
        if self._uncut.inputs:
            rows, cost = self._uncut.take(self._size(worker))
            self._open.append(Piece(rows, cost))
            return self._open[-1]
        return None if worker.jobs or not self._copies else self._slowest(worker)

    def _size(self, worker: RemoteWorker) -> int:
        """Whole batches, as many as the worker takes a second for, and fewer towards the end."""
        if worker.speed is None or self._share.wanted is not None:
            return self._batch
        fair = self._uncut.cost / (2 * len(self._fleet.workers))
        count = self._uncut.count(min(PIECE_SECONDS * worker.speed, fair))
        return max(self._batch, count // self._batch * self._batch)

    def _slowest(self, worker: RemoteWorker) -> Piece | None:
        """The piece that its worker would be done with last, if this one would be much sooner."""
        found, longest = None, 0.0
        for piece in self._open:
            if len(piece.jobs) != 1 or piece.alone:
                continue
            (job,) = piece.jobs.values()
            left = seconds_left(job, self._jobs, self._batch, time.monotonic())
            here = job.left / (worker.speed or PRIOR_SPEED)
            if job.worker is not worker and left > 1.5 * here + 0.1 and left > longest:
                found, longest = piece, left
        return found

    def _submit(self, worker: RemoteWorker, piece: Piece) -> None:
        rows = self._merged.left(piece.rows)
        number = next(_numbers)
        share = self._merged.piece(rows)
        cost = piece.cost * len(rows) / max(1, len(piece.rows))
        job = Job(worker, piece, rows, share, cost, time.monotonic())
        self._jobs[number] = piece.jobs[number] = job
        self._fleet.submit(worker, number, share)

    # --- what comes back ------------------------------------------------------------------

    def _hear(self, report: Report) -> Iterator[Event]:
        if report.died is not None:
            yield from self._death(report.worker, report.died)
            return
        job = self._jobs.get(report.job or 0)
        if job is None:
            return  # nobody waits for it any more
        if isinstance(report.bundle, tuple):
            yield from self._failure(job, unpacked(report.bundle))
        elif report.ended:
            self._ended(report.job or 0, job)
        else:
            yield from self._progress(job, report)

    def _progress(self, job: Job, report: Report) -> Iterator[Event]:
        assert isinstance(report.bundle, list)
        before = job.covered
        job.heard(time.monotonic())
        for parcel in report.bundle:
            event = event_of(parcel, job.share)
            if isinstance(event, Answers):
                yield from self._merged.answer(job.rows, event)
            else:
                job.covered = event.covered
                yield from self._merged.batch(job.rows, event)
        if job.covered > before:
            self._deaths = 0
            job.measure()
        self._close(job.piece)

    def _ended(self, number: int, job: Job) -> None:
        del self._jobs[number], job.piece.jobs[number]
        if job.piece in self._open and not job.piece.jobs:
            self._again.append(job.piece)  # it was told to stop, or did so by itself

    def _failure(self, job: Job, error: BaseException) -> Iterator[Event]:
        if isinstance(error, OperationalError):
            raise error  # whatever the rows, it would be the same
        yield from self._merged.fail(job.rows, error)
        self._shut(job.piece)

    def _close(self, piece: Piece) -> None:
        if not len(self._merged.left(piece.rows)):
            self._shut(piece)

    def _shut(self, piece: Piece) -> None:
        """Nothing more is needed of a piece: whoever still works on it need not."""
        if piece in self._open:
            self._open.remove(piece)
        others = [n for n, job in piece.jobs.items() if job.covered < len(job.rows)]
        if others:
            self._fleet.drop(others)

    def _death(self, worker: RemoteWorker, why: str) -> Iterator[Event]:
        self._deaths += 1
        if self._deaths >= _DEATHS_IN_A_ROW:
            raise OperationalError(
                f"{self._deaths} Ray workers died one after the other: {why}")
        lost = [self._jobs.pop(number) for number in worker.jobs if number in self._jobs]
        for job in lost:
            job.piece.jobs = {n: j for n, j in job.piece.jobs.items() if j is not job}
        if not self._warned and lost:
            self._warned = True
            warnings.warn(f"a Ray worker died, and others do its work: {why}", Warning,
                          stacklevel=2)
        for position, job in enumerate(lost):
            if job.piece in self._open and not job.piece.jobs:
                yield from self._retry(job.piece, guilty=position == 0 and job.begun is not None)

    def _retry(self, piece: Piece, guilty: bool) -> Iterator[Event]:
        """Again from where it stopped; what was running too often, input by input."""
        piece.deaths += guilty
        if piece.alone and guilty:
            yield from self._poison(self._merged.left(piece.rows), _MOST_DEATHS + 1)
            self._shut(piece)
        elif piece.deaths < _MOST_DEATHS or piece.alone:
            self._again.appendleft(piece)
        else:
            self._open.remove(piece)
            for part in reversed(list(self._apart(piece))):
                self._open.append(part)
                self._again.appendleft(part)

    def _apart(self, piece: Piece) -> Iterator[Piece]:
        """The inputs of the first batch each alone, and the rest together."""
        rows = self._merged.left(piece.rows)
        groups = self._groups[rows]
        _, first = np.unique(groups, return_index=True)
        suspects = groups[np.sort(first)][: self._batch]
        cost = piece.cost / max(1, len(piece.rows))
        for group in suspects.tolist():
            own = rows[groups == group]
            yield Piece(own, cost * len(own), alone=True)
        rest = rows[~np.isin(groups, suspects)]
        if len(rest):
            yield Piece(rest, cost * len(rest))

    # --- the end --------------------------------------------------------------------------

    def _last_answers(self) -> Iterator[Event]:
        """What the workers have found and not told yet, without waiting for long."""
        self._fleet.drop(list(self._jobs))
        until = time.monotonic() + _GRACE_SECONDS
        while self._jobs and time.monotonic() < until:
            for report in self._fleet.poll(_POLL_SECONDS):
                job = self._jobs.get(report.job or 0)
                if job is None or report.died is not None:
                    continue
                if report.ended:
                    del self._jobs[report.job or 0]
                elif isinstance(report.bundle, list):
                    for parcel in report.bundle:
                        event = event_of(parcel, job.share)
                        if isinstance(event, Answers):
                            yield from self._merged.answer(job.rows, event)

    def _end(self, finished: bool) -> None:
        """Leave no worker busy: what does not stop by itself in time is ended.

        Where all is done, what is left are copies that came too late: nobody need wait for them.
        """
        self._fleet.drop([number for worker in self._fleet.workers for number in worker.jobs])
        until = time.monotonic() + (_REAP_SECONDS if finished else _GRACE_SECONDS)
        while any(w.jobs for w in self._fleet.workers) and time.monotonic() < until:
            for _ in self._fleet.poll(min(_POLL_SECONDS, max(0.0, until - time.monotonic()))):
                pass
        if not finished:
            self._fleet.end_silent(0)
        self._jobs.clear()
