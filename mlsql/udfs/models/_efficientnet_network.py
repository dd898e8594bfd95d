"""The network of efficientnet_lite0, built out of its published state.

Imports torch, so the model file imports it only where it loads the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn
from torch.nn import functional

from mlsql.udfs.models._layers import Conv, InvertedResidual, folded, frozen

# Kernel, stride, widening, output channels, repeats.
_STAGES = (
    (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3), (5, 2, 6, 192, 4), (3, 1, 6, 320, 1),
)
_BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


class EfficientNetLite0(nn.Module):
    """The convolutions with batch norm folded in, average pooling, one linear layer."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        read = _Reader(state)
        self.stem = read.conv("_conv_stem", "_bn0", stride=2)
        self.blocks = nn.Sequential(*read.blocks())
        self.last = read.conv("_conv_head", "_bn1")
        self.weight, self.bias = frozen(state["_fc.weight"]), frozen(state["_fc.bias"])

    def forward(self, x: Tensor) -> Tensor:
        """(pictures, 3, 224, 224) RGB as (x - 127) / 128 to (pictures, 1000) logits.

        The answer has the precision of the weights, whatever the input's.
        """
        return functional.linear(self.features(x), self.weight, self.bias)

    def features(self, x: Tensor) -> Tensor:
        """The same input to (pictures, 1280) averages of the last convolution."""
        x = self.blocks(self.stem(x.to(self.stem.weight.dtype)))
        pooled: Tensor = self.last(x).mean(dim=(2, 3))
        return pooled


class _Reader:
    """Makes layers of a state, named as efficientnet-lite-pytorch does."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self._state = state

    def blocks(self) -> Iterator[InvertedResidual]:
        number = 0
        for kernel, stride, widening, channels, repeats in _STAGES:
            for repeat in range(repeats):
                block = self._block(number, stride if repeat == 0 else 1, widening > 1)
                assert block.depthwise.weight.shape[-1] == kernel
                assert len(block.project.weight) == channels
                yield block
                number += 1

    def _block(self, number: int, stride: int, widens: bool) -> InvertedResidual:
        at = f"_blocks.{number}"
        return InvertedResidual(
            self.conv(f"{at}._expand_conv", f"{at}._bn0") if widens else None,
            self.conv(f"{at}._depthwise_conv", f"{at}._bn1", stride, depthwise=True),
            self.conv(f"{at}._project_conv", f"{at}._bn2", linear=True),
        )

    def conv(self, name: str, norm: str, stride: int = 1, depthwise: bool = False,
             linear: bool = False) -> Conv:
        weight, bias = folded(self._state[f"{name}.weight"],
                              [self._state[f"{norm}.{part}"] for part in _BATCH_NORM], 1e-3)
        return Conv(weight, bias, stride, len(weight) if depthwise else 1, linear)
