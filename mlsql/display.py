"""Values as text and rows as a table, for people."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from typing import Any

from mlsql.values import is_media

NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint",
            "uinteger", "ubigint", "uhugeint", "bignum", "float", "double", "decimal")
_NARROWEST = 6


def text(value: Any) -> str:
    """A value as DuckDB would write it; it may hold control characters, see `printable`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02X}" for b in value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)}: {text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(v) for v in value) + "]"
    if isinstance(value, (date, time)):
        return _moment(value)
    return str(value)


def _quoted(key: Any) -> str:
    return f"'{key}'" if isinstance(key, str) else text(key)


def _moment(value: date | time) -> str:
    whole = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    head, dot, fraction = whole.partition(".")
    if not dot:
        return whole
    return f"{head}.{fraction[:6].rstrip('0')}{fraction[6:]}"


def printable(line: str) -> str:
    """The text with what could steer a terminal written out: controls, bidi marks, line ends."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(_shown(c) for c in line)


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if category not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character == "\u200d":  # joins emoji
        return character
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(character)
    return named.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def width(line: str) -> int:
    """The columns that a text takes on a terminal."""
    if line.isascii():
        return len(line)
    return sum(0 if unicodedata.combining(c) or c in "\u200d\ufe0f"
               else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def terminal_width() -> int:
    """The columns of the terminal, or 120 where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 120


def cell(value: Any, null: str = "NULL") -> str:
    """One cell of a table: one line, safe to print; a text that reads like NULL is quoted."""
    if value is None:
        return null
    line = printable(text(value))
    return f"'{line}'" if line == null else line


@dataclass(frozen=True)
class Style:
    """How a table is drawn: NULL's text, most rows (None: all), most columns of the terminal."""

    null: str = "NULL"
    max_rows: int | None = 40
    max_width: int | None = None
    header: bool = True
    ascii: bool = False
    dim_null: bool = False
    footer: bool = True


def box(
    names: Sequence[str], types: Sequence[Any], rows: Iterable[Sequence[Any]], style: Style
) -> str:
    """The rows in a box with names and types above and their number below.

    Where they are more than `max_rows`, the first and last are shown. `types` are DuckDB's.
    """
    head, tail, total = _kept(rows, style.max_rows)
    heading = [[printable(n) for n in names], [_type_name(t) for t in types]]
    body = [[cell(v, style.null) for v in row] for row in [*head, *tail]]
    gap = len(head) if total > len(body) else None
    right = [t.id in NUMBERS for t in types]
    body, heading, right, dropped = _fitted(body, heading, right, style)
    table = _Table(heading if style.header else [], body, right, style)
    below = _footer(total, len(body), len(names), dropped)
    all_there = len(body) == total and not dropped
    return "\n".join([*table.lines(gap), *([] if all_there and not style.footer else [below])])


def _type_name(kind: Any) -> str:
    return "image" if is_media(kind) else printable(str(kind)).lower().strip('"')  # "NULL"


def _kept(
    rows: Iterable[Sequence[Any]], most: int | None
) -> tuple[list[Sequence[Any]], list[Sequence[Any]], int]:
    rows = iter(rows)
    if most is None:
        everything = list(rows)
        return everything, [], len(everything)
    head = list(islice(rows, most - most // 2))
    tail: deque[Sequence[Any]] = deque(maxlen=max(1, most // 2))
    total = len(head)
    for total, row in enumerate(rows, len(head) + 1):  # noqa: B007 - the last one is the count
        tail.append(row)
    return head, list(tail)[:most // 2], total


def _footer(total: int, shown: int, columns: int, dropped: int) -> str:
    rows = f"{total:,} row{'' if total == 1 else 's'}"
    if shown < total:
        rows += f", {shown:,} shown"
    if dropped:
        rows += f"; {columns} columns, {columns - dropped} shown"
    return f"({rows})"


def _fitted(
    body: list[list[str]], heading: list[list[str]], right: list[bool], style: Style
) -> tuple[list[list[str]], list[list[str]], list[bool], int]:
    """The cells cut so that the table is no wider than asked; middle columns go if they must."""
    widths = [max(map(width, column)) for column in zip(*heading, *body, strict=True)]
    if style.max_width is None or sum(widths) + 3 * len(widths) + 1 <= style.max_width:
        return body, heading, right, 0
    fitting = max(1, (style.max_width - 1) // (_NARROWEST + 3))
    dropped = max(0, len(widths) - fitting)
    first = (len(widths) - dropped + 1) // 2

    def kept(row: list[Any]) -> list[Any]:
        return row[:first] + row[first + dropped:]

    limits = _limits(kept(widths), style.max_width - 1)
    cut = [[[_cut(c, limit) for c, limit in zip(kept(row), limits, strict=True)] for row in part]
           for part in (body, heading)]
    return cut[0], cut[1], kept(right), dropped


def _limits(widths: list[int], room: int) -> list[int]:
    """Widths that fit the room, the widest shortened first."""
    limits = list(widths)
    while sum(limits) + 3 * len(limits) > room and max(limits) > _NARROWEST:
        limits[limits.index(max(limits))] -= 1
    return limits


def _cut(line: str, limit: int) -> str:
    if width(line) <= limit:
        return line
    while width(line) > limit - 1:
        line = line[:-1]
    return line + "…"


@dataclass(frozen=True)
class _Table:
    heading: list[list[str]]
    body: list[list[str]]
    right: list[bool]
    style: Style

    def lines(self, gap: int | None) -> list[str]:
        cells = self.heading + self.body
        widths = [max(map(width, column), default=0) for column in zip(*cells, strict=True)]
        marks = "++++++++++-|" if self.style.ascii else "┌┬┐├┼┤└┴┘·─│"
        rules = [marks[i] + marks[i + 1].join(marks[10] * (w + 2) for w in widths) + marks[i + 2]
                 for i in (0, 3, 6)]
        side = marks[11]
        body = [self._row(row, widths, side, self.right) for row in self.body]
        if gap is not None:
            dots = ["·" if not self.style.ascii else "."] * len(widths)
            body.insert(gap, self._row(dots, widths, side, self.right))
        left = [False] * len(widths)
        heading = [self._row(row, widths, side, left) for row in self.heading]
        return [rules[0], *heading, *([rules[1]] if heading else []), *body, rules[2]]

    def _row(self, row: list[str], widths: list[int], side: str, right: list[bool]) -> str:
        padded = []
        for line, wide, to_right in zip(row, widths, right, strict=True):
            blank = " " * (wide - width(line))
            shown = f"\x1b[2m{line}\x1b[0m" if self._is_dim(line) else line
            padded.append(blank + shown if to_right else shown + blank)
        return f"{side} " + f" {side} ".join(padded) + f" {side}"

    def _is_dim(self, line: str) -> bool:
        return self.style.dim_null and line == self.style.null
