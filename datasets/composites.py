"""24 pictures pasted together from cut-outs: a bird, a boat, a dolphin, or several. Synthetic."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "cut-outs of Debian tuxpaint-stamps on photographs"
LICENCE = "GPL-2"


def where() -> Path:
    """The folder."""
    return in_test_data("images/composites")


def tables() -> dict[str, str]:
    """The pictures by name, and what is in each."""
    folder = where()
    return {
        "composites": f"SELECT parse_filename(path) AS name, *"
                      f" FROM read_images({literal(folder / '*.jpg')})",
        "composites_labels": f"SELECT image AS name, * EXCLUDE image"
                             f" FROM {literal(folder / 'labels.csv')}",
    }
