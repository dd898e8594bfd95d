"""Bound values: each takes the place of its marker as a literal of the tree, never as text."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp

from mlsql.errors import ProgrammingError

_IMAGE = "STRUCT(uri VARCHAR, frame BIGINT, data BLOB)"

Parameters = Sequence[Any] | Mapping[str, Any] | None


def bind(tree: exp.Expr, parameters: Parameters) -> exp.Expr:
    """The tree with the values in place of $1, $name and :name; unused values are an error."""
    holes = [h for h in tree.find_all(exp.Placeholder, exp.Parameter)]
    given = _by_name(parameters)
    used = set()
    for hole in holes:
        name = str(hole.name)
        if name not in given:
            raise ProgrammingError(f"no value for parameter ${name}: {len(given)} were given")
        used.add(name)
        hole.replace(literal(given[name]))
    if len(used) < len(given):
        raise ProgrammingError(
            f"{len(given)} values were given, and the statement has {len(used)} parameters")
    return tree


def _by_name(parameters: Parameters) -> dict[str, Any]:
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return {str(k): v for k, v in parameters.items()}
    return {str(i + 1): v for i, v in enumerate(parameters)}


def literal(value: Any) -> exp.Expr:
    """A Python value as a literal of the same value and type."""
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, int):
        return _signed(str(value))
    if isinstance(value, float):
        return exp.cast(exp.Literal.string(repr(float(value))), "DOUBLE", dialect="duckdb")
    if isinstance(value, Decimal):
        return _signed(format(value, "f"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return exp.Anonymous(this="from_hex", expressions=[exp.Literal.string(bytes(value).hex())])
    return _other(value)


def _other(value: Any) -> exp.Expr:
    for kind, name in ((datetime.datetime, "TIMESTAMP"), (datetime.date, "DATE"),
                       (datetime.time, "TIME")):
        if isinstance(value, kind):
            zoned = getattr(value, "tzinfo", None) is not None
            text = exp.Literal.string(value.isoformat())
            return exp.cast(text, f"{name}TZ" if zoned else name, dialect="duckdb")
    if isinstance(value, datetime.timedelta):
        span = f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        return exp.cast(exp.Literal.string(span), "INTERVAL", dialect="duckdb")
    if isinstance(value, uuid.UUID):
        return exp.cast(exp.Literal.string(str(value)), "UUID", dialect="duckdb")
    if isinstance(value, (list, tuple)):
        return exp.Array(expressions=[literal(item) for item in value])
    if isinstance(value, Mapping):
        if list(value) == ["key", "value"] and all(isinstance(v, list) for v in value.values()):
            return exp.Anonymous(this="map", expressions=[literal(v) for v in value.values()])
        pairs = [exp.PropertyEQ(this=exp.to_identifier(str(k), quoted=True),
                                expression=literal(v)) for k, v in value.items()]
        struct = exp.Anonymous(this="struct_pack", expressions=pairs)
        if list(value) == ["uri", "frame", "data"]:  # NULLs have no type of their own
            return exp.cast(struct, _IMAGE, dialect="duckdb")
        return struct
    if hasattr(value, "tolist"):  # NumPy's
        return literal(value.tolist())
    if type(value).__module__.startswith("duckdb"):  # its own value of a given type
        return exp.cast(exp.Literal.string(str(value.object)), str(value.type), dialect="duckdb")
    raise ProgrammingError(f"a {type(value).__name__} cannot be bound as a parameter")


def _signed(text: str) -> exp.Expr:
    number = exp.Literal.number(text.lstrip("-"))
    return exp.paren(exp.Neg(this=number), copy=False) if text.startswith("-") else number
