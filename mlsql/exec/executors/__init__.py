"""Executors by name: each module of this folder has one, as its EXECUTOR."""

from __future__ import annotations

import importlib
import pkgutil

from mlsql.errors import unknown
from mlsql.exec.share import Executor
from mlsql.exec.worker import WorkerOptions


def executor_names() -> list[str]:
    """The executors there are, found in this folder."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def executor(name: str, options: WorkerOptions | None = None) -> Executor:
    """A new executor of that name, whatever its case; an unknown one is an UnknownName."""
    names = executor_names()
    if name.lower() not in names:
        raise unknown("executor", name, names, f"(there is {' and '.join(names)})")
    module = importlib.import_module(f"{__name__}.{name.lower()}")
    made: Executor = module.EXECUTOR(options or WorkerOptions())
    return made
