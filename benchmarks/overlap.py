"""What is not done twice, and what is done at once: `python benchmarks/overlap.py [--file t.md]`.

LIMIT 5 beside the least number of frames that must be looked at; two models in one WHERE, decoded
once; and the wall time of a sleeping decoder beside a sleeping model, which should be that of the
slower one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from detector import LEAST, ROOT, SCORE, clips

sys.path.insert(0, str(ROOT))


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", type=Path, default=None, help="where the table is written, too")
    given = parser.parse_args()
    lines = ["| | |", "|---|---|", *limit(), *two_models(), *overlap()]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.file:
        given.file.write_text(text, encoding="utf-8")


def limit() -> list[str]:
    """Model calls of LIMIT 5 against the ordinal of the fifth frame that passes."""
    import mlsql

    video = clips(8)[3]
    condition = f"COUNT_OBJECTS(frame, 'vehicle', min_score => {SCORE}) >= {LEAST - 4}"
    query = f"SELECT frame_id FROM read_video('{video}') WHERE {condition} LIMIT 5"
    with mlsql.connect(config={"cache": False}) as session:
        found = session.execute(query)
        rows = [row[0] for row in found.fetchall()]
        model = found.stats.models[0]
        batch = model.calls / max(1, model.batches)
    least = max(rows) + 1
    return [f"| LIMIT 5: calls, and the least possible | {model.calls}, {least} (calls of "
            f"{batch:.0f}) |"]


def two_models() -> list[str]:
    """Frames decoded where two models look at the same ones."""
    import mlsql

    with mlsql.connect(config={"cache": False}) as session:
        for name in ("one", "two"):
            session.register_model(_mean, name=name, task="predict", output="DOUBLE")
        found = session.execute(f"SELECT count(*) FROM read_video('{clips(1)[0]}') "
                                "WHERE one(frame) > 0 AND two(frame) > 0")
        frames = found.fetchall()[0][0]
        stats = found.stats
    return [f"| two models in one WHERE: frames, calls, frames decoded | {frames}, {stats.calls}, "
            f"{stats.frames_decoded} |"]


def overlap(seconds: float = 0.004, count: int = 1_000) -> list[str]:
    """A decoder and two models that sleep: neither needs the processor that the other has."""
    from mlsql.exec.share import Step
    from mlsql.exec.worker import Worker, WorkerOptions
    from tests.fakes import FakeDecoder, frame_of, handles, share_of, sleeping

    models = [sleeping(seconds / 2, name=name, function=frame_of)[0] for name in ("one", "two")]
    share = share_of({"frame": handles(range(count))}, *(Step(m, "frame") for m in models))
    worker = Worker(WorkerOptions(), lambda: FakeDecoder(seconds=seconds))
    first = share_of({"frame": handles([0])}, *(Step(m, "frame") for m in models))
    list(worker.run(first))  # libraries are loaded once, and not per frame
    started = time.perf_counter()
    decoded = sum(event.counters.frames_decoded for event in worker.run(share)
                  if hasattr(event, "counters"))
    wall = time.perf_counter() - started
    worker.close()
    alone = _alone(FakeDecoder(seconds=seconds), count)
    return [f"| {count} frames, decoder and models asleep {seconds:g} s a frame each: wall over "
            f"the slower alone | {wall / alone:.2f} ({decoded} decoded) |"]


def _alone(decoder: Any, count: int) -> float:
    from mlsql.exec.media.handle import Handle

    started = time.perf_counter()
    for _ in decoder.decode([Handle("fake.mp4", number, None) for number in range(count)]):
        pass
    return time.perf_counter() - started


def _mean(pictures: list[Any]) -> list[float]:
    return [float(picture.mean()) + 1 for picture in pictures]


if __name__ == "__main__":
    main()
