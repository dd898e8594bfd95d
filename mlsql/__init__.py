"""SQL over models: query videos and pictures by what is in them.

>>> import mlsql
>>> mlsql.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsql.default import connect, execute, interrupt, register, register_model, sql
    from mlsql.errors import (
        DatabaseError,
        DataError,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        Warning,
    )
    from mlsql.image import Image
    from mlsql.result import Result
    from mlsql.session import Session
    from mlsql.udfs.callables import model

__version__ = "0.1.0"

_HOMES = {
    "mlsql.errors": (
        "Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError",
        "IntegrityError", "InternalError", "NotSupportedError", "ProgrammingError",
    ),
    "mlsql.image": ("Image",),
    "mlsql.result": ("Result",),
    "mlsql.session": ("Session",),
    "mlsql.udfs.callables": ("model",),
    "mlsql.default": ("connect", "execute", "interrupt", "register", "register_model", "sql"),
    "mlsql.magics": ("load_ipython_extension", "unload_ipython_extension"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "Image",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Result",
    "Session",
    "Warning",
    "connect",
    "execute",
    "interrupt",
    "model",
    "register",
    "register_model",
    "sql",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: `import mlsql` alone loads nothing else."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mlsql' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
