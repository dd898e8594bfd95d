"""The answer of a statement: lazy, memoised, and able to say how it was obtained."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from mlsql.display import Style, box, terminal_width
from mlsql.errors import Error, InterfaceError, NotSupportedError
from mlsql.exec.stats import Stats
from mlsql.foreign import held, interruptible, own_errors, rereadable, unadvised
from mlsql.values import PRINTED, PYTHON, Convert, arrow_rows, converter, is_media

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType

    from mlsql.exec.approximate.report import Approximation
    from mlsql.exec.share import RowError

    Rows: TypeAlias = (
        "pa.Table | pa.RecordBatchReader | duckdb.DuckDBPyRelation | duckdb.DuckDBPyConnection")

Description = list[tuple[str, str, None, None, None, None, None]]
_CHUNK = 2048
T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What running a statement gave.

    `rows` may be an Arrow table, a reader of batches, a DuckDB relation, or a DuckDB connection
    that has just executed; it is read once. It is None where the statement has no rows to give.
    `names` are the columns' own names, where `rows` had to tell apart those that are alike;
    `kinds` are their types where an Arrow table does not tell.
    """

    rows: Rows | None
    stats: Stats = field(default_factory=Stats)
    warnings: tuple[str, ...] = ()
    errors: tuple[RowError, ...] = ()
    approximate: Approximation | bool = False
    interval: tuple[float, float] | None = None
    names: tuple[str, ...] | None = None
    kinds: Sequence[DuckDBPyType] | None = None
    changes: int | None = None
    """How many rows the statement changed, where that is all it has to say."""


class Result:
    """The rows of a statement. It runs when they are first asked for, once; then they are kept."""

    def __init__(
        self,
        run: Callable[[], Outcome],
        explain: Callable[[], Result] | None = None,
        interrupt: Callable[[], object] | None = None,
        turn: AbstractContextManager[object] | None = None,
        limit: Callable[[int, int], Result] | None = None,
    ) -> None:
        """`interrupt` ends what `run` has started; it is what Ctrl-C calls.

        `turn` is held while the connection is used, which takes one call at a time. `limit` gives
        the result of so many rows after so many others, which costs less than all of them.
        """
        self._limit = limit
        self._turn = turn or nullcontext()
        self._run = run
        self._explain = explain
        self._interrupt = interrupt
        self._lock = threading.RLock()
        self._outcome: Outcome | None = None
        self._rows: Rows | None = None  # not read yet
        self._kinds: list[tuple[str, DuckDBPyType]] = []
        self._table: pa.Table | None = None
        self._fetching: Iterator[tuple[Any, ...]] | None = None

    # --- what it is -----------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """The names of the columns, as written; none where the statement has no rows to give."""
        self.outcome()
        return [name for name, _ in self._kinds]

    @property
    def types(self) -> list[str]:
        """The DuckDB type of each column."""
        self.outcome()
        return [str(kind) for _, kind in self._kinds]

    @property
    def kinds(self) -> list[DuckDBPyType]:
        """The type of each column as DuckDB's own value, which knows its parts."""
        self.outcome()
        return [kind for _, kind in self._kinds]

    @property
    def description(self) -> Description | None:
        """The columns as PEP 249 has them; None where the statement has no rows to give."""
        if self.outcome().rows is None and not self._kinds:
            return None
        return [(name, str(kind), None, None, None, None, None) for name, kind in self._kinds]

    @property
    def changes(self) -> int | None:
        """How many rows an INSERT or its like changed; None for a statement that gives rows."""
        return self.outcome().changes

    @property
    def rowcount(self) -> int:
        """How many rows there are, or were changed; -1 for a statement that does neither."""
        outcome = self.outcome()
        if outcome.changes is not None:
            return outcome.changes
        if self.description is None:
            return -1
        if self._table is None and rereadable(self._rows):
            return int(self._guarded(lambda: len(self._rows)))  # type: ignore[arg-type]
        return int(self._stored().num_rows)

    @property
    def stats(self) -> Stats:
        """Model calls made, cached and saved, frames decoded, and where the seconds went."""
        return self.outcome().stats

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know, although the statement went on."""
        return self.outcome().warnings

    @property
    def errors(self) -> tuple[RowError, ...]:
        """The inputs that could not be used, each with its cause."""
        return self.outcome().errors

    @property
    def approximate(self) -> Approximation | bool:
        """How an accuracy target was met, where models looked at fewer rows than an exact run.

        False for an exact answer; an `Approximation`, which is true unless it came to be exact.
        """
        return self.outcome().approximate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval of an approximate aggregate."""
        return self.outcome().interval

    def explain(self) -> Result:
        """The plan as a table; no model runs."""
        if self._explain is None:
            raise NotSupportedError("this statement has no plan to explain")
        return self._explain()

    def limit(self, rows: int, offset: int = 0) -> Result:
        """At most so many of the rows, after so many others; models see no more than it takes."""
        with self._lock:
            if self._outcome is None and self._limit is not None:
                return self._limit(rows, offset)
            if self.description is None:
                return self
            if self._table is None and rereadable(self._rows):
                found: Any = self._guarded(
                    lambda: held(self._rows.limit(rows, offset)))  # type: ignore[union-attr]
            else:
                found = self._stored().slice(offset, rows)
            part = replace(self.outcome(), rows=found, names=tuple(self.columns), kinds=self.kinds,
                           changes=None)
            return Result(lambda: part, self._explain, self._interrupt, self._turn)

    def outcome(self) -> Outcome:
        """What running gave; it runs now unless it has. A failed run is tried again next time."""
        with self._lock:
            if self._outcome is None:
                outcome, self._kinds = self._guarded(self._ran)
                if outcome.names is not None:
                    kinds = [kind for _, kind in self._kinds]
                    self._kinds = list(zip(outcome.names, kinds, strict=True))
                self._rows, self._outcome = outcome.rows, outcome
            return self._outcome

    def _ran(self) -> tuple[Outcome, list[tuple[str, DuckDBPyType]]]:
        outcome = self._run()
        if outcome.rows is None:
            return outcome, []
        if outcome.kinds is not None and _is_arrow(outcome.rows):
            names: Any = outcome.rows
            return outcome, list(zip(names.schema.names, outcome.kinds, strict=True))
        return outcome, _kinds(outcome.rows)

    def _guarded(self, work: Callable[[], T]) -> T:
        """What DuckDB gives: its errors become ours, and Ctrl-C ends it."""
        def in_turn() -> T:
            with self._turn:
                return work()

        with own_errors():
            if self._interrupt is None:
                return in_turn()
            return interruptible(in_turn, self._interrupt)

    # --- its rows -------------------------------------------------------------------------

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; media are of an extension type over uri, frame and data."""
        table = self._stored()
        media = [at for at, kind in enumerate(self.kinds) if is_media(kind)]
        if not media:
            return table
        from mlsql.imagetype import with_images

        return with_images(table, media)

    def _stored(self) -> pa.Table:
        """All rows as an Arrow table, media as structs of uri, frame and data."""
        import pyarrow as pa

        with self._lock:
            if self._table is None:
                rows = self._take()
                table = self._guarded(lambda: pa.table({}) if rows is None else _table(rows))
                self._table = table.rename_columns(self.columns)
            return self._table

    def to_arrow_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow batches. A stream that no earlier look kept is handed over, once."""
        import pyarrow as pa

        with self._lock:
            if self._table is not None:
                return self.arrow().to_reader()
            if not _is_reader(self.outcome().rows):
                return self.arrow().to_reader()
            rows = self._take()
            reader = self._guarded(
                lambda: pa.table({}).to_reader() if rows is None else _reader(rows))
            return _renamed(reader, self.columns)

    def __arrow_c_schema__(self) -> object:
        capsule: object = self.to_arrow_schema().__arrow_c_schema__()
        return capsule

    def to_arrow_schema(self) -> pa.Schema:
        """The names and types of the columns as Arrow has them."""
        return self.arrow().schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        capsule: object = self.arrow().__arrow_c_stream__(requested_schema)
        return capsule

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas frame, media as `Image`."""
        _need("pandas")
        import pyarrow as pa

        try:
            frame = self._small_numbers().to_pandas(date_as_object=False)
        except pa.ArrowNotImplementedError as error:
            raise NotSupportedError(f"pandas has no type for a column: {error}") from error
        for position, (_, kind) in enumerate(self._kinds):
            if is_media(kind):
                convert = converter(kind, PYTHON) or (lambda value: value)
                frame.isetitem(position, [None if v is None else convert(v)
                                          for v in self._stored().column(position).to_pylist()])
        return frame

    def pl(self) -> polars.DataFrame:
        """All rows as a polars frame, media as structs."""
        frame: polars.DataFrame = _need("polars").from_arrow(self._small_numbers())
        return frame

    def _small_numbers(self) -> pa.Table:
        """The table with HUGEINT, which Arrow lacks, as BIGINT if it fits, else DOUBLE."""
        import pyarrow as pa

        table = self._stored()
        for position, (name, kind) in enumerate(self._kinds):
            column = table.column(position)
            if kind.id not in ("hugeint", "uhugeint") or not pa.types.is_decimal(column.type):
                continue
            try:
                number = column.cast(pa.int64())
            except pa.ArrowInvalid:
                number = column.cast(pa.float64())
            table = table.set_column(position, name, number)
        return table

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row as Python values; None after the last."""
        return next(self._next_rows(), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows, fewer at the end."""
        return list(islice(self._next_rows(), size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows not fetched yet."""
        return list(self._next_rows())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._next_rows()

    def _next_rows(self) -> Iterator[tuple[Any, ...]]:
        with self._lock:
            if self._fetching is None:
                if not rereadable(self.outcome().rows):
                    self._stored()  # here, because a generator that has raised is over for good
                self._fetching = self._kept_rows(PYTHON)
            return self._fetching

    def _kept_rows(self, leaves: Mapping[str, Convert]) -> Iterator[tuple[Any, ...]]:
        """The rows, which stay to be read again: by way of DuckDB's own values if it can.

        Arrow has no time with a zone, no tuple and no date beyond 9999; its import takes as long
        as a small query.
        """
        rows = self.outcome().rows
        if rereadable(rows) and not (leaves is PRINTED and any(map(_only_arrow, self.kinds))):
            yield from self._native_rows(rows, leaves)
            return
        batches = iter(self._stored().to_batches(max_chunksize=_CHUNK))
        for block in arrow_rows(batches, self.kinds, leaves):
            yield from block

    def _native_rows(
        self, rows: Any, leaves: Mapping[str, Convert]
    ) -> Iterator[tuple[Any, ...]]:
        found = iter(rows.iter_rows())
        seen = 0
        while True:
            try:
                with self._turn, own_errors():
                    block = list(islice(found, _CHUNK))
            except OverflowError:  # an interval longer than Python's
                batches = iter(self._stored().slice(seen).to_batches(max_chunksize=_CHUNK))
                for late in arrow_rows(batches, self.kinds, leaves):
                    yield from late
                return
            yield from _converted(block, self.kinds, leaves)
            seen += len(block)
            if len(block) < _CHUNK:
                return

    def printed(self, keep: bool = False) -> Iterator[tuple[Any, ...]]:
        """The rows as values to print, see `values.PRINTED`; they are gone then unless kept.

        Rows straight from DuckDB come without Arrow, whose import takes as long as a small query.
        """
        self.outcome()
        if keep or self._table is not None or rereadable(self._rows):
            yield from self._kept_rows(PRINTED)
            return
        rows = self._take()
        if rows is not None:
            with own_errors():
                yield from _printed(rows, self._kinds)

    def _take(self) -> Rows | None:
        if self.outcome().rows is not None and self._rows is None:
            raise InterfaceError("the rows were handed out already: run the statement again")
        rows = self._rows
        if not rereadable(rows):
            self._rows = None
        return rows

    # --- how it looks ---------------------------------------------------------------------

    def show(self, max_rows: int | None = 40, max_width: int | None = None) -> None:
        """Print the rows as a table: the first and last of them where they are many.

        It is at most `max_width` columns wide, or as wide as the terminal.
        """
        print(self._drawn(Style(max_rows=max_rows, max_width=max_width or terminal_width())))

    def __repr__(self) -> str:
        return self._drawn(Style(max_rows=20, max_width=terminal_width()))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str] | None:
        """Where a lazy statement fails as a notebook shows it: the message, once."""
        try:
            self.outcome()
        except Error as error:
            return {"text/plain": f"error: {error}",
                    "text/html": f"<pre>error: {escape(str(error))}</pre>"}
        return None

    def _repr_html_(self) -> str:
        """The first rows as a notebook shows them, with thumbnails of the pictures in them."""
        from mlsql.html import fragment

        return fragment(self)

    def _drawn(self, style: Style) -> str:
        if self.description is None:
            return "OK"
        return box(self.columns, self.kinds, self.shown(style.max_rows), style)

    def shown(self, most: int | None) -> Iterator[tuple[Any, ...]]:
        """The rows as values to print; those in the middle, where they are more, as empty ones.

        A table of at most `most` rows leaves the middle out, and it is not converted.
        """
        total = self.rowcount if self.changes is None else self._stored().num_rows
        if most is None or total <= most:
            yield from self._kept_rows(PRINTED)
            return
        table = self._stored()
        head, tail = most - most // 2, most // 2
        ends = [*table.slice(0, head).to_batches(), *table.slice(total - tail).to_batches()]
        seen = (row for rows in arrow_rows(iter(ends), self.kinds, PRINTED) for row in rows)
        yield from islice(seen, head)
        for _ in range(total - head - tail):
            yield ()
        yield from seen


def _is_reader(rows: Any) -> bool:
    return hasattr(rows, "read_next_batch")


def _is_arrow(rows: Any) -> bool:
    return hasattr(rows, "schema")


def _kinds(rows: Any) -> list[tuple[str, DuckDBPyType]]:
    """Names and DuckDB types of the columns."""
    if _is_arrow(rows):
        import duckdb

        # The names are read from the schema: DuckDB would number those that are alike.
        kinds = duckdb.from_arrow(rows.schema.empty_table()).types
        return list(zip(rows.schema.names, kinds, strict=True))
    return [(name, kind) for name, kind, *_ in rows.description or ()]


def _table(rows: Any) -> pa.Table:
    if hasattr(rows, "num_rows"):
        return rows
    if _is_arrow(rows):
        return rows.read_all()
    with unadvised():
        table: pa.Table = rows.to_arrow_table()
    return table


def _reader(rows: Any) -> pa.RecordBatchReader:
    if hasattr(rows, "num_rows"):
        return rows.to_reader()
    if _is_arrow(rows):
        reader: pa.RecordBatchReader = rows
    else:
        with unadvised():
            reader = rows.to_arrow_reader()
    return reader


def _renamed(reader: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    import pyarrow as pa

    if reader.schema.names == names:
        return reader
    schema = pa.schema([field.with_name(name) for field, name in zip(reader.schema, names)])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _printed(rows: Any, kinds: list[tuple[str, DuckDBPyType]]) -> Iterator[tuple[Any, ...]]:
    types = [kind for _, kind in kinds]
    if _is_arrow(rows) or any(_only_arrow(kind) for kind in types):
        for block in arrow_rows(iter(_reader(rows)), types, PRINTED):
            yield from block
        return
    yield from _converted(_native(rows), types, PRINTED)


def _converted(
    rows: Iterable[tuple[Any, ...]], kinds: list[DuckDBPyType], leaves: Mapping[str, Convert]
) -> Iterator[tuple[Any, ...]]:
    """Rows of DuckDB's own Python values as those that are wanted."""
    converters = [converter(kind, leaves) for kind in kinds]
    if not any(converters):
        yield from rows
        return
    for row in rows:
        yield tuple(value if convert is None or value is None else convert(value)
                    for value, convert in zip(row, converters, strict=True))


def _only_arrow(kind: DuckDBPyType) -> bool:
    """Whether DuckDB's own Python values lose something of this type: the months of intervals."""
    return "INTERVAL" in str(kind)


def _native(rows: Any) -> Iterator[tuple[Any, ...]]:
    """The rows as DuckDB's own Python values, read piece by piece."""
    if hasattr(rows, "iter_rows"):
        yield from rows.iter_rows()
        return
    while block := rows.fetchmany(_CHUNK):
        yield from block


def _need(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise NotSupportedError(
            f"this needs {package}, which is not installed: pip install {package}") from error
