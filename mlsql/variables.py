"""Tables that are variables of whoever calls: DataFrames, Arrow tables and their like in FROM."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

# A name where a table may stand, and that is neither qualified nor called. It is only looked at:
# what follows a parenthesis may be the FROM before a name.
_TABLE = re.compile(
    r"""(?:\b(?:from|join|using|summarize|describe|pivot|pivot_wider|unpivot)\b|[,(])\s*
        (?=(?:"((?:[^"]|"")+)"|([^\W\d]\w*))(?!\w|\s*[.(]))""", re.IGNORECASE | re.VERBOSE)

# What stands between a user's own code and ours: its variables are nobody's tables.
_BETWEEN = frozenset({
    "mlsql", "sqlalchemy", "pandas", "polars", "sql", "IPython", "ipykernel", "harlequin",
    "threading", "contextlib", "concurrent", "asyncio",
})

_TABLES: Mapping[str, frozenset[str]] = {
    "pandas": frozenset({"DataFrame"}),
    "polars": frozenset({"DataFrame", "LazyFrame"}),
    "pyarrow": frozenset({"Table", "RecordBatch", "RecordBatchReader", "FileSystemDataset",
                          "InMemoryDataset", "UnionDataset", "Scanner"}),
    "numpy": frozenset({"ndarray"}),
}

_SETTING = "python_enable_replacements"
_FREE = """
    SELECT current_setting('enable_external_access') AND count(*) = 0 FROM (
        SELECT database_name AS d, schema_name AS s, table_name AS n FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views())
    WHERE lower(n) = lower($1) AND (d IN ('temp', 'system')
          OR d = current_database() AND s IN (current_schema(), 'main'))"""


def variables_of_caller(sql: str) -> dict[str, Any]:
    """The variables that a text may name as tables, as the nearest code outside mlsql sees them."""
    names = {quoted.replace('""', '"') or bare for quoted, bare in _TABLE.findall(sql)}
    frame = _caller(sys._getframe(1)) if names else None
    if frame is None:
        return {}
    seen = {name: frame.f_locals[name] if name in frame.f_locals else frame.f_globals.get(name)
            for name in names}
    return {name: value for name, value in seen.items() if is_table(value)}


def _caller(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _BETWEEN:
            return frame
        frame = frame.f_back
    return None


def is_table(value: object) -> bool:
    """Whether a value has rows and columns that DuckDB can read."""
    kind = type(value)
    if hasattr(kind, "__arrow_c_stream__"):
        return kind.__name__ not in ("Series", "ChunkedArray")
    return kind.__name__ in _TABLES.get(kind.__module__.partition(".")[0], ())


class Scans:
    """Makes variables tables for the length of a statement, in the place of DuckDB.

    DuckDB would look at the variables of the code that calls it, which is ours.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, config: Mapping[str, Any]
    ) -> None:
        self._connection = connection
        wanted = {name.lower(): value for name, value in config.items()}.get(_SETTING, True)
        self.allowed = str(wanted).lower() not in ("false", "0")
        connection.execute(f"SET {_SETTING} = false")

    @contextmanager
    def scanned(self, found: Mapping[str, Any]) -> Iterator[None]:
        """Inside, each of the variables is a table, unless the database has one of that name."""
        import duckdb

        names = []
        try:
            for name, value in found.items() if self.allowed else ():
                if self._connection.execute(_FREE, [name]).fetchall() == [(True,)]:
                    self._connection.register(name, readable(value))
                    names.append(name)
            yield
        finally:
            for name in names:
                with suppress(duckdb.TransactionException):  # aborted: it goes with the rest
                    self._connection.unregister(name)


def readable(value: Any) -> Any:
    """What DuckDB can read, and read again: a statement over models reads its sources twice."""
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    if root == "polars" and kind.__name__ == "LazyFrame":
        return value.collect()
    if root in ("pandas", "polars", "numpy", "duckdb") or not hasattr(kind, "__arrow_c_stream__"):
        return value
    import pyarrow as pa

    return value if isinstance(value, pa.Table) else pa.table(value)
