"""What runs the files of models: one file a format, found by folder.

A module defines RUNTIME. Its `load` gives a network: a function from a batch (a float32 or int64
array whose first axis is the batch) to the arrays that the file's author made it answer with.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlsql.errors import ProgrammingError, unknown

Network = Callable[[Any], Any]


@dataclass(frozen=True)
class Runtime:
    """One format: its name, what it is, whether a file is of it, and what loads one.

    `load(path, device, architecture, arguments)` refuses files that hold code in a pickle; the last
    two are for files that hold weights only.
    """

    name: str
    meaning: str
    recognises: Callable[[Path], bool]
    load: Callable[[Path, str, str | None, Mapping[str, Any]], Network]


@lru_cache(maxsize=1)
def runtimes() -> Mapping[str, Runtime]:
    """Every runtime by name; modules with a _ are parts of them."""
    found: dict[str, Runtime] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            runtime = importlib.import_module(f"{__name__}.{module.name}").RUNTIME
            found[runtime.name] = runtime
    return found


def runtime_of(path: Path, name: str | None = None) -> Runtime:
    """The runtime of that name, or else the one that recognises the file."""
    if name is not None:
        if name not in runtimes():
            raise unknown("runtime", name, runtimes(), f"(there are {', '.join(runtimes())})")
        return runtimes()[name]
    for runtime in runtimes().values():
        if runtime.recognises(path):
            return runtime
    formats = "; ".join(f"{r.name}: {r.meaning}" for r in runtimes().values())
    raise ProgrammingError(f"{path} is a model in no format that is known here ({formats})")
