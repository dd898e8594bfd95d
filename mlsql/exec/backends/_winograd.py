"""3x3 convolutions with fewer multiplications: Winograd's F(2x2, 3x3), as nodes of OpenVINO's.

A 2x2 patch of the answer takes 16 multiplications a channel instead of 36: the 4x4 patch of the
input and the 3x3 kernel are transformed, multiplied number by number, and the products transformed
back (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015). The sum over the
channels stands at each of the 16 places, which makes it a matrix product, and these are what a
processor does best. In fp32 roundings differ by some 1e-6 of the sums; in 8 or 16 bits, by more.

Imports openvino, an optional part of an installation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from openvino import opset13 as ops

Node = Any
Weights = np.ndarray[Any, Any]

# Points 0, 1, -1 and infinity: input, kernel and answer of one dimension.
_INPUT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64)
_KERNEL = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.float64) / 2
_ANSWER = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64)

# With fewer channels in or out, the transforms cost what the products save.
_LEAST_IN, _LEAST_OUT = 256, 128
_GAIN = 2.0  # of multiplications: patches that hang over the edge may eat it up


def pays(x: Node, weight: Weights, strides: Sequence[int], sides: Sequence[int],
         dilation: Sequence[int]) -> bool:
    """Whether a convolution of one group is such that this way is faster."""
    if weight.shape[2:] != (3, 3) or {*strides, *sides, *dilation} != {1}:
        return False
    if weight.shape[0] < _LEAST_OUT or weight.shape[1] < _LEAST_IN:
        return False
    if x.output(0).get_partial_shape()[2:].is_dynamic:
        return False
    height, width = _size(x)
    return 9 * height * width >= _GAIN * 16 * _half(height) * _half(width)


def convolution(x: Node, weight: Weights) -> Node:
    """The convolution of (pictures, channels, height, width) by a 3x3 kernel, zeros around it."""
    outputs = weight.shape[0]
    height, width = _size(x)
    products = _products(x, weight)
    # Down the rows of products, then along what is left of the columns.
    rows = [[_sum([line[j] for line in products], part) for j in range(4)] for part in _ANSWER]
    down, along = _half(height), _half(width)
    shape = np.array([-1, down, 1, along, 1, outputs])
    patches = [
        ops.concat([ops.reshape(_sum(row, part), shape, False) for part in _ANSWER], 4)
        for row in rows
    ]
    whole = np.array([-1, 2 * down, 2 * along, outputs])
    answer = ops.reshape(ops.concat(patches, 2), whole, False)
    if (height, width) != (2 * down, 2 * along):
        ends, axes = np.array([height, width]), np.array([1, 2])
        answer = ops.slice(answer, np.array([0, 0]), ends, np.array([1, 1]), axes)
    return ops.transpose(answer, np.array([0, 3, 1, 2]))


def _products(x: Node, weight: Weights) -> list[list[Node]]:
    """Sums over the channels at the 4 by 4 places, each (pictures * patches, outputs)."""
    kernels = np.einsum("ia,ocab,jb->ijco", _KERNEL, weight.astype(np.float64), _KERNEL)
    channels = weight.shape[1]
    found: list[list[Node]] = []
    for i in range(4):
        found.append([])
        for j in range(4):
            patches = ops.transpose(_transformed(x, i, j), np.array([0, 2, 3, 1]))
            flat = ops.reshape(patches, np.array([-1, channels]), False)
            kernel = np.ascontiguousarray(kernels[i, j], np.float32)
            found[i].append(ops.matmul(flat, kernel, False, False))
    return found


def _transformed(x: Node, i: int, j: int) -> Node:
    """One of the 16 numbers that each 4x4 patch becomes, in every channel for itself.

    That is a filter of 4 by 4 at every other place, which needs neither slices nor a padded copy.
    """
    channels = x.output(0).get_partial_shape()[1].get_length()
    height, width = _size(x)
    taps = np.outer(_INPUT[i], _INPUT[j]).astype(np.float32)
    taps = np.ascontiguousarray(np.broadcast_to(taps, (channels, 1, 1, 4, 4)))
    after = [2 * _half(height) + 1 - height, 2 * _half(width) + 1 - width]
    return ops.group_convolution(x, taps, [2, 2], [1, 1], after, [1, 1])


def _sum(parts: Sequence[Node], signs: Weights) -> Node:
    """Sum of the parts, each times 1, 0 or -1; the first that counts has a 1."""
    signed = [(sign, part) for sign, part in zip(signs, parts, strict=True) if sign]
    total = signed[0][1]
    for sign, part in signed[1:]:
        total = ops.add(total, part) if sign > 0 else ops.subtract(total, part)
    return total


def _size(x: Node) -> tuple[int, int]:
    shape = x.output(0).get_partial_shape()
    return shape[2].get_length(), shape[3].get_length()


def _half(length: int) -> int:
    return -(-length // 2)
