"""Two errors that are not to be confused: the model's own, and that of a sample of its answers.

    python benchmarks/approximate_truth.py ../shared/data/video [clip …]

Clips with counts or intervals made by hand. A row for each query: the truth, the exact answer (the
model on every frame), the answer of a sample with its interval, and the two distances: exact from
truth, which no target speaks of, and sample from exact, which the target bounds.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlsql


@dataclass(frozen=True)
class Query:
    """A figure of a clip: the truth of each frame that is scored, and how to ask for the mean."""

    clip: Path
    shown: str
    item: str
    error: float
    truth: dict[int, float]


def queries(folder: Path) -> Iterator[Query]:
    """People in each frame of pets09, and what the intel clips show, outside their edge zones."""
    with open(folder / "pets09" / "counts_frames_0_299.csv", newline="") as file:
        counts = {int(r["frame"]): float(r["person_count"]) for r in csv.DictReader(file)}
    yield Query(folder / "pets09" / "vtest.avi", "people in a frame",
                "AVG(COUNT_OBJECTS(frame, 'person'))", 0.5, counts)
    with open(folder / "intel" / "hand_intervals.csv", newline="") as file:
        intervals = list(csv.DictReader(file))
    for name, thing in dict.fromkeys((r["video"], r["class"]) for r in intervals):
        own = [r for r in intervals if (r["video"], r["class"]) == (name, thing)]
        yield Query(folder / "intel" / name, f"share of frames with a {thing}",
                    f"COUNT_IF(CONTAINS(frame, '{thing}')) / COUNT(*)", 0.1,
                    _presence(folder / "intel" / name, own))


def _presence(clip: Path, intervals: list[dict[str, str]]) -> dict[int, float]:
    """1 in the certain part of an interval, 0 outside all of them; frames between are left out."""
    with mlsql.connect(config={"cache": False}) as session:
        ((count,),) = session.execute(f"SELECT count(*) FROM '{clip}'").fetchall()
    found = {}
    for frame in range(count):
        if any(int(r["core_start"]) <= frame <= int(r["core_end"]) for r in intervals):
            found[frame] = 1.0
        elif not any(int(r["edge_start"]) <= frame <= int(r["edge_end"]) for r in intervals):
            found[frame] = 0.0
    return found


def row(query: Query) -> str:
    """The line of one query: a sample first, so that it cannot profit from the exact run."""
    truth = sum(query.truth.values()) / len(query.truth)
    with tempfile.TemporaryDirectory() as cache, mlsql.connect(
            config={"cache_dir": cache}) as session:
        session.execute("CREATE TABLE scored (n BIGINT)")
        session.execute("INSERT INTO scored SELECT unnest(?)", [sorted(query.truth)])
        sql = (f"SELECT {query.item} FROM '{query.clip}' "
               "WHERE frame_id IN (SELECT n FROM scored)")
        sampled = session.execute(f"{sql} ERROR WITHIN {query.error}")
        ((guess,),) = sampled.fetchall()
        ((exact,),) = session.execute(sql).fetchall()
    low, high = sampled.interval or (guess, guess)
    return (f"| {query.clip.name} | {query.shown} | {truth:.3f} | {exact:.3f} | {guess:.3f} "
            f"({low:.3f} to {high:.3f}) | {sampled.stats.calls} of {len(query.truth)} | "
            f"{abs(exact - truth):.3f} | {abs(guess - exact):.3f} (at most {query.error}) |")


def main() -> None:
    """Print the table."""
    wanted = sys.argv[2:]
    print("| clip | what | truth | exact | sample | calls | error of the model | of the sample |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for query in queries(Path(sys.argv[1])):
        if not wanted or query.clip.name in wanted:
            print(row(query), flush=True)


if __name__ == "__main__":
    main()
