"""Photographs by URL: an astronaut, a cat, a cup of coffee, a rocket. `fetch()` brings them.

The hashes are those of the files in the package scikit-image 0.26, which are the same.
"""

from __future__ import annotations

from pathlib import Path

from datasets.places import Absent, download, downloaded, listed

ORIGIN = "https://gitlab.com/scikit-image/data"
LICENCE = "public domain (astronaut: NASA, rocket: SpaceX), CC0 (chelsea, coffee)"
_BASE = f"{ORIGIN}/-/raw/5c090b56df3988d988ff97928e2ef2d2cbe38e1b/"
FILES = {
    "astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    "chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "coffee.png": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
    "rocket.jpg": "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
}


def fetch() -> Path:
    """Download what is missing; gives the folder."""
    folder = downloaded("public_pictures")
    for name, sha256 in FILES.items():
        download(_BASE + name, sha256, folder / name)
    return folder


def where() -> Path:
    """The folder, once fetched."""
    folder = downloaded("public_pictures")
    if not all((folder / name).exists() for name in FILES):
        raise Absent(f"not in {folder}: datasets.public_pictures.fetch() downloads it")
    return folder


def tables() -> dict[str, str]:
    """One table, a row a picture."""
    paths = [where() / name for name in FILES]
    return {"public_pictures": f"SELECT * FROM read_images({listed(paths)})"}
