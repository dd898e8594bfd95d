"""An error as a person wants to read it: one line, then the place in the statement."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from mlsql.display import printable
from mlsql.shell.statements import Statement

_KIND = re.compile(r"^(?:[A-Z][A-Za-z]+ )+Error: ")
_AT = re.compile(r" at line \d+, column \d+")
_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+ *$", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A position in a statement, line and column from 1."""

    line: int
    column: int


def complaint(error: BaseException, statement: Statement | None) -> str:
    """The lines to write for an error; a place in the statement gets its line and a caret."""
    message, place = _parts(error, statement.text if statement else "")
    first = " ".join(part.strip() for part in message.split("\n") if part.strip())
    head = f"error: {printable(first or type(error).__name__)}"
    lines = statement.text.split("\n") if statement else []
    if statement is None or place is None or not 1 <= place.line <= len(lines):
        return head
    line = statement.line + place.line - 1
    column = place.column + (statement.column - 1 if place.line == 1 else 0)
    source, caret = _window(lines[place.line - 1], place.column)
    return f"{head} (line {line}, column {column})\n  {source}\n  {' ' * caret}^"


def said(text: str) -> str:
    """The complaint as standard error shows it: the first word in colour on a terminal."""
    if not sys.stderr.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    for word, colour in (("error:", 31), ("warning:", 33)):
        if text.startswith(word):
            return f"\x1b[1;{colour}m{word}\x1b[0m{text[len(word):]}"
    return text


def _parts(error: BaseException, sql: str) -> tuple[str, Place | None]:
    """The message without its picture of the place, and the place."""
    message = str(error)
    drawn = _PLACE.search(message)
    if drawn:
        place = _drawn_place(drawn, sql)
        message = _AT.sub("", message[:drawn.start()])
    else:
        line, column = getattr(error, "line", None), getattr(error, "column", None)
        place = Place(line, column) if isinstance(line, int) and isinstance(column, int) else None
    return _KIND.sub("", message), place


def _drawn_place(drawn: re.Match[str], sql: str) -> Place | None:
    """The place under DuckDB's caret. It shows a piece of a long line, with dots at its ends."""
    line, shown = int(drawn[1]), drawn[2]
    caret = len(drawn[3]) - len(f"LINE {line}: ")
    lines = sql.split("\n")
    if not 1 <= line <= len(lines) or caret < 0:
        return None
    if shown.startswith("..."):
        piece = shown[3:].removesuffix("...")
        start = lines[line - 1].find(piece)
        return Place(line, start + caret - 3 + 1) if start >= 0 else None
    return Place(line, caret + 1)


def _window(line: str, column: int, most: int = 100) -> tuple[str, int]:
    """The piece of a line around a column, safe to print, and the caret's place under it."""
    start = max(0, column - 1 - most // 2) if len(line) > most else 0
    piece = line[start:start + most]
    before = printable(piece[:column - 1 - start].replace("\t", " "))
    return before + printable(piece[column - 1 - start:].replace("\t", " ")), len(before)
