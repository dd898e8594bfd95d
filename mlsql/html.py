"""A result as a piece of HTML: a plain table, with thumbnails and the boxes found in them.

It needs no script and no style sheet of its own beyond what it brings, takes its colours from where
it stands, light or dark, and everything in it that came from the data is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlsql.boxes import NULL, Detection, clean, is_detections, listed, overlay
from mlsql.display import NUMBERS, text
from mlsql.image import Image
from mlsql.thumbnails import Thumbnail, thumbnails
from mlsql.values import is_media

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

    from mlsql.result import Result

MAX_ROWS = 20
_PICTURE_ROOM = 450_000  # bytes of JPEG in a table; base64 makes four of three
_TEXT_ROOM = 250_000  # bytes of everything else
_MOST_ROWS = _TEXT_ROOM // 20  # a row takes more than that
_CELL_ROOM = 600  # characters, fewer where there are many columns
_ROW_ROOM = 30_000
_COLUMNS = 100
_PICTURES = 300
_PICTURES_A_CELL = 6

# The class stands twice to outweigh the rules that notebooks have for tables.
STYLE = """<style>
.mlsql{color:inherit;max-width:100%;overflow-x:auto;font-size:13px;line-height:1.4}
.mlsql.mlsql table{border-collapse:collapse;border:0;margin:0;color:inherit;table-layout:auto}
.mlsql.mlsql table th,.mlsql.mlsql table td{color:inherit;text-align:left;vertical-align:top;
 padding:3px 10px;border:0;border-bottom:1px solid rgba(128,128,128,.3);max-width:48em;
 white-space:pre-wrap;overflow-wrap:break-word}
.mlsql.mlsql table th{font-weight:600;white-space:nowrap;
 border-bottom:2px solid rgba(128,128,128,.5)}
.mlsql.mlsql table th small{display:block;font-weight:400;opacity:.7;max-width:24em;overflow:hidden;
 text-overflow:ellipsis}
.mlsql.mlsql table .num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.mlsql.mlsql table .long{min-width:20em}
.mlsql.mlsql table .pre{font-family:monospace;white-space:pre;max-width:none}
.mlsql.mlsql .null{opacity:.7;font-style:italic}
.mlsql.mlsql .dim{opacity:.7}
.mlsql.mlsql .where{white-space:nowrap}
.mlsql.mlsql .pic{display:inline-block;position:relative;overflow:hidden;line-height:0;margin:1px}
.mlsql.mlsql .pic img{display:block;max-width:none;margin:0}
.mlsql.mlsql .box{position:absolute;box-sizing:border-box;border:2px solid}
.mlsql.mlsql .box b{position:absolute;left:0;top:0;font:600 10px/12px sans-serif;padding:0 2px;
 white-space:nowrap;color:#000}
.mlsql.mlsql p{margin:4px 0 0;opacity:.8;font-size:12px;color:inherit}
</style>"""


def fragment(result: Result, max_rows: int | None = MAX_ROWS) -> str:
    """The first rows of a result as HTML, under a megabyte whatever they hold; None: all rows.

    Where a row has a picture and a column of detections, the boxes are drawn on the picture.
    """
    if result.description is None:
        return f'{STYLE}<div class="mlsql">OK{_below(result, "")}</div>'
    names, kinds = result.columns[:_COLUMNS], result.kinds[:_COLUMNS]
    most = _MOST_ROWS if max_rows is None else min(max_rows, _MOST_ROWS)
    rows = list(_until_full(row[:_COLUMNS] for row in islice(result.printed(keep=True), most)))
    table = _Table(names, kinds, rows, _is_plan(result.columns))
    body, shown = table.html()
    total = result.rowcount
    said = f"{total:,} row{'' if total == 1 else 's'}"
    if shown < total:
        said += f", {shown:,} shown"
    if len(result.columns) > len(names):
        said += f"; {len(result.columns)} columns, {len(names)} shown"
    return f'{STYLE}<div class="mlsql">{body}{_below(result, said)}</div>'


def _below(result: Result, said: str) -> str:
    """The line below a table, what it cost, and what the user should know."""
    stats = result.stats
    if result.interval is not None:
        low, high = result.interval
        said += f"; between {low:g} and {high:g}"
    if result.approximate:
        said += "; approximate"
    if stats.models:
        said += (f" · {stats.seconds:.2f} s · {stats.calls:,} model calls, "
                 f"{stats.cached:,} answers from the cache")
    lines = [said, *(f"warning: {warning}" for warning in result.warnings[:5])]
    if result.errors:
        count = len(result.errors)
        lines.append(f"{count:,} input{'' if count == 1 else 's'} could not be used: "
                     "SELECT * FROM query_errors()")
    return "".join(f"<p>{clean(line, _CELL_ROOM)}</p>" for line in lines if line)


def _until_full(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows up to the one with the last picture that a page has room for."""
    count = 0
    for row in rows:
        yield row
        count += sum(1 for _ in _images(row))
        if count >= _PICTURES:
            return


def _images(row: tuple[Any, ...]) -> Iterator[Image]:
    """The pictures of a row that are shown."""
    for value in row:
        if isinstance(value, Image):
            yield value
        elif isinstance(value, list):
            yield from (v for v in value[:_PICTURES_A_CELL] if isinstance(v, Image))


def _is_plan(columns: Sequence[str]) -> bool:
    """Whether the rows are a plan: EXPLAIN's, ours or DuckDB's own."""
    return columns[:3] == ["step", "operation", "detail"] or columns == [
        "explain_key", "explain_value"]


@dataclass
class _Table:
    """Rows on their way to HTML; labels get their colours in the order in which they appear."""

    names: Sequence[str]
    kinds: Sequence[DuckDBPyType]
    rows: list[tuple[Any, ...]]
    plan: bool
    small: dict[Image, Thumbnail | str | None] = field(default_factory=dict)
    colours: dict[str, str] = field(default_factory=dict)

    def html(self) -> tuple[str, int]:
        """The table and how many rows it holds: all, or as many as there is room for."""
        if self.plan:
            self._drop_empty()
        self.small = thumbnails(
            (image for row in self.rows for image in _images(row)), _PICTURE_ROOM)
        head = "".join(f"<th{_class(kind)}>{clean(name, 100)}<small>{_type(kind)}</small></th>"
                       for name, kind in zip(self.names, self.kinds, strict=True))
        lines: list[str] = []
        room = _TEXT_ROOM - len(head)
        for row in self.rows:
            line, written = self._row(row)
            room -= written
            if room < 0 and lines:
                break
            lines.append(line)
        return (f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>",
                len(lines))

    def _drop_empty(self) -> None:
        """Leave out what a plan says nothing about."""
        kept = [at for at in range(len(self.names))
                if any(row[at] is not None for row in self.rows)]
        self.names, self.kinds = [self.names[at] for at in kept], [self.kinds[at] for at in kept]
        self.rows = [tuple(row[at] for at in kept) for row in self.rows]

    def _row(self, row: tuple[Any, ...]) -> tuple[str, int]:
        """A row, and the bytes in it that no picture takes."""
        boxes = self._boxes(row)
        cells, taken = [], 0
        for at, (value, kind) in enumerate(zip(row, self.kinds, strict=True)):
            pictures = _pictures(value, kind)
            if pictures is None:
                cell = self._value(value, kind)
            else:
                cell = "".join(self._picture(image, boxes.get(at, [])) for image in pictures)
                taken += sum(self._weight(image) for image in pictures)
                if (left := len(value) - len(pictures) if isinstance(value, list) else 0) > 0:
                    cell += f"<div>… {left:,} more</div>"
            cells.append(f"<td{_class(kind, value, self.plan)}>{cell}</td>")
        line = f"<tr>{''.join(cells)}</tr>"
        return line, len(line.encode()) - taken

    def _weight(self, image: Image | None) -> int:
        found = self.small.get(image) if image is not None else None
        return (len(found.jpeg) + 2) // 3 * 4 if isinstance(found, Thumbnail) else 0

    def _boxes(self, row: tuple[Any, ...]) -> dict[int, list[Detection]]:
        """The boxes to draw, by column: pairwise where pictures and detections are as many.

        Else the first picture gets them all: the others are as a rule cut out of it.
        """
        pictures = [at for at, kind in enumerate(self.kinds) if is_media(kind)]
        found = [at for at, kind in enumerate(self.kinds) if is_detections(kind)]
        places = pictures if len(pictures) == len(found) else pictures[:1] * len(found)
        boxes: dict[int, list[Detection]] = {}
        for place, at in zip(places, found):
            given = row[at] if isinstance(row[at], list) else [row[at]]
            boxes.setdefault(place, []).extend(box for box in given if box is not None)
        return boxes

    # --- cells ----------------------------------------------------------------------------

    def _value(self, value: Any, kind: DuckDBPyType) -> str:
        if value is None:
            return "" if self.plan else NULL
        if is_detections(kind):
            return listed(value if isinstance(value, list) else [value])
        if self.plan and isinstance(value, float):
            return f"{value:.3g}"
        if isinstance(value, bytes):
            value = value[:_CELL_ROOM + 1]  # each is one character or more
        return clean(text(value), 20_000 if self.plan else self._cell_room())

    def _cell_room(self) -> int:
        return min(_CELL_ROOM, _ROW_ROOM // len(self.names))

    def _picture(self, image: Image | None, boxes: list[Detection]) -> str:
        if image is None:
            return NULL
        found, name = self.small.get(image), clean(repr(image), 200)
        if found is None:
            return f'<span class="dim" title="there is no room for it on the page">{name}</span>'
        if isinstance(found, str):
            return f'{name} <span class="dim">{clean(found, _CELL_ROOM)}</span>'
        width, height = found.full
        drawn = overlay(boxes, found.full, self.colours)
        data = base64.b64encode(found.jpeg).decode()
        return (f'<span class="pic"><img width="{found.width}" height="{found.height}" '
                f'alt="{name}" title="{name} {width}x{height}" '
                f'src="data:image/jpeg;base64,{data}">{drawn}</span>')


def _pictures(value: Any, kind: DuckDBPyType) -> list[Image | None] | None:
    """The pictures of a cell; None where it is something else."""
    if value is None:
        return None
    if is_media(kind):
        return [value]
    if kind.id in ("list", "array") and is_media(kind.children[0][1]):  # type: ignore[arg-type]
        return list(value[:_PICTURES_A_CELL])
    return None


def _type(kind: DuckDBPyType) -> str:
    if is_media(kind):
        return "image"
    return "detections" if is_detections(kind) else clean(str(kind).lower().strip('"'), 60)


def _class(kind: DuckDBPyType, value: Any = "", plan: bool = False) -> str:
    if kind.id in NUMBERS:
        return ' class="num"'
    if not isinstance(value, str):
        return ""
    if plan and "\n" in value:
        return ' class="pre"'
    return ' class="long"' if len(value) > 60 else ""
