"""How a result is written: one function a format, each given pieces of text one after another."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Any

from mlsql.display import Style, box, cell, printable, text
from mlsql.image import Image
from mlsql.result import Result
from mlsql.shell.sizes import sized
from mlsql.values import is_media


@dataclass(frozen=True)
class Options:
    """What the user said about the output; `null` is None where each format has its own.

    With `keep` the rows can be asked for again; without `footer` a table does not count them.
    """

    null: str | None = None
    header: bool = True
    max_rows: int | None = None
    max_width: int | None = None
    ascii: bool = False
    dim_null: bool = False
    keep: bool = False
    footer: bool = True


Writer = Callable[[Result, Options], Iterator[str]]


def write_table(result: Result, options: Options) -> Iterator[str]:
    """A box, safe to print."""
    style = Style(null=_null(options, "NULL"), max_rows=options.max_rows,
                  max_width=options.max_width, header=options.header, ascii=options.ascii,
                  dim_null=options.dim_null, footer=options.footer)
    rows = result.shown(options.max_rows) if options.keep else result.printed()
    if any(map(is_media, result.kinds)):
        rows = sized(rows)
    yield box(result.columns, result.kinds, rows, style) + "\n"


def write_csv(result: Result, options: Options) -> Iterator[str]:
    """RFC 4180. NULL is the null string bare; a text that reads like it is quoted."""
    null = _null(options, "")
    if options.header:
        yield _csv_line(result.columns, null)
    for row in result.printed():
        yield _csv_line(row, null)


def _csv_line(row: Any, null: str) -> str:
    return ",".join(null if v is None else _csv_field(_plain(v), null) for v in row) + "\n"


def _csv_field(field: str, null: str) -> str:
    if field == null or any(c in field for c in ',"\r\n'):
        return '"' + field.replace('"', '""') + '"'
    return field


def _plain(value: Any) -> str:
    """The text of a value where a program reads it: pictures by their whole path."""
    if isinstance(value, Image):
        return json.dumps(_jsonable(value), ensure_ascii=False)
    return text(value)


def write_json(result: Result, options: Options) -> Iterator[str]:
    """An array of objects, one a row."""
    head = "["
    for line in _objects(result):
        yield head + line
        head = ",\n"
    yield ("[]" if head == "[" else "]") + "\n"


def write_jsonl(result: Result, options: Options) -> Iterator[str]:
    """An object a line."""
    for line in _objects(result):
        yield line + "\n"


def _objects(result: Result) -> Iterator[str]:
    names = _distinct(result.columns)
    for row in result.printed():
        yield json.dumps({name: _jsonable(value) for name, value in zip(names, row, strict=True)},
                         ensure_ascii=False)


def _distinct(names: list[str]) -> list[str]:
    """The names with _1, _2 … after those seen before: an object cannot have two alike."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found


def _jsonable(value: Any) -> Any:
    """A value as JSON has it; numbers that JSON lacks become text, bytes become base64."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else text(value)
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value()
        return int(value) if whole else float(value) if Decimal(str(float(value))) == value \
            else str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Image):
        return {"uri": value.uri, "frame": value.frame, "data": _jsonable(value.data)}
    if isinstance(value, dict):
        return {k if isinstance(k, str) else text(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(v) for v in value]
    return text(value)


def write_markdown(result: Result, options: Options) -> Iterator[str]:
    """A table of Markdown."""
    null = _null(options, "NULL")
    names = [_markdown_cell(name, null) for name in result.columns]
    yield "| " + " | ".join(names if options.header else [""] * len(names)) + " |\n"
    yield "|" + " --- |" * len(names) + "\n"
    for row in result.printed():
        yield "| " + " | ".join(_markdown_cell(v, null) for v in row) + " |\n"


def _markdown_cell(value: Any, null: str) -> str:
    line = cell(value, null)
    for character in "\\|<&`*_[":
        line = line.replace(character, "\\" + character)
    return line


def write_line(result: Result, options: Options) -> Iterator[str]:
    """A line for each value, rows apart by a blank line."""
    null = _null(options, "NULL")
    names = [cell(name) for name in result.columns]
    wide = max(map(len, names), default=0)
    for number, row in enumerate(result.printed()):
        lines = (f"{name:>{wide}} = {cell(value, null)}\n" if options.header
                 else f"{cell(value, null)}\n" for name, value in zip(names, row, strict=True))
        yield ("\n" if number else "") + "".join(lines)


def write_html(result: Result, options: Options) -> Iterator[str]:
    """A table of HTML with every value escaped; NULL has a class of its own."""
    null = f'<td class="null">{escape(_null(options, "NULL"))}</td>'
    yield "<table>\n"
    if options.header:
        heads = "".join(f"<th>{escape(printable(name))}</th>" for name in result.columns)
        yield f"<thead><tr>{heads}</tr></thead>\n"
    yield "<tbody>\n"
    for row in result.printed():
        cells = (null if v is None else f"<td>{escape(printable(text(v)))}</td>" for v in row)
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody>\n</table>\n"


def _null(options: Options, usual: str) -> str:
    return usual if options.null is None else options.null


FORMATS: Mapping[str, Writer] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "jsonl": write_jsonl,
    "markdown": write_markdown,
    "line": write_line,
    "html": write_html,
}
