"""Detections as HTML: as lines of text, and as rectangles over the picture they were found in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from mlsql.display import NUMBERS, printable, text

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

Detection = dict[str, Any]
MOST = 40  # boxes of one picture, and lines of one cell
_LABELS = 12  # with more boxes, labels would hide the picture: they are tips of the boxes
_COLOURS = ("#ffb000", "#4dd0e1", "#ff7aa2", "#9be15d", "#c9a0ff", "#ff9d66", "#7db8ff", "#e8e04e")
_CORNERS = ("x1", "y1", "x2", "y2")
NULL = '<span class="null">NULL</span>'


def is_detections(kind: DuckDBPyType) -> bool:
    """Whether values of this type are detections: structs of label, score and box, or lists."""
    if kind.id == "list":
        return is_detections(kind.children[0][1])  # type: ignore[arg-type]
    if kind.id != "struct":
        return False
    parts: dict[str, Any] = dict(kind.children)
    return "label" in parts and all(
        name in parts and parts[name].id in (*NUMBERS, "null") for name in ("score", *_CORNERS))


def listed(boxes: Sequence[Detection | None]) -> str:
    """Detections as lines: what it is, how sure, and where."""
    lines = [NULL if box is None else _line(box) for box in boxes[:MOST]]
    if len(boxes) > MOST:
        lines.append(f"… {len(boxes) - MOST:,} more")
    return "<br>".join(lines) or '<span class="dim">none</span>'


def _line(box: Detection) -> str:
    corners = [box[c] for c in _CORNERS]
    in_shares = all(c is None or abs(c) <= 2 for c in corners)  # of the picture, not in pixels
    digits = 3 if in_shares else 0
    where = ", ".join("NULL" if c is None else f"{c:.{digits}f}" for c in corners)
    return f'{_title(box)} <span class="dim where">({where})</span>'


def overlay(boxes: Sequence[Detection], size: tuple[int, int], colours: dict[str, str]) -> str:
    """Rectangles over a picture of `size` (width, height), the surest on top.

    Places are in shares, so the picture may be shown at any size. A label that has no colour yet
    gets one in `colours`.
    """
    drawn = sorted(boxes[:MOST], key=lambda box: float(box["score"] or 0))
    return "".join(_rectangle(box, size, colours, named=len(boxes) <= _LABELS) for box in drawn)


def _rectangle(
    box: Detection, size: tuple[int, int], colours: dict[str, str], *, named: bool
) -> str:
    corners = [math.nan if box[c] is None else float(box[c]) for c in _CORNERS]
    if any(map(math.isnan, corners)):
        return ""
    left, top, right, bottom = (
        min(max(100 * corner / size[at % 2], 0), 100) for at, corner in enumerate(corners))
    colour = colours.setdefault(str(box["label"]), _COLOURS[len(colours) % len(_COLOURS)])
    title = _title(box)
    name = f'<b style="background:{colour}">{title}</b>' if named else ""
    return (f'<span class="box" title="{title}" style="left:{left:.2f}%;top:{top:.2f}%;'
            f'width:{max(right - left, 0):.2f}%;height:{max(bottom - top, 0):.2f}%;'
            f'border-color:{colour}">{name}</span>')


def _title(box: Detection) -> str:
    label, score = text(box["label"]), box["score"]
    return clean(label if score is None else f"{label} {score:.2f}", 200)


def clean(value: str, most: int) -> str:
    """The text, cut and escaped; marks that turn the direction of text around are written out."""
    cut = value if len(value) <= most else value[:most] + "…"
    lines = ("\t".join(map(printable, line.split("\t"))) for line in cut.split("\n"))
    return escape("\n".join(lines))
