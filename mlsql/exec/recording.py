"""Look-up functions inside DuckDB that note what they do not find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mlsql.exec.stores import OutputStore
from mlsql.planner.nodes import Lookup

if TYPE_CHECKING:
    import duckdb

# So many unknown arguments in one pass are looked at before the statement runs any further: a
# recursion that an unknown output keeps going would otherwise never end.
MOST_MISSES = 100_000


class TooManyMisses(Exception):
    """A pass has noted enough; it is cut short, and a further one made."""


class Recorder:
    """A look-up over a store: an unknown argument is noted and answered with NULL."""

    def __init__(self, lookup: Lookup, store: OutputStore, may_cut: bool) -> None:
        self._may_cut = may_cut
        self.lookup = lookup
        self.store = store
        self._places: dict[Any, int] = {}
        self._read = 0
        self._outputs: pa.Array | None = None
        self._misses: dict[Any, Any] = {}
        self._cut = False

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the function known to DuckDB."""
        import duckdb

        spec = self.lookup.spec
        connection.create_function(
            self.lookup.name, self._find, [duckdb.sqltype(spec.input_type)],
            duckdb.sqltype(spec.output_type), type="arrow",  # type: ignore[call-overload]
            null_handling="special", side_effects=False)

    def unregister(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take it away again."""
        connection.remove_function(self.lookup.name)

    def take_misses(self) -> pa.Array:
        """The unknown arguments noted since the last time, distinct."""
        misses = list(self._misses.values())
        self._misses = {}
        return pa.array(misses, self.store.schema.field("mlsql_arg").type)

    @property
    def missed(self) -> bool:
        """Whether arguments were noted that nobody has looked at yet."""
        return bool(self._misses)

    @property
    def was_cut(self) -> bool:
        """Whether the last pass was cut short; reading it resets it."""
        cut, self._cut = self._cut, False
        return cut

    def _find(self, arguments: pa.ChunkedArray) -> pa.Array:
        self._index()
        places: list[int | None] = []
        for value in arguments.to_pylist():
            if value is None:
                places.append(None)
                continue
            key = key_of(value)
            place = self._places.get(key)
            if place is None:
                self._misses.setdefault(key, value)
            places.append(place)
        if self._may_cut and len(self._misses) >= MOST_MISSES:
            self._cut = True
            raise TooManyMisses
        indices = pa.array(places, pa.int64())
        if self._outputs is None:
            return pa.nulls(len(places), self.store.schema.field("mlsql_out").type)
        return self._outputs.take(indices)

    def _index(self) -> None:
        """Take in what the store has learned since."""
        if len(self.store) == self._read:
            return
        rows = self.store.rows()
        for place, value in enumerate(rows["mlsql_arg"].slice(self._read).to_pylist(), self._read):
            self._places[key_of(value)] = place
        self._outputs = rows["mlsql_out"].combine_chunks()
        self._read = len(rows)


def key_of(value: Any) -> Any:
    """A value as a dictionary key: equal exactly where DuckDB's IS NOT DISTINCT FROM says so."""
    if isinstance(value, dict):
        return tuple((k, key_of(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(key_of(v) for v in value)
    if isinstance(value, float) and value != value:
        return "NaN"  # DuckDB's NaN equals itself; Python's does not
    return value
