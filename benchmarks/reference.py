"""Random statements over models held against plain DuckDB: `python benchmarks/reference.py [n]`.

Runs n (1,000) generated statements in every mode: the peeled plan, the recording loop, and each
rule switched off. Prints how many were equal, wrong, failed, asked a model too often, or fell back
to recording, and the mean calls a statement beside the inputs that DuckDB itself asked for. What
was not equal is listed. Then, for TPC-H's 22 queries, which ask no model, what mlsql adds to each.
"""

from __future__ import annotations

import collections
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlsql.session import Session
from tests.query_generator import QueryGenerator
from tests.reference import Outcome, Sides, modes
from tests.test_tpch import QUERIES, fill

VERDICTS = ("equal", "wrong", "error", "calls", "unplanned")


@dataclass
class Tally:
    """What came out in one mode."""

    verdicts: collections.Counter[str] = field(default_factory=collections.Counter)
    calls: int = 0
    extra: int = 0

    def add(self, outcome: Outcome) -> None:
        self.verdicts[outcome.verdict] += 1
        self.calls += outcome.calls
        self.extra += outcome.extra


def main() -> None:
    """Both tables."""
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    added_time()


def compare(count: int) -> None:
    """The reference test on seeds 0 to count - 1."""
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    rejected, wanted, failures = 0, 0, []
    started = time.perf_counter()
    for seed, sql, outcomes, inputs in outcomes_of(count):
        rejected += not outcomes
        wanted += inputs
        for name, outcome in outcomes.items():
            tallies[name].add(outcome)
        bad = {name: o for name, o in outcomes.items() if o.verdict != "equal"}
        if bad:
            failures += ["", f"seed {seed}: {sql}"]
            failures += [f"  {name}: {o.verdict} {o.detail}".rstrip() for name, o in bad.items()]
    run = count - rejected
    print(f"{count} statements, {rejected} rejected by DuckDB, {run} run in {len(tallies)} modes, "
          f"{time.perf_counter() - started:.0f} s\n")
    print("| mode | " + " | ".join(VERDICTS) + " | calls a statement | not asked by DuckDB |")
    print("|---" * (len(VERDICTS) + 3) + "|")
    for name, tally in tallies.items():
        counts = " | ".join(str(tally.verdicts[v]) for v in VERDICTS)
        print(f"| {name} | {counts} | {tally.calls / run:.2f} | {tally.extra / run:.2f} |")
    print(f"\nDistinct inputs that DuckDB asked for: {wanted / run:.2f} a statement.")
    print("\n".join(failures))


def outcomes_of(count: int) -> Iterator[tuple[int, str, dict[str, Outcome], int]]:
    """For each seed: the statement, the outcome in each mode, the inputs DuckDB asked for."""
    both = [Sides(), Sides(nulls=True)]
    for seed in range(count):
        sides = both[seed % 4 == 0]
        statement = QueryGenerator(seed).statement()
        expected = sides.reference(statement.text)
        inputs = len(sides.wanted)
        if expected is None:
            yield seed, statement.text, {}, 0
            continue
        outcomes = {name: sides.compare(statement.text, expected, ordered=statement.ordered, **mode)
                    for name, mode in modes().items()}
        if any("FATAL" in o.detail for o in outcomes.values()):
            both[seed % 4 == 0] = Sides(nulls=sides.nulls)  # DuckDB gave up its database
        yield seed, statement.text, outcomes, inputs
    for sides in both:
        sides.session.close()


def added_time(times: int = 15) -> None:
    """Milliseconds of TPC-H's queries in DuckDB and through mlsql: the fastest of runs in turns."""
    plain = duckdb.connect()
    fill(plain.execute)
    with Session() as session:
        fill(session.connection.execute)
        added = {}
        for name, text in QUERIES.items():
            alone, through = _fastest([lambda text=text: plain.execute(text).fetchall(),
                                       lambda text=text: session.execute(text).fetchall()], times)
            added[name] = through - alone
    print(f"\nTPC-H without models: mlsql adds {statistics.median(added.values()):.2f} ms to the "
          f"median query, {max(added.values()):.2f} ms to {max(added, key=added.get)}.")


def _fastest(runs: list[Callable[[], object]], times: int) -> list[float]:
    best = [float("inf")] * len(runs)
    for _ in range(times):
        for at, run in enumerate(runs):
            started = time.perf_counter()
            run()
            best[at] = min(best[at], time.perf_counter() - started)
    return [1000 * seconds for seconds in best]


if __name__ == "__main__":
    main()
