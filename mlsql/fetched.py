"""A small answer of DuckDB's, fetched as soon as it was executed.

A relation is bound three times before its rows are read: when it is made, when it is run, and
when what it gave is read. That is a third of the time of a query that takes a few milliseconds.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsql.foreign import unadvised

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_MOST = 2048
_QUICK = 0.01  # seconds
_EXACT = re.compile(
    r"BOOLEAN|U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|VARCHAR|BLOB|DATE|TIMESTAMP"
    r"|TIME|UUID|JSON|BIT|TIMESTAMP_S|DECIMAL\(\d+,\d+\)|ENUM\(.*\)", re.S)
_NOT_IN_ARROW = re.compile(r"\bTIME WITH TIME ZONE|VARIANT|GEOMETRY|UNION")
_ENDLESS = {datetime.date.min, datetime.date.max, datetime.datetime.min, datetime.datetime.max}


class Fetched:
    """Rows as DuckDB's Python values; what a relation offers to a reader, they offer as well."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]],
                 description: Sequence[Any]) -> None:
        self._connection = connection
        self._rows = rows
        self.description = description

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column[0] for column in self.description]

    @property
    def types(self) -> list[Any]:
        """DuckDB's type of each column."""
        return [column[1] for column in self.description]

    def __len__(self) -> int:
        return len(self._rows)

    def materialize(self) -> Fetched:
        """Itself: the rows are in memory."""
        return self

    def iter_rows(self) -> Iterator[tuple[Any, ...]]:
        """Every row, from the first."""
        return iter(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Every row."""
        return list(self._rows)

    def limit(self, rows: int, offset: int = 0) -> Fetched:
        """At most so many of the rows, after so many others."""
        return Fetched(self._connection, self._rows[offset:offset + rows], self.description)

    def to_arrow_table(self) -> pa.Table:
        """The rows as Arrow, by way of DuckDB, which knows the types."""
        typed = [f"unnest(${at}::{kind}[])" for at, kind in enumerate(self.types, 1)]
        values = [list(column) for column in zip(*self._rows, strict=True)]
        table = self._connection.sql(f"SELECT {', '.join(typed)}",
                                     params=values or [[] for _ in typed]).to_arrow_table()
        return table.rename_columns(self.columns)


@dataclass(frozen=True)
class Quick:
    """What `fetched` gives: rows, in one of two forms, and the columns' names and types."""

    rows: Fetched | pa.Table
    names: tuple[str, ...]
    kinds: tuple[Any, ...]


def fetched(
    connection: duckdb.DuckDBPyConnection, text: str, parameters: Any = None
) -> Quick | None:
    """The rows of a SELECT; None where only a relation will do.

    Python's values must hold all that DuckDB's do. Where they do not, for a list as for a date of
    infinity, the statement has run in vain if it is a quick one; what has taken longer is kept as
    Arrow, as many rows are, except for what Arrow has no type for.
    """
    import duckdb

    if "nextval" in text.lower():  # which counts how often it runs
        return None
    statements = connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        return None
    started = time.perf_counter()
    connection.execute(statements[0], parameters)
    quick = time.perf_counter() - started < _QUICK
    description: Any = connection.description or []
    names, kinds = (tuple(column[part] for column in description) for part in (0, 1))
    if not all(_EXACT.fullmatch(str(kind)) for kind in kinds):
        if quick or any(_NOT_IN_ARROW.search(str(kind)) for kind in kinds):
            _abandon(connection)
            return None
        return Quick(_rest(connection), names, kinds)
    made = Fetched(connection, connection.fetchmany(_MOST + 1), description)
    if any(value in _ENDLESS for row in made.iter_rows() for value in row
           if isinstance(value, datetime.date)):
        _abandon(connection)
        return None
    if len(made) <= _MOST:
        return Quick(made, names, kinds)
    import pyarrow as pa

    rest = _rest(connection)
    return Quick(pa.concat_tables([made.to_arrow_table(), rest]), names, kinds)


def _abandon(connection: duckdb.DuckDBPyConnection) -> None:
    """Free the connection of what was executed and is not wanted."""
    if hasattr(connection, "abort"):  # before DuckDB 2 the next statement does it
        connection.abort()


def _rest(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows that were executed and not fetched yet."""
    with unadvised():
        return connection.to_arrow_table()
