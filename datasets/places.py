"""Where data lies: in packages, in the folder of test data, or behind a URL."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from importlib import metadata
from pathlib import Path


class Absent(Exception):
    """The data is not here; the message says how to get it."""


def in_package(distribution: str, inside: str) -> Path:
    """A file or folder inside an installed package, found without importing it."""
    try:
        path = Path(str(metadata.distribution(distribution).locate_file(inside)))
    except metadata.PackageNotFoundError:
        raise Absent(f"this data comes with a package: pip install {distribution}") from None
    if not path.exists():
        raise Absent(f"{distribution} is installed without {inside}")
    return path


def in_test_data(inside: str) -> Path:
    """A file or folder of the test data, which is not part of this repository."""
    default = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("MLSQL_TEST_DATA") or default)
    if not (folder / inside).exists():
        raise Absent(f"no {inside} in {folder}: set MLSQL_TEST_DATA to the folder of test data")
    return (folder / inside).resolve()


def downloaded(name: str) -> Path:
    """The folder of files that `download` brought; MLSQL_DATASETS or ~/.cache/mlsql-datasets."""
    folder = os.environ.get("MLSQL_DATASETS") or Path.home() / ".cache" / "mlsql-datasets"
    return Path(folder) / name


def download(url: str, sha256: str, path: Path, timeout: float = 60) -> Path:
    """Fetch a file unless it is there; one whose SHA-256 is another is refused and not kept."""
    if path.exists() and _digest(path) == sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer, partial.open("wb") as file:
            while block := answer.read(1 << 20):
                file.write(block)
        found = _digest(partial)
        if found != sha256:
            raise Absent(f"{url} has sha256 {found}, not {sha256}: it was not kept")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def literal(value: Path | str) -> str:
    """A text as an SQL literal."""
    return "'" + str(value).replace("'", "''") + "'"


def listed(paths: list[Path]) -> str:
    """Paths as an SQL list."""
    return "[" + ", ".join(literal(path) for path in paths) + "]"
