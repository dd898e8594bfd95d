"""The gallery: one page of a result's pictures, whatever is in the data."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import mlsql
from mlsql.errors import ProgrammingError
from mlsql.gallery import MOST, cards, clock, opened, page
from tests.media_samples import encode_picture, grey
from tests.sessions import Asking, make_pictures, make_video

HOSTILE = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(result: mlsql.Result, path: Path, title: str = "") -> tuple[Reader, str]:
    written = page(result, path, title)
    assert written.path == path
    text = path.read_text(encoding="utf-8")
    return Reader(text), text


def test_what_comes_from_the_data_is_text(tmp_path: Path) -> None:
    path = tmp_path / "<b>x</b>.jpg"
    path.parent.mkdir()
    path.write_bytes(encode_picture(grey(80), "JPEG"))
    with Asking() as s:
        s.add("evil", lambda _: [(HOSTILE, 0.9, 1, 1, 5, 5)], task="detect", labels=[HOSTILE])
        sql = (f"SELECT image, DETECT(image, model => 'evil') AS found, '{HOSTILE}' AS said, "
               f"1 AS \"{HOSTILE}\" FROM '{path}'")
        found, text = read(s.run(sql), tmp_path / "g.html", sql)
    assert {tag for tag, _ in found.elements} <= {
        "html", "head", "meta", "title", "style", "body", "header", "h1", "pre", "main", "figure",
        "label", "input", "img", "span", "b", "figcaption", "p", "ul", "li", "small", "dl", "dt",
        "dd"}
    assert HOSTILE not in text
    assert found.text.count(HOSTILE) >= 4  # the box, the list, the value, the statement
    assert "b>.jpg" in found.text
    (img,) = found.all("img")
    assert img["alt"] == "<image b>.jpg>"
    assert any(span.get("title") == str(path) for span in found.all("span"))
    assert len([b for b in found.all("span") if b.get("class") == "box"]) == 1


def test_a_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    with Asking() as s:
        result = s.run(f"SELECT frame_id, ts, frame, DETECT(frame, model => 'eye') AS found "
                       f"FROM '{video}' WHERE frame_id IN (0, 3, 5)")
        found, text = read(result, tmp_path / "g.html")
    assert not re.search(r"(?:https?:)?//\w", re.sub(r'base64,[^"]*"', "", text))
    assert all(str(img["src"]).startswith("data:image/jpeg;base64,") for img in found.all("img"))
    for img in found.all("img"):
        data = base64.b64decode(str(img["src"]).partition(",")[2])
        assert data[:2] == b"\xff\xd8"
    assert "default-src 'none'" in text
    assert "width=device-width" in text and "prefers-color-scheme:dark" in text
    for time, number in (("0:00.00", 0), ("0:00.30", 3), ("0:00.50", 5)):
        assert time in found.text and f"v.mp4 #{number}" in found.text
    boxes = [b for b in found.all("span") if b.get("class") == "box"]
    assert len(boxes) == 3  # a cat in picture 0, two dogs in 0 and 3, of which one is too faint
    assert "cat 0.90" in found.text


def test_times() -> None:
    assert [clock(s) for s in (0, 7.484, 59.999, 723, 3723.5, -1.5)] == [
        "0:00.00", "0:07.48", "1:00.00", "12:03.00", "1:02:03.50", "-0:01.50"]


def test_pictures_by_path_and_number(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    pictures = make_pictures(tmp_path / "p", 2)
    with mlsql.connect() as con:
        by_number = con.execute(f"SELECT path, frame_id, ts FROM '{video}' WHERE frame_id < 2")
        assert [(c.image.frame, c.ts) for c in cards(by_number)] == [(0, 0.0), (1, 0.1)]
        by_path = con.execute(f"SELECT path, 1 AS n FROM '{pictures}/*.png' ORDER BY path")
        assert [c.facts for c in cards(by_path)] == [(("n", "1"),)] * 2
        assert [c.image.frame for c in cards(by_path, row=1)] == [None]
        nothing = con.execute("SELECT 1 AS a, NULL AS path")
        with pytest.raises(ProgrammingError, match="has no pictures: select frame"):
            page(nothing, tmp_path / "g.html")
        assert not (tmp_path / "g.html").exists()


def test_a_picture_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with mlsql.connect() as con:
        result = con.execute("SELECT {'uri': 'gone<i>.mp4', 'frame': 3::BIGINT, "
                             "'data': NULL::BLOB} AS f, NULL AS n")
        found, _ = read(result, tmp_path / "g.html")
    assert found.all("img") == [] and found.all("i") == []
    assert "gone<i>.mp4" in found.text and "NULL" in found.text


def test_a_page_is_bounded(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    with mlsql.connect() as con:
        result = con.execute(f"SELECT frame FROM '{video}', range({MOST})")
        written = page(result)
        assert written.said == f"the first {MOST} pictures"
        assert written.path.stat().st_size < 20_000_000


def test_it_is_opened_where_there_is_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not asked.append(url))
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not opened(tmp_path / "a b.html") and asked == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert opened(tmp_path / "a b.html")
    assert asked == [f"{tmp_path.as_uri()}/a%20b.html"]
