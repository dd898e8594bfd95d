"""The cache of model outputs: it tells inputs and models apart, and gives back what it got."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import InternalError, Warning
from mlsql.exec import cache as cache_module
from mlsql.exec.cache import OutputCache
from mlsql.exec.keys import Keys
from mlsql.exec.runs import runs_of
from mlsql.exec.segments import Index
from mlsql.udfs.spec import DETECTIONS_TYPE, IMAGE_TYPE, ModelSpec, classes_type
from mlsql.udfs.types import arrow_type

SPEC = ModelSpec("m", "predict", "BIGINT", "no:loader", sha256="a" * 64)
VALUES = replace(SPEC, input_type="BIGINT")
MEDIA = arrow_type(IMAGE_TYPE)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[OutputCache]:
    opened = OutputCache(tmp_path / "cache")
    yield opened
    opened.close()


def file(path: Path, content: bytes = b"pictures") -> str:
    path.write_bytes(content)
    return str(path)


def frames(uri: str | None, numbers: Sequence[int | None]) -> pa.Array:
    return pa.array([{"uri": uri, "frame": n, "data": None} for n in numbers], MEDIA)


def blobs(*contents: bytes | None) -> pa.Array:
    return pa.array([{"uri": None, "frame": None, "data": c} for c in contents], MEDIA)


def look(cache: OutputCache, spec: ModelSpec, arguments: pa.Array) -> list[Any]:
    known, outputs = cache.lookup(spec, cache.keys(arguments))
    assert outputs.type == arrow_type(spec.output_type)
    assert known.to_pylist() == outputs.is_valid().to_pylist()
    return list(outputs.to_pylist())


def keep(cache: OutputCache, spec: ModelSpec, arguments: pa.Array, outputs: Sequence[Any]) -> Keys:
    keys = cache.keys(arguments)
    cache.write(spec, keys, pa.array(outputs, arrow_type(spec.output_type)))
    return keys


def reopened(cache: OutputCache) -> OutputCache:
    cache.close()
    return OutputCache(cache._folder)


def segments(cache: OutputCache, spec: ModelSpec = SPEC) -> list[str]:
    folder = cache._outputs / spec.fingerprint
    return sorted(p.name for p in folder.glob("*.parquet")) if folder.exists() else []


def test_a_second_run_knows_all_and_an_overlapping_one_what_was_seen(
    cache: OutputCache, tmp_path: Path
) -> None:
    uri = file(tmp_path / "a.mp4")
    assert look(cache, SPEC, frames(uri, [0, 1])) == [None, None]
    keep(cache, SPEC, frames(uri, [0, 2, 4]), [10, 12, 14])
    for again in (cache, reopened(cache)):
        assert look(again, SPEC, frames(uri, [4, 3, 2, 1, 0])) == [14, None, 12, None, 10]
    again.close()


def test_nothing_cached_costs_next_to_nothing(cache: OutputCache, tmp_path: Path) -> None:
    big = tmp_path / "big.mp4"
    with open(big, "wb") as hole:
        hole.truncate(64 << 30)  # a minute of hashing
    arguments = pa.concat_arrays([frames(str(big), range(1000))])
    arrow_type(SPEC.output_type)
    start = time.perf_counter()
    known, outputs = cache.lookup(SPEC, cache.keys(arguments))
    assert time.perf_counter() - start < 5.0
    assert known.true_count == 0 and outputs.null_count == len(outputs) == 1000
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("other", [
    {"sha256": "b" * 64}, {"labels": ("cat",)}, {"version": "2"}, {"score_floor": 0.1},
    {"parameters": (("size", 320),)}, {"output_type": "INTEGER"}, {"task": "classify"},
])
def test_another_model_under_the_same_name(
    cache: OutputCache, tmp_path: Path, other: dict[str, Any]
) -> None:
    uri = file(tmp_path / "a.mp4")
    keep(cache, SPEC, frames(uri, [0]), [1])
    changed = replace(SPEC, **other)
    assert look(cache, changed, frames(uri, [0])) == [None]
    keep(cache, changed, frames(uri, [0]), [2])
    again = reopened(cache)
    assert look(again, SPEC, frames(uri, [0])) == [1]
    assert look(again, changed, frames(uri, [0])) == [2]
    again.close()


def test_what_does_not_change_the_outputs_does_not_matter(
    cache: OutputCache, tmp_path: Path
) -> None:
    uri = file(tmp_path / "a.mp4")
    keep(cache, SPEC, frames(uri, [0]), [1])
    same = replace(SPEC, name="n", batch_size=1, min_score=0.9, cost_ms=1.0, licence="MIT")
    assert look(cache, same, frames(uri, [0])) == [1]


def test_another_file_under_the_same_path(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4", b"one")
    keep(cache, SPEC, frames(uri, [0]), [1])
    os.replace(file(tmp_path / "b.mp4", b"two"), uri)
    assert look(cache, SPEC, frames(uri, [0])) == [None]


def test_a_file_edited_in_place_and_edited_back(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4", b"one")
    keep(cache, SPEC, frames(uri, [0]), [1])
    with open(uri, "r+b") as edited:
        edited.write(b"two")
    assert look(cache, SPEC, frames(uri, [0])) == [None]
    keep(cache, SPEC, frames(uri, [0]), [2])
    file(tmp_path / "a.mp4", b"one")
    assert look(cache, SPEC, frames(uri, [0])) == [1]


@pytest.mark.parametrize("looked_up", [True, False])
def test_a_file_that_changed_under_the_query_is_not_kept(
    cache: OutputCache, tmp_path: Path, looked_up: bool
) -> None:
    uri, still = file(tmp_path / "a.mp4", b"one"), file(tmp_path / "b.mp4", b"still")
    arguments = pa.concat_arrays([frames(uri, [0]), frames(still, [0])])
    keep(cache, SPEC, frames(still, [9]), [9])  # so that the look-up has something to look into
    keys = cache.keys(arguments)
    if looked_up:
        cache.lookup(SPEC, keys)
    time.sleep(0.02)
    file(tmp_path / "a.mp4", b"two")  # and now the worker decodes it
    cache.write(SPEC, keys, pa.array([1, 2]))
    assert look(cache, SPEC, arguments) == [None, 2]
    file(tmp_path / "a.mp4", b"one")
    assert look(cache, SPEC, arguments) == [None, 2]


def test_a_byte_identical_copy_is_served(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4")
    copy = str(shutil.copy(uri, tmp_path / "copy.mp4"))
    keep(cache, SPEC, frames(uri, [0, 1]), [5, 6])
    assert look(cache, SPEC, frames(copy, [1, 0])) == [6, 5]
    both = cache.keys(pa.concat_arrays([frames(copy, [1]), frames(uri, [0, 1]), frames(copy, [0])]))
    assert both.ids.to_pylist() == [0, 1, 0, 1]


def test_a_still_a_frame_and_a_blob(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.gif", b"gif")
    keep(cache, SPEC, frames(uri, [None, 0]), [1, 2])
    assert look(cache, SPEC, frames(uri, [0, None])) == [2, 1]
    assert look(cache, SPEC, blobs(b"gif", b"other", b"")) == [1, None, None]


def test_data_goes_before_the_uri(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.jpg", b"file")
    both = pa.array([{"uri": uri, "frame": None, "data": b"data"}], MEDIA)
    keep(cache, SPEC, both, [1])
    assert look(cache, SPEC, blobs(b"data", b"file")) == [1, None]


def test_what_has_no_key_is_never_known_nor_kept(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4")
    odd = pa.concat_arrays([
        frames(None, [0]), frames(str(tmp_path / "absent"), [0]), frames(str(tmp_path), [0]),
        frames(uri, [-1, 2**62]), pa.nulls(2, MEDIA), blobs(None), frames(uri, [None])])
    keys = keep(cache, SPEC, odd, range(len(odd)))
    assert look(cache, SPEC, odd) == [*[None] * 8, 8]
    assert keys.ids.to_pylist() == list(range(len(odd)))


def test_a_file_that_appears_later(cache: OutputCache, tmp_path: Path) -> None:
    keep(cache, SPEC, frames(str(tmp_path / "late"), [0]), [1])
    uri = file(tmp_path / "late")
    assert look(cache, SPEC, frames(uri, [0])) == [None]


def test_nothing_at_all(cache: OutputCache) -> None:
    keep(cache, SPEC, frames("x", []), [])
    assert look(cache, SPEC, frames("x", [])) == []
    assert cache.keys(frames("x", [])).ids.to_pylist() == []


def test_a_null_is_no_answer(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4")
    keep(cache, SPEC, frames(uri, [0, 1]), [None, 1])
    assert look(cache, SPEC, frames(uri, [0, 1])) == [None, 1]
    keep(cache, SPEC, frames(uri, [0]), [7])
    assert look(cache, SPEC, frames(uri, [0, 1])) == [7, 1]


def test_a_model_that_is_not_deterministic(cache: OutputCache, tmp_path: Path) -> None:
    uri = file(tmp_path / "a.mp4")
    dice = replace(SPEC, deterministic=False)
    keep(cache, dice, frames(uri, [0]), [1])
    keep(cache, SPEC, frames(uri, [0]), [1])
    assert look(cache, dice, frames(uri, [0])) == [None]


def test_outputs_must_be_as_many_as_keys(cache: OutputCache, tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="2 outputs of m for 1 keys"):
        keep(cache, SPEC, frames("a", [0]), [1, 2])


def test_keys_taken_by_position(cache: OutputCache, tmp_path: Path) -> None:
    uris = [file(tmp_path / str(i), bytes([i])) for i in range(3)]
    keys = cache.keys(pa.concat_arrays([frames(u, [0, 1]) for u in uris]))
    cache.write(SPEC, keys.take(pa.array([5, 0])), pa.array([50, 0]))
    cache.write(SPEC, keys.take(np.array([2])), pa.array([20]))
    assert cache.lookup(SPEC, keys)[1].to_pylist() == [0, None, 20, None, None, 50]
    part = keys.take(pa.array([4, 2, 5]))
    assert cache.lookup(SPEC, part)[1].to_pylist() == [None, 20, 50]
    assert len(part) == 3


def test_values(cache: OutputCache) -> None:
    keep(cache, VALUES, pa.array([1, 2, None]), [10, 20, 30])
    again = reopened(cache)
    assert look(again, VALUES, pa.array([None, 2, 3, 1])) == [None, 20, None, 10]
    again.close()


def test_values_of_structs_with_nulls_and_signed_zeros(cache: OutputCache) -> None:
    kind = arrow_type("STRUCT(a DOUBLE, b VARCHAR[])")
    spec = replace(SPEC, input_type="STRUCT(a DOUBLE, b VARCHAR[])")
    rows = [{"a": 0.0, "b": ["x", None]}, {"a": None, "b": None}, {"a": float("nan"), "b": []}]
    keep(cache, spec, pa.array(rows, kind), [1, 2, 3])
    asked = [{"a": None, "b": None}, {"a": -0.0, "b": ["x", None]}, None,
             {"a": -float("nan"), "b": []}, {"a": 0.0, "b": [None, "x"]}]
    assert look(cache, spec, pa.array(asked, kind)) == [2, 1, None, 3, None]


def test_chunked_arguments_and_outputs(cache: OutputCache) -> None:
    keys = cache.keys(pa.chunked_array([pa.array([1, 2]), pa.array([3])]))
    cache.write(VALUES, keys, pa.chunked_array([pa.array([1]), pa.array([2, 3])]))
    assert look(cache, VALUES, pa.array([3, 2, 1])) == [3, 2, 1]


TYPES = {
    "BOOLEAN": "true", "TINYINT": "-1", "INTEGER": "7", "UBIGINT": "18446744073709551615",
    "FLOAT": "0.1", "DOUBLE": "'nan'", "VARCHAR": "'ä🚲'", "BLOB": "'\\x00\\xff'::BLOB",
    "DECIMAL(9,2)": "1.5", "DATE": "'2024-02-29'", "TIMESTAMP": "'2024-01-01 00:00:00.000001'",
    "TIMESTAMPTZ": "'2024-01-01 01:00+01'", "TIMESTAMP_S": "'2024-01-01'", "TIME": "'23:59:59'",
    "TIMESTAMP_NS": "'2024-01-01 00:00:00.000000001'",
    "UUID": "'00000000-0000-0000-0000-000000000001'", "JSON": "'{\"a\": 1}'",
    "ENUM('a', 'b')": "'b'", "FLOAT[3]": "[1, NULL, 3]", "DOUBLE[]": "[]",
    "VARCHAR[][]": "[['a'], NULL, []]", "FLOAT[2][3]": "[[1, 2], NULL, [3, 4]]",
    DETECTIONS_TYPE: "[{'label': 'bird', 'score': 0.5, 'x1': 1, 'y1': 2, 'x2': 3, 'y2': 4}, NULL]",
    classes_type(3): "{'label': 'cat', 'scores': [0.1, 0.2, 0.7]}",
    "STRUCT(a FLOAT[2], b STRUCT(c VARCHAR))": "{'a': NULL, 'b': {'c': NULL}}",
    "MAP(VARCHAR, DOUBLE)": "map {'a': 1.5, 'b': NULL}",
}


@pytest.mark.parametrize("kind", TYPES)
def test_outputs_come_back_exactly(cache: OutputCache, kind: str) -> None:
    spec = replace(VALUES, output_type=kind)
    with duckdb.connect() as connection:
        query = (f"SELECT CASE WHEN i % 3 < 2 THEN ({TYPES[kind]})::{kind} END AS v"
                 " FROM range(7) r(i)")
        outputs = connection.sql(query).to_arrow_table()["v"].combine_chunks()
    cache.write(spec, cache.keys(pa.array(range(7))), outputs)
    for again in (cache, reopened(cache)):
        known, found = again.lookup(spec, again.keys(pa.array(range(8))))
        assert known.to_pylist() == [*outputs.is_valid().to_pylist(), False]
        assert found.type.equals(arrow_type(kind), check_metadata=True)
        for i in range(7):  # NaN is no equal of itself, but prints the same
            assert repr(found[i].as_py()) == repr(outputs[i].as_py())
    again.close()


@pytest.mark.parametrize("kind", ["INTERVAL", "UNION(a INTEGER, b VARCHAR)", "INTERVAL[]"])
def test_a_type_that_cannot_be_stored_is_said_once(cache: OutputCache, kind: str) -> None:
    spec = replace(VALUES, output_type=kind)
    keys = cache.keys(pa.array([1]))
    with pytest.warns(Warning, match="outputs of m are not kept") as said:
        for _ in range(3):
            cache.write(spec, keys, pa.nulls(1, arrow_type(kind)))
    assert len(said) == 1
    assert cache.lookup(spec, keys)[0].to_pylist() == [False]


def test_outputs_with_other_names_of_list_items(cache: OutputCache) -> None:
    spec = replace(VALUES, output_type=DETECTIONS_TYPE)
    box = {"label": "a", "score": 1.0, "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
    cache.write(spec, cache.keys(pa.array([1])), pa.array([[box]]))
    assert look(cache, spec, pa.array([1])) == [[box]]


def test_rows_not_yet_on_disk_are_found_with_those_that_are(
    cache: OutputCache, tmp_path: Path
) -> None:
    uri = file(tmp_path / "a.mp4")
    keep(cache, SPEC, frames(uri, [0]), [0])  # the first is written at once
    keep(cache, SPEC, frames(uri, [1]), [1])
    keep(cache, SPEC, frames(uri, [2]), [2])
    assert len(segments(cache)) == 1
    other = OutputCache(tmp_path / "cache")
    assert look(other, SPEC, frames(uri, [2, 1, 0])) == [None, None, 0]
    assert look(cache, SPEC, frames(uri, [2, 1, 0])) == [2, 1, 0]
    cache.flush()
    assert look(other, SPEC, frames(uri, [2, 1, 0])) == [2, 1, 0]
    other.close()


def test_a_slow_model_is_written_after_every_batch(
    cache: OutputCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_FLUSH_SECONDS", 0.0)
    for i in range(3):
        keep(cache, VALUES, pa.array([i]), [i])
    assert len(segments(cache, VALUES)) == 3


def test_many_segments_become_few(
    cache: OutputCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_FLUSH_SECONDS", 0.0)
    uris = [file(tmp_path / str(i), bytes([i])) for i in range(7)]
    for i in range(150):
        keep(cache, SPEC, frames(uris[i % 7], [i, i + 1]), [i, i + 1])
        assert len(segments(cache)) <= 33
    again = reopened(cache)
    for i, uri in enumerate(uris):
        wanted = sorted({n for k in range(i, 150, 7) for n in (k, k + 1)})
        assert look(again, SPEC, frames(uri, wanted)) == wanted
    again.close()


def test_a_merged_segment_holds_each_key_once(
    cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_FLUSH_SECONDS", 0.0)
    for _ in range(33):
        keep(cache, VALUES, pa.array([1, 2]), [10, 20])
    assert [name.split("-")[1] for name in segments(cache, VALUES)] == ["2"]
    assert look(cache, VALUES, pa.array([2, 1])) == [20, 10]


def test_many_stills_make_few_files(cache: OutputCache, tmp_path: Path) -> None:
    contents = [i.to_bytes(4, "little") for i in range(5000)]
    arguments = blobs(*contents)
    keys = cache.keys(arguments)
    for start in range(0, 5000, 100):
        part = np.arange(start, start + 100)
        cache.write(SPEC, keys.take(part), pa.array(part))
    again = reopened(cache)
    assert len(segments(again)) <= 3
    shuffled = np.random.default_rng(0).permutation(5000)
    assert look(again, SPEC, arguments.take(pa.array(shuffled))) == shuffled.tolist()
    again.close()


def test_entries_and_clearing(cache: OutputCache, tmp_path: Path) -> None:
    other = replace(SPEC, name="n", version="2")
    uri = file(tmp_path / "a.mp4")
    keep(cache, SPEC, frames(uri, range(10)), range(10))
    keep(cache, other, frames(uri, range(5)), range(5))
    table = {row["model"]: row for row in cache.entries().to_pylist()}
    assert {name: row["rows"] for name, row in table.items()} == {"m": 10, "n": 5}
    assert table["m"]["fingerprint"] == SPEC.fingerprint
    assert abs(table["m"]["last_used"].timestamp() - time.time()) < 60
    assert cache.clear("nobody") == 0
    assert cache.clear("m") == table["m"]["bytes"] > 0
    assert look(cache, SPEC, frames(uri, [1])) == [None]
    assert look(cache, other, frames(uri, [1])) == [1]
    keep(cache, SPEC, frames(uri, [1]), [3])
    assert look(cache, SPEC, frames(uri, [1])) == [3]
    assert cache.clear(other.fingerprint) == table["n"]["bytes"]
    cache.clear()
    assert cache.entries().num_rows == 0
    assert look(cache, SPEC, frames(uri, [1])) == [None]


def test_real_clips(cache: OutputCache, data: Path) -> None:
    clips = sorted(str(clip) for clip in (data / "video/tfl_jamcam").glob("*.mp4"))
    arguments = pa.concat_arrays([frames(clip, range(20)) for clip in clips])
    keys = cache.keys(arguments)
    own = np.asarray(keys.ids) == np.arange(len(keys))
    assert own.sum() == len(keys) - 20  # two clips are byte-identical
    outputs = pa.array(np.asarray(keys.ids))
    cache.write(SPEC, keys, outputs)
    again = reopened(cache)
    assert look(again, SPEC, arguments) == outputs.to_pylist()
    again.close()


def test_the_index_finds_what_a_dictionary_finds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        stored = sorted({(int(c), int(f)) for c, f in rng.integers(0, 12, (60, 2))})
        high, frame = (np.array(part) for part in zip(*stored, strict=True))
        half, frame = high.astype(np.uint64), frame.astype(np.int64)
        index = Index(runs_of(half, half, frame), len(frame), frame)
        asked = rng.integers(-1, 14, (200, 2))
        contents, content = np.unique(np.maximum(asked[:, 0], 0), return_inverse=True)
        content[asked[:, 0] < 0] = -1
        places = cache_module.Places(
            contents.astype(np.uint64), contents.astype(np.uint64), content, asked[:, 1])
        where = {key: i for i, key in enumerate(stored)}
        rows = rng.permutation(200)[:150]
        assert index.find(places, rows).tolist() == [
            where.get((int(asked[r, 0]), int(asked[r, 1])), -1) for r in rows]
