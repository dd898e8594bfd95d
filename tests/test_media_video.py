"""Videos: exact listings without decoding, the right picture in any order, sampling, tables."""

from __future__ import annotations

import os
import shutil
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.errors import MediaError, ProgrammingError
from mlsql.exec.media.decode import Decoder, Handle, Limits, decode
from mlsql.exec.media.names import is_image, is_video
from mlsql.exec.media.sources import video_table
from mlsql.exec.media.video import VideoListing, list_video
from tests.media_samples import (
    corners,
    decode_all,
    fingerprint,
    grey,
    marked,
    ten_greys,
    turn,
    write_video,
)

LIMITS = Limits()
IMAGE = "struct<uri: string, frame: int64, data: binary>"


def pictures(path: Path, numbers: list[int], **how: Any) -> list[Any]:
    handles = [Handle(str(path), n) for n in numbers]
    found: dict[int, Any] = dict(decode(handles, LIMITS, **how))
    assert sorted(found) == list(range(len(numbers)))
    return [found[i] for i in range(len(numbers))]


def levels(path: Path, numbers: list[int]) -> list[int]:
    return [round(float(p.mean())) for p in pictures(path, numbers)]


# ---------------------------------------------------------------- listing against decoding


MADE: dict[str, dict[str, Any]] = {
    "plain.mp4": {},
    "b_frames.mkv": {"b_frames": 3},
    "fragments.mp4": {"b_frames": 3, "gop": 4,
                      "container": {"movflags": "frag_keyframe+empty_moov"}},
    "b_frames_open_gop.mp4": {"b_frames": 3, "options": {"x264-params": "open-gop=1:keyint=5"}},
    "intra_refresh.mp4": {"options": {"x264-params": "intra-refresh=1:keyint=5"}},
    "interlaced.ts": {"options": {"x264-params": "interlaced=1"}},
    "start_offset.ts": {"start": 50},
    "start_offset.mkv": {"start": 50},
    "raw.h264": {},
    "reordered.avi": {"b_frames": 3},
    "reordered_mpeg4.avi": {"codec": "mpeg4", "b_frames": 2, "gop": 5},
    "mpeg2.mpg": {"codec": "mpeg2video", "b_frames": 2, "gop": 5, "rate": 25},
    "hidden.webm": {"codec": "libvpx", "options": {"auto-alt-ref": "1", "lag-in-frames": "9"}},
    "hidden_9.webm": {"codec": "libvpx-vp9",
                      "options": {"auto-alt-ref": "1", "lag-in-frames": "9"}},
    "mjpeg.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "four_four_four.mp4": {"pix_fmt": "yuv444p"},
    "ten_bits.mp4": {"pix_fmt": "yuv420p10le"},
    "grey.mkv": {"codec": "ffv1", "pix_fmt": "gray"},
    "exotic.flv": {"codec": "flv"},
    "exotic.wmv": {"codec": "wmv2"},
    "lossless.mkv": {"codec": "ffv1"},
    "moving.gif": {"codec": "gif", "pix_fmt": "rgb8"},
}


@pytest.mark.parametrize("name", MADE)
def test_made_videos_list_and_decode_exactly(name: str, tmp_path: Path) -> None:
    path = ten_greys(tmp_path / name, **MADE[name])
    listing = list_video(str(path), LIMITS)
    rate = 25 if name in ("mpeg2.mpg", "raw.h264") else 10  # raw H.264 knows no times
    assert len(listing) == 10
    assert (listing.width, listing.height) == (32, 32)
    assert listing.ts == pytest.approx(np.arange(10) / rate, abs=1e-3)
    assert listing.keyframe[0]
    expected = [20 * i for i in range(10)]
    slack = 9 if name == "moving.gif" else 3  # its palette
    assert levels(path, list(range(10))) == pytest.approx(expected, abs=slack)
    assert levels(path, [7, 2, 9, 0, 3]) == pytest.approx([140, 40, 180, 0, 60], abs=slack)


def test_packets_are_counted_where_they_tell_and_pictures_where_not(tmp_path: Path) -> None:
    def source(name: str) -> str:
        return list_video(str(ten_greys(tmp_path / name, **MADE[name])), LIMITS).source

    assert source("plain.mp4") == source("b_frames.mkv") == source("hidden.webm") == "packets"
    assert source("reordered.avi") == source("raw.h264") == source("interlaced.ts") == "pictures"


def test_variable_frame_rate_keeps_each_pictures_own_time(tmp_path: Path) -> None:
    pts = [0, 40, 90, 100, 400, 410, 900, 1000, 1001, 2000]
    path = ten_greys(tmp_path / "vfr.mp4", pts=pts, time_base=Fraction(1, 1000), b_frames=2)
    assert list_video(str(path), LIMITS).ts == pytest.approx(np.array(pts) / 1000, abs=1e-9)


def test_start_above_zero_is_removed(tmp_path: Path) -> None:
    listing = list_video(str(ten_greys(tmp_path / "late.ts", start=50)), LIMITS)
    assert listing.pts[0] > 0
    assert listing.ts[0] == 0.0


@pytest.mark.parametrize(
    ("matrix", "where"),
    [
        ((1, 0, 0, 1), {"top left": "red", "top right": "green", "bottom left": "blue"}),
        ((0, 1, -1, 0), {"top right": "red", "bottom right": "green", "top left": "blue"}),
        ((-1, 0, 0, -1), {"bottom right": "red", "bottom left": "green", "top right": "blue"}),
        ((0, -1, 1, 0), {"bottom left": "red", "top left": "green", "bottom right": "blue"}),
        ((-1, 0, 0, 1), {"top right": "red", "top left": "green", "bottom right": "blue"}),
        ((0, 1, 1, 0), {"top left": "red", "bottom left": "green", "top right": "blue"}),
    ],
)
def test_rotation_and_mirroring_are_applied(
    matrix: tuple[int, int, int, int], where: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "turned.mp4"
    write_video(path, [marked(i) for i in range(3)], pix_fmt="yuv444p")
    turn(path, *matrix)
    listing = list_video(str(path), LIMITS)
    size = (48, 32) if matrix[0] else (32, 48)
    assert (listing.width, listing.height) == size
    picture = pictures(path, [1])[0]
    assert picture.shape == (size[1], size[0], 3)
    assert picture.flags.c_contiguous
    assert corners(picture) == where


def real_videos(data: Path) -> list[Path]:
    folders = ("birds", "misc", "intel", "pets09", "street", "ucsd_ped2")
    found = [p for f in folders for p in sorted((data / "video" / f).iterdir())]
    return [p for p in found if is_video(p.name)]


COUNTS = {  # by a full decode
    "imageio_cockatoo.mp4": 280, "snips_parrots_192x96.mp4": 492, "bottle-detection.mp4": 1189,
    "car-detection.mp4": 377, "one-by-one-person-detection.mp4": 1394,
    "person-bicycle-car-detection_cut467.mp4": 459, "mnist.mp4": 1200,
    "ua_detrac_252f.mp4": 252, "vtest.avi": 795, "ahmetozlu_905f.mp4": 905,
    "bangkok_half_res.mp4": 462, "bgslibrary_video.avi": 374,
    "cdnet_pedestrians_290to690.avi": 401, "ckuhn_vfr_754.mp4": 734, "highway.mpg": 1700,
    "pets2001_d3c1_1823f_320x240.mp4": 1823, "stuttgart_499f_640x360.mp4": 499,
}


def test_real_videos_list_as_many_pictures_as_a_decode_gives(data: Path) -> None:
    found = {p.name: len(list_video(str(p), LIMITS)) for p in real_videos(data)}
    assert {name: found[name] for name in COUNTS} == COUNTS


@pytest.mark.parametrize(
    "name", ["ucsd_ped2/ped2_test_03.mp4", "street/ckuhn_vfr_754.mp4", "misc/mnist.mp4",
             "intel/person-bicycle-car-detection_cut467.mp4"])
def test_real_times_are_those_of_the_decoded_pictures(name: str, data: Path) -> None:
    import av

    path = data / "video" / name
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        pts = [frame.pts for frame in container.decode(stream)]
    listing = list_video(str(path), LIMITS)
    assert listing.pts.tolist() == pts
    times = [float((p - pts[0]) * listing.time_base) for p in pts]
    assert listing.ts == pytest.approx(times, abs=1e-9)


@pytest.mark.parametrize("name", ["tfl_jamcam/625_201709280917.mp4", "pets09/vtest.avi",
                                  "street/ckuhn_vfr_754.mp4", "misc/mnist.mp4",
                                  "intel/person-bicycle-car-detection_cut467.mp4"])
def test_random_access_gives_the_picture_of_a_linear_read(name: str, data: Path) -> None:
    path = data / "video" / name
    count = len(list_video(str(path), LIMITS))
    numbers = np.random.default_rng(5).choice(count, 12, replace=False).tolist()
    plain = {n: fingerprint(p) for n, p in enumerate(decode_all(path)) if n in numbers}
    with Decoder(LIMITS) as decoder:
        for number in numbers:
            [(_, picture)] = decoder.decode([Handle(str(path), number)])
            assert fingerprint(picture) == plain[number], number


def test_listing_is_fast_and_remembered(data: Path, tmp_path: Path) -> None:
    paths = sorted((data / "video" / "tfl_jamcam").glob("*.mp4"))
    memo = tmp_path / "memo"
    started = time.process_time()
    cold = [list_video(str(p), LIMITS, memo) for p in paths]
    assert sum(map(len, cold)) == 14_697
    assert time.process_time() - started < 3  # .4 s on the machine it was written on
    forget()
    warm = [list_video(str(p), LIMITS, memo) for p in paths]
    for one, other in zip(cold, warm, strict=True):
        same(one, other)


def forget() -> None:
    from mlsql.exec.media import video

    video._held.clear()


def same(one: VideoListing, other: VideoListing) -> None:
    for name in ("pts", "ts", "keyframe", "lost", "anchors"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("width", "height", "time_base", "format", "codec", "by_pts", "source", "exotic"):
        assert getattr(one, name) == getattr(other, name), name


def test_memo_follows_the_file_and_survives_damage(tmp_path: Path) -> None:
    path, memo = tmp_path / "a.mp4", tmp_path / "memo"
    ten_greys(path)
    assert len(list_video(str(path), LIMITS, memo)) == 10
    forget()
    write_video(path, [grey(9)] * 4)
    os.utime(path, (1, 1))
    assert len(list_video(str(path), LIMITS, memo)) == 4
    forget()
    for kept in memo.rglob("*"):
        if kept.is_file():
            kept.write_bytes(kept.read_bytes()[:-3])
    assert len(list_video(str(path), LIMITS, memo)) == 4
    forget()
    memo_file = tmp_path / "not a folder"
    memo_file.write_text("x")
    assert len(list_video(str(path), LIMITS, memo_file)) == 4


def test_memo_is_read_instead_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsql.exec.media import video

    path = ten_greys(tmp_path / "a.mp4")
    list_video(str(path), LIMITS, tmp_path / "memo")
    forget()
    monkeypatch.setattr(video, "scan_video", lambda *_: pytest.fail("the file was read again"))
    assert len(list_video(str(path), LIMITS, tmp_path / "memo")) == 10


# ---------------------------------------------------------------- decoding


def test_duplicates_and_any_order_come_back_at_their_positions(tmp_path: Path) -> None:
    one, two = ten_greys(tmp_path / "one.mp4"), ten_greys(tmp_path / "two.mp4")
    handles = [Handle(str(two), 3), Handle(str(one), 9), Handle(str(two), 3), Handle(str(one), 0)]
    found = dict(decode(handles, LIMITS))
    means = [round(float(found[i].mean())) for i in range(4)]
    assert means == pytest.approx([60, 180, 60, 0], abs=2)
    assert found[0] is found[2]


def test_numbers_out_of_range_are_row_errors(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.mp4")
    low, good, high = pictures(path, [-1, 4, 10])
    assert round(float(good.mean())) == pytest.approx(80, abs=2)
    assert isinstance(low, MediaError) and isinstance(high, MediaError)
    assert (high.uri, high.frame) == (str(path), 10)
    assert "has 10 pictures" in str(high)


def open_files(path: Path) -> int:
    here = os.path.realpath(path)
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link) == here for link in links)


def test_closing_the_iterator_closes_the_file(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.mp4")
    stream = decode([Handle(str(path), n) for n in range(10)], LIMITS)
    next(stream)
    assert open_files(path) == 1
    stream.close()  # type: ignore[attr-defined]
    assert open_files(path) == 0


def test_a_decoder_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsql.exec.media import reader

    opened: list[str] = []
    real = reader.open_video
    monkeypatch.setattr(
        reader, "open_video", lambda *a, **k: (opened.append(a[0]), real(*a, **k))[1])
    path = ten_greys(tmp_path / "a.mp4", gop=5)
    with Decoder(LIMITS) as decoder:
        for chunk in ([0, 1], [1, 2, 3], [6], [7, 9]):
            found = dict(decoder.decode([Handle(str(path), n) for n in chunk]))
            means = [round(float(found[i].mean())) for i in range(len(chunk))]
            assert means == pytest.approx([20 * n for n in chunk], abs=2)
        assert len(opened) == 1
    assert open_files(path) == 0


def test_a_decoder_keeps_few_videos_open(tmp_path: Path) -> None:
    paths = [ten_greys(tmp_path / f"{k}.mp4") for k in range(5)]
    with Decoder(LIMITS, keep=2) as decoder:
        for path in paths:
            list(decoder.decode([Handle(str(path), 1)]))
        assert [open_files(p) for p in paths] == [0, 0, 0, 1, 1]


def test_sparse_pictures_are_sought_not_decoded_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlsql.exec.media.reader import VideoReader

    path = write_video(tmp_path / "long.mp4", [grey(k % 256) for k in range(400)], gop=20)
    passed: list[int] = []
    real = VideoReader._number
    monkeypatch.setattr(
        VideoReader, "_number", lambda self, frame: (passed.append(1), real(self, frame))[1])
    assert levels(path, [100, 390]) == pytest.approx([100, 134], abs=3)
    assert len(passed) < 60


def test_pixel_limit_refuses_before_decoding(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.mp4")
    small = Limits(max_pixels=32 * 32 - 1)
    with pytest.raises(MediaError, match=r"1,024 pixels .* max_pixels = 1,023"):
        list_video(str(path), small)
    [(_, refused)] = decode([Handle(str(path), 0)], small)
    assert isinstance(refused, MediaError)


# ---------------------------------------------------------------- names and access


ODD = ["with space.mp4", "it's.mp4", 'say "hi".mp4', "100%d %20.mp4", "a#b?c=d.mp4", "-lead.mp4",
       "🦜.mp4", "видео.mp4", "動画.mp4", "star*[1].mp4", "concat:a|b.mp4", "file:x.mp4",
       "http:__x.mp4", "new\nline.mp4", "semi;$(echo).mp4"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ten_greys(tmp_path / "plain.mp4"), tmp_path / name)
    table = video_table(str(tmp_path / name), LIMITS).table
    assert table["path"].to_pylist() == [str(tmp_path / name)] * 10
    monkeypatch.chdir(tmp_path)
    assert video_table(name, LIMITS).table.num_rows == 10
    assert levels(Path(name), [3]) == pytest.approx([60], abs=2)


def test_things_that_are_no_video(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "dangling.mp4").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("hello, this is no video\n" * 9)
    os.mkfifo(tmp_path / "pipe.mp4")
    for name, why in (("folder.mp4", "is a directory"), ("dangling.mp4", "is a link to"),
                      ("empty.mp4", "is empty"), ("text.mp4", "is not a video"),
                      ("pipe.mp4", "is not a regular file")):
        with pytest.raises(MediaError, match=why) as caught:
            video_table(str(tmp_path / name), LIMITS)
        assert name in str(caught.value)


def test_no_protocol_and_no_playlist_is_followed(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.mp4")
    (tmp_path / "list.m3u8").write_text(
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{path}\n#EXT-X-ENDLIST\n")
    (tmp_path / "list.mp4").write_text(f"ffconcat version 1.0\nfile '{path}'\n")
    for name in ("list.m3u8", "list.mp4"):
        with pytest.raises(MediaError, match="is not a video"):
            list_video(str(tmp_path / name), LIMITS)
    for name in (f"concat:{path}", f"subfile,,start,0,end,0,,:{path}", f"file:{path}",
                 "http://127.0.0.1:9/a.mp4", "data:video/mp4;base64,AAAA", "pipe:0"):
        with pytest.raises(MediaError, match="only local files are read"):
            list_video(name, LIMITS)
        [(_, refused)] = decode([Handle(name, 0)], LIMITS)
        assert isinstance(refused, MediaError)


def test_without_external_access_only_allowed_directories_are_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in_not"
    for folder in (inside, outside):
        folder.mkdir()
        ten_greys(folder / "a.mp4")
    (inside / "link.mp4").symlink_to(outside / "a.mp4")
    limits = Limits(external=False, directories=(str(inside),))
    assert video_table(str(inside / "a.mp4"), limits).table.num_rows == 10
    for path in (outside / "a.mp4", inside / ".." / "in_not" / "a.mp4", inside / "link.mp4"):
        with pytest.raises(MediaError, match="enable_external_access"):
            video_table(str(path), limits)
        [(_, refused)] = decode([Handle(str(path), 0)], limits)
        assert isinstance(refused, MediaError) and "allowed_directories" in str(refused)
    with pytest.raises(MediaError, match="enable_external_access"):
        video_table(f"{outside}/*.mp4", limits)
    with pytest.raises(MediaError, match="enable_external_access"):
        list_video(str(inside / "a.mp4"), Limits(external=False))


@pytest.mark.parametrize(
    ("name", "video", "image"),
    [("a.MP4", True, False), ("x/y.z/clip.webm", True, False), ("*.m2ts", True, False),
     ("a.JPG", False, True), ("photos/**/*.tiff", False, True), ("a.gif", False, True),
     ("mp4", False, False), ("a.mp4/b", False, False), ("a.parquet", False, False),
     ("a.csv", False, False), ("", False, False), ("a.json", False, False)])
def test_names_of_videos_and_images(name: str, video: bool, image: bool) -> None:
    assert (is_video(name), is_image(name)) == (video, image)


# ---------------------------------------------------------------- tables


def test_columns_and_types(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.mp4", gop=5)
    table = video_table(str(path), LIMITS).table
    assert {f.name: str(f.type) for f in table.schema} == {
        "path": "string", "frame_id": "int64", "ts": "double", "pts": "int64",
        "keyframe": "bool", "width": "int32", "height": "int32", "frame": IMAGE}
    assert table["frame"][3].as_py() == {"uri": str(path), "frame": 3, "data": None}
    assert table["keyframe"].to_pylist() == [n % 5 == 0 for n in range(10)]


def test_duckdb_reads_the_table(tmp_path: Path) -> None:
    import duckdb

    frames = video_table(str(ten_greys(tmp_path / "a.mp4")), LIMITS).table
    with duckdb.connect() as connection:
        connection.register("frames", frames)
        kinds = connection.execute("DESCRIBE frames").fetchall()
        row = connection.execute("SELECT frame.frame, ts FROM frames WHERE ts > .65").fetchone()
    assert [k[1] for k in kinds] == [
        "VARCHAR", "BIGINT", "DOUBLE", "BIGINT", "BOOLEAN", "INTEGER", "INTEGER",
        "STRUCT(uri VARCHAR, frame BIGINT, \"data\" BLOB)"]
    assert row == (7, 0.7)


def taken(path: Path, **how: Any) -> list[int]:
    found: list[int] = video_table(str(path), LIMITS, **how).table["frame_id"].to_pylist()
    return found


def test_sampling(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [grey(n) for n in range(40)], gop=8)  # 10 a second
    assert taken(path, stride=15) == [0, 15, 30]
    assert taken(path, keyframes=True) == [0, 8, 16, 24, 32]
    assert taken(path, fps=1) == [0, 10, 20, 30]
    assert taken(path, every=0.25) == [0, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30, 33, 35, 38]
    assert taken(path, fps=100) == list(range(40))
    assert taken(path, start=1, end=1.5) == [10, 11, 12, 13, 14]
    assert taken(path, start=0.95, fps=2, end=2.4) == [10, 15, 20]
    assert taken(path, start=0.5, stride=20) == [5, 25]
    assert taken(path, start=99) == []
    table = video_table(str(path), LIMITS, stride=15).table
    assert table["ts"].to_pylist() == pytest.approx([0, 1.5, 3])
    assert [f["frame"] for f in table["frame"].to_pylist()] == [0, 15, 30]


def test_a_tick_in_a_gap_is_answered_by_the_next_picture_once(tmp_path: Path) -> None:
    pts = [0, 100, 200, 3500, 3600, 4100, 4200, 4300, 4400, 4500]
    path = ten_greys(tmp_path / "gap.mp4", pts=pts, time_base=Fraction(1, 1000))
    assert taken(path, fps=1) == [0, 3, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"fps": 1, "stride": 2}, "fps and stride contradict"),
     ({"every": 1, "keyframes": True}, "every and keyframes contradict"),
     ({"fps": 0}, "fps takes a number above 0, not 0"),
     ({"every": -1}, "every takes a number above 0"),
     ({"fps": float("nan")}, "fps takes"), ({"fps": float("inf")}, "fps takes"),
     ({"stride": 0}, "stride takes a whole number"), ({"stride": 1.5}, "stride takes a whole"),
     ({"start": -1}, "start takes a number from 0 on"), ({"end": 0}, "end takes"),
     ({"start": 3, "end": 3}, r"start \(3\) must be before end \(3\)")])
def test_sampling_options_out_of_range(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = ten_greys(tmp_path / "a.mp4")
    with pytest.raises(ProgrammingError, match=message):
        video_table(str(path), LIMITS, **options)


def test_patterns_expand_as_duckdbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    source = ten_greys(tmp_path / "source.bin.mp4")
    root = tmp_path / "root"
    for name in ("b.mp4", "a.mp4", "[1].mp4", "1.mp4", "deep/c.mp4", "deep/er/d.mp4", "x.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, root / name)
    (root / "dir.mp4").mkdir()

    def files(pattern: str | list[str]) -> list[str]:
        table = video_table(pattern, LIMITS, stride=100).table
        return [p.removeprefix(f"{root}/") for p in table["path"].to_pylist()]

    for pattern in ("*.mp4", "?.mp4", "**/*.mp4", "deep/**", "[ab].mp4", "[a-c].mp4", "*/c.mp4"):
        with duckdb.connect() as connection:
            rows = connection.execute("SELECT file FROM glob(?)", [f"{root}/{pattern}"]).fetchall()
        assert files(f"{root}/{pattern}") == sorted(r[0].removeprefix(f"{root}/") for r in rows)
    assert files(f"{root}/[1].mp4") == ["[1].mp4"]  # the file of this very name
    assert files([f"{root}/b.mp4", f"{root}/a.mp4"]) == ["b.mp4", "a.mp4"]
    monkeypatch.setenv("HOME", str(root))
    assert files("~/deep/*.mp4") == ["deep/c.mp4"]
    table = video_table("deep/c.mp4", LIMITS, base=str(root)).table
    assert table["path"][0].as_py() == str(root / "deep" / "c.mp4")


def test_no_match_names_the_nearest(tmp_path: Path) -> None:
    ten_greys(tmp_path / "holiday.mp4")
    with pytest.raises(ProgrammingError, match="No files found that match the pattern") as caught:
        video_table(str(tmp_path / "holidays.mp4"), LIMITS)
    assert "holiday.mp4'?" in str(caught.value)
    with pytest.raises(ProgrammingError, match="No files found"):
        video_table(str(tmp_path / "*.avi"), LIMITS)
    with pytest.raises(ProgrammingError, match="empty"):
        video_table([], LIMITS)


def test_unreadable_files_among_many(tmp_path: Path) -> None:
    ten_greys(tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_text("no video")
    with pytest.raises(MediaError, match=r"b\.mp4"):
        video_table(f"{tmp_path}/*.mp4", LIMITS)
    found = video_table(f"{tmp_path}/*.mp4", LIMITS, on_error="skip")
    assert found.table.num_rows == 10
    [error] = found.errors
    assert (error.uri, error.row, error.model) == (str(tmp_path / "b.mp4"), -1, None)
    with pytest.raises(MediaError, match=r"b\.mp4"):
        video_table(str(tmp_path / "b.mp4"), LIMITS, on_error="skip")


def test_a_million_rows_are_built_at_once() -> None:
    from mlsql.exec.media.sampling import Sampling
    from mlsql.exec.media.sources import _video_rows

    listing = VideoListing(
        np.arange(250), np.zeros(250, np.bool_), np.zeros(250, np.bool_), np.zeros((2, 1), int),
        352, 288, Fraction(1, 25), "mov", "h264", True, "packets")
    started = time.process_time()
    table = _video_rows([(f"/clips/{n}.mp4", listing) for n in range(4000)], Sampling())
    assert table.num_rows == 1_000_000
    assert table["frame"][999_999].as_py() == {
        "uri": "/clips/3999.mp4", "frame": 249, "data": None}
    assert time.process_time() - started < 3  # .2 s on the machine it was written on
