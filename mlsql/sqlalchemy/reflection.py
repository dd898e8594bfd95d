"""What a database holds, as SQLAlchemy's Inspector asks for it."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import interfaces, reflection
from sqlalchemy.exc import NoSuchTableError

from mlsql.exec.views import definition_of
from mlsql.sqlalchemy.types import type_of

_HERE = """
    database_name = coalesce($1, current_database())
    AND schema_name = coalesce($2, current_schema())"""
_TEMPORARY = "database_name = 'temp'"


class Reflection:
    """Answers from DuckDB's own catalog; a schema may be 'schema' or 'database.schema'."""

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The schemas of the database in use, then those of attached ones with its name."""
        rows = _rows(connection, """
            SELECT database_name, schema_name, database_name = current_database()
            FROM duckdb_schemas() WHERE database_name NOT IN ('system', 'temp')
            ORDER BY 3 DESC, 1, 2""")
        inner = ("information_schema", "pg_catalog")
        return [schema if here else f"{database}.{schema}" for database, schema, here in rows
                if schema not in inner]

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables of a schema."""
        return _names(connection, "table", f"NOT temporary AND {_HERE}", _place(schema))

    @reflection.cache
    def get_temp_table_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """The temporary tables of the connection."""
        return _names(connection, "table", _TEMPORARY)

    @reflection.cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The views of a schema, those over media and models among them."""
        return _names(connection, "view", f"NOT internal AND NOT temporary AND {_HERE}",
                      _place(schema))

    @reflection.cache
    def get_temp_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """The temporary views of the connection."""
        return _names(connection, "view", f"NOT internal AND {_TEMPORARY}")

    @reflection.cache
    def get_sequence_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """The sequences of a schema."""
        return _names(connection, "sequence", _HERE, _place(schema))

    @reflection.cache
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Whether there is a table or view of that name."""
        return bool(self._columns(connection, table_name, schema))

    @reflection.cache
    def has_sequence(
        self, connection: Any, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Whether there is a sequence of that name."""
        return sequence_name in self.get_sequence_names(connection, schema)

    @reflection.cache
    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """The statement that makes a view; of one of mlsql's own, its query."""
        rows = _rows(connection, f"SELECT sql FROM duckdb_views() WHERE view_name = $3 AND {_HERE}",
                     *_place(schema), view_name)
        if not rows:
            raise NoSuchTableError(view_name)
        sql = str(rows[0][0])
        return definition_of(sql) or sql

    def _columns(self, connection: Any, name: str, schema: str | None) -> list[Any]:
        ask = """
            SELECT column_name, data_type, is_nullable, column_default, comment, is_generated
            FROM duckdb_columns() WHERE table_name = $name AND """
        place = dict(zip(("1", "2"), _place(schema), strict=True))
        found = _rows(connection, (ask + _HERE + " ORDER BY column_index").replace("$name", "$3"),
                      place["1"], place["2"], name)
        if not found and schema is None:
            found = _rows(connection, (ask + _TEMPORARY + " ORDER BY column_index").replace(
                "$name", "$1"), name)
        return found

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedColumn]:
        """The columns of a table or view, in order."""
        columns: list[interfaces.ReflectedColumn] = []
        for name, kind, nullable, default, comment, generated in self._known(
                connection, table_name, schema):
            column: interfaces.ReflectedColumn = {
                "name": name, "type": type_of(kind), "nullable": nullable,
                "default": None if generated else default, "comment": comment,
                "autoincrement": "nextval(" in (default or "")}
            if generated:
                column["computed"] = {"sqltext": str(default), "persisted": False}
            columns.append(column)
        return columns

    def _known(self, connection: Any, name: str, schema: str | None) -> list[Any]:
        found = self._columns(connection, name, schema)
        if not found:
            raise NoSuchTableError(f"{schema}.{name}" if schema else name)
        return found

    def _constraints(
        self, connection: Any, name: str, schema: str | None, kind: str
    ) -> list[Any]:
        self._known(connection, name, schema)
        return _rows(connection, f"""
            SELECT constraint_name, constraint_column_names, referenced_table,
                   referenced_column_names, expression
            FROM duckdb_constraints() WHERE table_name = $3 AND constraint_type = $4 AND {_HERE}
            ORDER BY constraint_index""", *_place(schema), name, kind)

    @reflection.cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> interfaces.ReflectedPrimaryKeyConstraint:
        """The primary key of a table."""
        for name, columns, *_ in self._constraints(connection, table_name, schema, "PRIMARY KEY"):
            return {"name": name, "constrained_columns": columns}
        return {"name": None, "constrained_columns": []}

    @reflection.cache
    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedForeignKeyConstraint]:
        """The foreign keys of a table; DuckDB keeps them within a schema."""
        return [{"name": name, "constrained_columns": columns, "referred_schema": schema,
                 "referred_table": other, "referred_columns": referred, "options": {}}
                for name, columns, other, referred, _ in self._constraints(
                    connection, table_name, schema, "FOREIGN KEY")]

    @reflection.cache
    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedUniqueConstraint]:
        """The UNIQUE constraints of a table."""
        return [{"name": name, "column_names": columns} for name, columns, *_ in
                self._constraints(connection, table_name, schema, "UNIQUE")]

    @reflection.cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedCheckConstraint]:
        """The CHECK constraints of a table."""
        return [{"name": name, "sqltext": text} for name, _, _, _, text in
                self._constraints(connection, table_name, schema, "CHECK")]

    @reflection.cache
    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[interfaces.ReflectedIndex]:
        """The indexes of a table that CREATE INDEX made."""
        self._known(connection, table_name, schema)
        rows = _rows(connection, f"""
            SELECT index_name, is_unique, expressions FROM duckdb_indexes()
            WHERE table_name = $3 AND {_HERE} ORDER BY index_name""", *_place(schema), table_name)
        return [_index(*row) for row in rows]

    @reflection.cache
    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> interfaces.ReflectedTableComment:
        """What COMMENT ON said of a table."""
        self._known(connection, table_name, schema)
        rows = _rows(connection, f"""
            SELECT comment FROM duckdb_tables() WHERE table_name = $3 AND {_HERE}
            UNION ALL SELECT comment FROM duckdb_views() WHERE view_name = $3 AND {_HERE}""",
            *_place(schema), table_name)
        return {"text": rows[0][0] if rows else None}


def _place(schema: str | None) -> tuple[str | None, str | None]:
    """The database and schema that a name means; None is the one in use."""
    if schema is None:
        return None, None
    database, dot, inner = schema.rpartition(".")
    return (database, inner) if dot else (None, schema)


def _rows(connection: Any, sql: str, *values: Any) -> list[Any]:
    return list(connection.exec_driver_sql(sql, tuple(values)).fetchall())


def _names(
    connection: Any, kind: str, condition: str, place: tuple[str | None, ...] = ()
) -> list[str]:
    rows = _rows(connection, f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE {condition} "
                             "ORDER BY 1", *place)
    return [name for (name,) in rows]


def _index(name: str, unique: bool, written: str) -> interfaces.ReflectedIndex:
    """An index, from DuckDB's list of what it is over, as text: ['"a b"', c, '((d + 1))']."""
    parts = [part.strip("' ").strip('"') for part in re.split(r",\s*(?![^(]*\))", written[1:-1])]
    found: interfaces.ReflectedIndex = {"name": name, "unique": unique, "column_names": [
        None if "(" in part else part for part in parts]}
    if None in found["column_names"]:
        found["expressions"] = parts
    return found
