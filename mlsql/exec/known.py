"""What is known of the inputs of a stage before a model is asked: in the stores, in the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mlsql.exec.cache import OutputCache
from mlsql.exec.keys import Keys
from mlsql.exec.limits import Guardrails
from mlsql.exec.stores import OutputStore, registered
from mlsql.exec.tally import Tally
from mlsql.planner.nodes import ModelCall

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Unknown:
    """The distinct arguments of a model whose outputs are to be computed, with their keys."""

    arguments: pa.Array
    keys: Keys | None
    first: np.ndarray[Any, Any]  # for each argument, the first that is the same input


class Known:
    """Finds what is known of the arguments of a stage's calls."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, cache: OutputCache | None, tally: Tally,
        guardrails: Guardrails, calls: Sequence[ModelCall], stores: Sequence[OutputStore],
        distinct: bool = False,
    ) -> None:
        """With `distinct` no two rows of the whole stage are equal."""
        self._connection, self._cache = connection, cache
        self._tally, self._guardrails = tally, guardrails
        self._calls, self._stores = calls, stores
        # Where all of a row is one argument, and the store begins empty, every one is new.
        self._all_new = distinct and len(calls) == 1 and not len(stores[0])

    def unknown(self, rows: pa.Table) -> dict[str, Unknown]:
        """For each store what it has no output for yet, after the cache has been asked."""
        found: dict[str, Unknown] = {}
        for store in dict.fromkeys(self._stores):
            columns = [c.column for c, s in zip(self._calls, self._stores, strict=True)
                       if s is store]
            missing = self._missing(rows, list(dict.fromkeys(columns)), store)
            found[store.name] = self._ask_cache(missing, store)
        return found

    def _missing(self, rows: pa.Table, columns: list[str], store: OutputStore) -> pa.Array:
        """The distinct arguments in these columns that the store does not have, in row order."""
        if self._all_new and rows.column_names == columns:
            column = plain(rows[columns[0]])
            return column.filter(column.is_valid()).cast(store.schema.field("mlsql_arg").type)
        parts = " UNION ALL ".join(
            f"SELECT {c} AS a, row_number() OVER () AS n FROM mlsql_chunk" for c in columns)
        query = (f"SELECT a FROM (SELECT a, min(n) AS n FROM ({parts}) WHERE a IS NOT NULL "
                 f"GROUP BY a) AS r WHERE NOT EXISTS (SELECT 1 FROM {store.name} "
                 f"WHERE mlsql_arg IS NOT DISTINCT FROM r.a) ORDER BY n")
        with registered(self._connection, "mlsql_chunk", rows), self._tally.sql():
            column = self._connection.sql(query).to_arrow_table()["a"]
        return column.combine_chunks().cast(store.schema.field("mlsql_arg").type)

    def _ask_cache(self, missing: pa.Array, store: OutputStore) -> Unknown:
        cache = self._cache
        if cache is None or not store.spec.kept or len(missing) == 0:
            return Unknown(missing, None, np.arange(len(missing)))
        keys = cache.keys(missing, self._guardrails.check)
        hits, outputs = cache.known(store.spec, keys)
        if len(hits):
            self._tally.cached(store.spec.name, len(hits))
            store.add(missing.take(pa.array(hits)), outputs)
        open_ = np.ones(len(keys), bool)
        open_[hits] = False
        left = np.flatnonzero(open_)
        keys = keys.take(left)
        missing = missing.take(pa.array(left))
        alike = store.spec.deterministic and _may_be_copies(missing)
        return Unknown(missing, keys, np.asarray(keys.ids) if alike else np.arange(len(left)))

    def joined(self, rows: pa.Table, unknown: Mapping[str, Unknown]) -> pa.Table:
        """The rows with what is known: out_i, known_i, and key_i, the place among the unknown.

        Of arguments that are the same input, wherever their bytes lie, one stands for all.
        """
        connection = self._connection
        select = ["c.*"]
        joins = []
        for i, (call, store) in enumerate(zip(self._calls, self._stores, strict=True)):
            select += [f"s{i}.mlsql_out AS out_{i}", f"(s{i}.mlsql_arg IS NOT NULL) AS known_{i}",
                       f"u{i}.first AS key_{i}"]
            joins += [f"LEFT JOIN {store.name} AS s{i} "
                      f"ON s{i}.mlsql_arg IS NOT DISTINCT FROM c.{call.column}",
                      f"LEFT JOIN mlsql_u_{store.name} AS u{i} "
                      f"ON u{i}.a IS NOT DISTINCT FROM c.{call.column}"]
        numbered = rows.append_column("mlsql_row", pa.array(np.arange(len(rows))))
        query = (f"SELECT {', '.join(select)} FROM mlsql_chunk AS c {' '.join(joins)} "
                 f"ORDER BY c.mlsql_row")
        tables = {f"mlsql_u_{name}": pa.table({"a": u.arguments, "first": pa.array(u.first)})
                  for name, u in unknown.items()}
        for name, table in tables.items():
            connection.register(name, table)
        with registered(connection, "mlsql_chunk", numbered), self._tally.sql():
            joined = connection.sql(query).to_arrow_table()
        for name in tables:
            connection.unregister(name)
        return self._with_representatives(joined, unknown)

    def _with_representatives(self, rows: pa.Table, unknown: Mapping[str, Unknown]) -> pa.Table:
        for i, (call, store) in enumerate(zip(self._calls, self._stores, strict=True)):
            left = unknown[store.name]
            if np.array_equal(left.first, np.arange(len(left.first))):
                continue
            key = rows[f"key_{i}"].combine_chunks()
            stand_in = left.arguments.take(key)
            own = rows[call.column].combine_chunks()
            place = rows.schema.get_field_index(call.column)
            mixed = choose(key.is_valid(), stand_in, own)
            rows = rows.set_column(place, call.column, mixed)
        return rows


def _may_be_copies(arguments: pa.Array) -> bool:
    """Whether two distinct arguments may be the same input: pictures of two files, or BLOBs.

    To know it takes reading the files, which a look at one large video should not wait for.
    """
    if not pa.types.is_struct(arguments.type) or len(arguments) < 2:
        return False
    uris = arguments.field("uri").unique()
    return len(uris) > 1 or arguments.field("data").null_count < len(arguments)


def choose(mask: pa.Array, yes: pa.Array, no: pa.Array) -> pa.Array:
    """For each place the value of `yes` where the mask is set, else that of `no`."""
    both = pa.concat_arrays([yes, no.cast(yes.type)])
    index = np.where(np.asarray(mask), np.arange(len(yes)), np.arange(len(yes)) + len(yes))
    return both.take(pa.array(index))


def taken(values: Any, rows: np.ndarray[Any, Any]) -> Any:
    """The values at these places; outputs are large, and mostly all of them are wanted in order."""
    if len(rows) == len(values) and bool((rows == np.arange(len(rows))).all()):
        return values
    return values.take(pa.array(rows))


def plain(values: Any) -> pa.Array:
    """The values as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
