"""DuckDB with the model as an Arrow function, which decodes the frames it is asked for."""

from __future__ import annotations

from typing import Any

import cv2
import duckdb
import pyarrow as pa
from model import LEAST, Vehicles, given, tasks

folder, clips = given()
count = Vehicles(folder)
opened: dict[str, Any] = {}


def picture(path: str, number: int) -> Any:
    """A frame, by reading on where that is possible."""
    at, video = opened.get(path, (None, None))
    if at != number:
        video = cv2.VideoCapture(path)
        for _ in range(number):
            video.grab()
    _, found = video.read()
    opened[path] = (number + 1, video)
    return cv2.cvtColor(found, cv2.COLOR_BGR2RGB)


def vehicles(paths: Any, numbers: Any) -> Any:
    """How many vehicles each of the frames shows."""
    rows = list(zip(paths.to_pylist(), numbers.to_pylist()))
    found: list[int] = []
    for start in range(0, len(rows), 8):
        found += count([picture(*row) for row in rows[start:start + 8]])
    return pa.array(found, pa.int64())


connection = duckdb.connect()
connection.create_function("vehicles", vehicles, ["VARCHAR", "BIGINT"], "BIGINT", type="arrow")
connection.execute("CREATE TABLE frames (path VARCHAR, frame BIGINT)")
for clip in clips:
    length = int(cv2.VideoCapture(clip).get(cv2.CAP_PROP_FRAME_COUNT))
    connection.execute("INSERT INTO frames SELECT ?, range FROM range(?)", [clip, length])
WHERE = f"FROM frames WHERE vehicles(path, frame) >= {LEAST}"
SQL = {"where": f"SELECT count(*) {WHERE}",
       "limit": f"SELECT count(*) FROM (SELECT 1 {WHERE} LIMIT 5)",
       "avg": "SELECT avg(vehicles(path, frame)) FROM frames"}
tasks(lambda task: connection.execute(SQL[task]).fetchall()[0][0])
