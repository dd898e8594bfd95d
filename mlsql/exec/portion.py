"""Rows of a batch with what the models need of them, and how such a portion grows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlsql.errors import MediaError
from mlsql.exec.ahead import Input, Work
from mlsql.exec.faults import fault
from mlsql.exec.inference import LoadedModel
from mlsql.exec.media.handle import Handle
from mlsql.exec.media.recipe import base
from mlsql.exec.pictures import Picture, PictureDecoder, pictures, weight
from mlsql.exec.share import Counters


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
    following: Callable[[], Portion | None] = lambda: None  # the next one, if it is at hand


def bare(batch: range) -> Portion:
    """The portion of a batch that needs nothing ahead."""
    return Portion(batch, np.arange(batch.start, batch.stop))


@dataclass(frozen=True)
class _Done:
    """One input made ready; `picture` where it is to be kept."""

    item: Input
    prepared: Any
    picture: Picture | None
    nbytes: int


class Growing:
    """One batch, while its inputs are being made ready; `cut` takes off what is ready."""

    def __init__(self, work: Work, models: Sequence[LoadedModel | None]) -> None:
        self._work = work
        self._models = models
        self._open = Counter(item.row for item in work.inputs)  # inputs that a row still lacks
        self._left = np.ones(len(work.batch), dtype=bool)  # rows that are in no portion yet
        self._done: list[_Done] = []
        self._spent = Counters()
        self.nbytes = 0  # of what is in no portion yet

    def steps(self, decoder: PictureDecoder | None) -> Generator[int, None, None]:
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
            originals: set[Handle] = set()
            while True:
                started = time.perf_counter()
                position, picture = next(decoded, (-1, None))
                self._spent += Counters(seconds_decode=time.perf_counter() - started)
                if picture is None:
                    return
                original = base(handles[position])
                if not isinstance(picture, MediaError) and original not in originals:
                    originals.add(original)
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
        self.nbytes -= portion.nbytes
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
        self.nbytes += size
        self._open[item.row] -= 1
        return size


def _move(done: _Done, portion: Portion) -> None:
    portion.prepared[done.item.step, done.item.leader] = done.prepared
    if done.picture is not None:
        portion.pictures[done.item.value] = done.picture
    portion.nbytes += done.nbytes


def _place(handle: Handle) -> tuple[str, int]:
    return handle.uri or "", -1 if handle.frame is None else handle.frame
