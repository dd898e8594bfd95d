"""The stores of one statement: model outputs by argument, as DuckDB and look-ups see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mlsql.planner.nodes import Store
from mlsql.planner.substitute import bad_inputs
from mlsql.udfs.types import arrow_type

if TYPE_CHECKING:
    import duckdb


class OutputStore:
    """The outputs of one model: rows in memory, and a temporary view of them.

    DuckDB reads the rows where they lie, since outputs are large and mostly read once. They
    outlive a transaction that is rolled back; `create` shows them again.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, store: Store) -> None:
        self.name = store.name
        self.spec = store.spec
        self.schema = pa.schema([("mlsql_arg", arrow_type(store.spec.input_type)),
                                 ("mlsql_out", arrow_type(store.spec.output_type))])
        self._connection = connection
        self._tables: list[pa.Table] = []
        self._bad: list[pa.Table] = []

    def know(self, rows: pa.Table) -> None:
        """Start out with these rows."""
        if len(rows):
            self._tables.append(rows.cast(self.schema))

    def create(self) -> None:
        """Make the view, of every row known so far."""
        spec = self.spec
        self._show()
        # Arrow has one type for what are several to DuckDB; where it is the same, no cast is left.
        self._connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {self.name} AS SELECT "
            f"CAST(mlsql_arg AS {spec.input_type}) AS mlsql_arg, "
            f"CAST(mlsql_out AS {spec.output_type}) AS mlsql_out FROM {self._rows_name}")
        self._connection.execute(
            f"CREATE TEMP TABLE {bad_inputs(self.name)} (mlsql_arg {spec.input_type})")
        for table in self._bad:
            self._insert(bad_inputs(self.name), table)

    def drop(self) -> None:
        """Remove the view."""
        self._connection.execute(f"DROP VIEW IF EXISTS {self.name}")
        self._connection.unregister(self._rows_name)
        self._connection.execute(f"DROP TABLE IF EXISTS {bad_inputs(self.name)}")

    def add_bad(self, arguments: pa.Array) -> None:
        """Inputs that the model could not use; `add` has them with NULL as their output."""
        if len(arguments):
            table = pa.table([_plain(arguments)], schema=pa.schema([self.schema.field(0)]))
            name = bad_inputs(self.name)
            with registered(self._connection, "mlsql_new", table):
                new = self._connection.sql(
                    f"SELECT DISTINCT n.mlsql_arg FROM mlsql_new AS n WHERE NOT EXISTS (SELECT 1 "
                    f"FROM {name} AS b WHERE b.mlsql_arg IS NOT DISTINCT FROM n.mlsql_arg)"
                ).to_arrow_table()
            self._bad.append(new.cast(table.schema))
            self._insert(name, self._bad[-1])

    def add(self, arguments: pa.Array, outputs: pa.Array) -> None:
        """Add rows; the arguments must be new."""
        if len(arguments) == 0:
            return
        self._tables.append(pa.table([arguments, outputs], schema=self.schema))
        self._show()

    def rows(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self._tables) if self._tables else self.schema.empty_table()

    def __len__(self) -> int:
        return sum(len(table) for table in self._tables)

    @property
    def _rows_name(self) -> str:
        return f"{self.name}_rows"

    def _show(self) -> None:
        self._connection.register(self._rows_name, self.rows())

    def _insert(self, name: str, table: pa.Table) -> None:
        with registered(self._connection, "mlsql_new", table):
            self._connection.execute(f"INSERT INTO {name} SELECT * FROM mlsql_new")


def _plain(values: pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


class registered:
    """An Arrow table under a name, for the length of a block."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
        self._connection, self._name, self._table = connection, name, table

    def __enter__(self) -> None:
        self._connection.register(self._name, self._table)

    def __exit__(self, *_: Any) -> None:
        self._connection.unregister(self._name)
