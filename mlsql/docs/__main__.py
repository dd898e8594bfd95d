"""`python -m mlsql.docs [FOLDER] [--check]`: write docs/sql.md and docs/settings.md anew."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from mlsql.docs.settings import settings_page
from mlsql.docs.sql import sql_page

PAGES: Mapping[str, Callable[[], str]] = {"sql.md": sql_page, "settings.md": settings_page}


def stale(folder: Path) -> list[str]:
    """The pages in a folder that are not as the code has them now."""
    return [name for name, page in PAGES.items()
            if not (folder / name).is_file() or (folder / name).read_text("utf-8") != page()]


def main() -> int:
    """Write the pages; with --check only say which are stale, and exit with 1 if any is."""
    words = argparse.ArgumentParser(prog="python -m mlsql.docs",
                                    description="Write the reference pages from the code.")
    words.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    words.add_argument("--check", action="store_true", help="write nothing, say what is stale")
    given = words.parse_args()
    names = stale(given.folder)
    for name in names:
        if not given.check:
            (given.folder / name).write_text(PAGES[name](), "utf-8")
        print(f"{given.folder / name} {'is stale' if given.check else 'was written'}")
    return 1 if given.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
