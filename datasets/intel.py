"""Four clips of people, bicycles, cars and bottles; when each appears was marked by hand.

Between the core of an appearance and its edge either answer is right.
"""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/intel-iot-devkit/sample-videos"
LICENCE = "CC-BY 4.0"


def where() -> Path:
    """The folder."""
    return in_test_data("video/intel")


def tables() -> dict[str, str]:
    """The frames of all clips, and the appearances: video, class, and four frame numbers."""
    folder = where()
    return {
        "intel": f"SELECT *, parse_filename(path) AS video"
                 f" FROM read_video({literal(folder / '*.mp4')})",
        "intel_appearances": f"FROM {literal(folder / 'hand_intervals.csv')}",
    }
