"""DuckDB's types as SQLAlchemy's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import sqltypes
from sqlalchemy.types import TypeEngine


class Wide(sqltypes.Integer):
    """A whole number of a size that SQL has no word for."""

    __visit_name__ = "duckdb"

    def __init__(self, name: str = "HUGEINT") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Wide({self.name!r})"


class Nested(TypeEngine[Any]):
    """STRUCT, MAP, UNION and whatever else only DuckDB has; values are dicts, lists and so on."""

    __visit_name__ = "duckdb"
    hashable = False

    def __init__(self, name: str = "STRUCT") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Nested({self.name!r})"


class JSONPath(sqltypes.JSON.JSONPathType):
    """Keys and places as a JSON pointer, RFC 6901."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        """What is bound for a path."""
        return _pointer

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        """What is written for a path."""
        return lambda path: "'" + _pointer(path).replace("'", "''") + "'"


def _pointer(path: Any) -> str:
    keys = (str(key).replace("~", "~0").replace("/", "~1") for key in path)
    return "".join(f"/{key}" for key in keys)


_PLAIN: Mapping[str, Callable[[], TypeEngine[Any]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "SMALLINT": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "VARCHAR": sqltypes.VARCHAR,
    "BLOB": sqltypes.BLOB,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "TIME WITH TIME ZONE": lambda: sqltypes.TIME(timezone=True),
    "TIMESTAMP": sqltypes.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": lambda: sqltypes.TIMESTAMP(timezone=True),
    "INTERVAL": INTERVAL,
    "UUID": sqltypes.UUID,
    "JSON": sqltypes.JSON,
    "\"NULL\"": sqltypes.NullType,
}
_WIDE = frozenset({"TINYINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT",
                   "BIGNUM"})
_LIST = re.compile(r"(\[\d*\])+$")
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def type_of(name: str) -> TypeEngine[Any]:
    """SQLAlchemy's type for the name of one of DuckDB's."""
    if name in _PLAIN:
        return _PLAIN[name]()
    if name in _WIDE:
        return Wide(name)
    lists = _LIST.search(name)
    if lists:
        item: Any = type_of(name[: lists.start()])
        return sqltypes.ARRAY(item, dimensions=lists[0].count("["))
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        return sqltypes.DECIMAL(int(decimal[1]), int(decimal[2]))
    if name.startswith("ENUM("):
        values = re.findall(r"'((?:[^']|'')*)'", name)
        return sqltypes.Enum(*(value.replace("''", "'") for value in values))
    if name.startswith("TIMESTAMP_"):
        return sqltypes.TIMESTAMP()
    return Nested(name)
