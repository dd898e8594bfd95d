"""Weights without a program: a state dict of torch.save, or safetensors; the class is named."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlsql.errors import NotSupportedError, OperationalError, ProgrammingError
from mlsql.udfs.runtimes import Network, Runtime
from mlsql.udfs.runtimes._archive import members, network, unpickled

_HUBS = ("torchvision.models", "timm", "segmentation_models_pytorch")


def _recognises(path: Path) -> bool:
    if path.suffix.lower() == ".safetensors":
        return True
    names = members(path)
    if names:
        return "data.pkl" in names and not any(name.startswith("code/") for name in names)
    with path.open("rb") as file:
        return file.read(1) == b"\x80"  # a pickle: torch.save before version 1.6, or any other


def _load(path: Path, device: str, architecture: str | None, arguments: Mapping[str, Any]
          ) -> Network:
    state = _state(path, device)
    if architecture is None:
        raise ProgrammingError(
            f"{path} holds weights without a program: say whose they are, as in "
            "architecture => 'torchvision.models:resnet18'")
    module = _made(architecture, arguments)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise OperationalError(f"{path} does not fit {architecture}: {reason}") from error
    return network(module.eval().to(device), device)


def _state(path: Path, device: str) -> Mapping[str, Any]:
    if path.suffix.lower() == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise NotSupportedError(f"{path}: pip install safetensors") from error
        return dict(load_file(path, device=device))
    state = unpickled(path, device, path)
    for wrapper in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    if not isinstance(state, Mapping) or not all(hasattr(t, "detach") for t in state.values()):
        raise OperationalError(f"{path} holds no tensors by name: it is no state dict")
    return state


def _made(architecture: str, arguments: Mapping[str, Any]) -> Any:
    """The module of an architecture; only what makes networks is called."""
    import torch

    module, colon, name = architecture.partition(":")
    if not colon:
        raise ProgrammingError(
            f"architecture is 'package.module:Name', not {architecture!r}")
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ProgrammingError(f"architecture {architecture!r}: {error}") from error
    if not (inspect.isclass(target) and issubclass(target, torch.nn.Module)) and \
            not _is_of_a_hub(target):
        raise ProgrammingError(
            f"architecture {architecture!r} is neither a subclass of torch.nn.Module nor a "
            f"function of {', '.join(_HUBS)}")
    return target(**arguments)


def _is_of_a_hub(target: Callable[..., Any]) -> bool:
    home = str(getattr(target, "__module__", ""))
    return any(home == hub or home.startswith(f"{hub}.") for hub in _HUBS)


RUNTIME = Runtime("state_dict", "weights that torch.save or safetensors wrote", _recognises, _load)
