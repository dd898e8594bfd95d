"""London traffic cameras: 55 clips, 14,697 frames, 352x288, 25 a second. No labels.

The time of recording is in each file's name; two clips are the same to the byte.
"""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/alex-drake/OpenCV-Traffic-Counter at d4f51cd, from TfL JamCam"
LICENCE = "no licence file; TfL's open data terms"


def where() -> Path:
    """The folder of clips."""
    return in_test_data("video/tfl_jamcam")


def tables() -> dict[str, str]:
    """One table, a row a frame, with the camera and the time of recording."""
    name = "parse_filename(path, true)"
    return {"tfl_jamcam": f"""
        SELECT *, split_part({name}, '_', 1) AS camera,
               strptime(split_part({name}, '_', 2), '%Y%m%d%H%M') AS recorded
        FROM read_video({literal(where() / '*.mp4')})"""}
