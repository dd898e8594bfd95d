"""SQLAlchemy's dialect: `create_engine("mlsql:///shop.db")`, `create_engine("mlsql://")`.

The path is a database file, made if absent; without one the database is in memory, shared by the
connections of the engine. What stands behind ? are settings of mlsql and of DuckDB, and
`read_only`: `mlsql:///shop.db?read_only=true&threads=2&cache=false`.
"""

from __future__ import annotations

import itertools
import os
from types import ModuleType
from typing import Any

from sqlalchemy import pool
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.dialects.postgresql.base import PGIdentifierPreparer
from sqlalchemy.engine import URL, default
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.sql import sqltypes
from sqlglot.dialects.duckdb import DuckDB

from mlsql.sqlalchemy.compiling import Compiler, DDLCompiler, TypeCompiler
from mlsql.sqlalchemy.reflection import Reflection
from mlsql.sqlalchemy.types import JSONPath

_numbers = itertools.count(1)


class Preparer(PGIdentifierPreparer):
    """Quotes the names that DuckDB needs quoted."""

    reserved_words = PGIdentifierPreparer.reserved_words | DuckDB.Generator.RESERVED_KEYWORDS


class ExecutionContext(default.DefaultExecutionContext):
    """Draws the next number of a sequence."""

    def fire_sequence(self, seq: Any, type_: Any) -> Any:
        """The next number."""
        name = self.identifier_preparer.format_sequence(seq)
        return self._execute_scalar(f"SELECT nextval('{name}')", type_)


class MlsqlDialect(Reflection, default.DefaultDialect):
    """DuckDB's SQL, which is near PostgreSQL's, over `mlsql.dbapi`."""

    name = "mlsql"
    driver = "mlsql"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    statement_compiler = Compiler
    ddl_compiler = DDLCompiler
    type_compiler_cls = TypeCompiler
    preparer = Preparer
    execution_ctx_cls = ExecutionContext
    colspecs = {sqltypes.Interval: INTERVAL, sqltypes.JSON.JSONPathType: JSONPath}
    _backslash_escapes = False
    _supports_jsonb_subscripting = False
    # What PostgreSQL's compilers ask of their dialect.
    server_version_info = (16,)

    supports_alter = True
    supports_comments = True
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_native_uuid = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_sequences = True
    sequences_optional = True
    supports_schemas = True
    supports_is_distinct_from = True
    supports_simple_order_by_label = True
    div_is_floordiv = False
    postfetch_lastrowid = False
    favor_returning_over_lastrowid = True
    insert_returning = update_returning = delete_returning = True
    update_returning_multifrom = delete_returning_multifrom = True
    use_insertmanyvalues = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The driver."""
        import mlsql.dbapi

        return mlsql.dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """Connections that are kept: a database in memory lives as long as one of them."""
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """What `mlsql.dbapi.connect` is given."""
        config: dict[str, Any] = dict(url.query)
        read_only = str(config.pop("read_only", "false")).lower() in ("true", "1", "on", "yes")
        path = url.database or ":memory:"
        if path == ":memory:":
            path = f":memory:mlsql_{os.getpid()}_{next(_numbers)}"
        return [], {"path": path, "read_only": read_only, "config": config}

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[IsolationLevel]:
        """What `isolation_level` may be."""
        return ["REPEATABLE READ", "AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        """DuckDB's transactions see the database as it was when they began."""
        return "REPEATABLE READ"

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """What holds for a connection."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "REPEATABLE READ"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Switch a connection's autocommit on or off."""
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Whether each statement of a connection stands for itself."""
        return bool(dbapi_conn.autocommit)

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Whether the pool should open a new connection in this one's place."""
        text = str(e)
        return "connection is closed" in text or "used after a fork" in text

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return self.server_version_info

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())


dialect = MlsqlDialect
"""The name by which SQLAlchemy asks a module for its dialect."""
