"""Cars, their colours and the traffic lights of 1,000 frames: the truth, and model outputs."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/ttz-77/AIDB_data"
LICENCE = "no licence file"


def where() -> Path:
    """The folder."""
    return in_test_data("tables/aidb_jackson")


def tables() -> dict[str, str]:
    """The tables of ground_truth by their file's name, those of inference with inferred_ before."""
    found = {}
    for folder, prefix in (("ground_truth", ""), ("inference", "inferred_")):
        for path in sorted((where() / folder).glob("*.csv")):
            found[prefix + path.stem] = f"FROM {literal(path)}"
    found["color01_all"] = f"FROM {literal(where() / 'color01_all.parquet')}"
    return found
