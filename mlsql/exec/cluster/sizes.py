"""How many workers a cluster has room for, and what of it each takes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from mlsql.errors import OperationalError, Warning
from mlsql.exec.cluster.pool import Pool

_CPUS_EACH = 2  # without accelerators: a model and a decoder


@dataclass(frozen=True)
class Sizes:
    """GPUs and CPUs of a worker, and the most workers."""

    gpus: float
    cpus: float
    most: int


def sizes(has: Mapping[str, float], pool: Pool, device: str) -> Sizes:
    """The sizes for a cluster that has that many CPU and GPU.

    More workers than there is room for are a Warning, and fewer workers; only a cluster that was
    named may grow, and is taken at the user's word.
    """
    gpus_there, cpus_there = has.get("GPU", 0.0), has.get("CPU", 1.0)
    gpus = pool.gpus
    if gpus < 0:
        gpus = 1.0 if gpus_there and not device.startswith("cpu") else 0.0
    if gpus and not gpus_there and not pool.address:
        raise OperationalError(f"gpus_per_worker is {gpus:g}, and Ray sees no GPU here")
    by_gpu = math.floor(gpus_there / gpus + 1e-9) if gpus else 0
    room = by_gpu if gpus else max(1, int(cpus_there) // _CPUS_EACH)
    bound = max(1, by_gpu if gpus else int(cpus_there))
    most = pool.most or max(1, room)
    if most > bound and not pool.address:
        what = "GPUs" if gpus else "CPUs"
        warnings.warn(f"workers is {most}, and Ray has {what} for {bound}: {bound} it is",
                      Warning, stacklevel=2)
        most = bound
    cpus = 1.0 if gpus else max(1.0, cpus_there // most)
    return Sizes(gpus, cpus, most)
