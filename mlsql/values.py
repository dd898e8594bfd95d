"""SQL values as Python values, whether DuckDB or Arrow hands them over."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from mlsql.image import Image

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType

Convert = Callable[[Any], Any]


def converter(kind: DuckDBPyType, leaves: Mapping[str, Convert]) -> Convert | None:
    """What makes a Python value of one of this SQL type; None where nothing is to be done.

    `leaves` says what to do with scalars, by the type's id; media structs become `Image`.
    """
    if kind.id == "struct":
        return _struct_converter(kind, leaves)
    if kind.id == "tuple":
        return _tuple_converter(kind, leaves)
    if kind.id in ("list", "array"):
        item = converter(_parts(kind)[0][1], leaves)
        if item is None:
            return list if kind.id == "array" else None
        return lambda values: [None if v is None else item(v) for v in values]
    if kind.id == "map":
        return _map_converter(kind, leaves)
    return leaves.get(kind.id)


def _parts(kind: DuckDBPyType) -> list[tuple[str, Any]]:
    """The types inside a type, by name."""
    return kind.children


def is_media(kind: DuckDBPyType) -> bool:
    """Whether values of this type are handles of pictures."""
    return kind.id == "struct" and [name for name, _ in _parts(kind)] == ["uri", "frame", "data"]


def _struct_converter(kind: DuckDBPyType, leaves: Mapping[str, Convert]) -> Convert | None:
    if is_media(kind):
        return lambda value: Image(value["uri"], value["frame"], value["data"])
    fields = {name: convert for name, child in _parts(kind)
              if (convert := converter(child, leaves)) is not None}
    if not fields:
        return None

    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        return {name: fields[name](v) if name in fields and v is not None else v
                for name, v in value.items()}

    return convert_struct


def _tuple_converter(kind: DuckDBPyType, leaves: Mapping[str, Convert]) -> Convert:
    """A struct without names is a tuple; Arrow gives it names."""
    items = [converter(child, leaves) for _, child in _parts(kind)]

    def convert_tuple(value: Any) -> tuple[Any, ...]:
        values = value.values() if isinstance(value, dict) else value
        return tuple(v if item is None or v is None else item(v)
                     for v, item in zip(values, items, strict=True))

    return convert_tuple


_UNHASHABLE = ("list", "array", "struct", "map", "tuple")


def _map_converter(kind: DuckDBPyType, leaves: Mapping[str, Convert]) -> Convert:
    key, item = (converter(child, leaves) for _, child in _parts(kind))

    apart = _parts(kind)[0][1].id in _UNHASHABLE

    def convert_map(value: Any) -> Any:
        if apart and isinstance(value, dict):  # DuckDB gives keys that no dict can have as a list
            value = zip(value["key"], value["value"], strict=True)
        pairs = value.items() if isinstance(value, dict) else value
        pairs = [(k if key is None else key(k), v if item is None or v is None else item(v))
                 for k, v in pairs]
        try:
            return dict(pairs)
        except TypeError:  # lists and structs make keys that a dict cannot have
            return pairs

    return convert_map


def _bits(value: Any) -> Any:
    """A BIT value as its text of 0 and 1; Arrow gives a byte of padding count, then the bits."""
    if isinstance(value, str):
        return value
    return "".join(f"{byte:08b}" for byte in value[1:])[value[0]:]


def _bignum(value: Any) -> int:
    """A BIGNUM value; Arrow gives three bytes of sign and length, then a big-endian magnitude.

    A negative one has all its bits inverted.
    """
    if not isinstance(value, bytes):
        return int(value)
    if value[0] & 0x80:
        return int.from_bytes(value[3:], "big")
    return -int.from_bytes(bytes(255 - byte for byte in value[3:]), "big")


def _timedelta(value: Any) -> timedelta | str:
    if isinstance(value, timedelta):
        return value
    months, days, nanoseconds = value
    try:
        return timedelta(days=30 * months + days, microseconds=nanoseconds // 1000)
    except OverflowError:
        return _interval_text(value)  # longer than any of Python's


def _interval_text(value: Any) -> str:
    """An interval as DuckDB writes it: 1 year 2 months 3 days 04:05:06."""
    months, days, nanoseconds = (
        (0, value.days, (value.seconds * 1_000_000 + value.microseconds) * 1000)
        if isinstance(value, timedelta) else value)
    years, months = int(months / 12), months - 12 * int(months / 12)
    parts = [f"{n} {unit}{'' if abs(n) == 1 else 's'}"
             for n, unit in ((years, "year"), (months, "month"), (days, "day")) if n]
    if nanoseconds or not parts:
        seconds, rest = divmod(abs(nanoseconds) // 1000, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{rest:06}".rstrip("0") if rest else ""
        parts.append(("-" if nanoseconds < 0 else "") + clock + fraction)
    return " ".join(parts)


def _short_float(value: float) -> float:
    """The double whose text is the shortest that reads back as this 32-bit float."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.unpack("f", struct.pack("f", short))[0] == value:
                return short
        except OverflowError:
            continue
    return value


PYTHON: Mapping[str, Convert] = {
    "hugeint": int,
    "uhugeint": int,
    "bignum": _bignum,
    "bit": _bits,
    "interval": _timedelta,
    "uuid": lambda value: value if isinstance(value, uuid.UUID) else uuid.UUID(value),
}
"""Leaves for `converter` that give what a Python programmer expects of each SQL type."""

PRINTED: Mapping[str, Convert] = {**PYTHON, "interval": _interval_text, "float": _short_float}
"""Leaves for `converter` where the value is to be printed: as DuckDB would write it."""


def arrow_rows(
    batches: Iterator[pa.RecordBatch], kinds: list[DuckDBPyType], leaves: Mapping[str, Convert]
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of Arrow batches as Python tuples, a list for each batch."""
    converters = [converter(kind, leaves) for kind in kinds]
    for batch in batches:
        columns = [_column(column, convert)
                   for column, convert in zip(batch.columns, converters, strict=True)]
        yield list(zip(*columns, strict=True))


def _column(column: pa.Array, convert: Convert | None) -> list[Any]:
    values = _pylist(column)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _pylist(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_time64(column.type):
        column = column.cast(pa.time64("us"), safe=False).cast(pa.int64())
        return [_time(value) for value in column.to_pylist()]
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a date that Python has no number for
        return [_scalar(item) for item in column]
    return values


def _time(microseconds: int | None) -> time | str | None:
    """A time of day; Python has no 24:00:00, which SQL has."""
    if microseconds is None:
        return None
    if microseconds == 86_400_000_000:
        return "24:00:00"
    return (datetime.min + timedelta(microseconds=microseconds)).time()


def _scalar(item: pa.Scalar) -> Any:
    """One value; dates and times that Python has no number for as DuckDB gives them to Python."""
    import numpy as np
    import pyarrow as pa

    try:
        return item.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_struct(item.type):
            return {name: _scalar(value) for name, value in item.items()}
        if pa.types.is_map(item.type):
            return [tuple(_scalar(entry).values()) for entry in item.values]
        if pa.types.is_nested(item.type):
            return [_scalar(value) for value in item.values]
        wide = pa.int32() if pa.types.is_date32(item.type) else pa.int64()
        number = item.cast(wide).as_py()
        largest = 2 ** (wide.bit_width - 1) - 1
        kind: type[date] = date if pa.types.is_date(item.type) else datetime
        if abs(number) >= largest:  # what DuckDB calls infinity
            return kind.max if number > 0 else kind.min
        unit: Any = "D" if pa.types.is_date(item.type) else item.type.unit
        return _with_era(str(np.datetime64(number, unit)))


def _with_era(text: str) -> str:
    """An ISO date, with a time or without, as DuckDB writes it; ISO calls the year 1 BC 0."""
    day, _, clock = text.partition("T")
    if clock:
        clock = f" {clock.rstrip('0').rstrip('.') if '.' in clock else clock}"
    year, month, of_month = day.removeprefix("-").split("-")
    if not day.startswith("-") and int(year):
        return day + clock
    return f"{int(year) + 1:04}-{month}-{of_month} (BC){clock}"
