"""Pictures: orientation, colours, depth, limits, damage, tables of files."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zlib
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.errors import MediaError
from mlsql.exec.media.decode import Decoder, Handle, Limits, decode
from mlsql.exec.media.headers import exif_orientation
from mlsql.exec.media.sources import image_table
from tests.media_samples import corners, encode_picture, grey, marked, ten_greys

LIMITS = Limits()


def picture(data: bytes | Path, limits: Limits = LIMITS) -> Any:
    handle = Handle(data=data) if isinstance(data, bytes) else Handle(str(data))
    [(position, pixels)] = decode([handle], limits)
    assert position == 0
    return pixels


# ---------------------------------------------------------------- orientation


# Where the corners of the stored picture come to lie: TIFF 6.0, tag 274.
UPRIGHT = {
    1: ("top left", "top right", "bottom left"), 2: ("top right", "top left", "bottom right"),
    3: ("bottom right", "bottom left", "top right"), 4: ("bottom left", "bottom right", "top left"),
    5: ("top left", "bottom left", "top right"), 6: ("top right", "bottom right", "top left"),
    7: ("bottom right", "top right", "bottom left"), 8: ("bottom left", "top left", "bottom right"),
}


def exif(orientation: int, order: str = "<") -> bytes:
    head = b"II*\0" if order == "<" else b"MM\0*"
    return head + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_all_eight_orientations(kind: str, orientation: int, tmp_path: Path) -> None:
    path = tmp_path / f"turned.{kind.lower()}"
    how: dict[str, Any] = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}
    if kind == "TIFF":
        how["TIFF"] = {"tiffinfo": {274: orientation}}
    else:
        how.setdefault(kind, {})["exif"] = b"Exif\0\0" + exif(orientation)
    path.write_bytes(encode_picture(marked(3), kind, **how[kind]))
    pixels = picture(path)
    red, green, blue = UPRIGHT[orientation]
    assert corners(pixels) == {red: "red", green: "green", blue: "blue"}
    assert pixels.flags.c_contiguous and pixels.dtype == np.uint8
    table = image_table(str(path), LIMITS).table
    assert pixels.shape == (table["height"][0].as_py(), table["width"][0].as_py(), 3)
    assert pixels.shape == ((48, 32, 3) if orientation >= 5 else (32, 48, 3))


def test_exif_of_either_byte_order_and_of_none() -> None:
    assert exif_orientation(exif(6)) == exif_orientation(exif(6, ">")) == 6
    assert exif_orientation(b"Exif\0\0" + exif(3)) == 3
    for nonsense in (b"", b"II", exif(0), exif(9), exif(6)[:12], b"XX*\0" + exif(6)[4:]):
        assert exif_orientation(nonsense) == 1


# ---------------------------------------------------------------- colours and depth


def pil(mode: str, value: Any, kind: str = "PNG", **how: Any) -> bytes:
    import PIL.Image

    out = io.BytesIO()
    PIL.Image.new(mode, (20, 10), value).save(out, kind, **how)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pil("RGB", (200, 100, 50)), (200, 100, 50)),
        (pil("RGB", (200, 100, 50), "BMP"), (200, 100, 50)),
        (pil("RGB", (200, 100, 50), "TIFF"), (200, 100, 50)),
        (pil("RGB", (200, 100, 50), "PPM"), (200, 100, 50)),
        (pil("RGB", (200, 100, 50), "WEBP", lossless=True), (200, 100, 50)),
        (pil("RGB", (200, 100, 50), "JPEG", quality=100, subsampling=0), (200, 100, 50)),
        (pil("L", 77), (77, 77, 77)),
        (pil("L", 77, "JPEG", quality=100), (77, 77, 77)),
        (pil("1", 1), (255, 255, 255)),
        (pil("LA", (77, 10)), (77, 77, 77)),
        (pil("RGBA", (200, 100, 50, 0)), (200, 100, 50)),  # transparency is dropped
        (pil("I;16", 0x8040), (0x80, 0x80, 0x80)),
        (pil("I;16", 0x8040, "TIFF"), (0x80, 0x80, 0x80)),
        (pil("F", 0.5, "TIFF"), (128, 128, 128)),
        (pil("CMYK", (0, 255, 255, 0), "JPEG", quality=100), (255, 0, 0)),
        (pil("CMYK", (255, 0, 255, 0), "TIFF"), (0, 255, 0)),
        (pil("CMYK", (0, 0, 0, 255), "JPEG", quality=100), (0, 0, 0)),
        (pil("RGB", (200, 100, 50)), (200, 100, 50)),
    ])
def test_every_kind_of_pixel_becomes_8_bit_rgb(data: bytes, expected: Any) -> None:
    pixels = picture(data)
    assert (pixels.shape, pixels.dtype) == ((10, 20, 3), np.uint8)
    assert np.abs(pixels.astype(int) - expected).max() <= 2


def test_palette_and_gif_and_animations_give_their_first_picture() -> None:
    import PIL.Image

    shades = [PIL.Image.fromarray(grey(v)).convert("P") for v in (40, 120, 200)]
    for kind in ("GIF", "PNG", "WEBP"):
        out = io.BytesIO()
        shades[0].save(out, kind, save_all=True, append_images=shades[1:], lossless=True)
        assert picture(out.getvalue()).mean() == pytest.approx(40, abs=1), kind
    out = io.BytesIO()
    shades[1].save(out, "PNG")
    assert picture(out.getvalue()).mean() == pytest.approx(120, abs=1)


def test_sixteen_bits_are_scaled_by_their_high_byte() -> None:
    import cv2

    ramp = np.repeat(np.linspace(0, 65535, 64).astype(np.uint16)[None], 8, 0)
    data = cv2.imencode(".png", np.dstack([ramp, ramp // 2, ramp // 4]))[1].tobytes()
    pixels = picture(data)
    assert np.array_equal(pixels[..., 2], (ramp >> 8).astype(np.uint8))
    assert np.abs(pixels[..., 0].astype(int) - (ramp // 4 >> 8)).max() <= 1


# ---------------------------------------------------------------- damage and limits


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
def test_a_truncated_picture_is_refused_not_filled(kind: str, share: float) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    data = encode_picture(noise, kind)
    assert picture(data).shape == (64, 64, 3)
    refused = picture(data[: int(len(data) * share)])
    assert isinstance(refused, MediaError), kind


@pytest.mark.parametrize(
    "data", [b"", b"hello\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8X", b"BM",
             b"GIF89a", b"II*\0\xff\xff\xff\xff", b"\0" * 1000])
def test_what_is_no_picture_is_an_error(data: bytes) -> None:
    assert isinstance(picture(data), MediaError)


def huge_png(width: int, height: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(name + body)
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b""))


def test_bombs_are_refused_by_their_headers(tmp_path: Path) -> None:
    refused = picture(huge_png(100_000, 100_000))
    assert isinstance(refused, MediaError)
    assert "10,000,000,000 pixels (100000 x 100000)" in str(refused)
    assert "max_pixels = 178,956,970" in str(refused)
    (tmp_path / "bomb.png").write_bytes(huge_png(2**31 - 1, 2**31 - 1))
    with pytest.raises(MediaError, match="more than max_pixels"):
        image_table(str(tmp_path / "bomb.png"), LIMITS)
    for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"):
        data = encode_picture(grey(5), kind)
        assert isinstance(picture(data, Limits(max_pixels=1023)), MediaError), kind
        assert not isinstance(picture(data, Limits(max_pixels=1024)), MediaError), kind


def test_damaged_headers_raise_nothing_unforeseen() -> None:
    rng = np.random.default_rng(7)
    for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF"):
        good = encode_picture(grey(5), kind)
        for _ in range(200):
            bad = bytearray(good)
            for at in rng.integers(4, min(len(bad), 120), 4):
                bad[at] = rng.integers(256)
            found = picture(bytes(bad), Limits(max_pixels=10_000))
            assert isinstance(found, (MediaError, np.ndarray))


# ---------------------------------------------------------------- handles


def test_bytes_files_and_duplicates_come_back_at_their_positions(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode_picture(grey(10), "PNG"))
    data = encode_picture(grey(30), "PNG")
    handles = [Handle(data=data), Handle(str(tmp_path / "a.png")), Handle(data=data), Handle()]
    found = dict(decode(handles, LIMITS))
    assert [int(found[i].mean()) for i in range(3)] == [30, 10, 30]
    assert isinstance(found[3], MediaError)


def test_a_video_named_as_a_picture_says_so(tmp_path: Path) -> None:
    refused = picture(ten_greys(tmp_path / "a.mp4"))
    assert isinstance(refused, MediaError)
    assert "name a frame" in str(refused)


def test_a_missing_file_is_a_row_error(tmp_path: Path) -> None:
    refused = picture(tmp_path / "gone.jpg")
    assert isinstance(refused, MediaError)
    assert refused.uri == str(tmp_path / "gone.jpg")
    assert refused.__cause__ is not None


def test_access_is_limited(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in (tmp_path / "out.png", tmp_path / "in" / "a.png"):
        path.write_bytes(encode_picture(grey(10), "PNG"))
    limits = Limits(external=False, directories=(str(tmp_path / "in"),))
    assert picture(tmp_path / "in" / "a.png", limits).shape == (32, 32, 3)
    for path in (tmp_path / "out.png", tmp_path / "in" / ".." / "out.png"):
        assert "may not be read" in str(picture(path, limits))
        with pytest.raises(MediaError, match="may not be read"):
            image_table(str(path), limits)


# ---------------------------------------------------------------- tables


def test_table_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encode_picture(marked(1), "JPEG"))
    (tmp_path / "b.png").write_bytes(encode_picture(marked(1), "PNG"))
    (tmp_path / "c.jpg").write_bytes(encode_picture(marked(1), "WEBP"))  # by content, not name
    (tmp_path / "d.tif").write_bytes(encode_picture(marked(1), "TIFF"))
    os.utime(tmp_path / "a.jpg", (1_600_000_000, 1_600_000_000))
    table = image_table(f"{tmp_path}/*", LIMITS).table
    assert {f.name: str(f.type) for f in table.schema} == {
        "path": "string", "image": "struct<uri: string, frame: int64, data: binary>",
        "width": "int32", "height": "int32", "format": "string", "bytes": "int64",
        "mtime": "timestamp[us]"}
    assert table["format"].to_pylist() == ["jpeg", "png", "webp", "tiff"]
    assert set(zip(table["width"].to_pylist(), table["height"].to_pylist())) == {(48, 32)}
    assert table["bytes"][1].as_py() == (tmp_path / "b.png").stat().st_size
    stamp = datetime.fromtimestamp(1_600_000_000, timezone.utc).replace(tzinfo=None)
    assert table["mtime"][0].as_py() == stamp
    assert table["image"][0].as_py() == {
        "uri": str(tmp_path / "a.jpg"), "frame": None, "data": None}


def test_unreadable_files_keep_their_row_where_errors_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode_picture(grey(10), "PNG"))
    (tmp_path / "b.png").write_text("hello\n")
    with pytest.raises(MediaError, match=r"b\.png"):
        image_table(f"{tmp_path}/*.png", LIMITS)
    found = image_table(f"{tmp_path}/*.png", LIMITS, on_error="null")
    assert found.table["width"].to_pylist() == [32, None]
    assert found.table["bytes"][1].as_py() == 6
    assert found.table["image"][1].as_py()["uri"] == str(tmp_path / "b.png")
    [error] = found.errors
    assert (error.row, error.uri, error.model) == (1, str(tmp_path / "b.png"), None)
    with pytest.raises(MediaError, match=r"b\.png"):
        image_table(str(tmp_path / "b.png"), LIMITS, on_error="null")


@pytest.mark.parametrize("name", ["it's 100%d #1.png", "🦜.png", "-x.png", "写真.png", "a[1]*.png"])
def test_odd_names(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(encode_picture(grey(10), "PNG"))
    assert image_table(str(tmp_path / name), LIMITS).table.num_rows == 1
    assert picture(tmp_path / name).mean() == 10


def test_things_that_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "dangling.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "empty.jpg").touch()
    reasons = {"folder.jpg": "directory", "dangling.jpg": "link", "empty.jpg": "empty"}
    for name, why in reasons.items():
        with pytest.raises(MediaError, match=why):
            image_table(str(tmp_path / name), LIMITS)
        assert why in str(picture(tmp_path / name))


def test_coco_pictures_equal_opencvs(data: Path) -> None:
    import cv2

    paths = sorted((data / "images" / "coco").rglob("*.jpg"))[:20]
    assert paths
    found = dict(decode([Handle(str(p)) for p in paths], LIMITS))
    table = image_table([str(p) for p in paths], LIMITS).table
    for row, path in enumerate(paths):
        expected = cv2.imread(str(path))[..., ::-1]
        assert np.array_equal(found[row], expected), path
        assert (table["height"][row].as_py(), table["width"][row].as_py()) == expected.shape[:2]


def test_a_gif_is_a_video_too(tmp_path: Path) -> None:
    path = ten_greys(tmp_path / "a.gif", codec="gif", pix_fmt="rgb8")
    shutil.copy(path, tmp_path / "b.gif")
    with Decoder(LIMITS) as decoder:
        [(_, third)] = decoder.decode([Handle(str(tmp_path / "b.gif"), 3)])
    assert third.mean() == pytest.approx(60, abs=9)
    assert picture(path).mean() == pytest.approx(0, abs=9)
