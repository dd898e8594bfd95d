"""Content fingerprints: of files, told apart however they change; of values, as DuckDB compares."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from mlsql.exec import fingerprint
from mlsql.exec.canonical import canonical
from mlsql.exec.fingerprint import ContentFingerprints, file_state, of_bytes
from mlsql.exec.memo import FILE_NAME


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that were read rather than remembered; all files count as settled."""
    paths: list[str] = []
    whole = fingerprint._read

    def counted(state: fingerprint.FileState, *rest: object) -> bytes | OSError:
        paths.append(state.path)
        return whole(state, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(fingerprint, "_read", counted)
    monkeypatch.setattr(fingerprint, "_SETTLED_SECONDS", -1.0)
    return paths


_OPEN: list[ContentFingerprints] = []


@pytest.fixture(autouse=True)
def closed_again() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def opened(folder: Path | None) -> ContentFingerprints:
    _OPEN.append(ContentFingerprints(folder))
    return _OPEN[-1]


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_a_file_has_the_fingerprint_of_its_bytes(tmp_path: Path) -> None:
    content = os.urandom(3_000_001)
    uri = write(tmp_path / "a.mp4", content)
    assert opened(None).of([uri, uri]) == {uri: of_bytes(content).hex()}


def test_a_copy_has_the_same_fingerprint_and_another_file_another(tmp_path: Path) -> None:
    one = write(tmp_path / "one", b"same")
    two = write(tmp_path / "two", b"same")
    other = write(tmp_path / "other", b"sane")
    found = opened(tmp_path / "cache").of([one, two, other])
    assert found[one] == found[two] != found[other]


def test_real_clips_that_are_byte_identical(data: Path) -> None:
    clips = sorted(str(clip) for clip in (data / "video/tfl_jamcam").glob("*.mp4"))
    found = opened(None).of(clips)
    twins = [c for c in clips if list(found.values()).count(found[c]) > 1]
    assert [Path(c).stem for c in twins] == ["625_201709280917", "625_201709280921"]


def test_an_unchanged_file_is_read_once_a_machine(tmp_path: Path, reads: list[str]) -> None:
    uris = [write(tmp_path / f"{i}.jpg", bytes([i % 256, i // 256])) for i in range(1200)]
    folder = tmp_path / "cache"
    first = opened(folder)
    found = first.of(uris)
    first.close()
    assert len(reads) == 1200
    again = opened(folder)
    assert again.of(uris) == found
    assert again.of(uris[:3]) == {uri: found[uri] for uri in uris[:3]}
    again.close()
    assert len(reads) == 1200


def test_another_file_under_the_same_path(tmp_path: Path, reads: list[str]) -> None:
    files = opened(tmp_path)
    uri = write(tmp_path / "a", b"before")
    before = files.of([uri])[uri]
    os.replace(write(tmp_path / "b", b"behind"), uri)
    assert files.of([uri])[uri] == of_bytes(b"behind").hex() != before


def test_a_file_edited_in_place_with_its_time_put_back(tmp_path: Path, reads: list[str]) -> None:
    files = opened(tmp_path)
    uri = write(tmp_path / "a", b"before")
    stat = os.stat(uri)
    files.of([uri])
    time.sleep(0.02)  # past the tick of the file system's clock
    with open(uri, "r+b") as file:
        file.write(b"behind")
    os.utime(uri, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert files.of([uri])[uri] == of_bytes(b"behind").hex()


def test_edits_within_one_tick_of_the_clock(tmp_path: Path) -> None:
    files = opened(tmp_path / "cache")
    for i in range(200):
        content = f"{i:08}".encode()
        uri = write(tmp_path / "a", content)
        assert files.of([uri])[uri] == of_bytes(content).hex()


def test_a_link_led_elsewhere(tmp_path: Path, reads: list[str]) -> None:
    files = opened(tmp_path)
    link = tmp_path / "link"
    for name in (b"one", b"two"):
        write(tmp_path / name.decode(), name)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name.decode())
        assert files.of([str(link)])[str(link)] == of_bytes(name).hex()


def test_a_file_that_changes_between_stat_and_reading(tmp_path: Path) -> None:
    uri = write(tmp_path / "a", b"before")
    state = file_state(uri)
    assert isinstance(state, fingerprint.FileState)
    write(tmp_path / "a", b"longer than before")
    found = opened(None).of_states([state])[state]
    assert isinstance(found, OSError) and "changed" in str(found)


def test_what_is_no_file_is_an_error_value(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "dangling.mp4").symlink_to(tmp_path / "nowhere")
    names = [*(str(tmp_path / n) for n in ("pipe.mp4", "folder.mp4", "dangling.mp4", "absent")),
             "http://host/a.mp4", "a\0b", "", "\ud800"]
    found = opened(tmp_path).of(names)
    assert all(isinstance(found[name], OSError) for name in names)


def test_odd_names(tmp_path: Path, reads: list[str]) -> None:
    names = ["with space", "it's", '"q"', "50%", "🚲", "日本語", os.fsdecode(b"\xff\xfe")]
    uris = [write(tmp_path / name, name.encode("utf8", "surrogateescape")) for name in names]
    for _ in range(2):
        files = opened(tmp_path / "cache")
        found = files.of(uris)
        files.close()
        assert found == {u: of_bytes(Path(u).read_bytes()).hex() for u in uris}
    assert len(reads) == len(names)


@pytest.mark.parametrize("broken", [b"", b"not a database at all" * 400])
def test_a_broken_memo_is_begun_again(tmp_path: Path, broken: bytes, reads: list[str]) -> None:
    (tmp_path / FILE_NAME).write_bytes(broken)
    uri = write(tmp_path / "a", b"x")
    for _ in range(2):
        files = opened(tmp_path)
        assert files.of([uri])[uri] == of_bytes(b"x").hex()
        files.close()
    assert len(reads) == 1


def test_a_memo_torn_in_the_middle(tmp_path: Path, reads: list[str]) -> None:
    uris = [write(tmp_path / f"{i}", bytes([i])) for i in range(200)]
    files = opened(tmp_path)
    found = files.of(uris)
    files.close()
    with open(tmp_path / FILE_NAME, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    assert opened(tmp_path).of(uris) == found


@pytest.mark.parametrize("kind", ["file in place of the folder", "folder in place of the memo",
                                  "foreign table"])
def test_a_memo_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "cache"
    if kind.startswith("file"):
        folder.write_text("no folder")
    elif kind.startswith("folder"):
        (folder / FILE_NAME / "x").mkdir(parents=True)
    else:
        folder.mkdir()
        with sqlite3.connect(folder / FILE_NAME) as database:
            database.execute("CREATE TABLE files (a, b)")
        database.close()
    uri = write(tmp_path / "a", b"x")
    files = opened(folder)
    assert [files.of([uri])[uri] for _ in range(2)] == [of_bytes(b"x").hex()] * 2


def test_threads_share_one_memo(tmp_path: Path, reads: list[str]) -> None:
    uris = [write(tmp_path / f"{i}", bytes([i])) for i in range(60)]
    files = opened(tmp_path / "cache")
    results: list[dict[str, str | OSError]] = []
    threads = [threading.Thread(target=lambda: results.append(files.of(uris))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(result == results[0] for result in results)


def test_reading_can_be_interrupted(tmp_path: Path) -> None:
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(4 << 30)  # a hole: 5 s of hashing, no disk
    state = file_state(str(big))
    assert isinstance(state, fingerprint.FileState)

    def stop() -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        opened(None).of_states([state], check=stop)
    assert time.monotonic() - start < 2.0


VALUES = {
    "DOUBLE": ["0.0", "-0.0", "'nan'", "'-nan'", "1.5", "NULL", "'inf'", "-'inf'::DOUBLE"],
    "FLOAT": ["0.0", "-0.0", "'nan'", "0.1", "NULL"],
    "INTEGER": ["0", "1", "-1", "256", "NULL"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["0", "-1", "99999999999999999999999999999999999999"],
    "BOOLEAN": ["true", "false", "NULL"],
    "VARCHAR": ["''", "'a'", "'A'", "'a '", "'é'", "'e' || chr(769)", "NULL", "'1'"],
    "BLOB": ["''::BLOB", "'\\x00'::BLOB", "'\\x00\\x00'::BLOB", "NULL"],
    "DECIMAL(9,2)": ["1.5", "1.50", "-1.5", "0", "NULL"],
    "DECIMAL(38,10)": ["1.5", "1.50", "12345678901234567890.5"],
    "DATE": ["'2024-01-01'", "'2024-01-02'", "'infinity'"],
    "TIMESTAMP": ["'2024-01-01'", "'2024-01-01 00:00:00.000001'"],
    "TIMESTAMPTZ": ["'2024-01-01 00:00+00'", "'2024-01-01 01:00+01'", "'2024-01-01 02:00+00'"],
    "TIMESTAMP_NS": ["'2024-01-01'", "'2024-01-01 00:00:00.000000001'"],
    "INTERVAL": ["'30 days'", "'1 month'", "'24 hours'", "'1 day'", "'31 days'", "'-1 day'",
                 "'-24 hours'", "NULL"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'"],
    "ENUM('a', 'b')": ["'a'", "'b'", "NULL"],
    "INTEGER[]": ["[]", "[NULL]", "[0]", "[1, 2]", "[2, 1]", "[1]", "NULL", "[1, NULL]"],
    "INTEGER[][]": ["[[1], [2]]", "[[1, 2]]", "[[], [1, 2]]", "[[1, 2], []]", "[NULL]", "[[]]"],
    "VARCHAR[]": ["['a', 'b']", "['ab']", "['ab', '']", "['', 'ab']", "[NULL, 'ab']"],
    "DOUBLE[2]": ["[0.0, 1]", "[-0.0, 1]", "['nan'::DOUBLE, 1]", "[NULL, 1]", "NULL"],
    "STRUCT(a DOUBLE, b VARCHAR)": [
        "{'a': 0.0, 'b': 'x'}", "{'a': -0.0, 'b': 'x'}", "{'a': NULL, 'b': 'x'}",
        "{'a': NULL, 'b': NULL}", "NULL", "{'a': 0.0, 'b': ''}"],
    "STRUCT(a STRUCT(b INTEGER[]))": [
        "{'a': {'b': [1]}}", "{'a': {'b': NULL}}", "{'a': NULL}", "NULL"],
    "MAP(VARCHAR, INTEGER)": [
        "map {'a': 1, 'b': 2}", "map {'b': 2, 'a': 1}", "map {}", "map {'a': NULL}", "NULL"],
    "UNION(a INTEGER, b VARCHAR)": ["1::INTEGER", "'1'::VARCHAR", "2::INTEGER"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_the_same_input_where_duckdb_finds_them_not_distinct(kind: str) -> None:
    literals = [f"({value})::{kind}" for value in VALUES[kind]]
    with duckdb.connect() as connection:
        rows = " UNION ALL ".join(f"SELECT {i} AS i, {v} AS v" for i, v in enumerate(literals))
        table = connection.sql(f"SELECT v FROM ({rows}) ORDER BY i").to_arrow_table()
        pairs = list(combinations_with_replacement(range(len(literals)), 2))
        same = connection.sql("SELECT " + ", ".join(
            f"{literals[i]} IS NOT DISTINCT FROM {literals[j]}" for i, j in pairs)).fetchall()[0]
    cells = canonical(table["v"].combine_chunks())
    assert {(i, j): cells[i] == cells[j] for i, j in pairs} == dict(zip(pairs, same, strict=True))


@pytest.mark.parametrize("kind", VALUES)
def test_slices_and_missing_values_change_nothing(kind: str) -> None:
    literals = [f"({value})::{kind}" for value in VALUES[kind]]
    with duckdb.connect() as connection:
        rows = " UNION ALL ".join(f"SELECT {i} AS i, {v} AS v" for i, v in enumerate(literals))
        array = connection.sql(f"SELECT v FROM ({rows}) ORDER BY i").to_arrow_table()["v"]
    whole = array.combine_chunks()
    assert canonical(whole[1:]) == canonical(whole)[1:]
    assert canonical(whole[1:2]) == canonical(whole)[1:2]
    assert canonical(whole[:0]) == []


def test_what_lies_under_a_null_does_not_matter() -> None:
    one = pa.array(np.array([1.0, 2.0]), mask=np.array([True, False]))
    two = pa.array(np.array([9.0, 2.0]), mask=np.array([True, False]))
    assert canonical(one) == canonical(two)


def test_vectors_are_quick() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(0).random(5_000_000, np.float32)), 500)
    start = time.process_time()
    assert len(set(canonical(vectors))) == 10_000
    assert time.process_time() - start < 2.0


def test_a_copied_file_keeps_its_fingerprint(tmp_path: Path) -> None:
    one = write(tmp_path / "one", os.urandom(1000))
    two = shutil.copy2(one, tmp_path / "two")
    found = opened(None).of([one, str(two)])
    assert found[one] == found[str(two)]
