"""Handwritten digits as a video: 1,200 frames of 28x28, each digit held for six frames."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/georgia-tech-db/evadb, mnist.mp4; read by eye"
LICENCE = "Apache-2.0"


def where() -> Path:
    """The folder."""
    return in_test_data("video/misc")


def tables() -> dict[str, str]:
    """The frames, and the digit in each."""
    folder = where()
    return {
        "digits": f"SELECT * FROM read_video({literal(folder / 'mnist.mp4')})",
        "digits_truth": f"SELECT frame AS frame_id, digit"
                        f" FROM {literal(folder / 'mnist_labels_by_eye.csv')}",
    }
