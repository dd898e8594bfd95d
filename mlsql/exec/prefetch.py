"""Decoding and preparing ahead, in a thread beside the models, within a bound in bytes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from mlsql.errors import Interrupted
from mlsql.exec.ahead import Work
from mlsql.exec.inference import LoadedModel
from mlsql.exec.pictures import PictureDecoder
from mlsql.exec.portion import Growing, Portion
from mlsql.exec.share import Counters

DEPTH = 3
"""Portions that wait for the models at most: enough to even out a slow seek, little to throw away
when a LIMIT is reached."""


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
        portion.following = self._following
        return portion

    def _following(self) -> Portion | None:
        with self._changed:
            return self._ready[0] if self._ready else None

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
        growing = Growing(work, self._models)
        with closing(growing.steps(self._decoder)) as sizes:
            for size in sizes:
                if growing.nbytes * 2 >= self._budget:
                    self._put(growing.cut())
                self._make_room(growing, size)
        self._put(growing.cut(last=True))

    def _make_room(self, growing: Growing, size: int) -> None:
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
