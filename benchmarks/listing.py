"""A million frames listed and filtered: `python benchmarks/listing.py [--file t.md]`.

A hundred H.264 files of 10,000 small frames each. First with nothing kept, which opens every file
and reads its tables; then in a new process, from the listings that were kept; then again in that
process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FILES, FRAMES = 100, 10_000


def main() -> None:
    """The table; with --one, the query that is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", type=Path, default=None, help="where the table is written, too")
    parser.add_argument("--one", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given.one)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_videos(Path(folder))
        cold, warm = _run(Path(folder)), _run(Path(folder))
    lines = [f"| {FILES * FRAMES:,} frames in {FILES} files | s |", "|---|---|",
             f"| nothing kept: every file opened | {cold[0]:.2f} |",
             f"| a new process, listings kept | {warm[0]:.2f} |",
             f"| the same process again | {warm[1]:.2f} |"]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.file:
        given.file.write_text(text, encoding="utf-8")


def measure(folder: Path) -> None:
    """Run the query twice; print the seconds of each."""
    import mlsql

    session = mlsql.connect(config={"cache_dir": str(folder / "cache")})
    query = (f"SELECT count(*), min(ts), max(frame_id) FROM read_video('{folder}/*.mp4') "
             "WHERE ts BETWEEN 100 AND 200 AND frame_id % 7 = 0")
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        (count, _, _), = session.execute(query).fetchall()
        seconds.append(time.perf_counter() - started)
        assert count > FILES, count
    print(json.dumps(seconds))


def write_videos(folder: Path) -> None:
    """One small video, and copies of it under other names."""
    import av
    import numpy as np

    first = folder / "000.mp4"
    with av.open(str(first), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for number in range(FRAMES):
            picture = np.full((32, 32, 3), number % 251, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode(None))
    for number in range(1, FILES):
        shutil.copy(first, folder / f"{number:03}.mp4")


def _run(folder: Path) -> list[float]:
    done = subprocess.run([sys.executable, __file__, "--one", str(folder)], capture_output=True,
                          text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
