"""Ray Data: its own reader of videos, and an actor that holds the model."""

from __future__ import annotations

from typing import Any

import ray
from model import LEAST, Vehicles, given, tasks

folder, clips = given()


class Count:
    """How many vehicles each picture of a batch shows; the pictures go."""

    def __init__(self) -> None:
        self._count = Vehicles(folder)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"frame_index": batch["frame_index"], "n": self._count(list(batch["frame"]))}


def run(task: str) -> Any:
    """One of the tasks."""
    counted = ray.data.read_videos(clips).map_batches(Count, batch_size=8, concurrency=1)
    if task == "avg":
        rows = counted.take_all()  # mean() hangs on two cores
        return sum(row["n"] for row in rows) / len(rows)
    found = counted.filter(lambda row: row["n"] >= LEAST)
    return len(found.take(5) if task == "limit" else found.take_all())


ray.init(log_to_driver=False)
tasks(run)
