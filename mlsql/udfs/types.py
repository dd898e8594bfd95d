"""SQL types as Arrow types, and Python values as Arrow arrays of them."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mlsql.errors import ProgrammingError

Check = Callable[[Any], None]


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


def arrow_array(values: Sequence[Any], arrow: Any, trusted: bool = False) -> Any:
    """The values as a `pyarrow.Array` of that type; one that does not fit is a TypeError.

    Nothing is cut or guessed: a fraction is no integer, a number no text, a list of another length
    no fixed array, and a struct's keys must be the type's. `trusted` values are known to fit.
    """
    import pyarrow as pa

    check = None if trusted else _check_of(arrow)
    if check is not None:
        for value in values:
            check(value)
    try:
        return pa.array(values, type=arrow)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise TypeError(f"not {arrow}: {str(error).splitlines()[0]}") from error


@functools.lru_cache(maxsize=256)
def _check_of(arrow: Any) -> Check | None:
    """What raises a TypeError where Arrow itself would let a value of another type pass; None where
    it would not.

    Arrow cuts fractions, fills a missing key of a struct with NULL and drops a surplus one, all
    without a word. Answers have thousands of values: what can be known of the type is known here.
    """
    import pyarrow as pa

    if pa.types.is_struct(arrow):
        return _struct_check(arrow)
    if pa.types.is_integer(arrow):
        return _integer_check(arrow)
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return _list_check(arrow)
    return None


def _list_check(arrow: Any) -> Check | None:
    check_item = _check_of(arrow.value_type)
    if check_item is None:
        return None
    # Detections are lists of a hundred such structs: no call for each.
    plain = _plain_keys(arrow.value_type)

    def check(value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, Iterable):
            raise TypeError(f"not {arrow}: {value!r}")
        for item in value:
            if plain is None or type(item) is not dict or item.keys() != plain:
                check_item(item)

    return check


def _plain_keys(arrow: Any) -> set[str] | None:
    """The keys of a struct whose fields need no check of their own; None for any other type."""
    import pyarrow as pa

    if not pa.types.is_struct(arrow) or any(_check_of(field.type) for field in arrow):
        return None
    return {field.name for field in arrow}


def _struct_check(arrow: Any) -> Check:
    names = [field.name for field in arrow]
    wanted = set(names)
    checks = [(field.name, own) for field in arrow if (own := _check_of(field.type)) is not None]

    def check(value: Any) -> None:
        # A dict is asked first, as the abstract Mapping takes a while to say so.
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            return
        if value.keys() != wanted:
            raise TypeError(f"a struct of {', '.join(names)} has the keys {', '.join(value)}")
        for name, check_field in checks:
            check_field(value[name])

    return check


def _integer_check(arrow: Any) -> Check:
    def check(value: Any) -> None:
        if isinstance(value, numbers.Real) and value != value // 1:
            raise TypeError(f"not {arrow}: {value!r}")

    return check
