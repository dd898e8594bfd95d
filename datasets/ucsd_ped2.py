"""Six grey clips of a walkway, 360x240; whether anything but pedestrians is there, by frame."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "UCSD Ped2 via github.com/aasimwadood/STARGA at 686ec61, re-encoded"
LICENCE = "no licence file"


def where() -> Path:
    """The folder."""
    return in_test_data("video/ucsd_ped2")


def tables() -> dict[str, str]:
    """The frames, and a flag for each."""
    folder = where()
    return {
        "ucsd_ped2": f"SELECT *, parse_filename(path) AS video"
                     f" FROM read_video({literal(folder / '*.mp4')})",
        "ucsd_ped2_truth": f"FROM {literal(folder / 'nonpedestrian_present.csv')}",
    }
