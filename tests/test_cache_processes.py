"""The cache among processes: killed in mid-query, full, written and evicted by two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import mlsql
from mlsql.__main__ import main
from mlsql.exec.cache import OutputCache
from mlsql.exec.runs import read, runs_of, written
from mlsql.exec.segments import Index, Rows, SegmentFile, write_segment
from mlsql.udfs.spec import ModelSpec
from tests.sessions import make_video

SPEC = ModelSpec("m", "predict", "BIGINT", "no:loader", input_type="BIGINT", sha256="a" * 64)


def python(script: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)], text=True, stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "outputs").glob("*/*.parquet"))


KILLED = """
import sys, time, mlsql
sys.path.insert(0, "tests")
from tests.test_cache_processes import bright_slowly, MODEL
with mlsql.connect(config={"cache_dir": sys.argv[2]}) as session:
    session.register_model(bright_slowly, **MODEL)
    print("running", flush=True)
    session.execute(f"SELECT sum(bright(frame)) FROM '{sys.argv[1]}'")
"""
MODEL = {"name": "bright", "task": "predict", "output": "BIGINT", "batch_size": 1}


def bright_slowly(pictures: list[np.ndarray]) -> list[int]:
    """A model that takes its time."""
    time.sleep(float(os.environ.get("SECONDS_A_CALL", "0")))
    return [int(picture.mean()) for picture in pictures]


def test_what_a_killed_process_had_computed_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video, folder = make_video(tmp_path), tmp_path / "cache"
    monkeypatch.setenv("SECONDS_A_CALL", "1.3")
    process = python(KILLED, video, folder)
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    until = time.monotonic() + 60
    while not files(folder) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    monkeypatch.delenv("SECONDS_A_CALL")
    sql = f"SELECT sum(bright(frame)), count(*) FROM '{video}'"
    with mlsql.connect(config={"cache_dir": str(folder)}) as session:
        session.register_model(bright_slowly, **MODEL)
        again = session.execute(sql)
        assert again.stats.cached >= 1 and again.stats.calls + again.stats.cached == 10
        with mlsql.connect(config={"cache": False}) as fresh:
            fresh.register_model(bright_slowly, **MODEL)
            assert again.fetchall() == fresh.execute(sql).fetchall()
        assert not again.warnings


BUSY = """
import sys, warnings
import numpy as np, pyarrow as pa
from pathlib import Path
from mlsql.exec import cache as module
from mlsql.exec.cache import OutputCache
from tests.test_cache_processes import SPEC
warnings.simplefilter("error")
module._FLUSH_SECONDS = 0.0
cache = OutputCache(Path(sys.argv[1]), limit_bytes=int(sys.argv[2]))
rng = np.random.default_rng(int(sys.argv[3]))
for _ in range(25):
    rows = pa.array(rng.integers(0, 2**60, 1500))
    cache.write(SPEC, cache.keys(rows), rows)
    known, found = cache.lookup(SPEC, cache.keys(rows))
    right = np.asarray(known)
    assert found.filter(known).equals(rows.filter(known)), "an output of another input"
    cache.flush()
cache.close()
"""


def test_two_processes_evict_at_once(tmp_path: Path) -> None:
    limit = 400_000
    both = [python(BUSY, tmp_path, limit, seed) for seed in (1, 2)]
    for process in both:
        process.communicate(timeout=120)
    assert [process.returncode for process in both] == [0, 0]
    total = sum(path.stat().st_size for path in files(tmp_path))
    assert limit / 4 < total <= limit * 1.1
    cache = OutputCache(tmp_path)
    assert 0 < cache.entries()["rows"].to_pylist()[0] < 2 * 25 * 1500
    cache.close()


# Where frames stand in a segment


def rows_of(*runs: tuple[int, list[int]]) -> Rows:
    """Rows of contents, each with its frames; the outputs are numbered."""
    high = np.repeat([c for c, _ in runs], [len(f) for _, f in runs]).astype(np.uint64)
    frame = np.array([f for _, frames in runs for f in frames], np.int64)
    return Rows(high, high, frame, pa.array(np.arange(len(high))))


REGULAR = rows_of((1, list(range(100))), (2, list(range(7, 300, 3))), (5, [-1]), (9, [4, 8]))
IRREGULAR = rows_of((1, list(range(100))), (2, [0, 1, 3, 900]), (5, list(range(30))))


@pytest.mark.parametrize("rows", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_frames_are_found_by_the_footer_as_by_the_columns(rows: Rows, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, rows)
    file = SegmentFile(segment.path)
    index, runs = file.index(), runs_of(rows.high, rows.low, rows.frame)
    assert runs.regular == (rows is REGULAR)
    rng = np.random.default_rng(0)
    asked = np.column_stack([rng.integers(0, 11, 3000), rng.integers(-1, 310, 3000)])
    contents, content = np.unique(asked[:, 0], return_inverse=True)
    from mlsql.exec.keys import Places

    half = contents.astype(np.uint64)
    places = Places(half, half, content, asked[:, 1])
    where = {(int(c), int(f)): i for i, (c, f) in enumerate(zip(rows.high, rows.frame))}
    expected = [where.get((int(c), int(f)), -1) for c, f in asked]
    assert sum(place >= 0 for place in expected) > 100
    everything = np.arange(len(asked))
    for found in (index, Index(runs, len(rows), rows.frame)):
        assert found.find(places, everything).tolist() == expected
    file.close()


def test_runs_come_back_or_are_refused() -> None:
    runs = runs_of(REGULAR.high, REGULAR.low, REGULAR.frame)
    text = written(runs, len(REGULAR))
    assert text is not None
    back = read(text, len(REGULAR))
    for name in ("high", "low", "starts", "first", "step"):
        assert getattr(back, name).tolist() == getattr(runs, name).tolist()
    spoilt = bytearray(text)
    spoilt[len(spoilt) // 2] ^= 1
    for bad, rows in ((bytes(spoilt), len(REGULAR)), (text[:-8], len(REGULAR)), (text, 50)):
        with pytest.raises(pa.ArrowInvalid):
            read(bad, rows)


def test_the_footer_of_many_stills_stays_small() -> None:
    high = np.arange(1000, dtype=np.uint64)
    assert written(runs_of(high, high, np.full(1000, -1)), 1000) is None


# The command


def test_the_command_lists_measures_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLSQL_CACHE_DIR", str(tmp_path))
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith("nothing is kept: 0 B of 10 GB")
    cache = OutputCache(tmp_path)
    for spec, count in ((SPEC, 2000), (ModelSpec("other", "predict", "BIGINT", "no:loader",
                                                 input_type="BIGINT"), 1)):
        rows = pa.array(range(count))
        cache.write(spec, cache.keys(rows), rows)
    cache.close()
    assert main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["model", "outputs", "room", "last", "used", "fingerprint"]
    listed = {line.split()[0]: line.split() for line in lines[1:3]}
    assert listed["m"][1] == "2,000" and listed["other"][1] == "1"
    assert lines[3].endswith(f"of 10 GB (cache_limit) in {tmp_path}")
    assert main(["cache", "size"]) == 0
    whole = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert int(capsys.readouterr().out) == whole > 2000
    assert main(["cache", "clear", "othr"]) == 1
    assert "unknown model 'othr' in the cache: did you mean 'other'" in capsys.readouterr().err
    assert main(["cache", "clear", "m"]) == 0
    assert "freed" in capsys.readouterr().out
    assert [p.parent.name for p in files(tmp_path)] == [listed["other"][-1]]
    assert main(["cache", "clear"]) == 0 and files(tmp_path) == []
