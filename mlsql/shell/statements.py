"""Where one statement ends and the next begins, and which lines are commands of the shell."""

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
_COMMAND = re.compile(
    r"[ \t]*(?:\.[a-z?]|\\[a-z?]|(?:exit|quit)[ \t]*;?[ \t]*(?=\n|\Z))[^\n]*", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """One statement and where it starts; `line` and `column` count from 1.

    `ended` says whether a semicolon closed it. A line that begins like a command of the shell,
    where no statement is open, is one (`is_command`) and ends with the line.
    """

    text: str
    line: int
    column: int
    ended: bool
    is_command: bool = False


def split(script: str) -> list[Statement]:
    """The statements of a script, without those that hold only blanks and comments."""
    found = []
    line, column, counted = 1, 1, 0
    for start, stop, ended, is_command in _spans(script):
        text = script[start:stop]
        first = start + len(text) - len(text.lstrip())
        line, column = _moved(script[counted:first], line, column)
        counted = first
        found.append(Statement(text.strip(), line, column, ended, is_command))
    return found


def is_complete(script: str) -> bool:
    """Whether the last statement is closed by a semicolon, or there is none."""
    statements = split(script)
    return not statements or statements[-1].ended


def _spans(script: str) -> Iterator[tuple[int, int, bool, bool]]:
    """Statements and commands as (start, stop, closed by a semicolon, is it a command)."""
    start, position, bare = 0, 0, True
    while position < len(script):
        command = _command(script, position) if bare else None
        if command is not None:
            yield position, command, True, True
            start = position = command
            continue
        match = _PIECE.match(script, position)
        if match is not None and match["end"]:
            if not bare:
                yield start, position, True, False
            start, position, bare = match.end(), match.end(), True
            continue
        bare = bare and _is_blank(script, position, match)
        position = position + 1 if match is None else _after(script, match)
    if not bare:
        yield start, len(script), False, False


def _command(script: str, position: int) -> int | None:
    """Where the command of the shell ends that starts here, at the start of a line; else None."""
    if position and script[position - 1] != "\n":
        return None
    match = _COMMAND.match(script, position)
    return None if match is None else position + len(match[0].rstrip("\n"))


def _is_blank(script: str, position: int, match: re.Match[str] | None) -> bool:
    if match is None:
        return script[position].isspace()
    return match[0].startswith("--") or match["comment"] is not None


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
