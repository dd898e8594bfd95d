"""1,000 photographs, one for each class of ImageNet-1k, 288 pixels."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/EliSchwartz/imagenet-sample-images"
LICENCE = "ImageNet's terms: research only"


def where() -> Path:
    """The folder."""
    return in_test_data("images/imagenet")


def tables() -> dict[str, str]:
    """The pictures by name, and the label of each."""
    folder = where()
    return {
        "imagenet": f"SELECT parse_filename(path) AS name, *"
                    f" FROM read_images({literal(folder / '*.jpg')})",
        "imagenet_labels": f"SELECT image AS name, * EXCLUDE image"
                           f" FROM {literal(folder / 'labels.csv')}",
    }
