"""Peak resident memory of a query over 1080p video: `python benchmarks/memory.py [--file t.md]`.

The base is the same query over one frame, with the model loaded; 500 and 2,000 frames should stay
under base + 512 MB, and be equal but for noise. The video is made with PyAV, moving noise over a
gradient, so that every picture is decoded, kept in flight and looked at.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
COUNTS = (1, 500, 2000)


def main() -> None:
    """The table; with --one, the query that is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", type=Path, default=None, help="where the table is written, too")
    parser.add_argument("--cheap", action="store_true", help="a mean instead of the detector")
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(Path(given.one[0]), int(given.one[1]), given.cheap)
        return
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "large.mp4"
        write_video(video, max(COUNTS))
        peaks = {count: _peak(video, count, given.cheap) for count in COUNTS}
    base = peaks[1]
    lines = ["| frames of 1080p | peak MB | above one frame |", "|---|---|---|"]
    lines += [f"| {count:,} | {peak:.0f} | {peak - base:+.0f} |" for count, peak in peaks.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.file:
        given.file.write_text(text, encoding="utf-8")


def measure(video: Path, count: int, cheap: bool) -> None:
    """Run the query; print the process's peak in kilobytes."""
    import mlsql

    session = mlsql.connect(config={"cache": False})
    session.register_model(lambda pictures: [float(p.mean()) for p in pictures], name="bright",
                           task="predict", output="DOUBLE")
    call = "bright(frame) > 0" if cheap else "COUNT_OBJECTS(frame, 'person') >= 0"
    found = session.execute(f"SELECT count(*) FROM read_video('{video}') "
                            f"WHERE frame_id < {count} AND {call}").fetchall()
    assert found == [(count,)], found
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def write_video(path: Path, count: int) -> None:
    """1920x1080, 25 frames a second."""
    import av
    import numpy as np

    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (1080, 3840, 3), dtype=np.uint8) // 4
    slope = np.linspace(0, 190, 1920, dtype=np.uint8)[None, :, None]
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.bit_rate = 1920, 1080, 4_000_000
        for number in range(count):
            shift = number * 8 % 1920
            picture = np.ascontiguousarray(noise[:, shift:shift + 1920] + slope)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode(None))


def _peak(video: Path, count: int, cheap: bool) -> float:
    command = [sys.executable, __file__, "--one", str(video), str(count)]
    done = subprocess.run(command + ["--cheap"] * cheap, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    return int(json.loads(done.stdout.splitlines()[-1])) / 1024


if __name__ == "__main__":
    main()
