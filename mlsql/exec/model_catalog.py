"""The models of a database: CREATE MODEL's, kept in a table of the database itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import duckdb

    from mlsql.exec.media.handle import Limits

_SCHEMA = "mlsql"


@dataclass(frozen=True)
class StoredModel:
    """What is kept of a model: the file, its SHA-256, and the options; weights are not."""

    name: str
    path: str
    sha256: str
    options: Mapping[str, Any]

    def spec(self) -> ModelSpec:
        """The model as planning sees it."""
        from mlsql.udfs.model_files import file_spec

        return file_spec(self.name, self.path, self.sha256, self.options)


class ModelCatalog:
    """The models of the current database; read again when the catalog may have changed.

    Without external access a model whose file may not be read is not there, nor is one that would
    import a module: a database that came from elsewhere opens without either.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, limits: Callable[[], Limits]
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._specs: Mapping[str, ModelSpec] | None = None
        self._before: Mapping[str, ModelSpec] = {}

    def forget(self) -> None:
        """The catalog may have changed."""
        self._specs = None

    def specs(self) -> Mapping[str, ModelSpec]:
        """The models by lower-case name."""
        if self._specs is None:
            self._specs = self._before = self._read()
        return self._specs

    def put(self, model: StoredModel) -> None:
        """Keep a model, in the place of one of that name."""
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema()}")
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table()} (name VARCHAR, path VARCHAR, "
            "sha256 VARCHAR, options VARCHAR)")
        self._connection.execute(f"DELETE FROM {self._table()} WHERE lower(name) = lower($1)",
                                 [model.name])
        self._connection.execute(
            f"INSERT INTO {self._table()} VALUES ($1, $2, $3, $4)",
            [model.name, model.path, model.sha256, json.dumps(dict(model.options))])
        self.forget()

    def drop(self, name: str) -> None:
        """Forget a model."""
        self._connection.execute(f"DELETE FROM {self._table()} WHERE lower(name) = lower($1)",
                                 [name])
        self.forget()

    def _read(self) -> Mapping[str, ModelSpec]:
        import duckdb

        try:
            there = self._connection.execute(
                "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() "
                "AND schema_name = $1 AND table_name = 'models'", [_SCHEMA]).fetchall()
            rows = self._connection.execute(
                f"SELECT name, path, sha256, options FROM {self._table()}").fetchall() \
                if there else []
        except duckdb.Error:
            return self._before  # a transaction that has failed answers nothing until its end
        models = [StoredModel(name, path, sha256, json.loads(options))
                  for name, path, sha256, options in rows]
        limits = self._limits() if models else None
        return {model.name.lower(): model.spec() for model in models
                if limits is None or limits.external
                or (limits.allows(model.path) and "architecture" not in model.options)}

    def _schema(self) -> str:
        found = self._connection.execute("SELECT current_database()").fetchall()[0][0]
        return '"{}".{}'.format(str(found).replace('"', '""'), _SCHEMA)

    def _table(self) -> str:
        return f"{self._schema()}.models"
