"""Two photographs: a temple in China and a flower. No labels."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_package, literal

ORIGIN = "PyPI package scikit-learn, sklearn/datasets/images"
LICENCE = "CC-BY 2.0, danielbuechele and vultilion on Flickr"


def where() -> Path:
    """The folder."""
    return in_package("scikit-learn", "sklearn/datasets/images")


def tables() -> dict[str, str]:
    """One table, a row a picture."""
    return {"sklearn_pictures": f"SELECT * FROM read_images({literal(where() / '*.jpg')})"}
