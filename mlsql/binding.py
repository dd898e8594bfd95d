"""Python values as DuckDB takes them for parameters."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mlsql.errors import ProgrammingError
from mlsql.image import Image
from mlsql.parser.parameters import Parameters


def adapted(parameters: Parameters) -> Parameters:
    """The parameters with their values as DuckDB takes them; None where there are none."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {str(name): bindable(value) for name, value in parameters.items()}
    listed = isinstance(parameters, Sequence) and not isinstance(parameters, (str, bytes))
    if not listed and not hasattr(parameters, "tolist"):  # NumPy's are no Sequence
        raise ProgrammingError("parameters are a sequence or a mapping of values, not "
                               f"{type(parameters).__name__}")
    return [bindable(value) for value in parameters]


def bindable(value: Any) -> Any:
    """A value DuckDB has a type for: enums by their value, paths as text, pictures as handles."""
    if isinstance(value, Image):
        return {"uri": value.uri, "frame": value.frame, "data": value.data}
    if isinstance(value, enum.Enum):
        return bindable(value.value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, int):
        return value if -(2**127) <= value < 2**128 else _large(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, (list, set, frozenset)):
        return [bindable(item) for item in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a NumPy scalar
        return value.item()
    return value


def _large(value: int) -> Any:
    import duckdb
    from duckdb.sqltypes import DuckDBPyType

    return duckdb.Value(str(value), DuckDBPyType("BIGNUM"))


def _mapping(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """A struct where all keys are texts, else a map, which DuckDB takes as two lists."""
    if all(isinstance(key, str) for key in value):
        return {key: bindable(item) for key, item in value.items()}
    return {"key": [bindable(key) for key in value],
            "value": [bindable(item) for item in value.values()]}


def _tuple(value: tuple[Any, ...]) -> Any:
    """A list, as DuckDB has it, unless texts stand among others: they would all become texts."""
    items = [bindable(item) for item in value]
    texts = {isinstance(item, str) for item in items if item is not None}
    if len(texts) < 2:
        return items
    return {f"element{place}": item for place, item in enumerate(items, 1)}
