"""What accuracy targets save on real video, against the exact scan of the same clips.

    python benchmarks/approximate.py ../shared/data/video/tfl_jamcam --answers /tmp/answers.jsonl

The default detector scans the clips once, and its answers are written to the file; then every
query is run for many seeds with an executor that answers from the file, so that calls are counted
exactly and a seed takes seconds. Times are computed: each call is charged what the detector took
in the scan, decoding what a decoder that seeks to the group of pictures before takes for the
pictures asked for, round by round, and features a decode of every clip. One row a query: the share
of seeds that met the target, calls against the exact scan's, computed times against it.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import mlsql
from mlsql.exec.share import Answers, BatchDone, Counters, Event, Share
from mlsql.udfs.types import arrow_type

Seen = dict[tuple[str, int], list[tuple[str, float]]]

GROUP = 250  # pictures of a group in these clips
VEHICLES = "COUNT_OBJECTS(frame, 'vehicle', min_score => .4)"
BUS = "CONTAINS(frame, 'bus', min_score => .5)"


@dataclass
class Costs:
    """Milliseconds of a call, of decoding a picture without and with its pixels made readable."""

    call: float = 12.5
    decode: float = 1000 / 8100
    picture: float = 1000 / 3300
    thumbnail: float = 1000 / 24000


@dataclass
class Recorded:
    """An executor that answers from a file, and charges what the answers would have cost."""

    seen: Seen
    costs: Costs
    ms: float = 0.0
    calls: int = 0
    rounds: int = field(default=0)

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        for ordinal, share in enumerate(shares):
            rows = share.rows
            for number, step in enumerate(share.steps):
                known = np.asarray(rows[f"known_{number}"].combine_chunks().fill_null(False))
                argument = rows[step.argument].combine_chunks()
                asked = np.flatnonzero(~known)
                keys = [(os.path.basename(v["uri"]), v["frame"])
                        for v in argument.take(pa.array(asked)).to_pylist()]
                self._charge(keys)
                outputs = pa.array([_objects(self.seen[key]) for key in keys],
                                   arrow_type(step.model.output_type))
                yield ordinal, Answers(number, pa.array(asked), outputs,
                                       Counters(calls=len(keys), batches=1))
            yield ordinal, BatchDone(len(rows), pa.array(np.arange(len(rows))))

    def _charge(self, keys: list[tuple[str, int]]) -> None:
        deepest: dict[tuple[str, int], int] = {}
        for name, frame in keys:
            group = (name, frame // GROUP)
            deepest[group] = max(deepest.get(group, 0), frame % GROUP + 1)
        self.calls += len(keys)
        self.rounds += 1
        self.ms += len(keys) * (self.costs.call + self.costs.picture - self.costs.decode)
        self.ms += sum(deepest.values()) * self.costs.decode

    def cancel(self) -> None:
        """Nothing runs in the background."""

    def close(self) -> None:
        """Nothing is held."""


def _objects(found: list[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"label": label, "score": score, "x1": 0.0, "y1": 0.0, "x2": 0.0, "y2": 0.0}
            for label, score in found]


@dataclass(frozen=True)
class Query:
    """A statement over {clips}, and what to hold against the exact answer."""

    name: str
    sql: str
    wanted: str  # what it is hoped to show
    error: float | None = None
    recall: float | None = None
    precision: float | None = None
    limit: int | None = None
    exact: str = ""


ROWS = "SELECT path, frame_id FROM {clips} WHERE "
QUERIES = (
    Query("avg", f"SELECT AVG({VEHICLES}) FROM {{clips}} ERROR WITHIN 0.25",
          "20 times fewer calls, 12 times faster", error=0.25,
          exact=f"SELECT AVG({VEHICLES}) FROM {{clips}}"),
    Query("8 checked", f"{ROWS}{VEHICLES} >= 8 RECALL TARGET 90%", "3 times fewer calls",
          recall=0.9, exact=f"{ROWS}{VEHICLES} >= 8"),
    Query("8 unchecked", f"{ROWS}{VEHICLES} >= 8 RECALL TARGET 90% UNCHECKED",
          "12 times faster, precision .7", recall=0.9, exact=f"{ROWS}{VEHICLES} >= 8"),
    Query("8 precise", f"{ROWS}{VEHICLES} >= 8 PRECISION TARGET 90%",
          "6 times faster, recall .6", precision=0.9, exact=f"{ROWS}{VEHICLES} >= 8"),
    Query("15 checked", f"{ROWS}{VEHICLES} >= 15 RECALL TARGET 90%", "5 times fewer calls",
          recall=0.9, exact=f"{ROWS}{VEHICLES} >= 15"),
    Query("bus", f"{ROWS}{BUS} RECALL TARGET 90%", "never over 1.1 times exact", recall=0.9,
          exact=f"{ROWS}{BUS}"),
    Query("10 of 12", f"{ROWS}{VEHICLES} >= 12 LIMIT 10", "20 times fewer than in file order",
          limit=10, exact=f"{ROWS}{VEHICLES} >= 12"),
    Query("10 of 15", f"{ROWS}{VEHICLES} >= 15 LIMIT 10", "8 times fewer than in file order",
          limit=10, exact=f"{ROWS}{VEHICLES} >= 15"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="a folder of clips")
    parser.add_argument("--answers", required=True, help="the file of the detector's answers")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="names of queries, separated by commas")
    given = parser.parse_args()
    files = sorted(glob.glob(os.path.join(glob.escape(given.folder), "*.mp4")))
    costs = Costs()
    if not os.path.exists(given.answers):
        _scan(files, given.answers, costs)
    seen, files = _read(given.answers, files)
    clips = "read_video([" + ", ".join(f"'{f}'" for f in files) + "])"
    size = len(seen)
    print(f"{len(files)} clips, {size:,} frames, {costs.call:.1f} ms a call; "
          f"exact scan {size * (costs.call + costs.picture) / 1000:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _features(seen, clips, folder, costs)
        for query in QUERIES:
            if not given.only or query.name in given.only.split(","):
                _report(query, seen, clips, folder, costs, given.seeds, files)
        if not given.only or "second" in given.only.split(","):
            _second(seen, clips, folder, costs, given.seeds)


def _scan(files: list[str], path: str, costs: Costs) -> None:
    """The detector's answer on every frame, as lines of [file, frame, [[label, score], …]]."""
    clips = "read_video([" + ", ".join(f"'{f}'" for f in files) + "])"
    with mlsql.connect(config={"cache": False}) as session, open(path, "w") as out:
        found = session.execute(f"SELECT path, frame_id, DETECT(frame) FROM {clips}")
        for name, frame, objects in found:
            out.write(json.dumps([os.path.basename(name), frame, [
                (o["label"], o["score"]) for o in objects]]) + "\n")
        costs.call = 1000 * found.stats.seconds_infer / max(1, found.stats.calls)


def _read(path: str, files: list[str]) -> tuple[Seen, list[str]]:
    """The answers, and the clips that have one for every frame but perhaps the last few."""
    seen: Seen = {}
    with open(path) as lines:
        for line in lines:
            name, frame, objects = json.loads(line)
            seen[(name, frame)] = [(label, score) for label, score in objects]
    with mlsql.connect(config={"cache": False}) as session:
        whole = []
        for file in files:
            ((count,),) = session.execute(f"SELECT count(*) FROM '{file}'").fetchall()
            if all((os.path.basename(file), i) in seen for i in range(count)):
                whole.append(file)
    names = {os.path.basename(f) for f in whole}
    return {key: value for key, value in seen.items() if key[0] in names}, whole


def _session(seen: Seen, folder: str, costs: Costs, name: str, **config: Any) -> mlsql.Session:
    """A session with an empty cache of outputs; features lie there already."""
    own = os.path.join(folder, name)
    if not os.path.exists(own):
        os.makedirs(own)
        for kept in ("features", "listings"):
            if os.path.isdir(os.path.join(folder, "kept", kept)):
                os.symlink(os.path.join(folder, "kept", kept), os.path.join(own, kept))
    session = mlsql.connect(config={"cache_dir": own, **config})
    executor = Recorded(seen, costs)
    session._runner.executor = lambda: executor  # type: ignore[method-assign]
    return session


def _features(seen: Seen, clips: str, folder: str, costs: Costs) -> None:
    """Make the thumbnails once; what they cost is charged to every query that looks at them."""
    from mlsql.exec.approximate.features import features_of

    with _session(seen, folder, costs, "kept") as session:
        column = session.execute(f"SELECT frame FROM {clips}").arrow()["frame"].combine_chunks()
        column = getattr(column, "storage", column)
        runner = session._runner
        started = time.perf_counter()
        features_of(column, runner.limits(), runner.cache(), lambda: None, runner.listings())
        print(f"features {time.perf_counter() - started:.1f} s", flush=True)


def _truth(query: Query, seen: Seen, clips: str, folder: str, costs: Costs) -> Any:
    with _session(seen, folder, costs, "exact") as session:
        return session.execute(query.exact.format(clips=clips)).fetchall()


def _report(
    query: Query, seen: Seen, clips: str, folder: str, costs: Costs, seeds: int, files: list[str]
) -> None:
    truth = _truth(query, seen, clips, folder, costs)
    size = len(seen)
    runs = [_run(query, truth, seen, clips, folder, costs, seed) for seed in range(seeds)]
    calls = np.array([r["calls"] for r in runs])
    exact_ms = size * (costs.call + costs.picture)
    exact_calls = size if query.limit is None else _in_order(query.limit, truth, seen, files)
    if query.limit is not None:
        exact_ms = exact_calls * (costs.call + costs.picture)
    faster = exact_ms / np.array([r["ms"] for r in runs])
    met = sum(r["met"] for r in runs)
    print(f"{query.name:12} met {met}/{seeds}, calls {np.median(calls):,.0f} "
          f"(most {calls.max():,}), exact {exact_calls:,}: "
          f"{exact_calls / np.median(calls):.1f} times fewer, "
          f"{np.median(faster):.1f} times faster, "
          f"recall {_middle_and_least([r['recall'] for r in runs])}, "
          f"precision {_middle_and_least([r['precision'] for r in runs])} "
          f"(wanted: {query.wanted})",
          flush=True)


def _middle_and_least(shares: list[float]) -> str:
    return f"{np.median(shares):.3f} (least {min(shares):.3f})"


def _run(
    query: Query, truth: Any, seen: Seen, clips: str, folder: str, costs: Costs, seed: int
) -> dict[str, Any]:
    name = f"run-{query.name.replace(' ', '-')}-{seed}"
    config: dict[str, Any] = {"seed": seed}
    if query.limit is not None:
        config["limit_takes"] = "likeliest"
    with _session(seen, folder, costs, name, **config) as session:
        result = session.execute(query.sql.format(clips=clips))
        rows = result.fetchall()
        ms = _ms(session, result, seen, costs)
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    return {"calls": result.stats.calls, "ms": ms, **_kept(query, rows, truth)}


def _ms(session: mlsql.Session, result: mlsql.Result, seen: Seen, costs: Costs) -> float:
    executor: Any = session._runner.executor()
    how: Any = result.approximate
    features = "thumbnails" in getattr(how, "proxy", "")
    return float(executor.ms + features * len(seen) * (costs.decode + costs.thumbnail))


def _kept(query: Query, rows: Any, truth: Any) -> dict[str, Any]:
    """Whether the promise was kept, and recall and precision against the exact answer."""
    if query.error is not None:
        return {"met": abs(rows[0][0] - truth[0][0]) <= query.error, "recall": 1.0,
                "precision": 1.0}
    got, all_ = set(rows), set(truth)
    recall, precision = len(got & all_) / max(1, len(all_)), len(got & all_) / max(1, len(got))
    if query.limit is not None:
        met = got <= all_ and len(got) == min(query.limit, len(all_))
    else:
        met = recall >= (query.recall or 0) and precision >= (query.precision or 0)
    return {"met": met, "recall": recall, "precision": precision}


def _in_order(limit: int, truth: Any, seen: Seen, files: list[str]) -> int:
    """Calls until LIMIT is met in the order of the files."""
    wanted = {(os.path.basename(path), frame) for path, frame in truth}
    calls = found = 0
    for file in files:
        name = os.path.basename(file)
        for frame in range(sum(key[0] == name for key in seen)):
            calls += 1
            found += (name, frame) in wanted
            if found == limit:
                return calls
    return calls


def _second(seen: Seen, clips: str, folder: str, costs: Costs, seeds: int) -> None:
    """A different query on the same clips: alone, after another, after another with its seed."""
    first = f"SELECT AVG({VEHICLES}) FROM {clips} ERROR WITHIN 0.25"
    second = f"SELECT COUNT(*) FROM {clips} WHERE {VEHICLES} >= 8 ERROR WITHIN " \
             f"{0.05 * len(seen):.0f}"
    calls: dict[str, list[int]] = {"alone": [], "same seed": [], "another seed": []}
    for seed in range(seeds):
        for name, before in (("alone", None), ("same seed", seed), ("another seed", seed + 1000)):
            with _session(seen, folder, costs, f"{name}-{seed}", seed=seed) as session:
                if before is not None:
                    session.execute(f"SET seed = {before}")
                    session.execute(first)
                    session.execute(f"SET seed = {seed}")
                calls[name].append(session.execute(second).stats.calls)
    alone, same, another = (float(np.median(found)) for found in calls.values())
    print(f"second query  alone {alone:,.0f} calls, after another with the same seed {same:,.0f}: "
          f"{alone / max(1, same):.1f} times fewer; with another seed {another:,.0f}: "
          f"{alone / max(1, another):.1f} times fewer", flush=True)


if __name__ == "__main__":
    main()
