"""CROP, RESIZE, THUMBNAIL, ENCODE and ANNOTATE: pixel for pixel, and never before they are needed.

Most pictures here have a colour of their own in each pixel, so that a place can be told by it.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import CallLimit, MediaError, ProgrammingError, UnknownName
from mlsql.exec.media.decode import Decoder
from mlsql.exec.media.handle import Handle, Limits
from mlsql.udfs.pictures import MARK
from tests.media_samples import encode_picture
from tests.sessions import Asking, make_video

WIDTH, HEIGHT = 12, 8
PLACES = np.stack(np.broadcast_arrays(
    20 * np.arange(WIDTH)[None, :], 30 * np.arange(HEIGHT)[:, None], 7), 2).astype(np.uint8)


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("places") / "places.png"
    path.write_bytes(encode_picture(PLACES, "PNG"))
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


def pixels(s: Asking, expression: str, path: Path) -> np.ndarray[Any, Any]:
    """The picture that an expression over `image` makes."""
    found = s.value(f"SELECT {expression} FROM '{path}'")
    assert isinstance(found, mlsql.Image)
    return found.numpy()


def decoded(data: bytes) -> tuple[str, np.ndarray[Any, Any]]:
    """A picture's format and pixels, by Pillow."""
    import PIL.Image

    picture = PIL.Image.open(io.BytesIO(data))
    return str(picture.format), np.asarray(picture.convert("RGB"))


# CROP


@pytest.mark.parametrize(("box", "rows", "columns"), [
    ("2, 1, 5, 4", slice(1, 4), slice(2, 5)),
    ("[2, 1, 5, 4]", slice(1, 4), slice(2, 5)),
    ("{'x1': 2, 'y1': 1, 'x2': 5, 'y2': 4}", slice(1, 4), slice(2, 5)),
    ("{'label': 'a', 'score': 1, 'x1': 2, 'y1': 1, 'x2': 5, 'y2': 4}", slice(1, 4), slice(2, 5)),
    ("1.9, 0.2, 4.1, 3.01", slice(0, 4), slice(1, 5)),  # every pixel that the box touches
    ("-50, -3.5, 5, 400", slice(0, 8), slice(0, 5)),  # clipped to the picture
    ("0, 0, 12, 8", slice(0, 8), slice(0, 12)),
    ("3, 3, 3, 3", slice(3, 4), slice(3, 4)),  # a box without area still touches a pixel
    ("12, 8, 12, 8", slice(7, 8), slice(11, 12)),
    ("12, 0, 99, 1", slice(0, 1), slice(11, 12)),
])
def test_crop_takes_the_pixels_that_the_box_touches(
    s: Asking, places: Path, box: str, rows: slice, columns: slice
) -> None:
    found = pixels(s, f"CROP(image, {box})", places)
    assert np.array_equal(found, PLACES[rows, columns])


@pytest.mark.parametrize("box", [
    "12.5, 0, 20, 8", "0, -3, 5, -0.5", "5, 1, 2, 4", "2, 4, 5, 1", "'nan'::DOUBLE, 0, 5, 5",
    "'-inf'::DOUBLE, 0, '-inf'::DOUBLE, 5",
])
def test_a_box_that_holds_nothing_is_an_error_of_the_row(
    s: Asking, places: Path, box: str
) -> None:
    sql = f"SELECT octet_length(ENCODE(CROP(image, {box}))) FROM '{places}'"
    with pytest.raises(MediaError, match=r"places\.png: the box .* holds nothing .*\(12 x 8\)"):
        s.rows(sql)
    s.run("SET on_error = 'null'")
    assert s.rows(sql) == [(None,)]
    assert s.rows("SELECT path, model FROM query_errors()") == [(str(places), "encode_jpeg")] or \
        s.value("SELECT path FROM query_errors()") == str(places)
    s.run("SET on_error = 'skip'")
    assert s.rows(sql) == []


def test_infinite_corners_are_clipped_too(s: Asking, places: Path) -> None:
    box = "'-inf'::DOUBLE, 1, 'inf'::DOUBLE, 2"
    assert np.array_equal(pixels(s, f"CROP(image, {box})", places), PLACES[1:2])


# RESIZE, THUMBNAIL, and one upon the other


def test_resize_averages_over_areas_where_it_shrinks(s: Asking, places: Path) -> None:
    found = pixels(s, "RESIZE(image, 6, 4)", places)
    blocks = PLACES.reshape(4, 2, 6, 2, 3).astype(float).mean(axis=(1, 3))
    assert found.shape == (4, 6, 3)
    assert np.abs(found - blocks).max() <= 0.5
    assert pixels(s, "RESIZE(image, 24, 8)", places).shape == (8, 24, 3)


@pytest.mark.parametrize(("size", "shape"), [
    ("6", (4, 6, 3)), ("1", (1, 1, 3)), ("12", (8, 12, 3)), ("500", (8, 12, 3)),
])
def test_thumbnail_keeps_the_shape_and_never_grows(
    s: Asking, places: Path, size: str, shape: tuple[int, ...]
) -> None:
    assert pixels(s, f"THUMBNAIL(image, {size})", places).shape == shape
    assert np.array_equal(pixels(s, "THUMBNAIL(image)", places), PLACES)


def test_functions_in_functions_are_taken_from_the_inside_out(s: Asking, places: Path) -> None:
    one = pixels(s, "CROP(RESIZE(image, 24, 16), 0, 0, 2, 2)", places)
    whole = pixels(s, "RESIZE(image, 24, 16)", places)
    assert np.array_equal(one, whole[:2, :2])
    other = pixels(s, "RESIZE(CROP(image, 0, 0, 2, 2), 24, 16)", places)
    assert other.shape == (16, 24, 3)
    assert np.array_equal(pixels(s, "CROP(CROP(image, 2, 2, 9, 7), 1, 1, 3, 3)", places),
                          PLACES[3:5, 3:5])
    assert np.array_equal(pixels(s, "image.crop(2, 2, 9, 7).crop([1, 1, 3, 3])", places),
                          PLACES[3:5, 3:5])


@pytest.mark.parametrize(("size", "said"), [
    ("100000, 100000", r"10,000,000,000 pixels .*max_pixels"), ("i, 5", "has no pixels"),
])
def test_a_picture_that_is_too_large_or_empty_is_not_made(
    s: Asking, places: Path, size: str, said: str
) -> None:
    with pytest.raises(MediaError, match=said):
        s.rows(f"SELECT ENCODE(RESIZE(image, {size})) FROM '{places}', (VALUES (-1)) t(i)")


# NULLs and wrong calls


@pytest.mark.parametrize("expression", [
    "CROP(NULL, 1, 2, 3, 4)", "CROP(image, NULL)", "CROP(image, 1, NULL, 3, 4)",
    "CROP(image, {'x1': 1, 'y1': NULL, 'x2': 3, 'y2': 4})", "RESIZE(image, 4, NULL)",
    "THUMBNAIL(image, NULL)", "ANNOTATE(image, NULL)", "ENCODE(CROP(image, NULL))",
    "ENCODE(NULL::STRUCT(uri VARCHAR, frame BIGINT, data BLOB))",
])
def test_null_in_null_out(s: Asking, places: Path, expression: str) -> None:
    assert s.value(f"SELECT {expression} FROM '{places}'") is None


@pytest.mark.parametrize(("expression", "said"), [
    ("CROP(image, 1, 2)", r"CROP\(media, box\) or CROP\(media, x1, y1, x2, y2\)"),
    ("CROP(image, 'a')", "a box is a struct with x1, y1, x2 and y2, as DETECT gives, not a"),
    ("CROP(image, [1, 2, 3])", "a box is .* not 3 numbers"),
    ("CROP(image, {'x1': 1})", 'Could not find key "y1" in struct'),
    ("CROP(5, 1, 2, 3, 4)", "CROP looks at a picture .* 5 is INTEGER"),
    ("CROP(image, 1, 'b', 3, 4)", "CROP: y1 is a number, not 'b'"),
    ("THUMBNAIL(image, 0)", "THUMBNAIL: size is 1 or more pixels, not 0"),
    ("RESIZE(image, 4, -4)", "RESIZE: height is 1 or more pixels, not -4"),
    ("RESIZE(image, 4)", r"RESIZE takes 3 arguments, not 2: RESIZE\(media, width, height\)"),
    ("ANNOTATE(image, [], colour => 'red')", "unknown option 'colour' of ANNOTATE"),
    ("ENCODE(image, 'gif')", "unknown format 'gif' of ENCODE: it writes 'jpeg', 'png', 'webp'"),
    ("ENCODE(image, 'png', 3)", "png loses nothing and takes no quality"),
    ("ENCODE(image, 'jpeg', 101)", "quality is a number from 1 to 100, not 101"),
    ("ENCODE(image, path)", "the format is a word in quotes"),
])
def test_a_wrong_call_says_what_is_wrong(
    s: Asking, places: Path, expression: str, said: str
) -> None:
    with pytest.raises(ProgrammingError, match=said):
        s.rows(f"SELECT {expression} FROM '{places}'")


def test_duckdbs_own_encode_is_still_there(s: Asking, places: Path) -> None:
    assert s.value("SELECT encode('ä')") == "ä".encode()
    assert s.value(f"SELECT encode(format) FROM '{places}'") == b"png"


# ENCODE


def test_png_loses_nothing(s: Asking, places: Path) -> None:
    kind, found = decoded(s.value(f"SELECT ENCODE(image, 'png') FROM '{places}'"))
    assert kind == "PNG"
    assert np.array_equal(found, PLACES)


def test_formats_and_quality(s: Asking, bikes: Path) -> None:
    row = s.rows(f"""SELECT ENCODE(frame), ENCODE(frame, 'JPG'), ENCODE(frame, 'jpeg', 20),
                            ENCODE(frame, 'webp'), ENCODE(frame, 'webp', 20), frame
                     FROM '{bikes}' WHERE frame_id = 120""")[0]
    assert [decoded(data)[0] for data in row[:5]] == ["JPEG", "JPEG", "JPEG", "WEBP", "WEBP"]
    assert row[0] == row[1]
    assert len(row[2]) < len(row[0]) / 2
    assert len(row[4]) < len(row[3])
    original = row[5].numpy().astype(int)
    for data, most in zip(row[:5], (2, 2, 6, 4, 7), strict=True):
        assert np.abs(decoded(data)[1].astype(int) - original).mean() < most


def test_what_no_format_can_hold_is_an_error_of_the_row(s: Asking, places: Path) -> None:
    with pytest.raises(MediaError, match="cannot be written as webp"):
        s.rows(f"SELECT ENCODE(RESIZE(image, 20000, 2), 'webp') FROM '{places}'")


def test_copy_to_a_file_that_anyone_reads(s: Asking, bikes: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "x.parquet"
    s.run(f"""COPY (SELECT frame_id, ENCODE(THUMBNAIL(frame, 128), 'jpeg') AS small
                    FROM '{bikes}' WHERE keyframe) TO '{out}'""")
    rows = pq.read_table(out).to_pylist()
    assert [row["frame_id"] for row in rows] == [0, 30, 76, 137, 187, 242]
    assert {decoded(row["small"])[1].shape for row in rows} == {(54, 128, 3)}
    assert s.session.last_stats.frames_decoded == 6


def test_a_blob_is_a_picture_again(s: Asking, places: Path) -> None:
    nested = "ENCODE(CROP(IMAGE(ENCODE(CROP(image, 1, 1, 9, 7), 'png')), 1, 1, 3, 3), 'png')"
    assert np.array_equal(decoded(s.value(f"SELECT {nested} FROM '{places}'"))[1],
                          PLACES[2:4, 2:4])


# ANNOTATE


def test_boxes_are_drawn_and_nothing_else_is_touched(s: Asking, bikes: Path) -> None:
    box = "{'label': 'person', 'score': 0.5, 'x1': 100, 'y1': 60, 'x2': 200.5, 'y2': 160}"
    plain, drawn, bare = (found.numpy().astype(int) for found in s.rows(f"""
        SELECT frame, ANNOTATE(frame, [{box}]),
               ANNOTATE(frame, {box}, labels => false, scores => false, width => 3)
        FROM '{bikes}' WHERE frame_id = 10""")[0])
    changed = (plain != bare).any(axis=2)
    assert changed[60:63, 100:201].mean() > 0.95  # the upper line, three pixels wide
    assert not changed[63:158, 103:198].any()
    changed[60:161, 100:202] = False
    assert not changed.any()
    label = (plain != drawn).any(axis=2)
    label[60:161, 100:202] = False
    assert label[35:60, 100:220].sum() > 400
    label[35:60, 100:220] = False
    assert not label.any()


def test_odd_detections_are_left_out(s: Asking, places: Path) -> None:
    same = ["[]", "[NULL]", "[{'x1': NULL, 'y1': 1, 'x2': 2, 'y2': 3}]",
            "[{'x1': 'nan'::DOUBLE, 'y1': 1, 'x2': 2, 'y2': 3}]", "[{'label': 'no box'}]"]
    for found in same:
        assert np.array_equal(pixels(s, f"ANNOTATE(image, {found}::JSON)" if "no box" in found
                                     else f"ANNOTATE(image, {found})", places), PLACES), found
    turned = pixels(s, "ANNOTATE(image, {'x1': 5, 'y1': 6, 'x2': 2, 'y2': 3})", places)
    assert (turned != PLACES).any()


def test_labels_of_any_letters(s: Asking, bikes: Path) -> None:
    quotes = s.rows(f"""SELECT ANNOTATE(frame, [{{'label': label, 'score': 1.0, 'x1': 5, 'y1': 50,
                                                  'x2': 90, 'y2': 90}}])
        FROM '{bikes}', (VALUES ('a "b" ''c'' \\ <x>'), (chr(10) || 'é 漢'), ('')) t(label)
        WHERE frame_id = 0""")
    assert len({found.numpy().tobytes() for found, in quotes}) == 3


# Handles, not pixels


def test_making_pictures_decodes_nothing(
    s: Asking, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a picture was decoded")

    monkeypatch.setattr(Decoder, "decode", refuse)
    s.run(f"""CREATE TABLE made AS SELECT frame_id, CROP(THUMBNAIL(frame, 16), 0, 0, 4, 4) AS part
              FROM '{video}'""")
    assert s.rows("SELECT count(DISTINCT part), typeof(any_value(part)) FROM made") == [
        (10, 'STRUCT(uri VARCHAR, frame BIGINT, "data" BLOB)')]


def test_tables_and_views_hold_what_is_to_be_made(video: Path, tmp_path: Path) -> None:
    with Asking(tmp_path / "d.db") as s:
        s.run(f"CREATE VIEW v AS SELECT frame_id, THUMBNAIL(frame, 16) AS small FROM '{video}'")
        s.run("CREATE TABLE t AS FROM v")
    with Asking(tmp_path / "d.db") as s:
        expected = [(i, "cat" if i < 5 else "fish") for i in range(10)]
        for source in ("v", "t"):
            assert s.rows(f"SELECT frame_id, CLASSIFY(small, model => 'kind') FROM {source} "
                          "ORDER BY 1") == expected
            assert {picture.shape for picture in s.asked("kind")} == {(16, 16, 3)}


def test_crops_of_a_frame_are_cut_from_one_decoding(s: Asking, video: Path) -> None:
    sql = f"""SELECT frame_id, d.label, CLASSIFY(CROP(frame, d), model => 'kind')
              FROM (SELECT frame_id, frame, unnest(DETECT(frame, model => 'eye', min_score => 0)) d
                    FROM '{video}') ORDER BY ALL"""
    found = s.rows(sql)
    assert len(found) == 13
    assert [row for row in found if row[0] == 0] == [
        (0, "cat", "cat"), (0, "dog", "cat"), (0, "dog", "cat")]
    crops = s.asked("kind")
    # Eleven boxes: on the frames 0 and 6 a cat and a dog have the same one. Where a second box lies
    # in the same grey, it shows the same picture, and is not asked about again.
    assert len(crops) == 7
    assert {crop.shape for crop in crops} == {(4, 4, 3)}
    kind = next(m for m in s.session.last_stats.models if m.model == "kind")
    assert kind.frames_decoded == 7


def test_a_plan_of_crops_of_what_is_detected(s: Asking, video: Path) -> None:
    rows = s.rows(f"""EXPLAIN SELECT CLASSIFY(CROP(frame, d), model => 'kind')
                      FROM (SELECT frame, unnest(DETECT(frame, model => 'eye')) AS d
                            FROM '{video}')""")
    assert {row[3] for row in rows} >= {"eye", "kind"}
    assert s.calls == 0


def test_answers_are_kept_by_what_is_cut_out(video: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.mp4"
    shutil.copy(video, copy)
    sql = "SELECT CLASSIFY(CROP(frame, 0, 0, {}, 9), model => 'kind') FROM '{}' WHERE frame_id < 4"
    with Asking(cache=True, cache_dir=str(tmp_path / "cache")) as s:
        for right, path, calls in [(9, video, 4), (9, video, 0), (9, copy, 0), (8, video, 4),
                                   (8.5, video, 4), (8, copy, 0)]:
            assert len(s.rows(sql.format(right, path))) == 4
            assert len(s.asked("kind")) == calls, (right, path)
        assert s.rows(f"SELECT CLASSIFY(frame, model => 'kind') FROM '{video}' LIMIT 1")
        assert len(s.asked("kind")) >= 1  # the whole picture is another input
        s.rows(f"SELECT CLASSIFY(CROP(IMAGE('{tmp_path}/no.png'), 0, 0, 1, 1), model => 'kind') "
               "WHERE false")


def test_crops_of_a_blob_are_told_apart_by_both(tmp_path: Path) -> None:
    dark, light = (encode_picture(np.full((8, 8, 3), v, np.uint8), "PNG") for v in (0, 160))
    sql = "SELECT CLASSIFY(CROP(IMAGE(?), 0, 0, 4, 4), model => 'kind')"
    with Asking(cache=True, cache_dir=str(tmp_path)) as s:
        assert [s.value(sql, [dark]), s.value(sql, [light])] == ["cat", "fish"]
        assert s.value(sql, [dark]) == "cat"
        assert s.calls == 0


def test_encoded_pictures_are_not_kept(video: Path, tmp_path: Path) -> None:
    sql = f"SELECT count(ENCODE(frame, 'png')) FROM '{video}'"
    with Asking(cache=True, cache_dir=str(tmp_path)) as s:
        for _ in range(2):
            assert s.value(sql) == 10
            assert s.session.last_stats.calls == 10
        assert not list(tmp_path.rglob("outputs/*/*.parquet"))


def test_a_limit_encodes_no_more_than_it_needs(s: Asking, bikes: Path) -> None:
    sql = f"""SELECT frame_id FROM '{bikes}'
              WHERE octet_length(ENCODE(THUMBNAIL(frame, 32), 'png')) > 10 LIMIT 2"""
    assert s.rows(sql) == [(0,), (1,)]
    assert s.session.last_stats.calls <= 32
    with pytest.raises(CallLimit):
        s.rows("SET max_model_calls = 5; SELECT count(*) FROM (" +
               sql.replace("LIMIT 2", "LIMIT 200") + ")")


@pytest.mark.parametrize("data", [
    MARK + "no json\n", MARK + "{}\n", MARK + '{"todo": "eval"}\n', MARK, MARK + '{"todo": "crop"',
    MARK + '{"todo": "crop", "x1": 0, "y1": 0, "x2": 1, "y2": "z"}\n',
    MARK + '{"todo": "resize", "width": 4, "height": 99999999999}\n',
    MARK + '{"todo": "annotate", "detections": 7, "labels": true, "scores": true}\n',
    MARK + '{"todo": "thumbnail", "size": 0}\n',
])
def test_a_recipe_that_makes_no_sense_is_an_error_of_its_row(places: Path, data: str) -> None:
    decoder = Decoder(Limits())
    good = Handle(str(places), None, (MARK + '{"todo": "thumbnail", "size": 4}\n').encode())
    found = dict(decoder.decode([Handle(str(places), None, data.encode()), good]))
    assert isinstance(found[0], MediaError)
    assert "places.png" in str(found[0])
    assert not isinstance(found[1], MediaError) and found[1].shape == (3, 4, 3)


def test_what_a_recipe_starts_from_may_be_missing(s: Asking, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"gone\.png"):
        s.rows(f"SELECT ENCODE(CROP(IMAGE('{tmp_path / 'gone.png'}'), 0, 0, 1, 1))")


# Real models


def test_a_crop_is_seen_by_the_real_models(bikes: Path) -> None:
    with mlsql.connect() as con:
        sql = f"""SELECT CONTAINS(CROP(frame, d), 'bicycle'), CONTAINS(frame, 'bicycle')
                  FROM (SELECT frame, unnest(DETECT(frame, ['person'])) AS d
                        FROM '{bikes}' WHERE frame_id = 120) ORDER BY d.score DESC LIMIT 1"""
        assert con.execute(sql).fetchall() == [(True, True)]
        picture = con.execute(f"SELECT ANNOTATE(frame, DETECT(frame)) FROM '{bikes}' "
                              "WHERE frame_id = 120").fetchall()[0][0]
        assert picture.numpy().shape == (272, 640, 3)
        with pytest.raises(UnknownName, match="did you mean 'person'"):
            con.execute(f"SELECT ANNOTATE(frame, DETECT(frame, ['persn'])) FROM '{bikes}'")
