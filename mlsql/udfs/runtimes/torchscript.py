"""TorchScript: a program and its weights, saved by torch.jit.save."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsql.udfs.runtimes import Network, Runtime
from mlsql.udfs.runtimes._archive import members, network, quiet


def _recognises(path: Path) -> bool:
    names = members(path)
    return "constants.pkl" in names and any(name.startswith("code/") for name in names)


def _load(path: Path, device: str, architecture: str | None, arguments: Mapping[str, Any]
          ) -> Network:
    # Its pickles are read by torch's own reader in C++, which makes tensors and nothing else.
    import torch

    with quiet():
        load: Any = torch.jit.load
        module = load(str(path), map_location=device).eval()
    return network(module, device)


RUNTIME = Runtime("torchscript", "saved by torch.jit.save", _recognises, _load)
