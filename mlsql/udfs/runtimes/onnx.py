"""ONNX files, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsql.errors import NotSupportedError, OperationalError
from mlsql.udfs.runtimes import Network, Runtime


def _recognises(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def _load(path: Path, device: str, architecture: str | None, arguments: Mapping[str, Any]
          ) -> Network:
    try:
        import onnxruntime
    except ImportError as error:
        raise NotSupportedError(f"{path}: ONNX files are run by onnxruntime, which is not "
                                "installed: pip install 'mlsql[onnx]'") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    wanted = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider",
                                                              "CPUExecutionProvider"]
    providers = [name for name in wanted if name in onnxruntime.get_available_providers()]
    try:
        # From memory, so that no file beside it is read: the hash speaks of this file alone.
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=providers)
    except Exception as error:  # onnxruntime has no class of its own for them
        reason = str(error).splitlines()[0]
        raise OperationalError(f"{path} is no model that onnxruntime runs: {reason}") from error
    if len(session.get_inputs()) != 1:
        names = ", ".join(each.name for each in session.get_inputs())
        raise OperationalError(f"{path} wants several inputs ({names}): it must take one")
    given = session.get_inputs()[0]
    outputs = [each.name for each in session.get_outputs()]
    kind = _KINDS.get(given.type)
    if kind is None:
        raise OperationalError(f"{path} takes {given.type}, and not numbers")

    def run(batch: Any) -> Any:
        said = session.run(outputs, {given.name: batch.astype(kind, copy=False)})
        return dict(zip(outputs, said, strict=True)) if len(said) > 1 else said[0]

    return run


_KINDS = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16",
          "tensor(uint8)": "uint8", "tensor(int64)": "int64", "tensor(int32)": "int32"}

RUNTIME = Runtime("onnx", "an .onnx file", _recognises, _load)
