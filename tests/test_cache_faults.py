"""The cache under faults: killed writers, many at once, torn files, no folder, no room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import Warning
from mlsql.exec import cache as cache_module
from mlsql.exec import stored, upkeep
from mlsql.exec.cache import OutputCache
from mlsql.exec.segments import SegmentFile
from mlsql.udfs.spec import ModelSpec

SPEC = ModelSpec("m", "predict", "BIGINT", "no:loader", input_type="BIGINT", sha256="a" * 64)

WRITER = """
import sys
import numpy as np, pyarrow as pa
from pathlib import Path
from mlsql.exec import cache, upkeep
from mlsql.exec.cache import OutputCache
from mlsql.udfs.spec import ModelSpec
cache._FLUSH_SECONDS = 0.0
spec = ModelSpec("m", "predict", "BIGINT", "no:loader", input_type="BIGINT", sha256="a" * 64)
folder, first, count, step = Path(sys.argv[1]), *map(int, sys.argv[2:])
outputs = OutputCache(folder)
for start in range(first, first + count, step):
    rows = pa.array(np.arange(start, start + step))
    outputs.write(spec, outputs.keys(rows), rows)
    print(start + step, flush=True)
outputs.close()
"""


def writer(folder: Path, first: int, count: int, step: int = 100) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WRITER, str(folder), *map(str, (first, count, step))],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


@pytest.fixture(autouse=True)
def written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_FLUSH_SECONDS", 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path) -> Iterator[OutputCache]:
    opened = OutputCache(folder)
    yield opened
    opened.close()


def keep(cache: OutputCache, numbers: Sequence[int], spec: ModelSpec = SPEC) -> None:
    rows = pa.array(np.asarray(numbers, np.int64))
    cache.write(spec, cache.keys(rows), rows)


def look(cache: OutputCache, numbers: Sequence[int], spec: ModelSpec = SPEC) -> list[Any]:
    found = cache.lookup(spec, cache.keys(pa.array(np.asarray(numbers, np.int64))))[1].to_pylist()
    return list(found)


def files(folder: Path, spec: ModelSpec = SPEC) -> list[Path]:
    return sorted((folder / "outputs" / spec.fingerprint).glob("s1-*.parquet"))


def test_a_writer_killed_in_mid_write_loses_at_most_what_it_was_writing(folder: Path) -> None:
    for round_, patience in enumerate((0.05, 0.11, 0.23)):
        first = round_ * 1_000_000
        process = writer(folder, first, 1_000_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(patience)
        process.send_signal(signal.SIGKILL)
        written = [int(line) for line in process.stdout.read().split("\n")[:-1] if line]
        process.wait()
        process.stdout.close()
        last = max(written, default=first + 100)
        cache = OutputCache(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert look(cache, range(first, last)) == list(range(first, last))
        cache.close()
    for path in files(folder):
        SegmentFile(str(path)).index()


def test_processes_that_write_and_merge_at_once(folder: Path) -> None:
    processes = [writer(folder, first, 4000) for first in (0, 2000, 10_000)]
    reader = OutputCache(folder)
    seen = 0
    while any(process.poll() is None for process in processes):
        found = look(reader, range(14_000))
        assert all(output in (None, i) for i, output in enumerate(found))
        known = sum(output is not None for output in found)
        assert known >= seen, "what was known was lost for a while"
        seen = known
    for process in processes:
        assert process.wait() == 0 and process.stdout is not None
        process.stdout.close()
    wanted = [i if i < 6000 or i >= 10_000 else None for i in range(14_000)]
    assert look(reader, range(14_000)) == wanted
    reader.close()
    assert len(files(folder)) < 100


def break_(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = b""
    elif how == "text":
        content = b"not parquet at all" * 10
    elif how == "footer":
        content = content[:-60] + b"\xff" * 40 + content[-20:]
    else:  # one bit somewhere in the outputs, where nothing but a checksum sees it
        middle = len(content) // 3
        content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:]
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "footer", "bit"])
def test_a_broken_segment_is_said_once_and_removed(
    cache: OutputCache, folder: Path, how: str
) -> None:
    keep(cache, range(5000))
    whole = set(files(folder))
    keep(cache, range(5000, 10_000))
    broken = next(path for path in files(folder) if path not in whole)
    break_(broken, how)
    fresh = OutputCache(folder)
    with pytest.warns(Warning, match=r"cannot be read and was removed") as said:
        found = [look(fresh, range(10_000)) for _ in range(2)]
    assert len(said) == 1 and str(broken) in str(said[0].message)
    assert found == [[*range(5000), *[None] * 5000]] * 2
    assert set(files(folder)) == whole
    fresh.close()


def test_a_broken_segment_does_not_stop_merging(cache: OutputCache, folder: Path) -> None:
    for i in range(32):
        keep(cache, [i])
    break_(files(folder)[0], "truncated")
    with pytest.warns(Warning, match="was removed"):
        keep(cache, [32])
    assert len(files(folder)) == 1
    assert sum(output is not None for output in look(cache, range(33))) == 32


def test_a_segment_that_cannot_be_opened_is_not_removed(cache: OutputCache, folder: Path) -> None:
    keep(cache, [1])
    path = files(folder)[0]
    path.rename(folder / "aside")
    path.mkdir()
    fresh = OutputCache(folder)
    with pytest.warns(Warning, match="cannot be read") as said:
        assert look(fresh, [1]) == [None]
        assert look(fresh, [1]) == [None]
    assert len(said) == 1 and path.is_dir()


def test_a_segment_that_vanishes_between_listing_and_reading(
    cache: OutputCache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cache, range(10))
    keep(cache, range(10, 20))
    listed = stored.listed
    merges = iter([True])

    def then_merged(folder: Path) -> list[Any]:
        found = listed(folder)
        if next(merges, False):
            parts = [upkeep.read(s, pa.int64()) for s in found]
            upkeep.replace(folder, found, stored.joined(parts))
        return found

    monkeypatch.setattr(stored, "listed", then_merged)
    fresh = OutputCache(folder)
    assert look(fresh, range(20)) == list(range(20))
    assert len(files(folder)) == 1
    fresh.close()


def test_foreign_files_are_left_alone_and_old_leftovers_are_not(
    cache: OutputCache, folder: Path
) -> None:
    model = folder / "outputs" / SPEC.fingerprint
    model.mkdir(parents=True)
    name = "s1-5-" + "0" * 32 + ".parquet"
    foreign = ["notes.txt", "a.parquet", "s2-5-" + "0" * 32 + ".parquet", "x.tmp", "sub/y"]
    (model / "sub").mkdir()
    for file in (*foreign, f"{name}.tmp", f"{name[:-9]}1.parquet.tmp"):
        (model / file).write_text("text")
    for file in ("x.tmp", f"{name}.tmp"):
        os.utime(model / file, (0, 0))
    (folder / "outputs" / "file").write_text("text")
    keep(cache, [1])
    fresh = OutputCache(folder)
    assert look(fresh, [1]) == [1]
    assert fresh.entries()["rows"].to_pylist() == [1]
    assert not (model / f"{name}.tmp").exists()
    fresh.clear()
    assert all((model / file).exists() for file in foreign)
    fresh.close()


def test_a_broken_description(cache: OutputCache, folder: Path) -> None:
    keep(cache, [1])
    for text in ("", "[1]", '{"name": 3}'):
        (folder / "outputs" / SPEC.fingerprint / "model.json").write_text(text)
        assert [row["model"] for row in cache.entries().to_pylist()] == [None]
    assert cache.clear(SPEC.fingerprint) > 0


@pytest.mark.parametrize("where", ["", "outputs", "model"])
def test_a_folder_that_cannot_be_made(folder: Path, where: str) -> None:
    blocked = folder / "outputs" / SPEC.fingerprint if where == "model" else folder / where
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("in the way")
    cache = OutputCache(folder)
    with pytest.warns(Warning, match="cannot be written, outputs are kept in memory") as said:
        for i in range(3):
            keep(cache, [i])
        assert look(cache, range(4)) == [0, 1, 2, None]
        cache.flush()
        assert look(cache, range(4)) == [0, 1, 2, None]
        assert cache.entries().num_rows == 0
        cache.clear()
        assert look(cache, [1]) == [None]
        cache.close()
    assert len(said) == 1


def test_a_full_disk(tmp_path: Path) -> None:
    script = """
import resource, sys, warnings
import numpy as np, pyarrow as pa
from pathlib import Path
from mlsql.exec import cache
from mlsql.exec.cache import OutputCache
from mlsql.udfs.spec import ModelSpec
cache._FLUSH_SECONDS = 0.0
spec = ModelSpec("m", "predict", "BIGINT", "no:loader", input_type="BIGINT")
outputs = OutputCache(Path(sys.argv[1]))
rows = pa.array(np.random.default_rng(0).integers(0, 2**60, 50_000))
small = rows[:10]
outputs.write(spec, outputs.keys(small), small)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        outputs.write(spec, outputs.keys(rows), rows)
    known, found = outputs.lookup(spec, outputs.keys(rows))
    assert found.equals(rows)
    outputs.close()
assert [w.category.__name__ for w in said] == ["Warning"], said
assert "kept in memory" in str(said[0].message)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True,
                   cwd=Path(__file__).parent.parent)
    model = next((tmp_path / "outputs").iterdir())
    assert sorted(p.name.split("-")[0] for p in model.iterdir()) == ["model.json", "s1"]
    cache = OutputCache(tmp_path)
    assert cache.entries()["rows"].to_pylist() == [10]
    cache.close()


def test_memory_is_bounded_where_nothing_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_MEMORY_BYTES", 10_000)
    folder.write_text("in the way")
    cache = OutputCache(folder)
    with pytest.warns(Warning, match="cannot be written"):
        for start in range(0, 10_000, 100):
            keep(cache, range(start, start + 100))
    found = look(cache, range(10_000))
    assert found[-100:] == list(range(9900, 10_000)) and found[:9000] == [None] * 9000


def test_writing_is_tried_again_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_RETRY_SECONDS", 0.0)
    folder.write_text("in the way")
    cache = OutputCache(folder)
    with pytest.warns(Warning, match="cannot be written"):
        keep(cache, [1])
    folder.unlink()
    keep(cache, [2])
    cache.close()
    fresh = OutputCache(folder)
    assert look(fresh, [1, 2]) == [1, 2]
    fresh.close()


def test_clearing_by_another_process_in_between(cache: OutputCache, folder: Path) -> None:
    keep(cache, [1])
    assert look(cache, [1]) == [1]
    other = OutputCache(folder)
    other.clear()
    other.close()
    assert look(cache, [1]) == [None]
    keep(cache, [2])
    assert look(cache, [1, 2]) == [None, 2]


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_what_was_unused_for_longest_goes_first(folder: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**60, 2000) for _ in range(6)]
    first = OutputCache(folder)
    for i, part in enumerate(parts[:5]):
        before = set(files(folder))
        keep(first, part)
        (made,) = set(files(folder)) - before
        age(made, 3600 * (10 - i))
    first.close()
    used = OutputCache(folder)
    assert look(used, parts[0]) == parts[0].tolist()  # the oldest is used again
    used.close()
    size = sum(path.stat().st_size for path in files(folder))
    bounded = OutputCache(folder, limit_bytes=int(size * 0.9))
    keep(bounded, parts[5])
    bounded.close()
    left = OutputCache(folder)
    known = [look(left, part) == part.tolist() for part in parts]
    assert known == [True, False, False, True, True, True]
    assert sum(path.stat().st_size for path in files(folder)) <= size * 0.9
    left.close()


def test_a_use_within_a_minute_is_not_noted_again(cache: OutputCache, folder: Path) -> None:
    keep(cache, [1])
    (path,) = files(folder)
    for seconds, noted in ((30, False), (90, True)):
        age(path, seconds)
        before = path.stat().st_mtime_ns
        look(cache, [2])
        assert path.stat().st_mtime_ns == before, "no hit, no use"
        look(cache, [1])
        assert (path.stat().st_mtime_ns != before) is noted


def test_a_query_does_not_evict_its_own_and_stops_at_the_limit(folder: Path) -> None:
    other = replace(SPEC, version="2")
    cache = OutputCache(folder, limit_bytes=200_000)
    keep(cache, range(1000), other)
    cache.flush()
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**60, 2000) for _ in range(20)]
    with pytest.warns(Warning, match=r"limit of 200,000 bytes is less than this query computes"):
        for part in parts:
            keep(cache, part)
    assert look(cache, parts[0]) == parts[0].tolist()
    assert look(cache, parts[-1]) == [None] * 2000
    assert look(cache, range(1000), other) == [None] * 1000
    cache.flush()
    assert sum(path.stat().st_size for path in files(folder)) <= 200_000
    keep(cache, parts[-1])  # the next query may keep its own again
    assert look(cache, parts[-1]) == parts[-1].tolist()
    cache.close()


def test_a_merged_segment_counts_as_used_as_its_parts(cache: OutputCache, folder: Path) -> None:
    for i in range(3):
        keep(cache, [i])
        age(files(folder)[0], 7200)
    age(files(folder)[0], 3600)
    segments = list(upkeep.all_segments(folder / "outputs"))
    parts = [upkeep.read(segment, pa.int64()) for segment in segments]
    upkeep.replace(files(folder)[0].parent, segments, stored.joined(parts))
    (merged,) = upkeep.all_segments(folder / "outputs")
    assert merged.rows == 3 and merged.used == max(segment.used for segment in segments)


def test_words_of_an_enum_merge(cache: OutputCache, folder: Path) -> None:
    spec = replace(SPEC, output_type="ENUM('a', 'b', 'c')")
    for i in range(33):
        word = pa.array(["abc"[i % 3]]).dictionary_encode()
        cache.write(spec, cache.keys(pa.array([i])), word)
    assert len(files(folder, spec)) == 1
    assert look(cache, range(33), spec) == ["abc"[i % 3] for i in range(33)]
