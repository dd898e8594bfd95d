"""Two clips with a bird in every frame looked at: a cockatoo (280 frames) and parrots (492)."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "imageio/test_images (cockatoo); snipsco (parrots)"
LICENCE = "parrots MIT; cockatoo as stated there"


def where() -> Path:
    """The folder."""
    return in_test_data("video/birds")


def tables() -> dict[str, str]:
    """One table, a row a frame."""
    return {"birds": f"SELECT *, parse_filename(path) AS video"
                     f" FROM read_video({literal(where() / '*.mp4')})"}
