"""Running a stage: candidates, what is known of them, and the executor's answers for the rest."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mlsql.exec.cache import OutputCache
from mlsql.exec.keys import Keys
from mlsql.exec.limits import Guardrails
from mlsql.exec.share import Answers, Executor, Share, Step
from mlsql.exec.stores import OutputStore, registered
from mlsql.exec.tally import Tally
from mlsql.planner.nodes import Stage
from mlsql.planner.steps import order_of

if TYPE_CHECKING:
    import duckdb

_CHUNK = 65_536
_EARLY_CHUNK = 4_096


@dataclass(frozen=True)
class Machinery:
    """What running a statement needs: DuckDB, models, the cache, and the limits to keep."""

    connection: duckdb.DuckDBPyConnection
    executor: Executor
    cache: OutputCache | None
    tally: Tally
    guardrails: Guardrails


@dataclass(frozen=True)
class _Unknown:
    """The distinct arguments of a step whose outputs are to be computed, with their keys."""

    arguments: pa.Array
    keys: Keys | None
    first: np.ndarray[Any, Any]  # for each argument, the first that is the same input


class StageRun:
    """One stage over its candidates."""

    def __init__(self, stage: Stage, stores: dict[str, OutputStore], use: Machinery) -> None:
        self._stage = stage
        self._use = use
        self._order = order_of(stage)
        self._calls = [stage.calls[k] for k in self._order.calls]
        self._stores = [stores[call.store] for call in self._calls]
        self._steps = tuple(
            Step(call.spec, call.column, guard)
            for call, guard in zip(self._calls, self._order.guards, strict=True))
        self.rows_seen = 0
        self.rows_passed = 0

    def run(self, rows_sql: str) -> None:
        """List the candidates and look at them, all or as many as an early stop needs."""
        with self._use.tally.sql():
            rows = self._use.connection.sql(rows_sql).to_arrow_table()
        early = self._stage.early
        size = _EARLY_CHUNK if early else _CHUNK
        while self.rows_seen < len(rows):
            left = self._use.guardrails.calls_left
            most = size if left is None else min(size, max(1, left // max(1, len(self._steps))))
            self._chunk(rows.slice(self.rows_seen, most))
            if early and self.rows_passed >= early.rows:
                break
        if early:
            self._keep_evaluated(rows.slice(0, self.rows_seen))

    def _keep_evaluated(self, rows: pa.Table) -> None:
        assert self._stage.early is not None
        names = [*(name for name, _ in self._stage.columns), "mlsql_n"]
        with registered(self._use.connection, "mlsql_seen", rows.select(names)):
            self._use.connection.execute(
                f"CREATE TEMP TABLE {self._stage.early.table} AS FROM mlsql_seen")

    def _chunk(self, rows: pa.Table) -> None:
        unknown = self._unknown(rows)
        if self._use.guardrails.calls_left == 0 and any(len(u.arguments) for u in unknown.values()):
            raise self._use.guardrails.call_limit()
        share_rows = self._with_known(rows, unknown)
        share = Share(share_rows, self._steps, self._order.accept)
        learned: list[list[tuple[pa.Array, pa.Array]]] = [[] for _ in self._steps]
        early, covered = self._stage.early, len(rows)
        events = self._use.executor.run([share])
        try:
            with closing(events):  # type: ignore[type-var]
                for _, event in events:
                    self._use.guardrails.check()
                    if isinstance(event, Answers):
                        self._take(event, share_rows, unknown, learned)
                        continue
                    self.rows_passed += len(event.passed)
                    if early and self.rows_passed >= early.rows:
                        covered = event.covered
                        break
        finally:
            self._store(learned, unknown)
        self.rows_seen += covered
        for call in self._calls:
            asked = covered - rows[call.column].slice(0, covered).null_count
            self._use.tally.answered(call.spec.name, asked * call.uses)

    def _unknown(self, rows: pa.Table) -> dict[str, _Unknown]:
        """For each store what it has no output for yet, after the cache has been asked."""
        found: dict[str, _Unknown] = {}
        for store in dict.fromkeys(self._stores):
            columns = [c.column for c, s in zip(self._calls, self._stores, strict=True)
                       if s is store]
            missing = self._missing(rows, list(dict.fromkeys(columns)), store)
            found[store.name] = self._ask_cache(missing, store)
        return found

    def _missing(self, rows: pa.Table, columns: list[str], store: OutputStore) -> pa.Array:
        """The distinct arguments in these columns that the store does not have, in row order."""
        parts = " UNION ALL ".join(
            f"SELECT {c} AS a, row_number() OVER () AS n FROM mlsql_chunk" for c in columns)
        query = (f"SELECT a FROM (SELECT a, min(n) AS n FROM ({parts}) WHERE a IS NOT NULL "
                 f"GROUP BY a) AS r WHERE NOT EXISTS (SELECT 1 FROM {store.name} "
                 f"WHERE mlsql_arg IS NOT DISTINCT FROM r.a) ORDER BY n")
        with registered(self._use.connection, "mlsql_chunk", rows), self._use.tally.sql():
            column = self._use.connection.sql(query).to_arrow_table()["a"]
        return column.combine_chunks().cast(store.schema.field("mlsql_arg").type)

    def _ask_cache(self, missing: pa.Array, store: OutputStore) -> _Unknown:
        cache = self._use.cache
        if cache is None or len(missing) == 0:
            return _Unknown(missing, None, np.arange(len(missing)))
        keys = cache.keys(missing, self._use.guardrails.check)
        known, outputs = cache.lookup(store.spec, keys)
        hits = np.flatnonzero(np.asarray(known))
        if len(hits):
            self._use.tally.cached(store.spec.name, len(hits))
            store.add(missing.take(pa.array(hits)), _plain(outputs).take(pa.array(hits)))
        left = np.flatnonzero(~np.asarray(known, dtype=bool))
        keys = keys.take(left)
        missing = missing.take(pa.array(left))
        alike = store.spec.deterministic and _may_be_copies(missing)
        return _Unknown(missing, keys, np.asarray(keys.ids) if alike else np.arange(len(left)))

    def _with_known(self, rows: pa.Table, unknown: dict[str, _Unknown]) -> pa.Table:
        """The rows with what is known: out_i, known_i, and key_i, the place among the unknown.

        Of arguments that are the same input, wherever their bytes lie, one stands for all.
        """
        connection = self._use.connection
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
        with registered(connection, "mlsql_chunk", numbered), self._use.tally.sql():
            joined = connection.sql(query).to_arrow_table()
        for name in tables:
            connection.unregister(name)
        return self._with_representatives(joined, unknown)

    def _with_representatives(self, rows: pa.Table, unknown: dict[str, _Unknown]) -> pa.Table:
        for i, (call, store) in enumerate(zip(self._calls, self._stores, strict=True)):
            left = unknown[store.name]
            if np.array_equal(left.first, np.arange(len(left.first))):
                continue
            key = rows[f"key_{i}"].combine_chunks()
            stand_in = left.arguments.take(key)
            own = rows[call.column].combine_chunks()
            place = rows.schema.get_field_index(call.column)
            mixed = _choose(key.is_valid(), stand_in, own)
            rows = rows.set_column(place, call.column, mixed)
        return rows

    def _take(
        self, event: Answers, rows: pa.Table, unknown: dict[str, _Unknown],
        learned: list[list[tuple[pa.Array, pa.Array]]],
    ) -> None:
        """New outputs: into the cache at once, into the store at the end of the chunk."""
        spec, store = self._steps[event.step].model, self._stores[event.step]
        self._use.tally.worked(spec.name, event.counters, event.errors)
        key = rows[f"key_{event.step}"].take(event.rows).combine_chunks()
        bad = {e.row for e in event.errors}
        places, first = np.unique(np.asarray(key.fill_null(-1)), return_index=True)
        first = first[places >= 0]
        places = places[places >= 0]
        outputs = _plain(event.outputs).take(pa.array(first))
        learned[event.step].append((pa.array(places), outputs))
        left = unknown[store.name]
        if bad:
            failed = np.unique([k for r, k in zip(event.rows.to_pylist(), key.to_pylist(),
                                                  strict=True) if r in bad and k is not None])
            same = np.flatnonzero(np.isin(left.first, failed))
            store.add_bad(left.arguments.take(pa.array(same)))
        if self._use.cache is not None and left.keys is not None:
            numbers = np.asarray(event.rows)[first]
            good = np.flatnonzero([int(n) not in bad for n in numbers])
            self._use.cache.write(spec, left.keys.take(places[good]), outputs.take(pa.array(good)))
        self._use.guardrails.judge(event, spec.name)

    def _store(
        self, learned: list[list[tuple[pa.Array, pa.Array]]], unknown: dict[str, _Unknown]
    ) -> None:
        """Put what a chunk has learned into the stores, for every argument of the same input."""
        for store in dict.fromkeys(self._stores):
            pieces = [piece for i, own in enumerate(learned) if self._stores[i] is store
                      for piece in own]
            if not pieces:
                continue
            left = unknown[store.name]
            places = np.concatenate([np.asarray(p) for p, _ in pieces])
            outputs = pa.concat_arrays([o for _, o in pieces])
            answered = np.full(len(left.first), -1)
            answered[places[::-1]] = np.arange(len(places))[::-1]
            source = answered[left.first]
            have = np.flatnonzero(source >= 0)
            store.add(left.arguments.take(pa.array(have)), outputs.take(pa.array(source[have])))


def _may_be_copies(arguments: pa.Array) -> bool:
    """Whether two distinct arguments may be the same input: pictures of two files, or BLOBs.

    To know it takes reading the files, which a look at one large video should not wait for.
    """
    if not pa.types.is_struct(arguments.type) or len(arguments) < 2:
        return False
    uris = arguments.field("uri").unique()
    return len(uris) > 1 or arguments.field("data").null_count < len(arguments)


def _choose(mask: pa.Array, yes: pa.Array, no: pa.Array) -> pa.Array:
    both = pa.concat_arrays([yes, no.cast(yes.type)])
    index = np.where(np.asarray(mask), np.arange(len(yes)), np.arange(len(yes)) + len(yes))
    return both.take(pa.array(index))


def _plain(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
