"""The machine as far as the speed of models hangs on it."""

from __future__ import annotations

import functools
import os
import platform
from importlib import metadata
from pathlib import Path

_LIBRARIES = ("torch", "openvino", "numpy", "mlsql")


def processors() -> int:
    """Processors that this process may use: its affinity, and OMP_NUM_THREADS where that is set.

    Ray sets the latter to what it has given an actor.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    mine = len(affinity(0)) if affinity else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(mine, int(said)) if said.isdigit() and int(said) > 0 else mine


def machine(device: str) -> tuple[str, ...]:
    """Processor, device and library versions: a change of one makes measurements void."""
    return (_processor(), str(processors()), _device(device), *_versions())


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "model\t", "flags")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def _device(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{device} {torch.cuda.get_device_name(device)}"


@functools.cache
def _versions() -> tuple[str, ...]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} none")
    return tuple(found)
