"""The network of ssd_mobilenet_v2, built out of its frozen graph's constants.

Imports torch, so the model file imports it only where it loads the network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mlsql.udfs.labels_coco import COCO_IDS, COCO_LABELS
from mlsql.udfs.models._boxes import BOX, GRIDS
from mlsql.udfs.models._frozen_graph import FrozenGraph
from mlsql.udfs.models._layers import Conv, InvertedResidual, folded

_STRIDES = {1: 2, 3: 2, 6: 2, 13: 2}  # of the inverted residuals; the others have stride 1
_BLOCKS = 17
_TAPPED = 13  # the block whose widened half feeds the first head
_EXTRAS = ((2, 256, 512), (3, 128, 256), (4, 128, 256), (5, 64, 128))
_COLUMNS = BOX + len(COCO_LABELS)


class SSDMobileNetV2(nn.Module):
    """MobileNetV2, SSD's extra layers and the heads; one head gives box codes and logits."""

    def __init__(self, graph: FrozenGraph) -> None:
        super().__init__()
        read = _Reader(graph)
        self.stem = read.conv("Conv", stride=2)
        self.early = nn.Sequential(*(read.block(i) for i in range(_TAPPED)))
        self.tapped = read.block(_TAPPED)
        self.late = nn.Sequential(*(read.block(i) for i in range(_TAPPED + 1, _BLOCKS)),
                                  read.conv("Conv_1"))
        self.extras = nn.ModuleList(read.extra(*numbers) for numbers in _EXTRAS)
        self.heads = nn.ModuleList(read.head(i) for i in range(len(GRIDS)))

    def forward(self, x: Tensor) -> Tensor:
        """(pictures, 3, 300, 300) RGB in -1..1 to (pictures, anchors, 4 box codes and 80 logits).

        The answer has the precision of the weights, whatever the input's.
        """
        maps = self._features(x.to(self.stem.weight.dtype))
        flat = [
            head(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, _COLUMNS)
            for head, x in zip(self.heads, maps, strict=True)
        ]
        return torch.cat(flat, dim=1)

    def _features(self, x: Tensor) -> list[Tensor]:
        x = self.early(self.stem(x))
        # A head reads it later, and nothing after this writes into it.
        wide = self.tapped.widen(x)
        x = self.late(self.tapped.narrow(x, wide))
        maps = [wide, x]
        for extra in self.extras:
            x = extra(x)
            maps.append(x)
        return maps


class _Reader:
    """Makes layers of a graph's constants, named as TensorFlow's Object Detection API does."""

    def __init__(self, graph: FrozenGraph) -> None:
        self._graph = graph

    def block(self, i: int) -> InvertedResidual:
        name = f"expanded_conv_{i}" if i else "expanded_conv"
        return InvertedResidual(
            self.conv(f"{name}/expand") if i else None,
            self.conv(f"{name}/depthwise", stride=_STRIDES.get(i, 1), depthwise=True),
            self.conv(f"{name}/project", linear=True),
        )

    def extra(self, number: int, narrow: int, wide: int) -> nn.Sequential:
        name = f"layer_19_2_Conv2d_{number}_3x3_s2_{wide}"
        return nn.Sequential(
            self.conv(f"layer_19_1_Conv2d_{number}_1x1_{narrow}"),
            self.conv(f"{name}_depthwise", stride=2, depthwise=True),
            self.conv(name),
        )

    def conv(
        self, name: str, stride: int = 1, depthwise: bool = False, linear: bool = False
    ) -> Conv:
        path = f"FeatureExtractor/MobilenetV2/{name}"
        weight = self._tensor(f"{path}/{'depthwise_' if depthwise else ''}weights")
        # TensorFlow keeps (k, k, in, out), or (k, k, channels, 1) for one filter a channel.
        weight = weight.permute((2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
        norm = [self._tensor(f"{path}/BatchNorm/{part}")
                for part in ("gamma", "beta", "moving_mean", "moving_variance")]
        weight, bias = folded(weight, norm, epsilon=1e-3)
        return Conv(weight, bias, stride, len(weight) if depthwise else 1, linear)

    def head(self, i: int) -> Conv:
        """Boxes and classes of one map as one convolution, without the classes COCO never used."""
        boxes = self._predictor(f"BoxPredictor_{i}/BoxEncodingPredictor", list(range(BOX)), BOX)
        # 91 ids: 0 is background, and 10 others stand for classes that COCO dropped.
        classes = self._predictor(f"BoxPredictor_{i}/ClassPredictor", list(COCO_IDS), 91)
        weight, bias = (
            torch.cat(pair, dim=1).flatten(0, 1) for pair in zip(boxes, classes, strict=True)
        )
        return Conv(weight, bias, linear=True)

    def _predictor(self, path: str, keep: list[int], columns: int) -> tuple[Tensor, Tensor]:
        weight = self._tensor(f"{path}/weights").permute(3, 2, 0, 1)
        bias = self._tensor(f"{path}/biases")
        return (weight.reshape(-1, columns, *weight.shape[1:])[:, keep],
                bias.reshape(-1, columns)[:, keep])

    def _tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self._graph.constant(name).copy())
