"""Patterns of file names to files, as DuckDB expands them for parquet."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from mlsql.errors import ProgrammingError
from mlsql.exec.media.handle import Limits

_GLOB = re.compile(r"[*?\[]")
_NAMES_LOOKED_AT = 10_000


def expand(
    patterns: str | Sequence[str], limits: Limits, base: str | None = None
) -> list[str]:
    """The files of each pattern, sorted within it; no match at all is a ProgrammingError.

    `*`, `?`, `[…]` stay within a folder, `**` is any depth, `~` is the home folder. A file that
    exists under the pattern's own name is that file. `base` is where relative names begin.
    """
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    if not given:
        raise ProgrammingError("no file is named: the list of paths is empty")
    return [path for pattern in given for path in _expand_one(pattern, limits, base)]


def _expand_one(pattern: str, limits: Limits, base: str | None) -> list[str]:
    if not pattern:
        raise ProgrammingError("a path is empty")
    path = os.path.expanduser(pattern) if pattern.startswith("~") else pattern
    if base is not None:
        path = os.path.join(base, path)
    if "\0" in path:
        raise ProgrammingError(f"{pattern!r} is not a file name: it holds a zero byte")
    if os.path.lexists(path):
        return [path]
    magic = _GLOB.search(path)
    if magic is None:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path):
            limits.check(path)  # says that URLs are not read
        raise _no_match(pattern, path)
    folder = path[: magic.start()].rpartition("/")[0] or ("/" if path[0] == "/" else ".")
    if not limits.allows(folder):
        limits.check(folder)
    found = _glob(path)
    if not found:
        raise _no_match(pattern, path)
    return found


def _glob(pattern: str) -> list[str]:
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()
    return sorted({str(file) for (file,) in rows})


def _no_match(pattern: str, path: str) -> ProgrammingError:
    head = f'No files found that match the pattern "{pattern}"'
    near = _nearest(path)
    return ProgrammingError(f"{head}{': did you mean ' + ' or '.join(near) + '?' if near else ''}")


def _nearest(path: str) -> list[str]:
    """Up to three existing names that resemble the missing one, nearest first."""
    folder, _, name = path.rpartition("/")
    while folder and not os.path.isdir(folder):
        folder, _, name = folder.rpartition("/")
    where = folder or ("/" if path.startswith("/") else ".")
    try:
        with os.scandir(where) as entries:
            names = [e.name for _, e in zip(range(_NAMES_LOOKED_AT), entries, strict=False)]
    except OSError:
        return []
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return [repr(n if where == "." else str(Path(where) / n)) for n in near]
