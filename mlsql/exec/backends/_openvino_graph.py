"""A traced network as a graph of OpenVINO's, built through its own Python interface.

Imports openvino, an optional part of an installation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

from mlsql.exec.backends import _winograd
from mlsql.exec.backends._trace import Operation, Trace, Value
from mlsql.udfs.network import Pixels

Node = Any
Maker = Callable[..., Node]


def graph(
    trace: Trace, pixels: Pixels, ranges: Sequence[float] | None = None, exact: bool = True
) -> Any:
    """An openvino.Model from RGB uint8 (pictures, side, side, 3) to the network's answer.

    `exact` says that it will be computed in fp32, where some convolutions have a faster form.
    With `ranges`, the largest magnitude of each convolution's input, negative where that has a
    sign, the convolutions are in 8 bits, but for those of one filter a channel: they are a tenth
    of the work and most of the loss. An operation that is not known here is a TypeError.
    """
    picture = ops.parameter([-1, pixels.side, pixels.side, 3], np.uint8, name="pictures")
    plain = ops.transpose(ops.convert(picture, np.float32), np.array([0, 3, 1, 2]))
    scaled = ops.multiply(plain, np.float32(pixels.scale))
    makers = {**_MAKERS, "conv2d": _fast_convolution} if exact and ranges is None else _MAKERS
    building = _Building(ops.add(scaled, np.float32(pixels.shift)), ranges, makers)
    for operation in trace.operations:
        building.add(operation)
    return openvino.Model([ops.result(building.last)], [picture], "network")


class _Building:
    """The nodes made so far."""

    def __init__(
        self, entry: Node, ranges: Sequence[float] | None, makers: Mapping[str, Maker]
    ) -> None:
        self._makers = makers
        self._nodes: dict[int, Node] = {0: entry}
        self._ranges = iter(ranges) if ranges is not None else None
        self.last = entry

    def add(self, operation: Operation) -> None:
        make = self._makers.get(operation.name.rstrip("_"))
        if make is None:
            raise TypeError(f"{operation.name} has no counterpart in OpenVINO here")
        arguments = [self._given(value) for value in operation.arguments]
        if operation.name == "conv2d" and self._ranges is not None:
            largest = next(self._ranges)
            if operation.options.get("groups", 1) == 1:
                arguments[:2] = _in_8_bits(arguments[0], arguments[1], largest)
        options = {name: self._given(value) for name, value in operation.options.items()}
        self.last = self._nodes[operation.result.number] = make(*arguments, **options)

    def _given(self, value: Any) -> Any:
        if isinstance(value, Value):
            return self._nodes[value.number]
        if hasattr(value, "detach"):
            return value.detach().float().contiguous().numpy()
        if isinstance(value, (list, tuple)):
            return [self._given(item) for item in value]
        return value


def _in_8_bits(x: Node, weight: np.ndarray[Any, Any], largest: float) -> list[Node]:
    """Input and weight of a convolution as multiples of a step: a tensor's, an output channel's.

    Zero is one of them, as paddings are zeros. Weights use 7 bits: pairs of products of 8 bits
    overflow on processors without VNNI.
    """
    high = np.float32(abs(largest))
    low = np.float32(0.0 if largest > 0 else -high * 128 / 127)
    x = ops.fake_quantize(x, low, high, low, high, 256)
    reach = 2 * np.abs(weight).max(axis=(1, 2, 3), keepdims=True).astype(np.float32)
    reach = np.maximum(reach, np.float32(1e-8))
    return [x, ops.fake_quantize(ops.constant(weight), -reach, reach, -reach, reach, 255)]


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _convolution(
    x: Node, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Node:
    sides = _pair(padding)
    settings = (_pair(stride), sides, sides, _pair(dilation))
    if groups == 1:
        made = ops.convolution(x, weight, *settings)
    else:
        made = ops.group_convolution(x, _grouped(weight, groups), *settings)
    return made if bias is None else ops.add(made, np.reshape(bias, (1, -1, 1, 1)))


def _fast_convolution(
    x: Node, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Node:
    """As `_convolution`, with fewer multiplications where that is faster."""
    pairs = _pair(stride), _pair(padding), _pair(dilation)
    if groups != 1 or not _winograd.pays(x, weight, *pairs):
        return _convolution(x, weight, bias, stride, padding, dilation, groups)
    made = _winograd.convolution(x, weight)
    return made if bias is None else ops.add(made, np.reshape(bias, (1, -1, 1, 1)))


def _grouped(weight: Any, groups: int) -> Node:
    if isinstance(weight, np.ndarray):
        return weight.reshape(groups, -1, *weight.shape[1:])
    shape = list(weight.output(0).get_shape())
    return ops.reshape(weight, np.array([groups, shape[0] // groups, *shape[1:]]), False)


def _padded(x: Node, sides: Sequence[int], mode: str = "constant", value: float = 0.0) -> Node:
    if mode != "constant" or len(sides) != 4:
        raise TypeError(f"padding of {sides} by {mode!r} has no counterpart in OpenVINO here")
    left, right, top, bottom = sides
    begin, end = np.array([0, 0, top, left]), np.array([0, 0, bottom, right])
    return ops.pad(x, begin, end, "constant", np.float32(value or 0.0))


def _reshaped(x: Node, *shape: Any) -> Node:
    """The pictures' axis is taken from the input, so that any number of them will do."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], list) else list(shape)
    return ops.reshape(x, np.array([0, *given[1:]]), True)


def _mean(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    return ops.reduce_mean(x, np.array(_pair(dim) if isinstance(dim, int) else dim), keepdim)


def _linear(x: Node, weight: Any, bias: Any = None) -> Node:
    made = ops.matmul(x, weight, False, True)
    return made if bias is None else ops.add(made, bias)


def _permuted(x: Node, *order: Any) -> Node:
    given = order[0] if len(order) == 1 else order
    return ops.transpose(x, np.array(given))


_MAKERS: Mapping[str, Maker] = {
    "conv2d": _convolution,
    "pad": _padded,
    "clamp": lambda x, low, high: ops.clamp(x, float(low), float(high)),
    "relu": lambda x, inplace=False: ops.relu(x),
    "add": lambda x, y: ops.add(x, y),
    "mul": lambda x, y: ops.multiply(x, y),
    "permute": _permuted,
    "reshape": _reshaped,
    "cat": lambda parts, dim=0: ops.concat(parts, dim),
    "mean": _mean,
    "linear": _linear,
    "float": lambda x: x,
    "to": lambda x, *_: x,
}
