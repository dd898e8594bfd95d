"""Do the accuracy targets keep their word? `python benchmarks/guarantees.py [trials] [file]`.

Runs every method on every table (guarantee_cells.py), 1,000 seeded trials a cell in two processes,
and writes docs/guarantees-table.md. It ends with 1 if a promised cell failed more often than
δ + 3·√(δ(1 − δ)/R), or if labels are not within 30 % of what the formulas predict.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.guarantee_cells import DELTA, Cell, all_cells
from benchmarks.guarantee_predictions import Prediction, predictions

CHUNK = 25
CELLS: list[Cell] = []  # filled before the processes fork, which then share the tables


@dataclass(frozen=True)
class Outcome:
    """A cell's trials, summed up."""

    cell: Cell
    trials: int
    failures: int
    labels: float
    answer: float
    exact: int

    @property
    def kept(self) -> bool:
        """Whether the failures are within the limit, or nothing was promised."""
        return not self.cell.promised or self.failures <= limit(self.trials) * self.trials


def limit(trials: int) -> float:
    """The share of failures that is accepted: δ + 3·√(δ(1 − δ)/R)."""
    return DELTA + 3 * (DELTA * (1 - DELTA) / trials) ** 0.5


def trials_of(number: int, first: int, count: int) -> list[tuple[int, float, bool, bool]]:
    """Trials first … of a cell, as tuples; the seed is (cell, trial)."""
    out = []
    for trial in range(first, first + count):
        one = CELLS[number].trial(np.random.default_rng((number, trial)))
        out.append((one.labels, one.answer, one.exact, one.failed))
    return out


def rounds(trials: int, pool: ProcessPoolExecutor) -> Iterator[list[Outcome]]:
    """All cells after each round of CHUNK trials, so that a run cut short has a table too."""
    results: list[list[tuple[int, float, bool, bool]]] = [[] for _ in CELLS]
    for first in range(0, trials, CHUNK):
        waiting = [pool.submit(trials_of, number, first, min(CHUNK, trials - first))
                   for number, cell in enumerate(CELLS) if first < cell.most]
        open_ = [so_far for cell, so_far in zip(CELLS, results) if first < cell.most]
        for so_far, part in zip(open_, waiting, strict=True):
            so_far.extend(part.result())
        yield [outcome(cell, so_far) for cell, so_far in zip(CELLS, results)]


def all_predictions() -> list[Prediction]:
    """The second table, made by one of the processes."""
    return list(predictions())


def outcome(cell: Cell, results: list[tuple[int, float, bool, bool]]) -> Outcome:
    """The sum of a cell's trials."""
    labels, answers, exact, failed = (np.array(column, float) for column in zip(*results))
    return Outcome(cell, len(results), int(failed.sum()), float(labels.mean()),
                   float(answers.mean()), int(exact.sum()))


def table(found: list[Outcome]) -> Iterator[str]:
    """The outcomes as lines of markdown."""
    yield "| method | table | labels | answer | exact | failures | within the limit |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for one in found:
        verdict = ("yes" if one.kept else "NO") if one.cell.promised else "(not ours)"
        whole = one.answer >= 10 or one.answer == 0
        answer = f"{one.answer:,.0f}" if whole else f"{one.answer:.3g}"
        yield (f"| {one.cell.method} | {one.cell.table} | {one.labels:,.0f} | {answer} "
               f"| {one.exact / one.trials:.0%} | {one.failures / one.trials:.1%} | {verdict} |")


def prediction_table(found: list[Prediction]) -> Iterator[str]:
    """Labels against the formulas, as lines of markdown."""
    yield "| query | stream | ± | labels | predicted | quotient | missed |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for one in found:
        yield (f"| {one.query} | {one.stream} | {one.error:g} | {one.labels:,.0f} "
               f"| {one.predicted:,.0f} | {one.quotient:.2f} | {one.missed} of {one.trials} |")


def main() -> int:
    """Run everything, write the table, say whether all promises were kept."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    place = Path(sys.argv[2] if len(sys.argv) > 2
                 else Path(__file__).resolve().parent.parent / "docs" / "guarantees-table.md")
    CELLS.extend(all_cells())
    began, found = time.monotonic(), list[Outcome]()
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        predicted = pool.submit(all_predictions)
        for found in rounds(trials, pool):
            write(place, found, predicted.result() if predicted.done() else [])
            over = [f"{one.cell.method}: {one.cell.table}" for one in found if not one.kept]
            print(f"{time.monotonic() - began:6.0f} s  {found[0].trials} trials, over the limit: "
                  f"{', '.join(over) or 'none'}", flush=True)
    write(place, found, predicted.result())
    far = [f"{one.query}: {one.stream}" for one in predicted.result() if not one.close]
    print(f"{place}; not within 30 % of the prediction: {', '.join(far) or 'none'}")
    return 1 if far or not all(one.kept for one in found) else 0


def write(place: Path, found: list[Outcome], predicted: list[Prediction]) -> None:
    """Both tables, as far as they are."""
    place.write_text("\n".join([*heading(found[0].trials), *table(found), "", *second_heading(),
                                *prediction_table(predicted), ""]))


def heading(trials: int) -> list[str]:
    """What the first table shows."""
    return [
        "# The simulation", "",
        "Written by `python benchmarks/guarantees.py`; [guarantees.md](guarantees.md) explains it.",
        "",
        f"{trials:,} trials a cell (Bernstein stopping: 50), δ = {DELTA:.0%}, recall and precision "
        f"targets 90 %. A cell may fail in {limit(trials):.2%} of its trials, three standard "
        "deviations above δ. "
        "Labels and answer are means; the answer is the number of rows returned, for aggregates "
        "the half-width, for GROUP BY the widest; exact: how often every row was labelled, or has "
        "to be because no threshold could be certified.", "",
    ]


def second_heading() -> list[str]:
    """What the second table shows."""
    return ["## Labels against the formulas", "",
            "The day-long streams as if each row cost a model call, 10 runs each; SUM in units of "
            "rows times the width, COUNT likewise.", ""]


if __name__ == "__main__":
    sys.exit(main())
