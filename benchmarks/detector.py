"""What the benchmarks share: the clips, the detector as an ONNX file, and its answers as rows.

The other runtimes need `pip install onnx onnxruntime`; the file is exported from mlsql's own
network, so that everybody runs the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SCORE, LEAST = 0.4, 8


def clips(count: int | None = None) -> list[str]:
    """The traffic clips of the test data, or so many of them spread over all."""
    data = Path(os.environ.get("MLSQL_TEST_DATA") or ROOT.parent / "shared" / "data")
    found = sorted(map(str, (data / "video" / "tfl_jamcam").glob("*.mp4")))
    if not found:
        sys.exit(f"no clips in {data}: set MLSQL_TEST_DATA to the folder of test data")
    step = max(1, len(found) // count) if count else 1
    return found[::step][:count]


def onnx_file(folder: Path) -> Path:
    """The detector as ONNX: RGB uint8 (n, 300, 300, 3) to raw answers; exported once."""
    file = folder / "ssd_mobilenet_v2.onnx"
    if not file.exists():
        export(file)
    return file


def export(file: Path) -> None:
    """Write the file."""
    import torch

    from mlsql.udfs.models import ssd_mobilenet_v2

    detector = ssd_mobilenet_v2.load(ssd_mobilenet_v2.SPEC, "cpu")

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = detector.network

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            how = detector.pixels
            return self.network(pictures.permute(0, 3, 1, 2).float() * how.scale + how.shift)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Whole().eval(), (torch.zeros(2, 300, 300, 3, dtype=torch.uint8),), str(file),
            dynamo=False, input_names=["pictures"], output_names=["heads"],
            dynamic_axes={"pictures": {0: "n"}, "heads": {0: "n"}})


class Counter:
    """How many vehicles a raw answer shows, with numpy alone."""

    def __init__(self) -> None:
        from mlsql.udfs.labels_coco import COCO_LABELS
        from mlsql.udfs.models._boxes import anchors
        from mlsql.udfs.models._boxes_numpy import kept

        self._kept, self._anchors = kept, anchors()
        self._vehicles = [COCO_LABELS.index(name) for name in vehicles()]

    def __call__(self, head: Any) -> int:
        import numpy as np

        found = self._kept(head, self._anchors, 0.05)
        scores = found[:, 1].round(6) >= SCORE
        return int((scores & np.isin(found[:, 0], self._vehicles)).sum())


def vehicles() -> list[str]:
    """The labels that 'vehicle' covers in mlsql."""
    from mlsql.udfs import vocabulary
    from mlsql.udfs.models.ssd_mobilenet_v2 import SPEC

    return sorted(vocabulary.resolve("vehicle", SPEC))


def frames(path: str) -> Iterator[Any]:
    """The pictures of a clip as a plain script reads them: OpenCV, RGB, 300 by 300."""
    import cv2

    video = cv2.VideoCapture(path)
    while True:
        ok, picture = video.read()
        if not ok:
            return
        rgb = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        yield cv2.resize(rgb, (300, 300), interpolation=cv2.INTER_LINEAR)


def arguments(doc: str) -> argparse.Namespace:
    """--clips, --folder (of the ONNX file) and --limit, for the scripts that are compared."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--clips", type=int, default=None, help="so many of the 55")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"), help="of the ONNX file")
    parser.add_argument("--limit", type=int, default=None, help="stop after so many rows")
    return parser.parse_args()


def tell(seconds: float, looked_at: int, rows: list[tuple[str, int]], **more: Any) -> None:
    """What a script found, as one line of JSON."""
    print(json.dumps({"seconds": seconds, "frames": looked_at, "rows": sorted(rows), **more}))
