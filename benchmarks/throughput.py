"""Frames with at least 8 vehicles: mlsql beside two onnxruntime scripts, first and second run.

    python benchmarks/throughput.py --clips 8 --times 3 [--precision int8] [--file results.md]

Each candidate is a process of its own; they take turns, and what counts are ratios within a turn,
since other work on a machine comes and goes. mlsql starts with an empty cache of outputs; what it
keeps about the machine (the network's other form, the chosen runtime) is there after one small run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from detector import LEAST, ROOT, SCORE, clips, onnx_file, tell

HERE = Path(__file__).resolve().parent
QUERY = (f"SELECT path, frame_id FROM read_video($paths) "
         f"WHERE COUNT_OBJECTS(frame, 'vehicle', min_score => {SCORE}) >= {LEAST}")


def main() -> None:
    """The table, or with --one the run of mlsql that is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clips", type=int, default=None, help="so many of the 55")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--file", type=Path, default=None, help="where the table is written, too")
    parser.add_argument("--one", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run_once(clips(given.clips), given.one, given.precision, given.first)
        return
    with tempfile.TemporaryDirectory() as folder:
        text = table(given, Path(folder))
    print(text)
    if given.file:
        given.file.write_text(text, encoding="utf-8")


def run_once(paths: list[str], cache: Path, precision: str, first_only: bool = False) -> None:
    """First and second run of the query in one session, loading of the model included.

    `first_only` looks at the first frame of each clip: what is left is the start.
    """
    import mlsql

    query = f"{QUERY} AND frame_id < 1" if first_only else QUERY
    with mlsql.connect(config={"cache_dir": str(cache), "precision": precision}) as session:
        started = time.perf_counter()
        first = session.execute(query, {"paths": paths})
        rows = first.fetchall()
        seconds, stats = time.perf_counter() - started, first.stats
        again = []
        for _ in range(5):
            started = time.perf_counter()
            session.execute(query, {"paths": paths}).fetchall()
            again.append(time.perf_counter() - started)
    tell(seconds, stats.frames_decoded, rows, again=statistics.median(again), calls=stats.calls,
         infer=stats.seconds_infer, wait=stats.seconds_wait, all=stats.seconds)


def table(given: argparse.Namespace, folder: Path) -> str:
    """Take turns, and put the figures together."""
    onnx_file(folder)
    cache = folder / "cache"
    runs: dict[str, list[dict[str, Any]]] = {"plain": [], "threaded": [], "mlsql": []}
    _mlsql(1, cache, given.precision)  # the machine's own files, and everything read once
    starts: list[dict[str, Any]] = []
    for turn in range(given.times):
        order = list(runs)
        for name in order[turn % 3:] + order[:turn % 3]:
            print(f"turn {turn + 1} of {given.times}: {name}", file=sys.stderr)
            if name == "mlsql":
                starts.append(_mlsql(given.clips, cache, given.precision, "--first"))
                runs[name].append(_mlsql(given.clips, cache, given.precision))
            else:
                runs[name].append(_script(f"{name}_onnxruntime.py", given.clips, folder))
    return _text(runs, starts, given)


def _text(
    runs: dict[str, list[dict[str, Any]]], starts: list[dict[str, Any]], given: argparse.Namespace
) -> str:
    plain, mlsql = runs["plain"], runs["mlsql"]
    frames = plain[0]["frames"]
    lines = [f"{frames:,} frames, {given.times} turns, precision {given.precision}", "",
             "| run | frames/s | times plain, median (range) | rows |", "|---|---|---|---|"]
    for name, found in runs.items():
        ratios = sorted(p["seconds"] / f["seconds"] for p, f in zip(plain, found))
        rate = statistics.median(f["frames"] / f["seconds"] for f in found)
        if name == "mlsql":
            rate = statistics.median(frames / f["seconds"] for f in found)
        lines.append(f"| {name} | {rate:.1f} | {statistics.median(ratios):.2f} "
                     f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {len(found[0]['rows'])} |")
    over = statistics.median(
        t["seconds"] / m["seconds"] for t, m in zip(runs["threaded"], mlsql))
    expected, rows = _set(plain[0]), _set(mlsql[0])
    own = statistics.median(_own(m) / m["all"] for m in mlsql)
    start = statistics.median(map(_own, starts))
    later = statistics.median((_own(m) - start) / m["all"] for m in mlsql)
    again = statistics.median(m["again"] for m in mlsql)
    lines += ["", f"mlsql is {over:.2f} times the threaded script. Rows that differ from the plain "
              f"script's: {len(expected ^ rows)} of {frames:,} frames "
              f"({100 * (1 - len(expected ^ rows) / frames):.2f} % agree).",
              f"Neither decoding nor inference: {100 * own:.1f} % of the time, planning and "
              f"loading included; {100 * later:.1f} % without the {start:.1f} s of it that a query "
              f"over the first frame of each clip takes.",
              f"Second run: {1000 * again:.0f} ms, "
              f"{statistics.median(m['seconds'] / m['again'] for m in mlsql):,.0f} times faster; "
              f"model calls of the first: {mlsql[0]['calls']:,}.", ""]
    return "\n".join(lines)


def _own(run: dict[str, Any]) -> float:
    """Seconds in which the query's thread neither had the model answer nor waited for a picture."""
    seconds: float = run["all"] - run["infer"] - run["wait"]
    return seconds


def _set(run: dict[str, Any]) -> set[tuple[str, int]]:
    return {(path, number) for path, number in run["rows"]}


def _mlsql(count: int | None, cache: Path, precision: str, *more: str) -> dict[str, Any]:
    for kept in ("outputs", "features", "approximate"):
        shutil.rmtree(cache / kept, ignore_errors=True)
    return _script("throughput.py", count, None, "--one", str(cache), "--precision", precision,
                   *more)


def _script(name: str, count: int | None, folder: Path | None, *more: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / name), *more]
    command += [] if count is None else ["--clips", str(count)]
    command += [] if folder is None else ["--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
