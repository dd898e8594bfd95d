"""The formats that models come in: each is recognised, runs as its author's own, and runs no code.

A file that would make Python run something on being loaded is refused, whatever its format.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.errors import ModelOutputError, OperationalError, ProgrammingError, UnknownName
from mlsql.udfs.framing import Frame, framed
from mlsql.udfs.model_files import file_spec
from mlsql.udfs.network_outputs import detections, found_way, only, probabilities
from mlsql.udfs.runtimes import runtime_of, runtimes
from mlsql.udfs.runtimes.exported import _is_arithmetic
from tests.model_files import (
    SIDE,
    detector,
    exported,
    means,
    onnx_means,
    quiet,
    state_dict,
    torchscript,
)

BATCH = np.random.default_rng(0).random((2, 3, SIDE, SIDE), np.float32)


def conv() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten()).eval()


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


# Running


@pytest.mark.parametrize(("write", "name"), [
    (torchscript, "torchscript"), (exported, "export"),
])
def test_programs_of_torch(write: Callable[..., Path], name: str, tmp_path: Path) -> None:
    import torch

    module = conv()
    path = write(module, tmp_path / "model.bin")
    runtime = runtime_of(path)
    assert runtime.name == name
    network = runtime.load(path, "cpu", None, {})
    for batch in (BATCH, BATCH[:1]):
        with torch.inference_mode():
            expected = module(torch.from_numpy(batch)).numpy()
        np.testing.assert_allclose(network(batch), expected, atol=1e-6)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weights_alone(suffix: str, tmp_path: Path) -> None:
    import torch

    layer = torch.nn.Linear(3, 2)
    path = tmp_path / f"w{suffix}"
    if suffix == ".pt":
        state_dict(layer, path)
    else:
        pytest.importorskip("safetensors.torch").save_file(layer.state_dict(), str(path))
    runtime = runtime_of(path)
    assert runtime.name == "state_dict"
    network = runtime.load(path, "cpu", "torch.nn:Linear", {"in_features": 3, "out_features": 2})
    x = np.ones((1, 3), np.float32)
    np.testing.assert_allclose(network(x), layer(torch.from_numpy(x)).detach().numpy(), atol=1e-6)


def test_a_checkpoint_with_the_weights_inside(tmp_path: Path) -> None:
    import torch

    layer = torch.nn.Linear(3, 2)
    torch.save({"state_dict": layer.state_dict(), "epoch": 3}, tmp_path / "c.pt")
    network = runtimes()["state_dict"].load(
        tmp_path / "c.pt", "cpu", "torch.nn:Linear", {"in_features": 3, "out_features": 2})
    assert network(np.ones((4, 3), np.float32)).shape == (4, 2)


def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = onnx_means(tmp_path / "means.onnx")
    runtime = runtime_of(path)
    assert runtime.name == "onnx"
    network = runtime.load(path, "cpu", None, {})
    np.testing.assert_allclose(network(BATCH), BATCH.mean(axis=(2, 3)), atol=1e-6)
    several = runtime.load(onnx_means(tmp_path / "two.onnx", outputs=2), "cpu", None, {})
    assert sorted(several(BATCH)) == ["y0", "y1"]


def test_onnx_that_cannot_be_run(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    load = runtimes()["onnx"].load
    with pytest.raises(OperationalError, match=r"wants several inputs \(x, z\)"):
        load(onnx_means(tmp_path / "a.onnx", inputs=2), "cpu", None, {})
    (tmp_path / "b.onnx").write_bytes(b"no model")
    with pytest.raises(OperationalError, match="is no model that onnxruntime runs"):
        load(tmp_path / "b.onnx", "cpu", None, {})


def test_onnx_reads_no_file_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((300, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 300])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin",
              size_threshold=0)
    with pytest.raises(OperationalError, match="no model that onnxruntime runs"):
        runtimes()["onnx"].load(tmp_path / "m.onnx", "cpu", None, {})


def test_formats_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF")
    with pytest.raises(ProgrammingError, match=r"a\.h5 is a model in no format .* onnx: an \.onnx"):
        runtime_of(tmp_path / "a.h5")
    with pytest.raises(UnknownName, match=r"unknown runtime 'onx' .*: did you mean 'onnx'"):
        runtime_of(tmp_path / "a.h5", "onx")


# Code in files is not run


def test_a_pickled_module_is_refused(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "whole.pt"
    torch.save(torch.nn.Linear(3, 1), path)
    with pytest.raises(OperationalError, match=r"pickled code, which is not run: save the weights"):
        runtime_of(path).load(path, "cpu", "torch.nn:Linear", {})


@pytest.mark.parametrize("old_format", [False, True])
def test_a_pickle_that_runs_something_does_not(old_format: bool, tmp_path: Path) -> None:
    import torch

    path, made = tmp_path / "evil.pt", tmp_path / "made"
    torch.save({"w": Evil(made)}, path, _use_new_zipfile_serialization=not old_format)
    with pytest.raises(OperationalError, match="pickled code"):
        runtime_of(path).load(path, "cpu", "torch.nn:Linear", {})
    assert not made.exists()


def changed(source: Path, target: Path, change: Callable[[str, bytes], bytes],
            more: dict[str, bytes] | None = None) -> Path:
    """A zip file with its members changed, and some added beside them."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        top = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            new.writestr(name, change(name.partition("/")[2], old.read(name)))
        for name, content in (more or {}).items():
            new.writestr(f"{top}/{name}", content)
    return target


def evil_pickle(path: Path) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save(Evil(path), out)
    return out.getvalue()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(conv(), tmp_path_factory.mktemp("program") / "p.pt2")


@pytest.mark.parametrize("where", ["sample inputs", "a weight", "a constant", "an old weight file",
                                   "an object"])
def test_pickles_in_exported_programs_are_refused(
    program: Path, tmp_path: Path, where: str
) -> None:
    made = tmp_path / "made"
    evil = evil_pickle(made)
    more: dict[str, bytes] = {}

    def change(name: str, content: bytes) -> bytes:
        if where == "sample inputs" and name.startswith("data/sample_inputs/"):
            return evil
        if where == "a weight" and name.endswith("weights_config.json"):
            config = json.loads(content)
            first = next(iter(config["config"].values()))
            first.update(use_pickle=True, path_name="weight_evil")
            more["data/weights/weight_evil"] = evil
            return json.dumps(config).encode()
        if where in ("a constant", "an object") and name.endswith("constants_config.json"):
            kind = "tensor_evil" if where == "a constant" else "opaque_obj_evil"
            more[f"data/constants/{kind}"] = evil
            return json.dumps({"config": {"c": {"path_name": kind, "is_param": False, "use_pickle":
                               where == "a constant", "tensor_meta": None}}}).encode()
        return content

    if where == "an old weight file":
        more["data/weights/model.pt"] = evil
    changed(program, tmp_path / "first.pt2", change, more)
    target = changed(program, tmp_path / "evil.pt2", change, more)
    with pytest.raises(OperationalError, match=r"pickled code|no tensor"):
        runtimes()["export"].load(target, "cpu", None, {})
    assert not made.exists()


def test_expressions_in_exported_programs_are_arithmetic(program: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"

    def change(name: str, content: bytes) -> bytes:
        if not name.startswith("models/"):
            return content
        text = content.decode()
        assert "Symbol(" in text
        tree = json.loads(text)
        replaced = replace_expressions(tree, f"__import__('os').mkdir({str(made)!r})")
        assert replaced
        return json.dumps(tree).encode()

    target = changed(program, tmp_path / "evil.pt2", change)
    with pytest.raises(OperationalError, match="is no arithmetic, and is not evaluated"):
        runtimes()["export"].load(target, "cpu", None, {})
    assert not made.exists()


def replace_expressions(node: Any, code: str) -> int:
    """Put code in the place of each size; how often."""
    if isinstance(node, list):
        return sum(replace_expressions(part, code) for part in node)
    if not isinstance(node, dict):
        return 0
    count = sum(replace_expressions(part, code) for part in node.values())
    if isinstance(node.get("expr_str"), str):
        node["expr_str"] = code
        count += 1
    return count


@pytest.mark.parametrize(("text", "allowed"), [
    ("Symbol('s77', positive=True, integer=True)", True), ("s0 + 2", True), ("2*s0//3 % 4", True),
    ("Mul(Integer(2), Symbol('s0', integer=True))", True), ("Max(1, u0) >= 2", True),
    ("exec(chr(105))", False), ("().__class__", False), ("Symbol('a b')", False),
    ("__import__('os').system('x')", False), ("Symbol('s1')[0]", False), ("f'{s0}'", False),
    ("(lambda: 1)()", False), ("[s0 for s0 in ()]", False), ("s0.name", False), ("s0 s1", False),
    ("Integer('__import__')", False), ("eval", False), ("", False),
])
def test_what_counts_as_arithmetic(text: str, allowed: bool) -> None:
    assert _is_arithmetic(text) is allowed


def test_architectures_make_networks_and_nothing_else(tmp_path: Path) -> None:
    import torch

    path = state_dict(torch.nn.Linear(3, 1), tmp_path / "w.pt")
    load = runtimes()["state_dict"].load
    made = tmp_path / "made"
    for architecture, said in [
        ("os:mkdir", "neither a subclass of torch.nn.Module"), ("nowhere:X", "No module named"),
        ("torch.nn:Lineer", "no attribute 'Lineer'"), ("Linear", "is 'package.module:Name'"),
        (None, "say whose they are"),
    ]:
        with pytest.raises(ProgrammingError, match=said):
            load(path, "cpu", architecture, {"path": str(made)})
    assert not made.exists()
    with pytest.raises(OperationalError, match=r"does not fit torch.nn:Linear: .*size mismatch"):
        load(path, "cpu", "torch.nn:Linear", {"in_features": 4, "out_features": 1})
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(OperationalError, match="holds no tensors by name"):
        load(tmp_path / "list.pt", "cpu", "torch.nn:Linear", {})


# Pictures in, answers out


@pytest.mark.parametrize("way", ["stretch", "crop", "letterbox"])
@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (33, 33), (7, 90)])
def test_boxes_find_back_to_where_they_were(way: str, shape: tuple[int, int]) -> None:
    picture = np.zeros((*shape, 3), np.uint8)
    top, left = shape[0] // 2 - 3, shape[1] // 2 - 2
    picture[top:top + 6, left:left + 5] = 255
    small, frame = framed(picture, 320, 240, way)
    assert small.shape == (240, 320, 3)
    rows, columns = np.nonzero(small[..., 0] > 184)
    box = frame.to_picture((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    np.testing.assert_allclose(box, (left, top, left + 5, top + 6), atol=0.6)
    assert frame.to_picture((-9999, -9999, 9999, 9999)) == (0, 0, shape[1], shape[0])


def test_probabilities_whatever_a_network_gives() -> None:
    logits = np.array([[1.0, 2.0, 3.0]])
    soft = probabilities(logits, None)
    np.testing.assert_allclose(soft.sum(), 1)
    assert found_way(logits) == "softmax" and found_way(soft) == "none"
    np.testing.assert_allclose(probabilities(soft, None), soft)
    np.testing.assert_allclose(probabilities(logits, "sigmoid")[0, 0], 1 / (1 + np.exp(-1)))
    assert np.isfinite(probabilities(np.array([[1000.0, -1000.0]]), "softmax")).all()


def test_one_output_of_several() -> None:
    a, b = np.zeros((2, 3)), np.ones((2, 4))
    assert only({"a": a, "b": b}, "b", 2) is b
    assert only([a, b], 0, 2) is a
    with pytest.raises(ModelOutputError, match="several outputs: say which with head => 'a' or"):
        only({"a": a, "b": b}, None, 2)
    with pytest.raises(ModelOutputError, match="no output 'c'"):
        only({"a": a, "b": b}, "c", 2)
    with pytest.raises(ModelOutputError, match=r"answered 3 inputs with an array of shape \(2, 3"):
        only(a, None, 3)


BOXES, SCORES, LABELS = (np.array([[[2.0, 2, 6, 6], [0, 0, 1, 1]]]), np.array([[0.75, 0.01]]),
                         np.array([[1, 0]]))
TORCHVISION = {"boxes": BOXES[0], "labels": LABELS[0], "scores": SCORES[0]}


@pytest.mark.parametrize("said", [
    [BOXES, SCORES, LABELS], [BOXES, LABELS, SCORES], [TORCHVISION], [{}, [TORCHVISION]],
    {"detection_boxes": BOXES, "confidence": SCORES, "classes": LABELS},
    {"boxes": BOXES[0], "scores": SCORES[0], "labels": LABELS[0]},
    np.concatenate([BOXES, SCORES[..., None], LABELS[..., None]], axis=2),
])
def test_detections_in_the_forms_that_detectors_have(said: Any) -> None:
    spec = file_spec("d", "d.pt", "", {"task": "detect", "labels": ["bird", "boat"], "size": 8})
    frame = Frame(8 / 80, 8 / 40, 0, 0, 80, 40)
    assert detections(said, [frame], spec, (8, 8)) == [[("boat", 0.75, 20, 10, 60, 30)]]


@pytest.mark.parametrize(("said", "message"), [
    (np.zeros((1, 3)), "are no detections"), ([BOXES, SCORES, SCORES], "one must have rows of"),
    ({"boxes": BOXES, "scores": SCORES}, "none or several .* are called label or class"),
    ([BOXES, SCORES, np.array([[7, 0]])], "the label number 7, and labels has 2 words: 0 to 1"),
    ([np.zeros((3, 2, 4)), np.zeros((3, 2)), np.zeros((3, 2), int)], "answered 1 pictures with"),
])
def test_outputs_that_are_no_detections(said: Any, message: str) -> None:
    spec = file_spec("d", "d.pt", "", {"task": "detect", "labels": ["bird", "boat"], "size": 8})
    with pytest.raises(ModelOutputError, match=message):
        detections(said, [Frame(1, 1, 0, 0, 8, 8)], spec, (8, 8))


def test_the_preprocessing_that_was_asked_for(tmp_path: Path) -> None:
    """Through a network that gives back the mean of each channel."""
    from mlsql.udfs.file_model import load

    path = torchscript(means(1.0), tmp_path / "m.pt")
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[...] = (51, 102, 204)

    def seen(**options: Any) -> list[float]:
        spec = file_spec("m", str(path), "", {"task": "embed", "vector": 3, "size": SIDE,
                                              **options})
        model = load(spec, "cpu")
        return [round(v, 4) for v in model.infer([model.prepare(picture)])[0]]

    assert seen() == [0.2, 0.4, 0.8]
    assert seen(channels="bgr") == [0.8, 0.4, 0.2]
    assert seen(scale=1, mean=[1, 2, 4], std=[10, 100, 1000]) == [5.0, 1.0, 0.2]
    assert seen(scale=51, mean=1) == [0.0, 1.0, 3.0]
    share = round(0.2 * 4 / 8 + (114 / 255) * 4 / 8, 4)
    assert seen(resize="letterbox")[0] == share
    assert detector()(__import__("torch").zeros(3, 3, 8, 8))[0].shape == (3, 2, 4)
    with quiet():
        assert seen(resize="crop") == [0.2, 0.4, 0.8]
