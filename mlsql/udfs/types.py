"""SQL types as Arrow types, and Python values as Arrow arrays of them."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlsql.errors import ProgrammingError


@functools.lru_cache(maxsize=256)
def arrow_type(sql_type: str) -> Any:
    """The `pyarrow.DataType` in which DuckDB hands out that SQL type.

    DuckDB itself is asked, so that nothing here has to follow its grammar of types. A type that
    it does not know is a ProgrammingError.
    """
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            return connection.sql(f"SELECT NULL::{sql_type}").to_arrow_table().schema.field(0).type
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise ProgrammingError(f"{sql_type!r} is not an SQL type: {reason}") from error


def arrow_array(values: Sequence[Any], arrow: Any) -> Any:
    """The values as a `pyarrow.Array` of that type; one that does not fit is a TypeError.

    Nothing is cut or guessed: a fraction is no integer, a number no text, a list of another length
    no fixed array, and a struct's keys must be the type's.
    """
    import pyarrow as pa

    if _is_lax(arrow):
        for value in values:
            _check(value, arrow)
    try:
        return pa.array(values, type=arrow)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise TypeError(f"not {arrow}: {str(error).splitlines()[0]}") from error


def _is_lax(arrow: Any) -> bool:
    """Whether Arrow itself would let a value of another type pass: it cuts fractions, fills a
    missing key of a struct with NULL and drops a surplus one, all without a word."""
    import pyarrow as pa

    if pa.types.is_struct(arrow) or pa.types.is_integer(arrow):
        return True
    return _is_list(arrow) and _is_lax(arrow.value_type)


def _is_list(arrow: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow))


def _check(value: Any, arrow: Any) -> None:
    if value is None:
        return
    if _is_list(arrow):
        if not isinstance(value, Iterable):
            raise TypeError(f"not {arrow}: {value!r}")
        for item in value:
            _check(item, arrow.value_type)
    elif not _is_struct(arrow):
        if isinstance(value, numbers.Real) and value != value // 1:
            raise TypeError(f"not {arrow}: {value!r}")
    elif isinstance(value, Mapping):
        _check_struct(value, arrow)


def _check_struct(value: Mapping[str, Any], arrow: Any) -> None:
    names = [field.name for field in arrow]
    if value.keys() != set(names):
        raise TypeError(f"a struct of {', '.join(names)} has the keys {', '.join(value)}")
    for field in arrow:
        if _is_lax(field.type):
            _check(value[field.name], field.type)


def _is_struct(arrow: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(arrow))
