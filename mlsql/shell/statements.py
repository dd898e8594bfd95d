"""Where one statement ends and the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE = re.compile(
    r"""
      (?P<end>;)
    | --[^\n]*
    | (?P<comment>/\*)
    | [eE]'(?:[^'\\]|\\.|'')*'?     # a string that is never closed takes the rest
    | '(?:[^']|'')*'?
    | "(?:[^"]|"")*"?
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | \w[\w$]*     # so that the E of NAME'…' or a $ inside a word starts nothing
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Statement:
    """One statement and where it starts; `line` and `column` count from 1.

    `ended` says whether a semicolon closed it.
    """

    text: str
    line: int
    column: int
    ended: bool


def split(script: str) -> list[Statement]:
    """The statements of a script, without those that hold only blanks and comments."""
    found, start, bare = [], 0, True
    line, column, counted = 1, 1, 0
    for position, is_end, is_bare in _ends(script):
        bare = bare and is_bare
        if not is_end:
            continue
        if not bare:
            first = start + len(script[start:position]) - len(script[start:position].lstrip())
            line, column = _moved(script[counted:first], line, column)
            counted = first
            ended = position < len(script)
            found.append(Statement(script[first:position].rstrip(), line, column, ended))
        start, bare = position + 1, True
    return found


def is_complete(script: str) -> bool:
    """Whether the last statement is closed by a semicolon, or there is none."""
    statements = split(script)
    return not statements or statements[-1].ended


def _ends(script: str) -> Iterator[tuple[int, bool, bool]]:
    """Pieces as (position, does a statement end here, is it blank or a comment)."""
    position = 0
    while position < len(script):
        match = _PIECE.match(script, position)
        if match is None:
            yield position, False, script[position].isspace()
            position += 1
        elif match["end"]:
            yield position, True, True
            position = match.end()
        else:
            blank = match[0].startswith("--") or match["comment"] is not None
            yield position, False, blank
            position = _after(script, match)
    yield len(script), True, True


def _after(script: str, match: re.Match[str]) -> int:
    """Where the piece that starts with `match` ends; one that is never closed takes the rest."""
    if match["dollar"]:
        closed = script.find(match["dollar"], match.end())
        return len(script) if closed < 0 else closed + len(match["dollar"])
    if not match["comment"]:
        return match.end()
    depth, position = 1, match.end()
    while depth:
        edge = _COMMENT.search(script, position)
        if edge is None:
            return len(script)
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position


def _moved(passed: str, line: int, column: int) -> tuple[int, int]:
    """The position after more text: lines and columns from 1."""
    breaks = passed.count("\n")
    if not breaks:
        return line, column + len(passed)
    return line + breaks, len(passed) - passed.rindex("\n")
