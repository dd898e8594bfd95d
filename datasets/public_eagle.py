"""A golden eagle in grey, 1826x2019, by URL. `fetch()` brings it.

The hash is the one that scikit-image 0.26 states for it in skimage/data/_registry.py.
"""

from __future__ import annotations

from pathlib import Path

from datasets.places import Absent, download, downloaded, literal

ORIGIN = ("https://gitlab.com/scikit-image/data/-/raw/"
          "1e4f62ac31ba4553d176d4473a5967ad1b076d62/eagle.png")
LICENCE = "CC0 by the photographer, Dayane Machado"
SHA256 = "928f1bbe7403b533265f56db3a6b07c835dfa8e2513f5c5075ca2f1960f6179e"


def fetch() -> Path:
    """Download it if it is missing; gives the file."""
    return download(ORIGIN, SHA256, downloaded("public_eagle") / "eagle.png")


def where() -> Path:
    """The file, once fetched."""
    path = downloaded("public_eagle") / "eagle.png"
    if not path.exists():
        raise Absent(f"not at {path}: datasets.public_eagle.fetch() downloads it")
    return path


def tables() -> dict[str, str]:
    """One table of one picture."""
    return {"public_eagle": f"SELECT * FROM read_images({literal(where())})"}
