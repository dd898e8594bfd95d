"""The layers that TensorFlow-trained mobile networks share, on torch tensors.

Plain functions and values rather than nn.Module, so that importing a model file costs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Conv:
    """A convolution with TensorFlow's SAME padding, then ReLU6 unless `linear`.

    `weight` is (out, in/groups, k, k); what batch norm followed is folded into it.
    """

    weight: Tensor
    bias: Tensor
    stride: int = 1
    groups: int = 1
    linear: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        from torch.nn import functional

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


@dataclass(frozen=True)
class InvertedResidual:
    """MobileNetV2's block: widen, filter each channel, narrow; added to its input if it fits."""

    expand: Conv | None
    depthwise: Conv
    project: Conv

    def __call__(self, x: Tensor) -> Tensor:
        return self.narrow(x, self.widen(x))

    def widen(self, x: Tensor) -> Tensor:
        """The first half alone, which SSD takes features from."""
        return x if self.expand is None else self.expand(x)

    def narrow(self, x: Tensor, wide: Tensor) -> Tensor:
        """The second half: `wide` is what `widen` made of `x`."""
        y = self.project(self.depthwise(wide))
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


def full_precision() -> AbstractContextManager[None]:
    """Keeps NVIDIA's convolutions in float32: their default, TF32, moves scores by over 1e-4."""
    from torch.backends import cudnn

    held: AbstractContextManager[None] = cudnn.flags(enabled=True, allow_tf32=False)
    return held
