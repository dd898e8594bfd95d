"""What planning takes: `python benchmarks/planning.py`.

Plans every statement of tests/queries.sql and of the golden plans several times and prints the
processor time of the fastest, in milliseconds: the median, the 95th percentile, and the slowest
statements. Beside it the time that DuckDB alone takes to bind the same statement over functions
with the models' types, so that the figures can be compared between machines.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlsql.parser.dialect import parse
from tests import test_plans
from tests.sessions import Asking, reference
from tests.test_queries import QUERIES

TIMES = 7


def fastest(run: Callable[[], object]) -> float:
    """Milliseconds of processor time, the least of several runs."""
    best = float("inf")
    for _ in range(TIMES):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best * 1000


def planned(s: Asking, sql: str) -> Callable[[], object]:
    """Reading, resolving and planning one statement."""
    runner = s.session._runner

    def plan() -> object:
        sources = runner.sources()
        try:
            return runner.planned(sources.resolve(runner.opened(parse(sql))), sql)
        finally:
            sources.close()

    return plan


def main() -> None:
    """The table."""
    plain = reference()
    with Asking() as s, tempfile.TemporaryDirectory() as folder:
        test_plans.fill(s, Path(folder))
        golden = [case.sql for path in sorted(test_plans.FOLDER.glob("*.sql"))
                  for case in test_plans.read(path)]
        ours = {sql: fastest(planned(s, sql)) for sql in [*QUERIES, *golden]}
    bound = [fastest(lambda sql=sql: plain.execute(f"EXPLAIN {sql}").fetchall()) for sql in QUERIES]
    figures = sorted(ours.values())
    print(f"{len(figures)} statements: median {statistics.median(figures):.1f} ms, 95th percentile "
          f"{figures[int(0.95 * len(figures))]:.1f} ms, under 20 ms: "
          f"{sum(f < 20 for f in figures)}; DuckDB alone binds in a median of "
          f"{statistics.median(bound):.1f} ms")
    for sql, ms in sorted(ours.items(), key=lambda item: -item[1])[:8]:
        print(f"{ms:6.1f} ms  {' '.join(sql.split())[:120]}")


if __name__ == "__main__":
    main()
