"""The plain script: OpenCV, onnxruntime as it comes, one picture at a time.

    python benchmarks/plain_onnxruntime.py --clips 8
"""

from __future__ import annotations

import time

from detector import LEAST, Counter, arguments, clips, frames, onnx_file, tell


def main() -> None:
    """Print the frames with at least 8 vehicles, and the seconds it took, loading included."""
    import cv2
    import onnxruntime

    given = arguments(__doc__ or "")
    file, paths, count = onnx_file(given.folder), clips(given.clips), Counter()
    cv2.setNumThreads(1)
    started, rows, seen = time.perf_counter(), [], 0
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for path in paths:
        for number, picture in enumerate(frames(path)):
            head = session.run(None, {"pictures": picture[None]})[0][0]
            seen += 1
            if count(head) >= LEAST:
                rows.append((path, number))
            if given.limit and len(rows) >= given.limit:
                tell(time.perf_counter() - started, seen, rows)
                return
    tell(time.perf_counter() - started, seen, rows)


if __name__ == "__main__":
    main()
