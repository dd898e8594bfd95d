"""What an approximate statement took for known when it first ran, so that it is the same again.

Known rows enter an estimate exactly, and which were known decides which are drawn. A statement that
is run again would find more of them known, by itself, and draw others; so it keeps to the first.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mlsql.exec.approximate.oracle import Oracle
    from mlsql.exec.approximate.run import Run


@dataclass(frozen=True)
class Decision:
    """The rows that were known before."""

    known: NDArray[np.int64]


def decided(run: Run, oracle: Oracle) -> Decision | None:
    """The decision of an earlier run of the same statement; None for the first."""
    path = _path(run, oracle)
    if path is None:
        return None
    try:
        known = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = known.ndim == 1 and known.dtype == np.int64 and (
        not len(known) or (known.min() >= 0 and known.max() < oracle.size))
    return Decision(known) if fits else None


def remember(run: Run, oracle: Oracle, decision: Decision) -> None:
    """Keep the decision, written beside and renamed; a folder that cannot be written keeps none."""
    path = _path(run, oracle)
    if path is None:
        return
    beside = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            np.save(file, decision.known, allow_pickle=False)
        os.replace(beside, path)
    except OSError:
        return


def _path(run: Run, oracle: Oracle) -> Path | None:
    if run.cache is None:
        return None
    said = (run.text, run.targets, oracle.size, oracle.models)
    name = hashlib.blake2b(repr(said).encode(), digest_size=16).hexdigest()
    return Path(run.runner.settings.text("cache_dir")) / "approximate" / f"{name}.npy"
