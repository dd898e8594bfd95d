"""The executor that runs shares in the actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from mlsql.errors import Interrupted, OperationalError
from mlsql.exec.batches import Outlook, outlooks
from mlsql.exec.cluster.dispatch import Dispatch
from mlsql.exec.cluster.fleet import Fleet
from mlsql.exec.cluster.merge import Merged, spread
from mlsql.exec.cluster.pieces import needy, numbers, same_model, shared_inputs
from mlsql.exec.conditions import Conditions
from mlsql.exec.share import Answers, BatchDone, Counters, Event, RowError, Share
from mlsql.exec.worker import WorkerOptions
from mlsql.udfs.types import arrow_type

_MOST_AHEAD = 64  # inputs that a LIMIT lets be found before any row is judged


class RayExecutor:
    """Workers like the local one, each an actor. They, and Ray, start when a model is asked."""

    def __init__(self, options: WorkerOptions | None = None) -> None:
        self._options = options or WorkerOptions()
        self._conditions = Conditions()
        self._fleet = Fleet(self._options)
        self._cancelled = self._enough = self._closed = False

    @property
    def width(self) -> int:
        """The workers there may be; one as long as nobody knows."""
        return self._fleet.most

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        """The events of each share, with the share's ordinal."""
        self._cancelled = self._enough = False
        try:
            for ordinal, share in enumerate(shares):
                for event in self._events(share):
                    late = isinstance(event, BatchDone) or event.errors
                    if not (self._enough and late):
                        yield ordinal, event
                if self._cancelled:
                    raise Interrupted("the run was stopped")
                if self._enough:
                    return
        finally:
            self._fleet.rest()

    def enough(self) -> None:
        """Between two events: no further row is wanted. Answers there are still come."""
        self._enough = True

    def cancel(self) -> None:
        """From any thread: end the run in progress, which then raises Interrupted."""
        self._cancelled = True

    def runtimes(self) -> dict[str, str]:
        """How the networks of the loaded models are run, and why, by the models' names."""
        return self._fleet.runtimes()

    def close(self) -> None:
        """End all actors, and Ray where it was started here."""
        if not self._closed:
            self._closed = True
            self._fleet.close()
            self._conditions.close()

    def _stopped(self) -> bool:
        return self._cancelled or self._enough

    def _events(self, share: Share) -> Iterator[Event]:
        ahead = outlooks(share, self._conditions)
        merged = Merged(share)
        yield from self._shared(share, ahead, merged)
        if merged.answers:
            share = merged.fill_in()
            ahead = outlooks(share, self._conditions)
        need = needy(ahead, len(share.rows))
        light = np.flatnonzero(~need)
        passed = self._conditions.passing(share.rows, share.accept, light)
        yield from merged.settle(light, light[passed])
        if need.any() and not self._stopped():
            yield from self._dispatched(share, ahead, merged)

    def _shared(
        self, share: Share, ahead: list[Outlook], merged: Merged
    ) -> Iterator[Event]:
        """First what several pieces would ask for, so that nothing is asked twice."""
        found = shared_inputs(share, ahead)
        if share.wanted is not None and sum(len(a.ids) for a in found) > _MOST_AHEAD:
            return
        everything = np.arange(len(share.rows))
        masks = [outlook.sure for outlook in ahead]
        keys = [numbers(share, ahead, step) for step in range(len(share.steps))]
        for part in found:
            spec = part.share.steps[0].model
            steps = same_model(share)[spec.name, spec.fingerprint]
            events = self._dispatched(
                part.share, outlooks(part.share, self._conditions), Merged(part.share))
            for event in events:
                if isinstance(event, Answers):
                    for one in spread(share, masks, keys, steps, part.ids, event):
                        yield from merged.answer(everything, one)

    def _dispatched(
        self, share: Share, ahead: list[Outlook], merged: Merged
    ) -> Iterator[Event]:
        def poison(rows: np.ndarray, deaths: int) -> Iterator[Event]:
            return self._poisoned(share, ahead, merged, rows, deaths)

        dispatch = Dispatch(share, ahead, self._fleet, merged, self._options.batch_size, poison)
        return dispatch.events(self._stopped)

    def _poisoned(
        self, share: Share, ahead: list[Outlook], merged: Merged, rows: np.ndarray, deaths: int
    ) -> Iterator[Event]:
        """Rows over which worker after worker died: errors, and what their filters make of that."""
        for position, step in enumerate(share.steps):
            asked = rows[(ahead[position].sure | ahead[position].maybe)[rows]]
            if len(asked):
                nothing = pa.nulls(len(asked), arrow_type(step.model.output_type))
                errors = tuple(_death(share, position, row, at, deaths)
                               for at, row in enumerate(asked.tolist()))
                yield from merged.answer(
                    asked, Answers(position, pa.array(np.arange(len(asked))), nothing,
                                   Counters(), errors))
        known = merged.piece(rows)
        at = np.arange(len(rows))
        passed = rows[self._conditions.passing(known.rows, share.accept, at)]
        yield from merged.settle(rows, passed)


def _death(share: Share, step: int, row: int, at: int, deaths: int) -> RowError:
    spec = share.steps[step].model
    value = share.rows.column(share.steps[step].argument)[row].as_py()
    uri, frame = (value["uri"], value["frame"]) if spec.takes_media else (None, None)
    said = f"the worker's process died {deaths} times over this input"
    return RowError(at, step, spec.name, said, uri, frame, OperationalError(said),
                    None if spec.takes_media else repr(value)[:80])


EXECUTOR = RayExecutor
