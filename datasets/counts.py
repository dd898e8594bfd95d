"""Objects in each frame of three day-long streams, a million frames each, as a detector counted."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/stanford-futuredata/InQuest"
LICENCE = "as stated there"
FILES = {
    "counts_jackson": "jackson-town-square-2017-12-17-true.parquet",
    "counts_taipei": "taipei-hires-car-2017-04-13-true.parquet",
    "counts_grand_canal": "venice-grand-canal-2018-01-20-true.parquet",
}


def where() -> Path:
    """The folder."""
    return in_test_data("tables/counts")


def tables() -> dict[str, str]:
    """A table a stream."""
    return {name: f"FROM {literal(where() / file)}" for name, file in FILES.items()}
