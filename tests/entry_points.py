"""The package's entry points, as they are after an installation."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

_TABLE = re.compile(r'\[project\.entry-points\."([^"]+)"\]\n(.*?)\n\n', re.DOTALL)


def provide(root: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make those of pyproject.toml findable where the tests run from the folder of the sources."""
    tables = dict(_TABLE.findall((root / "pyproject.toml").read_text(encoding="utf-8")))
    assert tables
    if all(entry_points(group=group, name="mlsql") for group in tables):
        return
    info = folder / "mlsql-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlsql\nVersion: 0\n")
    text = "".join(f"[{group}]\n{body}\n" for group, body in tables.items())
    (info / "entry_points.txt").write_text(text.replace('"', ""))
    patch.syspath_prepend(str(folder))
