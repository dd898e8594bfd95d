"""The executor that is there for the machine: in this process, or Ray where that has more."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mlsql.exec.share import Executor
from mlsql.exec.worker import WorkerOptions

_NVIDIA = Path("/proc/driver/nvidia/gpus")


def choice(options: WorkerOptions) -> str:
    """'ray' where a cluster was named or joined or several GPUs are here, else 'local'."""
    if options.pool.address or os.environ.get("RAY_ADDRESS"):
        return "ray"
    if _joined():
        return "ray"
    wants_any = options.device in ("auto", "cuda")
    return "ray" if wants_any and gpus() > 1 else "local"


def gpus() -> int:
    """How many NVIDIA GPUs this process may use, without a look at any of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    return len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0


def _joined() -> bool:
    """Whether this process is connected to a Ray that mlsql did not start for itself."""
    from mlsql.exec.cluster import link

    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized()) and not link.is_ours()


def made(options: WorkerOptions | None = None) -> Executor:
    """The executor chosen."""
    from mlsql.exec.executors import executor

    options = options or WorkerOptions()
    return executor(choice(options), options)


EXECUTOR = made
