"""SQL values as bytes that are equal exactly where DuckDB finds the values not distinct."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_NULL = b"\0"
_SET = b"\1"
_DAY = 86_400_000_000_000  # nanoseconds


def canonical(array: pa.Array) -> list[bytes]:
    """One byte string a value; those of one type are equal where IS NOT DISTINCT FROM is TRUE.

    So 0.0 and -0.0 are one, every NaN is one, NULLs inside structs and lists are equal, a month
    is 30 days, and maps are compared with the order of their entries.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return [_NULL] * len(array)
    if pa.types.is_dictionary(kind):
        return canonical(array.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        return canonical(array.storage)
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_union(kind):
        return _unions(array)
    if pa.types.is_map(kind) or _is_list(kind):
        return _lists(array)
    if _is_text(kind):
        return _texts(array)
    return _slices(_fixed(array))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)
                or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
             pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def _valid(array: pa.Array) -> np.ndarray:
    valid: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _slices(rows: np.ndarray) -> list[bytes]:
    data, width = rows.tobytes(), rows.shape[1]
    return [data[start:start + width] for start in range(0, len(data), width)]


def _texts(array: pa.Array) -> list[bytes]:
    return [_NULL if value is None else _SET + _count(len(value)) + value
            for value in array.cast(pa.large_binary()).to_pylist()]


def _count(length: int) -> bytes:
    return length.to_bytes(8, "little")


def _fixed(array: pa.Array) -> np.ndarray:
    """Values of fixed width as bytes, one row a value, the first byte saying whether it is set."""
    valid = _valid(array)
    data = _numbers(array)
    data[~valid] = 0
    return np.hstack([valid.view(np.uint8)[:, None], data])


def _numbers(array: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    raw = _raw(array)
    if pa.types.is_floating(array.type):
        numbers = raw.view(f"<f{raw.shape[1]}") + 0  # turns -0.0 into 0.0
        numbers[np.isnan(numbers)] = np.nan
        data: np.ndarray = np.ascontiguousarray(numbers).view(np.uint8)
        return data
    if pa.types.is_interval(array.type):
        return _intervals(raw)
    return raw


def _raw(array: pa.Array) -> np.ndarray:
    width = array.type.byte_width
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), width), np.uint8)
    data = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    rows: np.ndarray = data.reshape(len(array), width).copy()
    return rows


def _intervals(raw: np.ndarray) -> np.ndarray:
    parts = raw.view([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])[:, 0]
    days = parts["months"].astype(np.int64) * 30 + parts["days"]
    carried, rest = np.divmod(parts["nanoseconds"], _DAY)
    normal: np.ndarray = np.stack([days + carried, rest], axis=1).view(np.uint8)
    return normal


def _structs(array: pa.Array) -> list[bytes]:
    fields = [canonical(field) for field in array.flatten()]
    cells: Sequence[tuple[bytes, ...]] = list(zip(*fields, strict=True))
    return [_SET + b"".join(cell) if valid else _NULL
            for valid, cell in zip(_valid(array), cells, strict=True)]


def _unions(array: pa.Array) -> list[bytes]:
    members = [canonical(array.field(i)) for i in range(array.type.num_fields)]
    # Not array.type_codes: it forgets where a slice begins.
    codes = np.frombuffer(array.buffers()[1], np.int8, len(array), array.offset).tolist()
    return [bytes([1, code]) + members[code][row] for row, code in enumerate(codes)]


def _lists(array: pa.Array) -> list[bytes]:
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets = (np.arange(len(array) + 1) + array.offset) * size
    else:
        offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data, ends = _items(array, first, last - first)
    places = ends[offsets - first].tolist()
    counts = np.diff(offsets).tolist()
    return [
        _SET + _count(count) + data[start:stop] if valid else _NULL
        for valid, count, start, stop in zip(
            _valid(array), counts, places[:-1], places[1:], strict=True)
    ]


def _items(array: pa.Array, first: int, count: int) -> tuple[bytes, np.ndarray]:
    """The items of lists in one byte string, and where each begins (and the last ends)."""
    if pa.types.is_map(array.type):
        keys = canonical(array.keys.slice(first, count))
        values = canonical(array.items.slice(first, count))
        return _joined([key + value for key, value in zip(keys, values, strict=True)])
    items = array.values.slice(first, count)
    if _is_fixed(items.type):  # vectors: no bytes object for every number
        rows = _fixed(items)
        return rows.tobytes(), np.arange(len(rows) + 1) * rows.shape[1]
    return _joined(canonical(items))


def _joined(cells: Sequence[bytes]) -> tuple[bytes, np.ndarray]:
    return b"".join(cells), np.cumsum([0, *map(len, cells)])


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))
