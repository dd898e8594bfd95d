"""One share on its way through the models of a worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from mlsql.errors import MediaError
from mlsql.exec.ahead import arguments, work
from mlsql.exec.batches import Outlook, batches, outlooks
from mlsql.exec.conditions import Conditions, outputs_named
from mlsql.exec.faults import fault
from mlsql.exec.inference import LoadedModel
from mlsql.exec.media.handle import Handle
from mlsql.exec.media.recipe import base
from mlsql.exec.outputs import filled, outputs_of, row_errors
from mlsql.exec.pictures import Picture, PictureDecoder, pictures, weight
from mlsql.exec.portion import Portion, bare
from mlsql.exec.share import Answers, BatchDone, Counters, Event, Share
from mlsql.exec.twins import Twins
from mlsql.udfs.spec import ModelSpec
from mlsql.udfs.types import arrow_type

_CALLS = 4  # of a network's: conditions and columns then cost a quarter, and little is told late


class Bench(Protocol):
    """What a run borrows from its worker."""

    conditions: Conditions

    def model(self, spec: ModelSpec) -> LoadedModel:
        """The model, loaded now if it is not yet."""

    def decoder(self) -> PictureDecoder:
        """The decoder for pictures that nobody decoded ahead."""

    def prefetch(
        self, work: Any, models: Sequence[LoadedModel | None]
    ) -> Generator[Portion, None, None]:
        """The portions of the work, made ready in a thread that ends with the iterator."""

    def check(self) -> None:
        """Raise Interrupted if the run was cancelled."""


class ShareRun:
    """Takes one share through its steps, batch by batch, and tells what came of it."""

    def __init__(self, share: Share, bench: Bench, batch_size: int, budget: int) -> None:
        self._share = share
        self._bench = bench
        self._batch_size = batch_size
        self._budget = budget
        self._named = _named_later(share)
        self._outlooks: list[Outlook] = []
        self._models: list[LoadedModel | None] = []
        self._shared: list[np.ndarray] = []  # a step: whether the leading row has followers
        self._remembered: list[dict[int, Any]] = [{} for _ in share.steps]
        self._twins = Twins(share)
        self._rows = share.rows  # the current batch's, with the outputs found so far
        self._pending = Counters()  # spent, and not yet told
        self._passed = 0
        self._looks_ahead = _alone(share)

    def events(self) -> Iterator[Event]:
        """Answers a step and portion, and a BatchDone at the end of each batch."""
        self._outlooks = outlooks(self._share, self._bench.conditions)
        self._shared = [_with_followers(outlook) for outlook in self._outlooks]
        try:
            yield from self._batches()
        finally:
            for model in self._models:
                if model is not None:
                    model.forget()

    def _batches(self) -> Iterator[Event]:
        begun: range | None = None
        with closing(self._portions()) as portions:
            for portion in portions:
                self._bench.check()
                if portion.batch is not begun:
                    begun = portion.batch
                    self._rows = self._share.rows.slice(begun.start, len(begun))
                self._pending += portion.spent
                yield from self._steps(portion)
                if portion.last:
                    yield self._done(portion.batch)

    def _portions(self) -> Generator[Portion, None, None]:
        needed = [bool(outlook.first.any()) for outlook in self._outlooks]
        models = self._models = [
            self._bench.model(step.model) if need else None
            for step, need in zip(self._share.steps, needed)
        ]
        sizes = [
            self._batch_size or _rows_a_batch(step.model, model, self._share.wanted)
            for step, model in zip(self._share.steps, models)
        ]
        cut = list(batches(self._share, self._outlooks, sizes))
        if not any(needed):
            return (bare(batch) for batch in cut)
        return self._bench.prefetch(work(self._share, self._outlooks, cut), models)

    def _steps(self, portion: Portion) -> Iterator[Event]:
        for step in range(len(self._share.steps)):
            asked = self._asked(step, portion)
            if len(asked):
                yield self._answers(step, asked, portion)
        if self._pending.frames_decoded:
            none = arrow_type(self._share.steps[0].model.output_type)
            yield Answers(0, pa.array([], pa.int64()), pa.array([], none), self._told())

    def _asked(self, step: int, portion: Portion) -> np.ndarray:
        """The portion's rows whose output the model has to give, ascending."""
        outlook, rows = self._outlooks[step], portion.rows
        maybe = rows[outlook.maybe[rows]]
        guard = self._share.steps[step].guard
        passing = self._bench.conditions.passing(self._rows, guard, maybe - portion.batch.start)
        return np.sort(np.concatenate([rows[outlook.sure[rows]], maybe[passing]]))

    def _answers(self, step: int, asked: np.ndarray, portion: Portion) -> Answers:
        leaders, which = np.unique(self._outlooks[step].leader[asked], return_inverse=True)
        spec = self._share.steps[step].model
        outcomes = self._outcomes(step, leaders.tolist(), portion)
        outputs, outcomes = outputs_of(outcomes, spec)
        if len(leaders) != len(asked) or (which[1:] < which[:-1]).any():
            outputs = outputs.take(pa.array(which))
        if step in self._named:
            at = asked - portion.batch.start
            self._rows = filled(self._rows, step, at, outputs)
        errors = row_errors(self._share, step, asked, which, outcomes)
        return Answers(step, pa.array(asked), outputs, self._told(), errors)

    def _outcomes(self, step: int, leaders: list[int], portion: Portion) -> list[Any]:
        """What became of each distinct argument: the answer, or a Fault."""
        remembered, shared = self._remembered[step], self._shared[step]
        remembered.update(self._twins.known(step, leaders))
        new = [leader for leader in leaders if leader not in remembered]
        found = dict(zip(new, self._inferred(step, new, portion)))
        self._twins.learn(step, found)
        outcomes = [found[row] if row in found else remembered[row] for row in leaders]
        remembered.update((row, outcome) for row, outcome in found.items() if shared[row])
        return outcomes

    def _inferred(self, step: int, leaders: list[int], portion: Portion) -> list[Any]:
        outcomes: list[Any] = []
        while len(outcomes) < len(leaders):
            model = self._bench.model(self._share.steps[step].model)
            chunk = leaders[len(outcomes) : len(outcomes) + model.size]
            inputs = self._inputs(step, chunk, portion, model)
            coming = self._coming(step, leaders[len(outcomes) + len(chunk) :], portion)
            answers, spent = model.answers(inputs, self._bench.check, coming)
            outcomes += answers
            self._pending += spent
        return outcomes

    def _coming(
        self, step: int, rest: list[int], portion: Portion
    ) -> Callable[[], list[Any]]:
        """The inputs made ready that the step's model will certainly be asked about next."""
        if not self._looks_ahead[step]:
            return list
        own = [portion.prepared[step, row] for row in rest if (step, row) in portion.prepared]
        if not self._goes_on(portion):
            return lambda: own
        return lambda: own + _prepared(step, portion.following())

    def _goes_on(self, portion: Portion) -> bool:
        """Whether the portion after this one is wanted, whatever passes here."""
        wanted = self._share.wanted
        return wanted is None or self._passed + len(portion.batch) < wanted

    def _inputs(
        self, step: int, leaders: list[int], portion: Portion, model: LoadedModel
    ) -> list[Any]:
        """The prepared inputs: those made ready ahead, and the others, made ready now."""
        ready = portion.prepared
        late = [row for row in leaders if (step, row) not in ready]
        values = arguments(self._share, step, np.array(late, dtype=np.int64))
        if model.spec.takes_media:
            values = self._pictures(step, values, portion)
        started = time.perf_counter()
        for row, value in zip(late, values):
            self._bench.check()
            failed = isinstance(value, MediaError)
            ready[step, row] = fault(value) if failed else model.prepare(value)
        self._pending += Counters(seconds_prepare=time.perf_counter() - started)
        return [ready.pop((step, row)) for row in leaders]

    def _pictures(self, step: int, handles: list[Handle], portion: Portion) -> list[Picture]:
        """The portion's pictures of those handles; what is not there is decoded now."""
        found = portion.pictures
        missing = list(dict.fromkeys(handle for handle in handles if handle not in found))
        new: dict[Handle, Picture] = {}
        started = time.perf_counter()
        if missing:
            for position, picture in pictures(self._bench.decoder(), missing):
                self._bench.check()
                new[missing[position]] = picture
        decoded = len({base(handle) for handle, picture in new.items()
                       if not isinstance(picture, MediaError)})
        seconds = time.perf_counter() - started
        self._pending += Counters(frames_decoded=decoded, seconds_decode=seconds)
        answer = [found[handle] if handle in found else new[handle] for handle in handles]
        if any(later.model.takes_media for later in self._share.steps[step + 1 :]):
            self._keep(new, portion)
        return answer

    def _keep(self, new: dict[Handle, Picture], portion: Portion) -> None:
        for handle, picture in new.items():
            size = weight(picture)
            if portion.nbytes + size > self._budget // 2:
                return
            portion.pictures[handle] = picture

    def _done(self, batch: range) -> BatchDone:
        at = np.arange(len(batch))
        passed = at[self._bench.conditions.passing(self._rows, self._share.accept, at)]
        self._passed += len(passed)
        return BatchDone(batch.stop, pa.array(passed + batch.start))

    def _told(self) -> Counters:
        pending, self._pending = self._pending, Counters()
        return pending


def _named_later(share: Share) -> frozenset[int]:
    guards = [step.guard for step in share.steps]
    return frozenset().union(*map(outputs_named, [*guards, share.accept]))


def _rows_a_batch(spec: ModelSpec, model: LoadedModel | None, wanted: int | None) -> int:
    """Rows that are told of together: a call's, or a few calls' of a network known to be quick."""
    if model is None:
        return spec.batch_size
    several = model.tuning is not None and wanted is None
    return model.batch_size * (_CALLS if several else 1)


def _alone(share: Share) -> list[bool]:
    """For each step, whether no other one asks its model."""
    names = [(step.model.name, step.model.fingerprint) for step in share.steps]
    return [names.count(name) == 1 for name in names]


def _prepared(step: int, portion: Portion | None) -> list[Any]:
    """A portion's prepared inputs of one step, in the order in which they will be asked."""
    if portion is None:
        return []
    return [portion.prepared[key] for key in sorted(portion.prepared) if key[0] == step]


def _with_followers(outlook: Outlook) -> np.ndarray:
    candidates = outlook.leader[outlook.sure | outlook.maybe]
    return np.bincount(candidates, minlength=len(outlook.leader)) > 1
