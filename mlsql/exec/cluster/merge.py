"""The events of pieces, as they come from any worker, made the events of their share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mlsql.exec.outputs import filled
from mlsql.exec.share import Answers, BatchDone, Counters, Event, Share

Array = np.ndarray


class Merged:
    """What is known of a share's rows by now. Events of the same rows may come several times.

    Answers without errors are passed on at once. A row with an error waits for its turn, and so
    does a piece that failed: what a LIMIT leaves out may be as bad as it likes.
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        count = len(share.rows)
        self._answered = [np.zeros(count, bool) for _ in share.steps]
        self._answers: list[list[tuple[Array, pa.Array]]] = [[] for _ in share.steps]
        self._filled_in = [np.zeros(count, bool) for _ in share.steps]
        self._done, self._passed = np.zeros(count, bool), np.zeros(count, bool)
        self._failed: dict[int, BaseException] = {}
        self._held: list[Answers] = []
        self._covered = 0
        self._told = False

    def fill_in(self) -> Share:
        """The share with the answers there are so far, which it stands for from now on."""
        self._share = self.piece(np.arange(len(self._done)))
        self._filled_in = [answered.copy() for answered in self._answered]
        self._answers = [[] for _ in self._answers]
        return self._share

    @property
    def answers(self) -> bool:
        """Whether there are any by now that the share itself does not hold."""
        return any(self._answers)

    def left(self, rows: Array) -> Array:
        """Those of these rows that did not go through all steps yet."""
        left: Array = rows[~self._done[rows]]
        return left

    def settle(self, rows: Array, passed: Array) -> Iterator[Event]:
        """These rows need nothing more; `passed` are those of them that count."""
        self._done[rows] = True
        self._passed[passed] = True
        yield from self.progress()

    def answer(self, rows: Array, event: Answers) -> Iterator[Event]:
        """Answers for a piece of these rows: those that are new, without the bad ones."""
        at = rows[np.asarray(event.rows)]
        new = np.flatnonzero(~self._answered[event.step][at])
        outputs, counters = event.outputs, event.counters
        if len(new) < len(at):  # an input given to two workers counts as one call
            counters = replace(counters, calls=min(counters.calls, len(new)))
            at, outputs = at[new], outputs.take(pa.array(new))
        self._answered[event.step][at] = True
        if len(at):
            self._answers[event.step].append((at, outputs))
        bad = {int(rows[e.row]): e for e in event.errors}
        held = np.flatnonzero(np.isin(at, list(bad)))
        good = np.flatnonzero(~np.isin(at, list(bad)))
        for i in held.tolist():
            error = replace(bad[int(at[i])], row=int(at[i]))
            one = pa.array(at[i : i + 1])
            self._held.append(Answers(event.step, one, outputs.slice(i, 1), Counters(), (error,)))
        if len(good) < len(at):
            at, outputs = at[good], outputs.take(pa.array(good))
        if len(at) or counters != Counters():
            yield Answers(event.step, pa.array(at), outputs, counters)

    def batch(self, rows: Array, event: BatchDone) -> Iterator[Event]:
        """A batch of a piece of these rows is through: what the share's first rows are by now."""
        yield from self.settle(rows[: event.covered], rows[np.asarray(event.passed)])

    def progress(self) -> Iterator[Event]:
        """A BatchDone if more of the first rows are done, after the errors among them."""
        left = self._done[self._covered :]
        covered = self._covered + (int(np.argmin(left)) if not left.all() else len(left))
        if covered > self._covered or not (self._told or len(self._done)):
            yield from self._release(covered)
            first, self._covered, self._told = self._covered, covered, True
            yield BatchDone(covered, pa.array(np.flatnonzero(self._passed[first:covered]) + first))
        if covered in self._failed:
            yield from self._release(covered + 1)
            raise self._failed[covered]

    def fail(self, rows: Array, error: BaseException) -> Iterator[Event]:
        """What is left of these rows cannot be had: raises when it is their turn."""
        self._failed.update(dict.fromkeys(self.left(rows).tolist(), error))
        yield from self.progress()

    def piece(self, rows: Array) -> Share:
        """These rows as a share, with the answers that there are for some of their steps."""
        table = self._share.rows.take(pa.array(rows))
        for step, parts in enumerate(self._answers):
            at = np.flatnonzero((self._answered[step] & ~self._filled_in[step])[rows])
            if len(at):
                known = np.concatenate([part for part, _ in parts])
                order = np.argsort(known)
                place = order[np.searchsorted(known[order], rows[at])]
                outputs = pa.concat_arrays([output for _, output in parts])
                table = filled(table, step, at, outputs.take(pa.array(place)))
        return Share(table, self._share.steps, self._share.accept, self._share.wanted)

    def _release(self, covered: int) -> Iterator[Event]:
        """The errors of the first rows, in their order."""
        due = [a for a in self._held if int(a.errors[0].row) < covered]
        self._held = [a for a in self._held if int(a.errors[0].row) >= covered]
        yield from sorted(due, key=lambda a: (a.errors[0].row, a.step))


def spread(
    share: Share, masks: Sequence[Array], numbers: Sequence[Array], steps: Sequence[int],
    ids: Array, event: Answers,
) -> Iterator[Answers]:
    """Answers for the inputs `ids`, given to every row that needs them in these steps.

    `masks` and `numbers` are of all steps: the rows that need the model, and their inputs.
    """
    asked = ids[np.asarray(event.rows)]
    bad = {int(ids[e.row]): e for e in event.errors}
    counters = event.counters
    for step in steps:
        rows = np.flatnonzero(masks[step] & np.isin(numbers[step], asked))
        place = np.searchsorted(asked, numbers[step][rows])
        errors = tuple(replace(bad[n], row=row, step=step) for row, n in zip(
            rows.tolist(), numbers[step][rows].tolist()) if n in bad)
        outputs = event.outputs.take(pa.array(place))
        yield Answers(step, pa.array(rows), outputs, counters, errors)
        counters = Counters()
