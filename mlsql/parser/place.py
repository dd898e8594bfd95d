"""Where in a statement an error is, read from the picture of the place in its message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mlsql.errors import ProgrammingError, UnknownName
from mlsql.parser.dialect import caret

_NAMED = re.compile(r"unknown \w+ (['\"])(.*?)\1")
_PICTURE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+\s*$", re.DOTALL)


@contextmanager
def placing(sql: str) -> Iterator[None]:
    """Inside, an error about this statement gets the line and column of the caret it draws."""
    try:
        yield
    except ProgrammingError as error:
        if isinstance(error, UnknownName) and "\nLINE " not in str(error):
            _point(error, sql)
        found = place(str(error), sql)
        if found is not None and error.line is None:
            error.line, error.column = found
        raise


def _point(error: UnknownName, sql: str) -> None:
    """Draw the place of the name that nobody knows, where it stands in the statement."""
    named = _NAMED.search(str(error))
    at = sql.lower().find(named[2].lower()) if named else -1
    if named is None or at < 0:
        return
    line, start = sql.count("\n", 0, at) + 1, sql.rfind("\n", 0, at) + 1
    error.args = (f"{error}\n\n{caret(sql, line, at - start + 1)}", *error.args[1:])


def place(message: str, sql: str) -> tuple[int, int] | None:
    """Line and column under the caret. Of a long line the message shows a piece, with dots."""
    drawn = _PICTURE.search(message)
    lines = sql.split("\n")
    if drawn is None or not 1 <= int(drawn[1]) <= len(lines):
        return None
    line, shown = int(drawn[1]), drawn[2]
    caret = len(drawn[3]) - len(f"LINE {line}: ")
    if not shown.startswith("..."):
        return line, caret + 1
    start = lines[line - 1].find(shown[3:].removesuffix("..."))
    return (line, start + caret - 3 + 1) if start >= 0 else None
