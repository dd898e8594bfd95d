"""Daft: its own reader of video frames and a class as a user's function."""

from __future__ import annotations

from typing import Any

import cv2
import daft
from model import LEAST, Vehicles, given, tasks

folder, clips = given()
first = cv2.VideoCapture(clips[0])
SIZE = {"image_height": int(first.get(cv2.CAP_PROP_FRAME_HEIGHT)),
        "image_width": int(first.get(cv2.CAP_PROP_FRAME_WIDTH))}


@daft.udf(return_dtype=daft.DataType.int64(), batch_size=8)
class Count:
    """How many vehicles each picture shows."""

    def __init__(self) -> None:
        self._count = Vehicles(folder)

    def __call__(self, pictures: Any) -> list[int]:
        return self._count(pictures.to_pylist())


def run(task: str) -> Any:
    """One of the tasks."""
    frames = daft.read_video_frames(clips, **SIZE).with_column("n", Count(daft.col("data")))
    if task == "avg":
        return frames.agg(daft.col("n").mean()).to_pydict()["n"][0]
    frames = frames.where(daft.col("n") >= LEAST)
    if task == "limit":
        frames = frames.limit(5)
    return len(frames.select("path", "frame_index").to_pydict()["path"])


tasks(run)
