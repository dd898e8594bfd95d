"""A handful of photographs: an astronaut, a cat, a cup of coffee, a rocket. No labels."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_package, listed

ORIGIN = "PyPI package scikit-image, skimage/data"
LICENCE = "public domain or CC0, see each function in skimage/data/_fetchers.py"
FILES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")


def where() -> Path:
    """The folder."""
    return in_package("scikit-image", "skimage/data")


def tables() -> dict[str, str]:
    """One table, a row a picture."""
    paths = [where() / name for name in FILES]
    return {"skimage_pictures": f"SELECT * FROM read_images({listed(paths)})"}
