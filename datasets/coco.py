"""412 photographs of COCO at 480 pixels, with the boxes of all 80 classes."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "COCO via Obmutescence/COCO-MINI and lightly-ai/coco128_yolo"
LICENCE = "pictures: Flickr licences; annotations CC-BY 4.0"


def where() -> Path:
    """The folder."""
    return in_test_data("images/coco")


def tables() -> dict[str, str]:
    """The pictures by name, and their boxes (fractions of width and height)."""
    folder = where()
    return {
        "coco": f"SELECT parse_filename(path) AS name, *"
                f" FROM read_images({literal(folder / '*.jpg')})",
        "coco_boxes": f"SELECT image AS name, * EXCLUDE image FROM {literal(folder / 'boxes.csv')}",
    }
