"""Pedestrians seen by a fixed camera: 795 frames, 768x576, 10 a second.

People are boxed in frames 0 to 299, on the walkway only.
"""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "video: Debian opencv-doc; boxes: MOTChallenge 2015 via gonzalocarreteroh/MASA-OA"
LICENCE = "boxes Apache-2.0; video as in OpenCV's samples"


def where() -> Path:
    """The folder."""
    return in_test_data("video/pets09")


def tables() -> dict[str, str]:
    """The frames, the people's boxes (pixels), and their number a frame."""
    folder = where()
    return {
        "pets09": f"SELECT * FROM read_video({literal(folder / 'vtest.avi')})",
        "pets09_boxes": f"FROM {literal(folder / 'boxes_frames_0_299.csv')}",
        "pets09_counts": f"FROM {literal(folder / 'counts_frames_0_299.csv')}",
    }
