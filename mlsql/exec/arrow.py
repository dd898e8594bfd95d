"""Columns of numbers and texts for Arrow and back, made of their bytes.

`pa.array` and `numpy.asarray` do the same, but import pandas where it is installed, which takes
longer than listing a million frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def column(values: np.ndarray[Any, Any]) -> pa.Array:
    """Numbers or booleans as an Arrow array; numbers are not copied."""
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, data])


def repeated_texts(words: Sequence[str], counts: Sequence[int]) -> pa.Array:
    """Each text so many times, as Arrow strings; a UnicodeEncodeError for what is none in UTF-8."""
    encoded = [word.encode() for word in words]
    data = b"".join(word * count for word, count in zip(encoded, counts, strict=True))
    small = len(data) < 2**31
    ends = np.zeros(sum(counts) + 1, np.int32 if small else np.int64)
    np.cumsum(np.repeat([len(word) for word in encoded], counts), out=ends[1:])
    return pa.Array.from_buffers(
        pa.string() if small else pa.large_string(), len(ends) - 1,
        [None, pa.py_buffer(ends), pa.py_buffer(data)])


def numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """An Arrow array of numbers or booleans without NULLs as numpy; numbers are not copied."""
    buffer = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(buffer, np.uint8) if len(array) else np.empty(0, np.uint8)
        found: np.ndarray[Any, Any] = np.unpackbits(bits, bitorder="little")
        return found[array.offset:array.offset + len(array)].view(np.bool_)
    kind = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)
