"""Statements on a small Ray of this machine: the same rows, and actors that die."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.errors import ModelOutputError, OperationalError, TimeLimit
from mlsql.exec.cluster import dispatch, link
from mlsql.exec.executors.ray import RayExecutor

RAY = {"executor": "ray", "workers": 2, "min_workers": 2}


@pytest.fixture(scope="module", autouse=True)
def one_ray() -> Iterator[None]:
    """One Ray for all tests here: it is begun by the first statement that needs it."""
    link.hold()
    yield
    link.let_go()


@pytest.fixture(scope="module")
def module_session() -> Iterator[mlsql.Session]:
    with mlsql.connect(config={**RAY, "cache": False}) as session:
        yield session


@pytest.fixture
def session(module_session: mlsql.Session) -> Iterator[mlsql.Session]:
    """A session whose actors are up already; its settings are put back."""
    yield module_session
    for name in ("on_error", "statement_timeout", "max_model_calls"):
        module_session.settings.reset(name)


def register(session: mlsql.Session, function: Any, name: str, **options: Any) -> None:
    session.register_model(function, **{
        "name": name, "task": "predict", "input": "BIGINT", "output": "BIGINT", "batch_size": 8,
        **options})


def fleet(session: mlsql.Session) -> Any:
    held = session._runner._executor
    assert held is not None and isinstance(held[1], RayExecutor)
    return held[1]._fleet


def pids(session: mlsql.Session) -> list[int]:
    import ray

    return [ray.get(worker.ready) for worker in fleet(session).workers if worker.up]


def ended(theirs: list[int], seconds: float = 20.0) -> bool:
    """Whether these processes end in that time."""
    until = time.monotonic() + seconds
    while any(map(alive, theirs)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, theirs))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_query_over_a_video_is_that_of_the_local_executor(
    session: mlsql.Session, bikes: Path
) -> None:
    sql = f"""SELECT frame_id, COUNT_OBJECTS(frame, 'bicycle'), SCORE(frame, 'person')
        FROM '{bikes}' WHERE frame_id % 20 = 0 AND SCORE(frame, 'bicycle') > 0.05
        ORDER BY frame_id"""
    on_ray = session.execute(sql)
    with mlsql.connect(config={"executor": "local", "cache": False}) as local:
        here = local.execute(sql)
        assert on_ray.fetchall() == here.fetchall() != []
        assert on_ray.stats.calls == here.stats.calls == 13
    assert not on_ray.warnings


def test_outputs_are_kept_for_any_executor_and_workers_end_with_their_session(bikes: Path) -> None:
    sql = f"SELECT sum(COUNT_OBJECTS(frame, 'bicycle')) FROM '{bikes}' WHERE frame_id < 10"
    with mlsql.connect(config={**RAY, "min_workers": 1}) as on_ray:
        first = on_ray.execute(sql)
        assert first.stats.calls == 10
        rows, theirs = first.fetchall(), pids(on_ray)
    assert theirs and ended(theirs)
    with mlsql.connect(config={"executor": "local"}) as local:
        again = local.execute(sql)
        assert (again.fetchall(), again.stats.calls, again.stats.cached) == (rows, 0, 10)
    with mlsql.connect(config=RAY) as on_ray:
        third = on_ray.execute(sql)
        assert (third.fetchall(), third.stats.calls) == (rows, 0)
        assert not fleet(on_ray).workers  # nothing to compute: no actor was started


def test_lambdas_closures_and_classes_travel(session: mlsql.Session) -> None:
    factor = 3

    class Loaded:
        def __init__(self, device: str) -> None:
            self.device = device

        def __call__(self, values: list[int]) -> list[str]:
            return [f"{self.device}{value * factor}" for value in values]

    register(session, lambda values: [factor * v for v in values], "thrice")
    register(session, Loaded, "loaded", output="VARCHAR")
    rows = session.execute("SELECT thrice(x), loaded(x) FROM range(20) t(x) ORDER BY x").fetchall()
    assert rows == [(3 * i, f"cpu{3 * i}") for i in range(20)]


def test_a_model_that_cannot_travel_says_so(session: mlsql.Session) -> None:
    import threading

    lock = threading.Lock()
    register(session, lambda values: [bool(lock) for _ in values], "locked", output="BOOLEAN")
    with pytest.raises(OperationalError, match=r"'locked' cannot be sent to Ray workers"):
        session.execute("SELECT locked(1)")
    register(session, lambda values: values, "free")
    assert session.execute("SELECT free(1)").fetchall() == [(1,)]


def test_bad_rows_follow_on_error(session: mlsql.Session) -> None:
    def picky(values: list[int]) -> list[int]:
        if any(value in (5, 31) for value in values):
            raise ValueError("not this")
        return values

    register(session, picky, "picky")
    sql = "SELECT x FROM range(40) t(x) WHERE picky(x) >= 0 ORDER BY x"
    with pytest.raises(ModelOutputError, match=r"'picky' failed on 5: ValueError: not this"):
        session.execute(sql)
    session.execute("SET on_error = 'skip'")
    result = session.execute(sql)
    assert [x for (x,) in result.fetchall()] == [x for x in range(40) if x not in (5, 31)]
    assert sorted(error.value for error in result.errors) == ["31", "5"]
    session.execute("SET on_error = 'null'")
    rows = session.execute("SELECT count(*), count(picky(x)) FROM range(40) t(x)").fetchall()
    assert rows == [(40, 38)]


def test_a_limit_takes_little_more_than_it_needs(session: mlsql.Session) -> None:
    register(session, lambda values: values, "same")
    result = session.execute("SELECT x FROM range(4000) t(x) WHERE same(x) % 5 = 3 LIMIT 4")
    assert [x for (x,) in result.fetchall()] == [3, 8, 13, 18]
    assert result.stats.calls <= 24 + 4 * 8


def test_a_timeout_ends_all_work_and_keeps_what_was_computed(tmp_path: Path) -> None:
    def slow(values: list[int]) -> list[int]:
        time.sleep(0.05 * len(values))
        return values

    with mlsql.connect(config={**RAY, "min_workers": 1}) as session:
        register(session, slow, "slow", batch_size=2)
        session.execute("SELECT slow(x) FROM range(4) t(x)")
        session.execute("SET statement_timeout = 1.5")
        started = time.perf_counter()
        with pytest.raises(TimeLimit):
            session.execute("SELECT sum(slow(x)) FROM range(1000) t(x)")
        assert time.perf_counter() - started < 3.5
        assert all(not worker.jobs for worker in fleet(session).workers)
        session.execute("RESET statement_timeout")
        kept = session.execute("SELECT count(*) FROM range(12) t(x) WHERE slow(x) >= 0")
        assert kept.stats.cached >= 8


def test_an_actor_that_dies_costs_its_batch(session: mlsql.Session, tmp_path: Path) -> None:
    flag = str(tmp_path / "died")

    def dies_once(values: list[int]) -> list[int]:
        if 100 in values and not os.path.exists(flag):
            open(flag, "x").close()
            os._exit(1)
        return [value + 1 for value in values]

    register(session, dies_once, "dies_once")
    result = session.execute("SELECT sum(dies_once(x)), count(*) FROM range(200) t(x)")
    assert result.fetchall() == [(sum(range(1, 201)), 200)]
    assert any("a Ray worker died, and others do its work" in w for w in result.warnings)
    assert os.path.exists(flag) and not result.errors
    assert session.execute("SELECT dies_once(300)").fetchall() == [(301,)]


def test_an_input_that_kills_every_worker_is_its_own_error(session: mlsql.Session) -> None:
    def deadly(values: list[int]) -> list[int]:
        if 13 in values:
            os._exit(1)
        return values

    register(session, deadly, "deadly", batch_size=4)
    session.execute("SET on_error = 'null'")
    result = session.execute(
        "SELECT count(*), count(deadly(x)), max(deadly(x)) FROM range(40) t(x)")
    assert result.fetchall() == [(40, 39, 39)]
    (error,) = result.errors
    assert error.value == "13" and "process died 3 times over this input" in error.message


def test_a_slow_actor_does_not_set_the_pace(
    session: mlsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = str(tmp_path / "turn")

    class Uneven:
        def __init__(self) -> None:
            try:
                os.mkdir(turn)
                self.seconds = 1.0
            except FileExistsError:
                self.seconds = 0.01

        def __call__(self, values: list[int]) -> list[int]:
            time.sleep(self.seconds * len(values))
            return values

    register(session, Uneven, "uneven", batch_size=4)
    copies: list[int] = []
    submit = dispatch.Dispatch._submit

    def watched(self: Any, worker: Any, piece: Any) -> None:
        copies.append(len(piece.jobs))
        submit(self, worker, piece)

    monkeypatch.setattr(dispatch.Dispatch, "_submit", watched)
    result = session.execute("SELECT sum(uneven(x)), count(*) FROM range(160) t(x)")
    assert result.fetchall() == [(sum(range(160)), 160)] and result.stats.calls == 160
    assert os.path.exists(turn) and 1 in copies  # the fast one was given what the slow one had


def test_nothing_is_left_of_a_process_that_is_killed() -> None:
    script = """
import os, mlsql, ray
session = mlsql.connect(config={"executor": "ray", "cache": False})
session.register_model(lambda values: values, name="same", task="predict", input="BIGINT",
                       output="BIGINT")
session.execute("SELECT same(1)")
workers = [ray.get(w.ready) for w in session._runner._executor[1]._fleet.workers]
print(*workers, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          cwd=Path(__file__).parent.parent, timeout=120)
    workers = [int(pid) for pid in done.stdout.split()]
    assert done.returncode == -9 and workers, done.stderr
    assert ended(workers)
