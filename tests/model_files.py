"""Small models written in the real formats, each with answers that can be told by hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SIDE = 8


@contextmanager
def quiet() -> Iterator[None]:
    """torch calls some of its formats deprecated; they are what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def means(scale: float = 10.0) -> Any:
    """Three logits for a picture: `scale` times the mean of each channel."""
    import torch

    class Means(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(dim=(2, 3)) * scale

    return Means().eval()


def detector() -> Any:
    """Two boxes a picture, the first scored by its mean: boxes, scores, labels 1 and 0."""
    import torch

    class Two(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            first = x.mean(dim=(1, 2, 3))
            boxes = first.reshape(-1, 1, 1) * 0 + x.new_tensor([[2.0, 2, 6, 6], [0, 0, 1, 1]])
            scores = torch.stack([first, first * 0], 1)
            labels = torch.ones_like(scores, dtype=torch.int64)
            labels[:, 1] = 0
            return boxes, scores, labels

    return Two().eval()


def torchscript(module: Any, path: Path, example: Any = None) -> Path:
    import torch

    with quiet():
        given = torch.rand(2, 3, SIDE, SIDE) if example is None else example
        torch.jit.save(torch.jit.trace(module, given), str(path))
    return path


def exported(module: Any, path: Path, batch: int = 2, dynamic: bool = True) -> Path:
    import torch

    with quiet():
        shapes = ({0: torch.export.Dim("n")},) if dynamic else None
        program = torch.export.export(module, (torch.rand(batch, 3, SIDE, SIDE),),
                                      dynamic_shapes=shapes)
        torch.export.save(program, str(path))
    return path


def state_dict(module: Any, path: Path) -> Path:
    import torch

    torch.save(module.state_dict(), str(path))
    return path


def onnx_means(path: Path, batch: Any = "n", inputs: int = 1, outputs: int = 1) -> Path:
    """The mean of each channel, once for each output."""
    import onnx
    from onnx import TensorProto, helper

    names = ["x", "z"][:inputs]
    nodes = [helper.make_node("ReduceMean", ["x"], [f"y{i}"], axes=[2, 3], keepdims=0)
             for i in range(outputs)]
    shape = [batch, 3, SIDE, SIDE]
    graph = helper.make_graph(
        nodes, "means", [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in names],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [batch, 3])
         for i in range(outputs)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
              str(path))
    return path
