"""Results as HTML: what is in it, what is escaped, how much of it there is."""

from __future__ import annotations

import base64
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import mlsql
from mlsql.html import fragment
from mlsql.session import Session

SCRIPT = "<script>alert(1)</script>"
BOX = "{'label': '%s', 'score': %s, 'x1': 64, 'y1': 27.2, 'x2': 320, 'y2': 136}"


@pytest.fixture(scope="module")
def con() -> Session:
    return mlsql.connect(config={"cache": False})


class Page(HTMLParser):
    """The tags of a page with their attributes, the text of each cell, and all the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self.in_cell = False
        self.feed(html.partition("</style>")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "td":
            self.cells.append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self.in_cell = self.in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.in_cell:
            self.cells[-1] += data

    def of(self, tag: str, kind: str | None = None) -> list[dict[str, str | None]]:
        return [a for name, a in self.tags if name == tag and kind in (None, a.get("class"))]


def page(con: Session, sql: str, rows: int | None = 20) -> Page:
    return Page(fragment(con.execute(sql), rows))


def test_null_is_not_the_word(con: Session) -> None:
    found = page(con, "SELECT NULL::VARCHAR AS a, 'None' AS b, 'NULL' AS c, '' AS d, [NULL] AS e")
    assert found.cells[0] == "NULL" and found.cells[1:3] == ["None", "NULL"]
    assert len(found.of("span", "null")) == 1
    assert found.tags.index(("span", {"class": "null"})) == found.tags.index(("td", {})) + 1


@pytest.mark.parametrize("text", [
    SCRIPT, "<b>x</b>.jpg", '"><img src=x onerror=alert(1)>', "a&amp;b", "</td></table></div>",
    "'\"`"])
def test_what_comes_from_data_is_text(con: Session, text: str) -> None:
    quoted, named = text.replace("'", "''"), text.replace('"', '""')
    found = page(con, f"""
        SELECT '{quoted}' AS "{named}", ['{quoted}'] AS l, {{'k': '{quoted}'}} AS s,
               MAP {{'{quoted}': 1}} AS m, [{BOX % (quoted, 0.5)}] AS boxes""")
    assert {tag for tag, _ in found.tags} <= {
        "div", "table", "thead", "tbody", "tr", "th", "td", "small", "span", "p", "br"}
    assert found.cells[0] == text
    assert found.text.count(text) >= 6


def test_marks_that_turn_text_around_are_written_out(con: Session) -> None:
    assert "a\\u202eb" in page(con, "SELECT 'a' || chr(8238) || 'b'").text


def test_a_frame_becomes_a_thumbnail_with_its_boxes(con: Session, bikes: Path) -> None:
    found = page(con, f"""
        SELECT frame_id, frame, [{BOX % (SCRIPT, 0.75)}, {BOX % ('dog', 0.5)}] AS found
        FROM '{bikes}' WHERE frame_id IN (3, 120)""")
    images = found.of("img")
    assert [image["alt"] for image in images] == ["<image bikes.mp4#3>", "<image bikes.mp4#120>"]
    for image, frame in zip(images, (3, 120)):
        assert picture(image).size == (256, 109)
        whole = mlsql.Image(str(bikes), frame).pil().resize((256, 109))
        assert difference(picture(image), whole) < 6
    boxes = found.of("span", "box")
    assert len(boxes) == 4
    assert "left:10.00%;top:10.00%;width:40.00%;height:40.00%" in str(boxes[0]["style"])
    assert [box["title"] for box in boxes] == ["dog 0.50", f"{SCRIPT} 0.75"] * 2
    colours = {str(box["style"]).rpartition("border-color:")[2] for box in boxes}
    assert len(colours) == 2


def test_boxes_go_to_the_picture_they_were_found_in(con: Session, bikes: Path) -> None:
    def boxes_by_picture(columns: str) -> list[int]:
        html = fragment(con.execute(f"SELECT {columns} FROM '{bikes}' WHERE frame_id = 1"))
        return [cell.count('class="box"') for cell in html.split("<td")[1:] if "<img" in cell]

    one, none = f"[{BOX % ('a', 1)}]", f"[{BOX % ('a', 1)}][:0]"
    assert boxes_by_picture(f"frame AS a, frame AS b, {one} AS d") == [1, 0]
    assert boxes_by_picture(f"frame AS a, {none} AS c, frame AS b, {one} AS d") == [0, 1]
    assert boxes_by_picture(f"frame AS a, {one} AS c, {one} AS d") == [2]
    assert boxes_by_picture(f"frame AS a, {BOX % ('a', 1)} AS d") == [1]
    assert boxes_by_picture(f"frame AS a, NULLIF({one}, {one}) AS d") == [0]


def test_boxes_are_cut_at_the_edge_and_nan_is_none(con: Session, bikes: Path) -> None:
    over = "{'label': 'x', 'score': NULL, 'x1': -50, 'y1': 0, 'x2': 9000, 'y2': 'nan'::DOUBLE}"
    wide = "{'label': 'x', 'score': NULL, 'x1': -50, 'y1': 0, 'x2': 9000, 'y2': 272}"
    found = page(con, f"SELECT frame, [{over}, {wide}] AS d FROM '{bikes}' WHERE frame_id = 0")
    [box] = found.of("span", "box")
    assert "left:0.00%;top:0.00%;width:100.00%;height:100.00%" in str(box["style"])


def test_files_that_cannot_be_read_say_so(con: Session, tmp_path: Path) -> None:
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0 torn")
    found = page(con, f"SELECT IMAGE('{tmp_path / 'torn.jpg'}') AS i, IMAGE(NULL) AS n")
    assert found.of("img") == []
    assert found.cells[0].startswith("<image torn.jpg> ") and len(found.cells[0]) > 40
    assert found.cells[1] == "NULL"
    image = mlsql.Image(str(tmp_path / "torn.jpg"))
    assert image._repr_png_() is None and image._repr_jpeg_() is None
    assert "&lt;image torn.jpg&gt;" in str(image._repr_html_())


def test_a_file_named_like_markup(con: Session, tmp_path: Path) -> None:
    from skimage import data_dir

    folder = tmp_path / "<b>x<"
    folder.mkdir()
    shutil.copy(Path(data_dir) / "coffee.png", folder / "b>.jpg")
    found = page(con, f"SELECT path, image FROM read_images('{folder}/*')")
    assert found.of("b") == []
    assert found.cells[0].endswith("<b>x</b>.jpg")
    assert found.of("img")[0]["alt"] == "<image b>.jpg>"


def test_rows_are_counted_where_not_all_are_shown(con: Session) -> None:
    assert page(con, "FROM range(50)").text.endswith("50 rows, 20 shown")
    assert page(con, "FROM range(50)", 3).text.endswith("50 rows, 3 shown")
    assert page(con, "FROM range(50)", None).text.endswith("50 rows")
    assert page(con, "FROM range(1)").text.endswith("1 row")
    assert page(con, "FROM range(0)").text.endswith("0 rows")
    wide = ", ".join(f"{i} AS c{i}" for i in range(150))
    assert page(con, f"SELECT {wide}").text.endswith("150 columns, 100 shown")


@pytest.mark.parametrize("sql", [
    "SELECT repeat('<', 300000) AS t FROM range(30)",
    "SELECT repeat('语', 600) AS t FROM range(3000)",
    "FROM range(300000)",
    "SELECT " + ", ".join("repeat('&', 9999)" for _ in range(300)) + " FROM range(30)",
    f"SELECT list({BOX % ('&' * 300, 0.5)}) AS d FROM range(2000)",
])
def test_a_page_is_below_a_megabyte(con: Session, sql: str) -> None:
    html = fragment(con.execute(sql), None)
    assert len(html.encode()) < 1_000_000
    assert Page(html).cells[0]


def test_many_pictures_become_small_and_then_few(con: Session, bikes: Path) -> None:
    def sizes(sql: str) -> list[tuple[int, int]]:
        html = fragment(con.execute(sql), None)
        assert len(html.encode()) < 1_000_000
        return [picture(image).size for image in Page(html).of("img")]

    every = sizes(f"SELECT frame FROM '{bikes}' WHERE frame_id < 99")
    assert len(every) == 99 and 64 <= every[0][0] < 256
    repeated = sizes(f"SELECT frame, i FROM '{bikes}', range(500) t(i) WHERE frame_id < 2")
    assert len(repeated) == 300


def test_lists_of_pictures(con: Session, bikes: Path) -> None:
    found = page(con, f"SELECT list(frame) AS l FROM '{bikes}' WHERE frame_id < 9")
    assert len(found.of("img")) == 6
    assert found.cells[0].startswith("… 3 more")


def test_a_plan_is_readable(con: Session, bikes: Path) -> None:
    found = page(con, f"EXPLAIN SELECT ts FROM '{bikes}' WHERE CONTAINS(frame, 'dog')")
    assert "NULL" not in found.cells
    assert any("CONTAINS(frame, 'dog')" in cell for cell in found.cells)
    boxed = page(con, "EXPLAIN SELECT sum(i) FROM range(100) t(i)")
    assert boxed.of("td", "pre") and any("\n│" in cell for cell in boxed.cells)


def test_the_cost_and_the_warnings_stand_below(con: Session, bikes: Path) -> None:
    @mlsql.model(task="predict", output="DOUBLE")
    def light(pictures: list[object]) -> list[float]:
        return [0.5 for _ in pictures]

    con.register_model(light)
    found = page(con, f"SELECT light(frame) FROM '{bikes}' WHERE frame_id < 4")
    assert re.search(r"4 rows · [\d.]+ s · 4 model calls, 0 answers from the cache$", found.text)
    assert page(con, "CREATE OR REPLACE TABLE t(a INT)").text == "OK"


def test_large_pictures_are_jpeg_alone() -> None:
    from skimage import data_dir

    small, large = (mlsql.Image(str(Path(data_dir) / name))
                    for name in ("chelsea.png", "motorcycle_left.png"))
    png = small._repr_png_()
    assert png is not None and png.startswith(b"\x89PNG") and small._repr_jpeg_() is None
    assert large._repr_png_() is None
    jpeg = large._repr_jpeg_()
    assert jpeg is not None and jpeg.startswith(b"\xff\xd8") and len(jpeg) < 1_000_000
    assert small._repr_html_() is None


def picture(image: dict[str, str | None]) -> object:
    import PIL.Image

    head, _, data = str(image["src"]).partition(",")
    assert head == "data:image/jpeg;base64"
    return PIL.Image.open(io.BytesIO(base64.b64decode(data)))


def difference(one: object, other: object) -> float:
    import numpy as np

    return float(np.abs(np.asarray(one, int) - np.asarray(other, int)).mean())
