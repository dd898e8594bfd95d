"""Targets kept by whole statements: conditions of two models, joins and groups, many times each.

    python benchmarks/guarantee_queries.py 1000

The models are made up: their answers are written down beforehand, so that a trial takes a fraction
of a second and the exact answer is known. The rest is what any statement goes through. The answers
change every 50 trials, the seed at each. A method that keeps a confidence of 95 % fails in at most
5 in 100; the limit for so many trials is δ + 3·√(δ(1 − δ)/R).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import mlsql
from mlsql.exec.share import Answers, BatchDone, Counters, Event, Share
from mlsql.udfs.types import arrow_type

CLIPS, LONG = 6, 300
SIZE = CLIPS * LONG
DELTA = 0.05
ROW = np.arange(SIZE)
RAINY = (ROW // LONG) % 2 == 0
CARS = "COUNT_OBJECTS(frame, 'car')"


class Scripted:
    """An executor that answers from arrays: the number of cars, and whether the road is wet."""

    def __init__(self) -> None:
        self.calls = 0
        self.draw(0)

    def draw(self, number: int) -> None:
        """Other answers: counts that change slowly, and wet stretches, some of them short."""
        rng = np.random.default_rng((17, number))
        wave = 3 * np.sin(ROW / rng.uniform(12, 40)) + np.repeat(rng.normal(4, 2, CLIPS), LONG)
        self.cars = np.clip(np.rint(wave + rng.normal(0, 1, SIZE)), 0, 20).astype(int)
        self.wet = np.sin(ROW / rng.uniform(8, 30) + rng.uniform(0, 6)) > rng.uniform(-0.5, 0.8)

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        for ordinal, share in enumerate(shares):
            kept = np.arange(len(share.rows))
            for number, step in enumerate(share.steps):
                known = np.asarray(share.rows[f"known_{number}"].combine_chunks().fill_null(False))
                asked = np.flatnonzero(~known)
                values = share.rows[step.argument].combine_chunks().take(pa.array(asked))
                frames = np.asarray(values.field("frame"))
                self.calls += len(asked)
                outputs = [self._output(step.model.name, int(frame)) for frame in frames]
                yield ordinal, Answers(
                    number, pa.array(asked), pa.array(outputs, arrow_type(step.model.output_type)),
                    Counters(calls=len(asked), batches=1))
            yield ordinal, BatchDone(len(share.rows), pa.array(kept))

    def _output(self, model: str, row: int) -> Any:
        if model == "wet":
            return bool(self.wet[row])
        return [{"label": "car", "score": 0.9, "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
                ] * int(self.cars[row])

    def cancel(self) -> None:
        """Nothing runs in the background."""

    def close(self) -> None:
        """Nothing is held."""


def session(executor: Scripted) -> mlsql.Session:
    """A table of handles of six clips, and another of what the weather was like in each."""
    opened = mlsql.connect(config={"cache": False})
    opened.register_model(lambda pictures: [False] * len(pictures), name="wet", task="predict",
                          input="image", output="BOOLEAN")
    opened._runner.executor = lambda: executor  # type: ignore[method-assign]
    opened.execute("SET threads = 1")
    opened.execute(
        f"CREATE TABLE t AS SELECT n, n // {LONG} AS clip, struct_pack(uri := 'clip' || (n // "
        f"{LONG}) || '.mp4', frame := n, data := NULL::BLOB) AS frame "
        f"FROM range({SIZE}) r(n)")
    opened.execute(f"CREATE TABLE weather AS SELECT clip, clip % 2 = 0 AS rain FROM range({CLIPS}) "
                   "r(clip)")
    return opened


Rows = list[tuple[Any, ...]]
Held = Callable[[Scripted, Rows], bool]


@dataclass(frozen=True)
class Statement:
    """A statement, and whether an answer to it keeps the target."""

    name: str
    sql: str
    held: Held


def _recall(truth: Callable[[Scripted], NDArray[np.bool_]], checked: bool = True) -> Held:
    def held(answers: Scripted, rows: Rows) -> bool:
        wanted = set(np.flatnonzero(truth(answers)).tolist())
        got = {row for (row,) in rows}
        return len(got & wanted) >= 0.9 * len(wanted) and (not checked or got <= wanted)

    return held


def _precision(truth: Callable[[Scripted], NDArray[np.bool_]]) -> Held:
    def held(answers: Scripted, rows: Rows) -> bool:
        got = [row for (row,) in rows]
        return int(truth(answers)[got].sum()) >= 0.9 * len(got)

    return held


def _by_clip(answers: Scripted, rows: Rows) -> bool:
    means = answers.cars.reshape(CLIPS, LONG).mean(axis=1)
    return len(rows) == CLIPS and all(abs(value - means[clip]) <= 1 for clip, value in rows)


def _count(answers: Scripted, rows: Rows) -> bool:
    truth = int((RAINY & (answers.cars >= 5) & ~answers.wet).sum())
    return bool(abs(rows[0][0] - truth) <= 100)


def _average(answers: Scripted, rows: Rows) -> bool:
    kept = answers.wet | (answers.cars >= 7)
    return bool(abs(rows[0][0] - answers.cars[kept].mean()) <= 1)


STATEMENTS = (
    Statement("recall, AND", f"SELECT n FROM t WHERE {CARS} >= 5 AND wet(frame) RECALL TARGET 90%",
              _recall(lambda a: (a.cars >= 5) & a.wet)),
    Statement("recall, OR", f"SELECT n FROM t WHERE {CARS} >= 8 OR wet(frame) RECALL TARGET 90%",
              _recall(lambda a: (a.cars >= 8) | a.wet)),
    Statement("recall, NOT",
              f"SELECT n FROM t WHERE NOT ({CARS} >= 4 OR wet(frame)) RECALL TARGET 90%",
              _recall(lambda a: ~((a.cars >= 4) | a.wet))),
    Statement("recall, unchecked, AND NOT",
              f"SELECT n FROM t WHERE {CARS} >= 4 AND NOT wet(frame) RECALL TARGET 90% UNCHECKED",
              _recall(lambda a: (a.cars >= 4) & ~a.wet, checked=False)),
    Statement("recall, join",
              f"SELECT n FROM t JOIN weather USING (clip) WHERE rain AND {CARS} >= 5 "
              "RECALL TARGET 90%", _recall(lambda a: RAINY & (a.cars >= 5))),
    Statement("precision, OR",
              f"SELECT n FROM t WHERE {CARS} >= 7 OR wet(frame) PRECISION TARGET 90%",
              _precision(lambda a: (a.cars >= 7) | a.wet)),
    Statement("count, join, AND NOT",
              f"SELECT COUNT(*) FROM t JOIN weather USING (clip) WHERE rain AND {CARS} >= 5 "
              "AND NOT wet(frame) ERROR WITHIN 100", _count),
    Statement("average, OR",
              f"SELECT AVG({CARS}) FROM t WHERE wet(frame) OR {CARS} >= 7 ERROR WITHIN 1",
              _average),
    Statement("average by clip",
              f"SELECT clip, AVG({CARS}) FROM t GROUP BY clip ERROR WITHIN 1", _by_clip),
)


def failures(statement: Statement, trials: int) -> tuple[int, float]:
    """How often the target was missed, and the mean share of the exact run's rows looked at."""
    executor = Scripted()
    missed, labelled = 0, 0.0
    with session(executor) as opened:
        for trial in range(trials):
            if trial % 50 == 0:
                executor.draw(trial // 50)
            opened.execute(f"SET seed = {trial}")
            found = opened.execute(statement.sql)
            missed += not statement.held(executor, found.fetchall())
            how: Any = found.approximate
            labelled += how.labelled / how.rows if how is not False else 1.0
    return missed, labelled / trials


def main() -> None:
    """Print one line a statement."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    limit = DELTA + 3 * (DELTA * (1 - DELTA) / trials) ** 0.5
    print(f"{trials:,} trials each; at most {limit:.1%} may fail")
    print("| statement | failed | rows looked at |\n|---|---:|---:|")
    for statement in STATEMENTS:
        missed, labelled = failures(statement, trials)
        print(f"| {statement.name} | {missed / trials:.1%} | {labelled:.0%} |", flush=True)


if __name__ == "__main__":
    main()
