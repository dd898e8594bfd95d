"""Decoding and preparing ahead, in a thread beside the models, within a bound in bytes."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlsql.errors import Interrupted, MediaError
from mlsql.exec.ahead import Input, Work
from mlsql.exec.faults import fault
from mlsql.exec.inference import LoadedModel
from mlsql.exec.media.handle import Handle
from mlsql.exec.pictures import Picture, PictureDecoder, pictures, weight
from mlsql.exec.share import Counters

DEPTH = 3
"""Portions that wait for the models at most: enough to even out a slow seek, little to throw away
when a LIMIT is reached."""


@dataclass
class Portion:
    """Rows of one batch whose inputs are at hand; a batch has several where memory is short.

    `prepared` is keyed by step and leading row. `pictures` are those that later steps may need.
    """

    batch: range
    rows: np.ndarray
    last: bool = True
    prepared: dict[tuple[int, int], Any] = field(default_factory=dict)
    pictures: dict[Handle, Picture] = field(default_factory=dict)
    spent: Counters = field(default_factory=Counters)
    nbytes: int = 0


def bare(batch: range) -> Portion:
    """The portion of a batch that needs nothing ahead."""
    return Portion(batch, np.arange(batch.start, batch.stop))


class Prefetch:
    """A thread that makes portions ready, in order, and the iterator that hands them out.

    Asking for the next portion gives back the memory of the one before. At most `budget` bytes of
    pictures and prepared inputs are held; one that is larger goes through alone.
    """

    def __init__(
        self,
        work: Iterable[Work],
        models: Sequence[LoadedModel | None],
        decoder: PictureDecoder | None,
        budget: int,
    ) -> None:
        self._work = work
        self._models = models
        self._decoder = decoder
        self._budget = budget
        self._ready: deque[Portion] = deque()
        self._held = 0  # bytes of the portions that are ready or handed out
        self._changed = threading.Condition()
        self._stopped = self._ended = self._orphan = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mlsql-decode", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Portion]:
        while (portion := self._next()) is not None:
            yield portion
            # Emptied, because the caller's own name for it may live until the next is there.
            portion.prepared.clear()
            portion.pictures.clear()
            with self._changed:
                self._held -= portion.nbytes
                self._changed.notify_all()

    def cancel(self) -> None:
        """From any thread: end the work; whoever waits for a portion gets Interrupted."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def stop(self, patience: float = 0.8) -> bool:
        """End the thread; False if it is stuck in a decoder, which it will then close itself."""
        self.cancel()
        self._thread.join(patience)
        with self._changed:
            self._orphan = not self._ended
            self._ready.clear()
            return self._ended

    def _next(self) -> Portion | None:
        started = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._stopped)
            if self._stopped:
                raise Interrupted("the run was stopped")
            if not self._ready:
                if self._error is not None:
                    raise self._error
                return None
            portion = self._ready.popleft()
            self._changed.notify_all()
        portion.spent += Counters(seconds_wait=time.perf_counter() - started)
        return portion

    def _run(self) -> None:
        try:
            for work in self._work:
                self._feed(work)
        except Interrupted:
            pass
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            orphan = self._orphan
        if orphan and self._decoder is not None:
            self._decoder.close()

    def _feed(self, work: Work) -> None:
        growing = _Growing(work, self._models)
        with closing(growing.steps(self._decoder)) as sizes:
            for size in sizes:
                if growing.nbytes * 2 >= self._budget:
                    self._put(growing.cut())
                self._make_room(growing, size)
        self._put(growing.cut(last=True))

    def _make_room(self, growing: _Growing, size: int) -> None:
        """Wait until one more picture of that size may be decoded."""

        def fits() -> bool:
            return self._held + growing.nbytes + size <= self._budget

        self._wait(lambda: not self._held or fits())
        if growing.nbytes and not fits():
            self._put(growing.cut())
            self._wait(lambda: not self._held or fits())

    def _put(self, portion: Portion) -> None:
        if not len(portion.rows) and not portion.last:
            return
        with self._changed:
            self._held += portion.nbytes
            self._ready.append(portion)
            self._changed.notify_all()
        self._wait(lambda: len(self._ready) < DEPTH)

    def _wait(self, until: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or until())
            if self._stopped:
                raise Interrupted("the run was stopped")


@dataclass(frozen=True)
class _Done:
    """One input made ready; `picture` where it is to be kept."""

    item: Input
    prepared: Any
    picture: Picture | None
    nbytes: int


class _Growing:
    """One batch, while its inputs are being made ready."""

    def __init__(self, work: Work, models: Sequence[LoadedModel | None]) -> None:
        self._work = work
        self._models = models
        self._open = Counter(item.row for item in work.inputs)  # inputs that a row still lacks
        self._left = np.ones(len(work.batch), dtype=bool)  # rows that are in no portion yet
        self._done: list[_Done] = []
        self._spent = Counters()

    @property
    def nbytes(self) -> int:
        """Bytes of what is in no portion yet."""
        return sum(done.nbytes for done in self._done)

    def steps(self, decoder: PictureDecoder | None) -> Iterator[int]:
        """Make the inputs ready one after another; gives the size of the last picture each time."""
        wanted: dict[Handle, list[Input]] = {}
        for item in self._work.inputs:
            if isinstance(item.value, Handle):
                wanted.setdefault(item.value, []).append(item)
            else:
                yield self._add(item, item.value, None)
        if decoder is None:
            return  # no step takes media
        handles = sorted(wanted, key=_place)
        with closing(pictures(decoder, handles)) as decoded:
            while True:
                started = time.perf_counter()
                position, picture = next(decoded, (-1, None))
                self._spent += Counters(seconds_decode=time.perf_counter() - started)
                if picture is None:
                    return
                if not isinstance(picture, MediaError):
                    self._spent += Counters(frames_decoded=1)
                for item in wanted[handles[position]]:
                    self._add(item, picture, picture if item.row in self._work.kept else None)
                size = weight(picture)
                del picture  # so that it lives no longer than the portion it went into
                yield size

    def cut(self, last: bool = False) -> Portion:
        """The rows that lack nothing more, as a portion; the last one takes all that are left."""
        batch = self._work.batch
        rows = np.flatnonzero(self._left)
        if not last:
            finished = {done.item.row for done in self._done if not self._open[done.item.row]}
            rows = np.array(sorted(finished), dtype=np.int64) - batch.start
        self._left[rows] = False
        portion = Portion(batch, rows + batch.start, last, spent=self._spent)
        self._spent = Counters()
        kept: list[_Done] = []
        for done in self._done:
            if self._left[done.item.row - batch.start]:
                kept.append(done)
            else:
                _move(done, portion)
        self._done = kept
        return portion

    def _add(self, item: Input, value: Any, picture: Picture | None) -> int:
        model = self._models[item.step]
        assert model is not None
        started = time.perf_counter()
        ready = fault(value) if isinstance(value, MediaError) else model.prepare(value)
        self._spent += Counters(seconds_prepare=time.perf_counter() - started)
        size = 0 if ready is picture else weight(ready)
        size += 0 if picture is None else weight(picture)
        self._done.append(_Done(item, ready, picture, size))
        self._open[item.row] -= 1
        return size


def _move(done: _Done, portion: Portion) -> None:
    portion.prepared[done.item.step, done.item.leader] = done.prepared
    if done.picture is not None:
        portion.pictures[done.item.value] = done.picture
    portion.nbytes += done.nbytes


def _place(handle: Handle) -> tuple[str, int]:
    return handle.uri or "", -1 if handle.frame is None else handle.frame
