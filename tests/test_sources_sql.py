"""Videos and pictures in FROM: their columns, options, names and faults, through SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.errors import Error, MediaError, ProgrammingError, UnknownName
from tests.media_samples import encode_picture, grey, ten_greys, turn, write_video
from tests.sessions import Asking, make_pictures, make_video, number_of

COLUMNS = ["path", "frame_id", "ts", "pts", "keyframe", "width", "height", "frame"]
IMAGE_COLUMNS = ["path", "image", "width", "height", "format", "bytes", "mtime"]
IMAGE = 'STRUCT(uri VARCHAR, frame BIGINT, "data" BLOB)'


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"))


# A video


def test_the_columns_of_a_video(s: Asking, video: Path) -> None:
    for source in (f"'{video}'", f"read_video('{video}')", f"READ_VIDEO(['{video}'])",
                   f"read_video('{video.parent}/*.mp4')", f"\"{video}\""):
        result = s.run(f"FROM {source}")
        assert result.columns == COLUMNS
        assert result.types == ["VARCHAR", "BIGINT", "DOUBLE", "BIGINT", "BOOLEAN", "INTEGER",
                                "INTEGER", IMAGE]
        rows = result.fetchall()
        assert [row[1:3] for row in rows] == [(i, pytest.approx(i / 10)) for i in range(10)]
        assert {row[5:7] for row in rows} == {(32, 32)} and rows[0][4] is True
        assert {row[0] for row in rows} == {str(video)} and result.stats.frames_decoded == 0


def test_the_name_of_a_file_is_its_table(s: Asking, video: Path, pictures: Path) -> None:
    assert s.value(f"SELECT max(v.frame_id) FROM '{video}'") == 9
    assert s.value(f"SELECT max(a.frame_id) FROM '{video}' a") == 9
    assert s.value(f"SELECT max(b.n) FROM '{video}' AS b(p, n)") == 9
    assert s.value(f"SELECT max(read_video.frame_id) FROM read_video('{video}')") == 9
    assert s.value(f"SELECT \"0\".width FROM '{pictures}/0.png'") == 32


def test_a_frame_is_a_picture_of_the_right_number(s: Asking, video: Path) -> None:
    for frame_id, frame in s.rows(f"SELECT frame_id, frame FROM '{video}' WHERE frame_id % 4 = 1"):
        assert number_of(frame.numpy()) == frame_id == frame.frame
    s.rows(f"SELECT kind(frame) FROM '{video}' WHERE frame_id IN (7, 2, 9) ORDER BY frame_id DESC")
    assert sorted(number_of(p) for p in s.asked("kind")) == [2, 7, 9]


def test_handles_cost_no_decoding(s: Asking, video: Path) -> None:
    result = s.run(f"SELECT count(DISTINCT frame), min(frame.uri), max(frame.frame) FROM '{video}'")
    assert result.fetchall() == [(10, str(video), 9)] and result.stats.frames_decoded == 0


# Options


@pytest.mark.parametrize(("options", "expected"), [
    ("stride => 3", [0, 3, 6, 9]), ("stride := 4", [0, 4, 8]), ("fps => 2", [0, 5]),
    ("fps => 2.5", [0, 4, 8]), ("fps => 100", list(range(10))), ("every => 0.3", [0, 3, 6, 9]),
    ("every => 5", [0]), ("start => 0.3", [3, 4, 5, 6, 7, 8, 9]),
    ("start => 0.3, \"end\" => 0.6", [3, 4, 5]), ("\"end\" => 0.25", [0, 1, 2]),
    ("start => 0.25, stride => 2", [3, 5, 7, 9]), ("start => 5", []),
    ("keyframes => true", [0]), ("keyframes => false", list(range(10))),
    ("fps => NULL", list(range(10))), ("FPS => 1 + 1", [0, 5]), ("stride = 5", [0, 5]),
    ("every => 0.2::FLOAT", [0, 2, 4, 6, 8]), ("start => '0.5'::DOUBLE", [5, 6, 7, 8, 9]),
])
def test_options(s: Asking, video: Path, options: str, expected: list[int]) -> None:
    rows = s.rows(f"SELECT frame_id, ts, frame.frame FROM read_video('{video}', {options})")
    assert [row[0] for row in rows] == expected  # frame_id and ts are those of the whole video
    assert all(row[1] == pytest.approx(row[0] / 10) and row[2] == row[0] for row in rows)


def test_options_may_be_parameters(s: Asking, video: Path) -> None:
    assert s.rows("SELECT frame_id FROM read_video(?, stride => ?)", [str(video), 5]) == [
        (0,), (5,)]
    assert s.rows("SELECT frame_id FROM read_video($path, every => $n)",
                  {"path": str(video), "n": 0.5}) == [(0,), (5,)]
    assert s.value("SELECT count(*) FROM read_video(?)", [[str(video), str(video)]]) == 20


def test_keyframes(s: Asking, tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "k.mp4", gop=4, b_frames=0)
    assert s.rows(f"SELECT frame_id FROM read_video('{path}', keyframes => true)") == [
        (0,), (4,), (8,)]
    assert s.rows(f"SELECT frame_id FROM '{path}' WHERE keyframe") == [(0,), (4,), (8,)]


@pytest.mark.parametrize(("call", "kind", "words"), [
    ("read_video('{v}', stide => 3)", UnknownName, "'stide' .*did you mean 'stride'"),
    ("read_video('{v}', stride => 0)", ProgrammingError, "stride takes a whole number from 1 on"),
    ("read_video('{v}', stride => 1.5)", ProgrammingError, "stride takes a whole number"),
    ("read_video('{v}', fps => -1)", ProgrammingError, "fps takes a number above 0"),
    ("read_video('{v}', fps => 'often')", ProgrammingError, "fps takes a number"),
    ("read_video('{v}', fps => 2, stride => 3)", ProgrammingError, "fps and stride contradict"),
    ("read_video('{v}', start => 0.5, \"end\" => 0.2)", ProgrammingError, "must be before end"),
    ("read_video('{v}', keyframes => 'x')", ProgrammingError, "keyframes"),
    ("read_video('{v}', stride => frame_id)", ProgrammingError, "constant"),
    ("read_video()", ProgrammingError, "takes one path, pattern, or list of them, not 0"),
    ("read_video('{v}', '{v}')", ProgrammingError, "takes one path, pattern, or list"),
    ("read_video('')", ProgrammingError, "path"), ("read_video([])", ProgrammingError, "list of"),
    ("read_video(NULL)", ProgrammingError, "(?i)null|path"),
    ("read_video(3)", ProgrammingError, "path"), ("read_video([NULL])", ProgrammingError, "path"),
    ("read_images('{v}')", MediaError, "not a picture"),
    ("read_images('{p}/*.png', stride => 2)", UnknownName, "'stride' of READ_IMAGES"),
    ("read_images(NULL)", ProgrammingError, "(?i)null|path"),
    ("'{v}x.mp4'", ProgrammingError, "No files found"),
    ("'{p}/*.gif'", ProgrammingError, "No files found"),
    ("read_video('{p}/no*.mp4')", ProgrammingError, "No files found"),
])
def test_a_wrong_source_says_what_is_wrong(
    s: Asking, video: Path, pictures: Path, call: str, kind: type[Error], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        s.rows(f"SELECT count(*) FROM {call.format(v=video, p=pictures)}")
    assert "mlsql_" not in str(caught.value)


def test_a_slip_in_a_name_says_what_there_is(s: Asking, video: Path) -> None:
    wrong = str(video).replace("v.mp4", "w.mp4")
    with pytest.raises(ProgrammingError, match=r"did you mean '.*v\.mp4'"):
        s.rows(f"FROM '{wrong}'")


# Pictures


def test_the_columns_of_pictures(s: Asking, pictures: Path) -> None:
    for source in (f"'{pictures}/*.png'", f"read_images('{pictures}/*.png')",
                   f"read_images(['{pictures}/0.png', '{pictures}/1.png', '{pictures}/2.png', "
                   f"'{pictures}/3.png'])"):
        result = s.run(f"FROM {source} ORDER BY path")
        assert result.columns == IMAGE_COLUMNS
        assert result.types == ["VARCHAR", IMAGE, "INTEGER", "INTEGER", "VARCHAR", "BIGINT",
                                "TIMESTAMP"]
        rows = result.fetchall()
        assert [Path(row[0]).name for row in rows] == [f"{i}.png" for i in range(4)]
        assert {row[2:5] for row in rows} == {(32, 32, "png")}
        assert [row[5] for row in rows] == [Path(row[0]).stat().st_size for row in rows]
        assert number_of(rows[3][1].numpy()) == 3


def test_globs(s: Asking, tmp_path: Path) -> None:
    for name in ("a/x.png", "a/y.PNG", "a/b/z.png", "c/[1].png", "c/1.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_picture(grey(40), "PNG"))
    for pattern, count in (("a/*.png", 1), ("a/*.PNG", 1), ("a/**/*.png", 2), ("**/*.png", 4),
                           ("a/[xy].png", 1), ("c/?.png", 1), ("{a,c}/*.png", None)):
        if count is not None:
            assert s.value(f"SELECT count(*) FROM '{tmp_path}/{pattern}'") == count, pattern


def test_upright(s: Asking, tmp_path: Path) -> None:
    import PIL.Image

    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    path = tmp_path / "turned.jpg"
    PIL.Image.fromarray(grey(100, 20, 60)).save(path, exif=exif)
    video = write_video(tmp_path / "t.mp4", [grey(20 * i, 20, 60) for i in range(3)])
    turn(video, 0, 1, -1, 0)
    s.add("shape", lambda p: f"{p.shape[1]}x{p.shape[0]}", task="predict", output="VARCHAR")
    assert s.rows(f"SELECT width, height, shape(image) FROM '{path}'") == [(20, 60, "20x60")]
    assert set(s.rows(f"SELECT width, height, shape(frame) FROM '{video}'")) == {(20, 60, "20x60")}


@pytest.mark.parametrize("name", [
    "with space.mp4", "it's.mp4", 'dou"ble.mp4', "100%.mp4", "💥 ünï 視.mp4", "a;b--c.mp4",
    "[x].mp4", "semi'; DROP TABLE t; --.mp4", "-dash.mp4", "UPPER.MP4", "a.b.c.mp4", "#1?.mp4",
])
def test_names_of_any_kind(s: Asking, tmp_path: Path, name: str) -> None:
    path = make_video(tmp_path, name)
    quoted = str(path).replace("'", "''")
    s.run("CREATE TABLE t AS SELECT 1 AS x")
    if not set("[]?*") & set(name):
        assert s.value(f"SELECT count(*) FROM '{quoted}'") == 10
        assert s.value(f"SELECT count(*) FROM read_video('{quoted}') "
                       "WHERE CONTAINS(frame, 'cat', model => 'eye')") == 5
    assert s.rows(f"SELECT DISTINCT path FROM read_video('{tmp_path}/*')") == [(str(path),)]
    assert s.value("SELECT count(*) FROM read_video(?)", [[str(path)]]) == 10
    assert s.value("SELECT count(*) FROM t") == 1


# Faults


@pytest.mark.parametrize(("name", "content"), [
    ("empty.mp4", b""), ("text.mp4", b"hello, I am text\n" * 40), ("folder.mp4", None),
    ("empty.png", b""), ("text.png", b"not a picture"), ("html.jpg", b"<html></html>"),
])
def test_what_is_no_media_is_one_clear_error(
    s: Asking, tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content)
    for policy in ("raise", "null", "skip"):
        s.run(f"SET on_error = '{policy}'")
        with pytest.raises(Error, match=name.replace(".", r"\.")):
            s.rows(f"SELECT count(*) FROM '{path}'")
    assert s.rows("SELECT 1") == [(1,)]


def test_a_dangling_link(s: Asking, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").symlink_to(tmp_path / "nowhere.mp4")
    with pytest.raises(Error, match=r"a\.mp4"):
        s.rows(f"FROM '{tmp_path}/a.mp4'")


def test_one_bad_file_among_good_ones(s: Asking, tmp_path: Path, pictures: Path) -> None:
    make_video(tmp_path, "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"nothing")
    make_video(tmp_path, "c.mp4")
    sql = f"SELECT parse_filename(path), count(*) FROM '{tmp_path}/*.mp4' GROUP BY 1 ORDER BY 1"
    with pytest.raises(MediaError, match=r"b\.mp4"):
        s.rows(sql)
    for policy in ("null", "skip"):
        s.run(f"SET on_error = '{policy}'")
        result = s.run(sql)
        assert result.fetchall() == [("a.mp4", 10), ("c.mp4", 10)]
        assert [Path(error.uri or "").name for error in result.errors] == ["b.mp4"]


def test_a_video_cut_short_keeps_its_numbers(s: Asking, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(-12, 13, (64, 64, 3))  # so that pictures take bytes
    whole = write_video(tmp_path / "w.mkv", [
        (grey(20 * i, 64, 64) + noise).clip(0, 255).astype(np.uint8) for i in range(10)], gop=1)
    cut = tmp_path / "cut.mkv"
    data = whole.read_bytes()
    cut.write_bytes(data[: int(len(data) * 0.7)])
    s.run("SET on_error = 'null'")
    rows = s.rows(f"SELECT frame_id, kind(frame).label FROM '{cut}'")
    assert 3 <= len(rows) < 10
    for number, label in rows:
        assert label in (None, "cat" if number < 5 else "fish")


def test_a_file_that_goes_away_between_two_statements(s: Asking, tmp_path: Path) -> None:
    path = make_video(tmp_path)
    s.run(f"CREATE TABLE t AS FROM '{path}'")
    path.unlink()
    with pytest.raises(MediaError, match=r"v\.mp4"):
        s.rows("SELECT kind(frame) FROM t")
    s.run("SET on_error = 'null'")
    assert set(s.rows("SELECT kind(frame) FROM t")) == {(None,)}
    assert len(s.run("SELECT kind(frame) FROM t").errors) == 10
    s.run("SET on_error = 'skip'")
    assert s.rows("SELECT kind(frame) FROM t") == []


def test_an_edited_file_is_listed_anew(s: Asking, tmp_path: Path) -> None:
    path = make_video(tmp_path)
    assert s.value(f"SELECT count(*) FROM '{path}'") == 10
    write_video(path, [grey(100)] * 4)
    assert s.value(f"SELECT count(*) FROM '{path}'") == 4


def test_max_pixels(s: Asking, video: Path, pictures: Path) -> None:
    s.run("SET max_pixels = 1000")
    for sql in (f"SELECT count(*) FROM '{video}'", f"SELECT count(*) FROM '{pictures}/0.png'",
                f"SELECT eye('{pictures}/0.png')"):
        with pytest.raises(MediaError, match="max_pixels"):
            s.rows(sql)
    s.run("RESET max_pixels")
    assert s.value(f"SELECT count(*) FROM '{video}'") == 10


# With other SQL


def test_media_join_tables_and_each_other(s: Asking, video: Path, pictures: Path) -> None:
    s.run("CREATE TABLE spans AS SELECT * FROM (VALUES ('a', 0, 1), ('b', 8, 9)) t(name, lo, hi)")
    result = s.run(f"""SELECT name, count(*) FROM '{video}' JOIN spans ON frame_id BETWEEN lo AND hi
                       WHERE CONTAINS(frame, 'cat', model => 'eye') GROUP BY name ORDER BY name""")
    assert result.fetchall() == [("a", 1), ("b", 1)] and result.stats.frames_decoded == 4
    assert s.value(f"""SELECT count(*) FROM '{video}' v JOIN '{pictures}/*.png' p
                       ON kind(v.frame).label = kind(p.image).label""") == 20
    assert s.value(f"SELECT count(*) FROM (FROM '{video}' UNION ALL FROM '{video}')") == 20
    assert s.rows(f"SELECT (SELECT count(*) FROM '{video}'), EXISTS (FROM '{video}' WHERE ts > 5)"
                  ) == [(10, False)]


def test_describe_and_summarize(s: Asking, video: Path) -> None:
    for sql in (f"DESCRIBE FROM '{video}'", f"DESCRIBE SELECT * FROM '{video}'",
                f"DESCRIBE '{video}'", f"SUMMARIZE FROM '{video}'", f"SUMMARIZE '{video}'"):
        assert [row[0] for row in s.rows(sql)] == COLUMNS, sql


def test_a_table_function_of_ours_is_a_table_like_any_other(s: Asking) -> None:
    assert s.value("SELECT count(*) FROM labels('eye') l JOIN labels('kind') k USING (label)") > 0
    assert s.value("SELECT count(*) FROM models() WHERE name = 'eye' AND sq(2) = 4") == 1
    result: Any = s.run("WITH m AS (FROM models()) SELECT up(name) FROM m WHERE name = 'eye'")
    assert result.fetchall() == [("EYE",)]
    assert s.value("SELECT value FROM settings() WHERE name = 'on_error'") == "raise"
    with pytest.raises(ProgrammingError, match="labels"):
        s.rows("FROM labels()")
