"""MP4s listed from their tables: the same as from their packets, or not at all."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.exec.media import scan
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.indexed import Misled, Samples, samples
from mlsql.exec.media.listing import VideoListing
from mlsql.exec.media.scan import scan_video
from tests.media_samples import grey, write_video

COUNT = 600
PICTURES = [grey(n % 251, 16, 16) for n in range(COUNT)]
FAST = {"preset": "ultrafast"}
MADE: dict[str, dict[str, Any]] = {
    "reordered": {"b_frames": 3, "options": {"preset": "veryfast"}, "gop": 25},
    "in order": {"options": FAST, "b_frames": 0, "gop": 100},
    "tables first": {"options": FAST, "container": {"movflags": "faststart"}},
    "uneven": {"options": FAST, "pts": [n * 3 + n % 2 for n in range(COUNT)]},
    "starts late": {"options": FAST, "start": 40},
    "all key": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("indexed")
    return {name: write_video(folder / f"{n}.mp4", PICTURES, **how)
            for n, (name, how) in enumerate(MADE.items())}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Samples | None]:
    """What the tables of the files listed gave."""
    found: list[Samples | None] = []

    def noted(*given: Any) -> Samples | None:
        found.append(None)
        found[-1] = samples(*given)
        return found[-1]

    monkeypatch.setattr(scan, "samples", noted)
    return found


def by_packets(path: Path) -> VideoListing:
    listing = scan._counted(str(path), Limits(), str(path), False, tables=False)
    assert listing is not None
    return listing


def assert_equal(a: VideoListing, b: VideoListing) -> None:
    for name in ("pts", "keyframe", "lost", "anchors"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
    assert (a.time_base, a.width, a.height, a.by_pts, a.source) == (
        b.time_base, b.width, b.height, b.by_pts, b.source)


@pytest.mark.parametrize("name", MADE)
def test_tables_tell_what_packets_tell(
    videos: dict[str, Path], told: list[Samples | None], name: str
) -> None:
    listing = scan_video(str(videos[name]), Limits(), name)
    assert len(listing) == COUNT
    assert told and told[0] is not None
    assert_equal(listing, by_packets(videos[name]))


def test_a_file_cut_short_is_read(
    videos: dict[str, Path], told: list[Samples | None], tmp_path: Path
) -> None:
    whole = videos["tables first"].read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[:-len(whole) // 20])
    listing = scan_video(str(cut), Limits(), "cut")
    assert told == [None]
    assert len(listing) == COUNT
    assert 0 < listing.lost.sum() < COUNT
    assert_equal(listing, by_packets(cut))


@pytest.mark.parametrize(("box", "at"), [
    (b"ctts", 8), (b"stts", 4), (b"stsz", 8), (b"stss", 4), (b"stsc", 8), (b"stco", 4),
])
@pytest.mark.parametrize("value", [0, 7, 1 << 30])
def test_tables_that_are_wrong_change_nothing(
    videos: dict[str, Path], tmp_path: Path, box: bytes, at: int, value: int
) -> None:
    data = bytearray(videos["reordered"].read_bytes())
    struct.pack_into(">I", data, data.index(box) + 4 + at, value)
    wrong = tmp_path / "wrong.mp4"
    wrong.write_bytes(data)

    def outcome(tables: bool) -> VideoListing | str | None:
        try:
            return scan._counted(str(wrong), Limits(), "wrong", False, tables=tables)
        except Misled:
            return outcome(False)
        except Exception as error:
            return str(error)

    with_tables, without = outcome(True), outcome(False)
    if isinstance(with_tables, VideoListing) and isinstance(without, VideoListing):
        assert_equal(with_tables, without)
    else:
        assert with_tables == without


def test_packets_at_the_end_are_compared(
    videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = Samples.begins
    monkeypatch.setattr(Samples, "begins", lambda self, at, packets:
                        at == 0 and begins(self, at, packets))
    path = str(videos["in order"])
    with pytest.raises(Misled):
        scan._counted(path, Limits(), path, False)
    assert_equal(scan_video(path, Limits(), path), by_packets(videos["in order"]))
