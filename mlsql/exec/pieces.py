"""A chunk of candidates in pieces: between two of them, conditions may change places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mlsql.exec.answered import Answered
from mlsql.exec.known import Unknown, plain, taken
from mlsql.exec.learning import Learning
from mlsql.exec.share import Answers, Share, Step
from mlsql.exec.stores import OutputStore, registered
from mlsql.planner.nodes import Stage
from mlsql.planner.steps import Judgement, judgements, order_of

if TYPE_CHECKING:
    from mlsql.exec.stage_run import Machinery

# The first piece is to learn from; the others grow, but leave room to learn that data have changed.
_FIRST, _LEAST, _MOST, _PIECES = 32, 64, 4_096, 32

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Piece:
    """Rows that are run together: the first one's place, and the calls in the order of steps.

    Their known_k, out_k and key_k go by the stage's calls.
    """

    start: int
    rows: pa.Table
    calls: tuple[int, ...]


SAMPLE = 1_024
"""So many rows tell how selective a condition is."""


def evenly(rows: int, most: int) -> Array:
    """The numbers of at most so many of the rows, at even steps from the first to the last."""
    return np.unique(np.linspace(0, rows - 1, most).astype(np.int64))


class Pieces:
    """The rows of one chunk, what is learned of them, and the stage in its present order.

    `total` is how many candidates the stage has, `wanted` how many more are to pass (None: all).
    """

    def __init__(
        self, stage: Stage, rows: pa.Table, unknown: Mapping[str, Unknown],
        stores: Sequence[OutputStore], learning: Learning, use: Machinery,
    ) -> None:
        self.stage = stage
        self.unknown = unknown
        self.opened: list[Piece] = []
        self.asked = [0] * len(stage.calls)
        self.total = len(rows)
        self.wanted: int | None = None
        self._rows, self._stores, self._learning, self._use = rows, stores, learning, use
        self._answered = {store.name: Answered(unknown[store.name], store.schema.field(1).type)
                          for store in stores}
        self._open = any(len(u.arguments) for u in unknown.values())
        self._adapts = use.adapts and self._open and _has_choice(stage)

    def shares(self) -> Iterator[Share]:
        """The pieces as work, each with its conditions in the order that now looks cheapest.

        A piece is made when the executor asks for it: what the one before showed is known by then.
        """
        start, size = 0, _FIRST if self._adapts else len(self._rows)
        while start < len(self._rows):
            for before in self.opened[-1:] if self._adapts else []:
                self._judge(before.rows)
            rows = self._filled(self._rows.slice(start, size))
            if self._adapts:
                rows = self._ordered(rows, len(self._rows) - start)
            order = order_of(self.stage)
            self.opened.append(Piece(start, rows, order.calls))
            steps = tuple(Step(self.stage.calls[k].spec, self.stage.calls[k].column, guard)
                          for k, guard in zip(order.calls, order.guards, strict=True))
            accept = order.accept if self.counts_passed else None
            yield Share(_numbered(rows, order.calls), steps, accept, self.wanted)
            start += len(rows)
            size = min(2 * size, max(_LEAST, min(_MOST, self.total // _PIECES)))

    @property
    def counts_passed(self) -> bool:
        """Whether workers say which rows pass; else nobody needs to know, but for a sample."""
        return self._adapts or self.wanted is not None or not self._open

    def _ordered(self, rows: pa.Table, left: int) -> pa.Table:
        """Put the conditions in the order that now looks cheapest; fewer rows, if it is a trial."""
        unknown = {k: 1.0 - _share_true(rows[f"known_{k}"])
                   for k in range(len(self.stage.calls))}
        self._learning.about_to_see(left, unknown)
        self.stage = self._learning.order(self.stage)
        trial = self._learning.trial(self.stage, _FIRST) if self.opened else None
        if trial is None:
            return rows
        self.stage = trial
        return rows.slice(0, _FIRST)

    def passed(self, rows: int) -> None:
        """So many more rows have passed."""
        if self.wanted is not None:
            self.wanted -= rows

    def learn(self, call: int, piece: Piece, event: Answers) -> tuple[Array, Array, pa.Array]:
        """Note answers: the places of their inputs, the first row of each in the event, outputs."""
        places, first = np.unique(self.places(call, piece, event.rows), return_index=True)
        first, places = first[places >= 0], places[places >= 0]
        outputs = taken(plain(event.outputs), first)
        self.asked[call] += len(places)
        self._answered[self._stores[call].name].add(places, outputs)
        return places, first, outputs

    def places(self, call: int, piece: Piece, rows: Any) -> Array:
        """The places of rows' inputs among the unknown ones, -1 for those that are known."""
        key = piece.rows[f"key_{call}"].take(pa.array(rows, pa.int64())).combine_chunks()
        return np.asarray(key.fill_null(-1))

    def store(self) -> None:
        """Put what was learned into the stores."""
        for store in dict.fromkeys(self._stores):
            self._answered[store.name].put_into(store)

    def unknown_rows(self, call: int, covered: int) -> int:
        """How many of the rows covered had an output of a call still to be found."""
        return round(covered * (1.0 - _share_true(self._rows[f"known_{call}"].slice(0, covered))))

    def judge_last(self, covered: int) -> None:
        """Judge the rows of the last piece that were covered, or a sample of them."""
        for piece in self.opened[-1:]:
            rows = piece.rows.slice(0, max(0, covered - piece.start))
            if self._adapts:
                self._judge(rows)
            elif not self.counts_passed and len(rows):
                self._judge(rows.take(pa.array(evenly(len(rows), SAMPLE))))

    def _judge(self, rows: pa.Table) -> None:
        """Count the rows that reached each condition, and those that met it."""
        wanted = judgements(self.stage)
        if not wanted or not len(rows):
            return
        filled = self._filled(rows)
        with registered(self._use.connection, "mlsql_judged", filled), self._use.tally.sql():
            counts = self._use.connection.execute(
                f"SELECT {', '.join(map(_counted, wanted))} FROM mlsql_judged").fetchall()[0]
        first = next((j.text for j in wanted if j.reached is None), "")
        self._learning.saw({judged.text: (counts[2 * i], counts[2 * i + 1])
                            for i, judged in enumerate(wanted)}, first)

    def _filled(self, rows: pa.Table) -> pa.Table:
        """The rows with what has been learned of their inputs so far."""
        for k, store in enumerate(self._stores):
            rows = self._answered[store.name].filled(rows, k)
        return rows


def _has_choice(stage: Stage) -> bool:
    """Whether conditions of a stage can change places."""
    judged = [f for f in stage.filters if f.condition is not None and f.calls]
    return len(judged) > 1 or any(len(f.disjuncts) > 1 for f in judged)


def _numbered(rows: pa.Table, calls: tuple[int, ...]) -> pa.Table:
    """The rows with known_i, out_i and key_i by the order of steps instead of by call."""
    own = [f"{what}_{k}" for k in range(len(calls)) for what in ("known", "out", "key")]
    numbered = rows.select([name for name in rows.column_names if name not in own])
    for i, k in enumerate(calls):
        for what in ("known", "out", "key"):
            numbered = numbered.append_column(f"{what}_{i}", rows[f"{what}_{k}"])
    return numbered


def _share_true(column: pa.ChunkedArray) -> float:
    import pyarrow.compute as pc  # slow to load, and of no use to a statement without models

    return float(pc.sum(column).as_py() or 0) / max(1, len(column))


def _counted(judged: Judgement) -> str:
    """How many rows reached a condition, and how many of them met it, in SQL."""
    reached = "count(*)" if judged.reached is None else f"count(*) FILTER (WHERE {judged.reached})"
    return f"{reached}, count(*) FILTER (WHERE {judged.passed})"
