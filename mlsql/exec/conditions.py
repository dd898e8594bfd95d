"""SQL conditions over Arrow rows, answered by an in-memory DuckDB of the worker's own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlsql.errors import DataError

_ROW = "__row"


class Conditions:
    """Evaluates conditions and finds equal values; it reads only the rows it is given."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET python_enable_replacements = false")

    def passing(self, rows: pa.Table, condition: str | None, at: np.ndarray) -> np.ndarray:
        """Whether the condition is TRUE on the rows at those positions, as a mask over `at`.

        No condition is TRUE. What the condition raises is a DataError that quotes it.
        """
        mask = np.ones(len(at), dtype=bool)
        if condition is None or not len(at):
            return mask
        named = rows.select(_named(rows.column_names, condition))
        found = self._query(
            named if len(at) == len(rows) else named.take(pa.array(at)),
            len(at),
            f"SELECT {_ROW}, (\n{condition}\n) IS TRUE AS passes FROM share",
            condition,
        )
        mask[found[_ROW]] = found["passes"]
        return mask

    def leaders(self, column: pa.ChunkedArray, rows: np.ndarray, media: bool) -> np.ndarray:
        """For each of `rows` the first of them that has the same value, as DuckDB compares."""
        if not len(rows):
            return rows
        # Pictures are compared by their hash: a window over the blobs would copy them all.
        key = "value.uri, value.frame, sha256(value.data)" if media else "value"
        found = self._query(
            pa.table({"value": column.take(pa.array(rows))}),
            len(rows),
            f"SELECT {_ROW}, min({_ROW}) OVER (PARTITION BY {key}) AS leader FROM share",
            "equal arguments",
        )
        leaders = np.empty_like(rows)
        leaders[found[_ROW]] = rows[found["leader"]]
        return leaders

    def close(self) -> None:
        """End the in-memory database."""
        self._connection.close()

    def _query(
        self, rows: pa.Table, count: int, query: str, what: str
    ) -> dict[str, np.ndarray]:
        import duckdb

        # A table of no columns has lost its count, as in a condition that names none.
        numbers = pa.array(np.arange(count))
        columns = [*rows.columns, numbers]
        numbered = pa.table(columns, names=[*rows.column_names, _ROW])
        self._connection.register("share", numbered)
        try:
            found: dict[str, Any] = self._connection.execute(query).fetchnumpy()
        except duckdb.Error as error:
            raise DataError(f"{what}: {str(error).splitlines()[0]}") from error
        finally:
            self._connection.unregister("share")
        return found


def outputs_named(condition: str | None) -> frozenset[int]:
    """The steps whose outputs a condition may depend on; one named in a string counts too."""
    found = re.findall(r"\b(?:out|known)_(\d+)\b", condition or "", re.IGNORECASE)
    return frozenset(int(number) for number in found)


def mask_of(column: pa.ChunkedArray) -> np.ndarray:
    """A BOOLEAN column as a mask in which NULL is False."""
    return np.asarray(pc.fill_null(column.cast(pa.bool_()), False).to_numpy(), dtype=bool)


def _named(columns: list[str], condition: str) -> list[str]:
    """The columns that the condition can name: registering a wide table costs more than it does."""
    text = condition.replace('""', '"').lower()
    return [name for name in columns if name.lower() in text]
