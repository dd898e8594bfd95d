"""mlsql in harlequin, the SQL IDE for the terminal: `harlequin -a mlsql shop.db`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from harlequin import HarlequinAdapter, HarlequinConnection, HarlequinCursor
from harlequin.autocomplete.completion import HarlequinCompletion
from harlequin.catalog import Catalog, CatalogItem
from harlequin.exception import (
    HarlequinConfigError,
    HarlequinConnectionError,
    HarlequinQueryError,
)
from harlequin.options import ListOption
from harlequin.transaction_mode import HarlequinTransactionMode

from mlsql.errors import Error, Interrupted
from mlsql.parser.reshape import is_query
from mlsql.result import Result
from mlsql.session import Session
from mlsql.udfs.function import functions
from mlsql.values import is_media

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType

_SHORT = {
    "boolean": "t/f", "hugeint": "###", "uhugeint": "###", "bignum": "###", "bigint": "##",
    "ubigint": "##", "decimal": "#.#", "float": "#.#", "double": "#.#", "varchar": "s",
    "enum": "s", "blob": "0b", "bit": "010", "date": "d", "interval": "|-|", "uuid": "uid",
    "struct": "{}", "tuple": "{}", "map": "{m}", "list": "[]", "array": "[]",
}
_COLUMNS = """
    SELECT c.database_name, c.schema_name, c.table_name,
           coalesce(nullif(v.view_name IS NOT NULL, false), false), c.column_name, c.data_type
    FROM duckdb_columns() c LEFT JOIN duckdb_views() v
      ON v.database_name = c.database_name AND v.schema_name = c.schema_name
         AND v.view_name = c.table_name
    WHERE NOT c.internal AND c.database_name NOT IN ('system', 'temp')
    ORDER BY c.database_name, c.schema_name, c.table_name, c.column_index"""


class MlsqlCursor(HarlequinCursor):
    """The rows of a query, which runs when harlequin has said how many it wants."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def columns(self) -> list[tuple[str, str]]:
        """Names, and types in up to three letters."""
        with _told("running"):
            return [(name, _short(kind)) for name, kind in
                    zip(self._result.columns, self._result.kinds, strict=True)]

    def set_limit(self, limit: int) -> MlsqlCursor:
        """So many rows: models see no more than it takes."""
        self._result = self._result.limit(limit)
        return self

    def fetchall(self) -> pa.Table | None:
        """The rows, pictures by their names; None where it was cancelled."""
        try:
            with _told("running"):
                return _shown(self._result)
        except Interrupted:
            return None


class MlsqlConnection(HarlequinConnection):
    """A session."""

    def __init__(self, session: Session, init_message: str = "") -> None:
        self.session = session
        self.init_message = init_message

    def execute(self, query: str) -> MlsqlCursor | None:
        """Run a statement; None where it gives no rows."""
        try:
            with _told("running"):
                if is_query(query):
                    return MlsqlCursor(self.session.sql(query))
                result = self.session.execute(query)
        except Interrupted:
            return None
        gives_rows = result.description is not None and result.changes is None
        return MlsqlCursor(result) if gives_rows else None

    def cancel(self) -> None:
        """End what runs; what models have answered is kept."""
        self.session.interrupt()

    def get_catalog(self) -> Catalog:
        """Databases, schemas, tables and views with their columns, and the models."""
        with _told("reading the catalog for"):
            rows = self.session.execute(_COLUMNS).fetchall()
            databases = [row[0] for row in self.session.execute(
                "SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()]
        items = {name: CatalogItem(_quoted(name), _quoted(name), name, "db") for name in databases}
        for name, inside in groupby(rows, lambda row: row[0]):
            items[name].children = list(_schemas(name, inside))
        models = [CatalogItem(f"model {name}", f"'{name}'", name, "m")
                  for name in self.session.models]
        return Catalog([*items.values(),
                        CatalogItem("models", "models()", "models", "ms", children=models)])

    def get_completions(self) -> list[HarlequinCompletion]:
        """The functions that ask models, the models, and DuckDB's functions."""
        ours = [HarlequinCompletion(name, "fn", name, 450) for name in functions()]
        ours += [HarlequinCompletion(name, "model", f"'{name}'", 450)
                 for name in self.session.models]
        with _told("reading the functions for"):
            theirs = self.session.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() "
                "WHERE regexp_full_match(function_name, '[a-z]\\w*')").fetchall()
        return ours + [HarlequinCompletion(name, "fn", name, 1000) for (name,) in theirs]

    @property
    def transaction_mode(self) -> HarlequinTransactionMode:
        """Auto, where each statement stands for itself, or Manual, with commit and rollback."""
        if self.session.autocommit:
            return HarlequinTransactionMode("Auto")
        return HarlequinTransactionMode("Manual", self.session.commit, self.session.rollback)

    def toggle_transaction_mode(self) -> HarlequinTransactionMode:
        """Switch to the other one; what waits is committed."""
        with _told("switching"):
            self.session.autocommit = not self.session.autocommit
        return self.transaction_mode

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class MlsqlAdapter(HarlequinAdapter):
    """Opens a database file, or one in memory."""

    ADAPTER_OPTIONS = [ListOption(
        name="setting", description="A setting of mlsql or DuckDB, as name=value; repeatable.")]
    IMPLEMENTS_CANCEL = True
    IMPLEMENTS_READ_ONLY = True
    ADAPTER_DETAILS = "SQL over models: `SELECT ts FROM 'trip.mp4' WHERE CONTAINS(frame, 'dog')`."

    def __init__(
        self, conn_str: Sequence[str], read_only: bool = False,
        setting: Sequence[str] | None = None, **options: Any,
    ) -> None:
        if len(conn_str) > 1:
            raise HarlequinConfigError("mlsql opens one database; ATTACH others", "mlsql")
        wrong = [text for text in setting or () if "=" not in text]
        if wrong:
            raise HarlequinConfigError(f"a setting is name=value, not {wrong[0]!r}", "mlsql")
        self.path = conn_str[0] if conn_str else ":memory:"
        self.read_only = read_only
        self.config = dict(text.split("=", 1) for text in setting or ())

    @property
    def connection_id(self) -> str:
        """The database file; nothing is remembered of one in memory."""
        return "" if self.path == ":memory:" else self.path

    def connect(self) -> MlsqlConnection:
        """Open the session."""
        try:
            return MlsqlConnection(
                Session(self.path, read_only=self.read_only, config=self.config))
        except Error as error:
            raise HarlequinConnectionError(str(error), "mlsql could not open the database") \
                from error


@dataclass(frozen=True)
class _told:
    """Inside, an error of mlsql's is one that harlequin shows."""

    doing: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Error) and not isinstance(error, Interrupted):
            raise HarlequinQueryError(
                str(error), f"mlsql raised an error when {self.doing} your query:") from error


def _schemas(database: str, rows: Iterator[tuple[Any, ...]]) -> Iterator[CatalogItem]:
    for schema, inside in groupby(rows, lambda row: row[1]):
        path = f"{_quoted(database)}.{_quoted(schema)}"
        yield CatalogItem(path, path, schema, "sch", children=list(_tables(path, inside)))


def _tables(path: str, rows: Iterator[tuple[Any, ...]]) -> Iterator[CatalogItem]:
    for (name, view), inside in groupby(rows, lambda row: (row[2], row[3])):
        place = f"{path}.{_quoted(name)}"
        columns = [CatalogItem(f"{place}.{_quoted(column)}", _quoted(column), column,
                               _short_name(kind), type_name=kind)
                   for *_, column, kind in inside]
        yield CatalogItem(place, place, name, "v" if view else "t", children=columns)


def _quoted(name: str) -> str:
    return f'"{name.replace(_QUOTE, 2 * _QUOTE)}"'


_QUOTE = '"'


def _short(kind: DuckDBPyType) -> str:
    return "img" if is_media(kind) else _short_name(str(kind))


def _short_name(name: str) -> str:
    if name.endswith("]"):
        return "[]"
    plain = name.partition("(")[0].lower()
    if plain.startswith("time"):
        return "ts" if plain.startswith("timestamp") else "t"
    return _SHORT.get(plain, "#" if plain.endswith("int") or plain == "integer" else "?")


def _shown(result: Result) -> pa.Table:
    """The rows with pictures as texts: a terminal's table has room for no more."""
    import pyarrow as pa

    table = result.arrow()
    for at, kind in enumerate(result.kinds):
        if is_media(kind):
            texts = [None if value is None else repr(value)
                     for value in table.column(at).to_pylist()]
            table = table.set_column(at, table.schema.field(at).name, pa.array(texts, pa.string()))
    return table
