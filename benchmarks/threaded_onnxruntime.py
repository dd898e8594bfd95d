"""The best threaded script: one decoding thread beside a one-thread onnxruntime session a core.

Sessions of one thread and small batches did best of what was tried: a session of two threads waits
at every layer for the one that the decoder holds up.

    python benchmarks/threaded_onnxruntime.py --clips 8
"""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import Any

from detector import LEAST, Counter, arguments, clips, frames, onnx_file, tell

BATCH = 4


def main() -> None:
    """Print the frames with at least 8 vehicles, and the seconds it took, loading included."""
    import cv2

    given = arguments(__doc__ or "")
    file, paths = onnx_file(given.folder), clips(given.clips)
    cv2.setNumThreads(1)
    started = time.perf_counter()
    work: queue.Queue[Any] = queue.Queue(maxsize=16)
    rows: list[tuple[str, int]] = []
    seen: list[int] = []
    cores = len(os.sched_getaffinity(0))
    threads = [threading.Thread(target=infer, args=(file, work, rows, seen)) for _ in range(cores)]
    for thread in threads:
        thread.start()
    batch: list[tuple[str, int, Any]] = []
    for path in paths:
        for number, picture in enumerate(frames(path)):
            batch.append((path, number, picture))
            if len(batch) == BATCH:
                work.put(batch)
                batch = []
    for last in ([batch] if batch else []) + [None] * cores:
        work.put(last)
    for thread in threads:
        thread.join()
    tell(time.perf_counter() - started, len(seen), rows)


def infer(
    file: Path, work: queue.Queue[Any], rows: list[tuple[str, int]], seen: list[int]
) -> None:
    """Take batches until there is None."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    count = Counter()
    while (batch := work.get()) is not None:
        heads = session.run(None, {"pictures": np.stack([p for _, _, p in batch])})[0]
        for (path, number, _), head in zip(batch, heads):
            seen.append(number)
            if count(head) >= LEAST:
                rows.append((path, number))


if __name__ == "__main__":
    main()
