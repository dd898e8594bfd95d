"""The detector for the peers' scripts, without mlsql: an ONNX file and a count of vehicles.

`folder` holds ssd_mobilenet_v2.onnx, and detector.npz with the anchors and the vehicles' columns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SCORE, LEAST = 0.4, 8


class Vehicles:
    """Counts vehicles on RGB pictures of any size, a batch at a time."""

    def __init__(self, folder: str) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(
            str(Path(folder) / "ssd_mobilenet_v2.onnx"), providers=["CPUExecutionProvider"])
        known = np.load(Path(folder) / "detector.npz")
        self._anchors, self._columns = known["anchors"], known["columns"]

    def __call__(self, pictures: Sequence[Any]) -> list[int]:
        import cv2

        small = [cv2.resize(np.asarray(p), (300, 300), interpolation=cv2.INTER_LINEAR)
                 for p in pictures]
        heads = self._session.run(None, {"pictures": np.stack(small)})[0]
        return [self._count(head) for head in heads]

    def _count(self, head: Any) -> int:
        logits = head[:, 4:][:, self._columns]
        anchor, label = np.nonzero(logits > np.log(SCORE / (1 - SCORE)))
        order = np.argsort(-logits[anchor, label], kind="stable")
        anchor, label = anchor[order], label[order]
        code, place = head[anchor, :4], self._anchors[anchor]
        centre = code[:, :2] / 10 * place[:, 2:] + place[:, :2]
        half = np.exp(code[:, 2:] / 5) * place[:, 2:] / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1).clip(0, 1)
        kept: list[int] = []
        for i in range(len(boxes)):
            if all(label[i] != label[j] or _overlap(boxes[i], boxes[j]) <= 0.6 for j in kept):
                kept.append(i)
        return len(kept)


def _overlap(a: Any, b: Any) -> float:
    high = min(a[2], b[2]) - max(a[0], b[0])
    wide = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(high, 0) * max(wide, 0)
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return float(shared / max(both - shared, 1e-12))


def tasks(run: Callable[[str], Any]) -> None:
    """Time `run` on the query, the query again, LIMIT 5 and AVG; print seconds and answers."""
    for name in ("where", "where", "limit", "avg"):
        started = time.perf_counter()
        answer = run(name)
        print(json.dumps({"task": name, "seconds": time.perf_counter() - started,
                          "answer": answer}), flush=True)


def given() -> tuple[str, list[str]]:
    """The folder and the clips, from the command line."""
    return sys.argv[1], sys.argv[2:]
