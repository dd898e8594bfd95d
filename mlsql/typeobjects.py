"""The type objects and constructors of PEP 249."""

from __future__ import annotations

import datetime

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp
Binary = bytes


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day, so many seconds after the epoch."""
    return datetime.datetime.fromtimestamp(ticks).time()


class TypeObject:
    """Equal to the name of each DuckDB type of its kind, as a cursor's description gives it."""

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.types == other.types
        if not isinstance(other, str):
            return NotImplemented
        return not other.endswith("]") and other.partition("(")[0].upper() in self.types

    def __hash__(self) -> int:
        return hash(self.types)

    def __repr__(self) -> str:
        return self.name


STRING = TypeObject("STRING", "VARCHAR", "ENUM", "JSON", "UUID", "BIT")
BINARY = TypeObject("BINARY", "BLOB", "GEOMETRY")
NUMBER = TypeObject(
    "NUMBER", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT",
    "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BIGNUM", "FLOAT", "DOUBLE", "DECIMAL")
DATETIME = TypeObject(
    "DATETIME", "DATE", "TIME", "TIME WITH TIME ZONE", "TIME_NS", "TIMESTAMP", "TIMESTAMP_S",
    "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "INTERVAL")
ROWID = TypeObject("ROWID", "BIGINT")
