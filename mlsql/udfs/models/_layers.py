"""The layers that TensorFlow-trained mobile networks share.

Imports torch, so a model file imports it only where it loads or runs the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.backends import cudnn
from torch.nn import functional


class Conv(nn.Module):
    """A convolution with TensorFlow's SAME padding, then ReLU6 unless `linear`.

    `weight` is (out, in/groups, k, k); what batch norm followed is folded into it.
    """

    def __init__(self, weight: Tensor, bias: Tensor, stride: int = 1, groups: int = 1,
                 linear: bool = False) -> None:
        super().__init__()
        self.weight = frozen(weight.contiguous(memory_format=torch.channels_last))
        self.bias = frozen(bias)
        self.stride, self.groups, self.linear = stride, groups, linear

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of (pictures, channels, height, width)."""
        kernel = self.weight.shape[-1]
        (top, bottom), (left, right) = (
            same_padding(size, kernel, self.stride) for size in x.shape[-2:]
        )
        if (top, left) != (bottom, right):
            x = functional.pad(x, (left, right, top, bottom))
            top = left = 0
        x = functional.conv2d(
            x, self.weight, self.bias, self.stride, (top, left), groups=self.groups
        )
        return x if self.linear else x.clamp_(0.0, 6.0)

    def extra_repr(self) -> str:
        """What printing the network says of this layer."""
        return (f"{tuple(self.weight.shape)}, stride={self.stride}, groups={self.groups},"
                f" linear={self.linear}")


class InvertedResidual(nn.Module):
    """MobileNetV2's block: widen, filter each channel, narrow; added to its input if it fits."""

    def __init__(self, expand: Conv | None, depthwise: Conv, project: Conv) -> None:
        super().__init__()
        self.expand, self.depthwise, self.project = expand, depthwise, project

    def forward(self, x: Tensor) -> Tensor:
        """The whole block."""
        return self.narrow(x, self.widen(x))

    def widen(self, x: Tensor) -> Tensor:
        """The first half alone, which SSD takes features from."""
        if self.expand is None:
            return x
        wide: Tensor = self.expand(x)
        return wide

    def narrow(self, x: Tensor, wide: Tensor) -> Tensor:
        """The second half: `wide` is what `widen` made of `x`."""
        y: Tensor = self.project(self.depthwise(wide))
        return y.add_(x) if y.shape == x.shape else y


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME padding of one axis, before and after: the odd one goes after."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def folded(weight: Tensor, norm: Sequence[Tensor], epsilon: float) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution that does what convolution and batch norm did.

    `norm` is the scale, the shift, the running mean and the running variance.
    """
    gamma, beta, mean, variance = norm
    scale = gamma / (variance + epsilon).sqrt()
    return weight * scale[:, None, None, None], beta - mean * scale


def frozen(values: Tensor) -> nn.Parameter:
    """A weight that is never trained."""
    return nn.Parameter(values, requires_grad=False)


def full_precision() -> AbstractContextManager[None]:
    """Keeps NVIDIA's convolutions in float32: their default, TF32, moves scores by over 1e-4."""
    held: AbstractContextManager[None] = cudnn.flags(enabled=True, allow_tf32=False)
    return held
