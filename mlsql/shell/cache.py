"""`mlsql cache`: what is kept on disk, how much room it takes, and forgetting it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mlsql.config import Settings
from mlsql.errors import unknown


def main(argv: Sequence[str]) -> int:
    """Run `mlsql cache` with these words; gives the exit status."""
    given = _parser().parse_args(argv)
    settings = Settings()
    folder = Path(given.dir or settings.text("cache_dir"))
    if given.what == "clear":
        print(cleared(folder, given.model))
    elif given.what == "size":
        print(size(folder))
    else:
        print(listing(folder, settings.integer("cache_limit")))
    return 0


def listing(folder: Path, limit: int) -> str:
    """A line a model whose outputs are kept, the one used last first, and their sum."""
    rows = _entries(folder)
    lines = [("model", "outputs", "room", "last used", "fingerprint")]
    lines += [(_shown(row["model"] or "?"), f"{row['rows']:,}", room(row["bytes"]),
               f"{_local(row['last_used']):%Y-%m-%d %H:%M}", row["fingerprint"]) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    text = [f"{m:{widths[0]}}  {n:>{widths[1]}}  {r:>{widths[2]}}  {t:{widths[3]}}  {f}".rstrip()
            for m, n, r, t, f in lines]
    total = sum(row["bytes"] for row in rows)
    bound = f"of {room(limit)} (cache_limit)" if limit else "without a limit"
    end = f"{room(total)} {bound} in {folder}"
    return "\n".join([*text, end] if rows else [f"nothing is kept: {end}"])


def size(folder: Path) -> int:
    """The bytes of all that lies in the cache's folder, notes about files and videos included."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                pass  # another process has just removed it
    return total


def cleared(folder: Path, model: str | None) -> str:
    """Forget the outputs of a model, by name or fingerprint, or all; says what was freed."""
    from mlsql.exec.cache import OutputCache

    names = [name for row in _entries(folder) for name in (row["model"], row["fingerprint"])]
    known = {name for name in names if name}
    if model is not None and model not in known:
        raise unknown("model", model, known, "in the cache")
    cache = OutputCache(folder)
    try:
        freed = cache.clear(model)
    finally:
        cache.close()
    return f"{room(freed)} freed in {folder}"


def room(count: int) -> str:
    """A number of bytes, in a unit that a reader can take in: 0 B, 812 B, 5.8 MB, 120 GB."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    digits = 0 if value >= 10 or units[0] == "B" else 1
    return f"{value:.{digits}f} {units[0]}"


def _entries(folder: Path) -> list[dict[str, Any]]:
    from mlsql.exec.contents import entries

    found: list[dict[str, Any]] = entries(folder / "outputs").to_pylist()
    return found


def _local(moment: datetime) -> datetime:
    return moment.astimezone()


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="mlsql cache", description="The outputs of models that are kept on disk.")
    words.add_argument("--dir", metavar="FOLDER", help="the cache's folder, if it is not that of "
                       "MLSQL_CACHE_DIR or ~/.cache/mlsql")
    what = words.add_subparsers(dest="what", metavar="list | clear | size")
    what.add_parser("list", help="a line a model (this is also what happens without a word)")
    what.add_parser("size", help="the bytes of the whole folder")
    clear = what.add_parser("clear", help="forget the outputs of a model, or of all")
    clear.add_argument("model", nargs="?", help="its name or fingerprint")
    return words
