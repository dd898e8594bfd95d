"""SQLAlchemy's trees as DuckDB's SQL, where it is not PostgreSQL's."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.postgresql.base import PGCompiler, PGTypeCompiler
from sqlalchemy.sql import compiler, sqltypes


class Compiler(PGCompiler):
    """Queries and changes of rows."""

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Nothing: DuckDB's transactions take no locks."""
        return ""

    def visit_sequence(self, seq: Any, **kw: Any) -> str:  # type: ignore[override]
        """The next number of a sequence."""
        return f"nextval('{self.preparer.format_sequence(seq)}')"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Whether the pattern is found anywhere; DuckDB's ~ wants the whole text to match."""
        parts = [self.process(binary.left, **kw), self.process(binary.right, **kw)]
        if binary.modifiers["flags"] is not None:
            parts.append(f"'{binary.modifiers['flags']}'")
        return f"regexp_matches({', '.join(parts)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The opposite."""
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"

    def visit_json_getitem_op_binary(
        self, binary: Any, operator: Any, _cast_applied: bool = False, **kw: Any
    ) -> str:
        """The item of a JSON value, as JSON, or as a value of the type that is asked for."""
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        if binary.type._type_affinity is sqltypes.JSON:
            return f"({left} -> {right})"
        kind = self.dialect.type_compiler_instance.process(binary.type)
        return f"CAST(({left} ->> {right}) AS {kind})"

    def visit_json_path_getitem_op_binary(
        self, binary: Any, operator: Any, _cast_applied: bool = False, **kw: Any
    ) -> str:
        """The same by a path of keys and places."""
        return self.visit_json_getitem_op_binary(binary, operator, _cast_applied, **kw)

    def visit_floordiv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Whole numbers divided: their / is a DOUBLE in DuckDB."""
        sides = [self.process(side, **kw) for side in (binary.left, binary.right)]
        whole = all(side.type._type_affinity is sqltypes.Integer
                    for side in (binary.left, binary.right))
        return " // ".join(sides) if whole else f"FLOOR({' / '.join(sides)})"


class DDLCompiler(compiler.DDLCompiler):
    """Tables, with a sequence for a key that numbers itself: DuckDB has no SERIAL."""

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        """The sequence that its key draws from, if any, and the table."""
        statement = str(super().visit_create_table(create, **kw))  # type: ignore[no-untyped-call]
        column = _numbered(create.element)
        if column is None:
            return statement
        return f"\nCREATE SEQUENCE IF NOT EXISTS {self._sequence_of(column)};{statement}"

    def visit_drop_table(self, drop: Any, **kw: Any) -> str:
        """The table, and the sequence that nothing else uses."""
        statement = str(super().visit_drop_table(drop, **kw))  # type: ignore[no-untyped-call]
        column = _numbered(drop.element)
        if column is None:
            return statement
        return f"{statement};\nDROP SEQUENCE IF EXISTS {self._sequence_of(column)}"

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """A column's name, type, default and whether it may be NULL."""
        kind = self.dialect.type_compiler_instance.process(
            column.type, type_expression=column, identifier_preparer=self.preparer)
        words = [self.preparer.format_column(column), kind]
        default = self.get_column_default_string(column)
        if _numbered(column.table) is column:
            default = f"nextval('{self._sequence_of(column)}')"
        if default is not None:
            words.append(f"DEFAULT {default}")
        if column.computed is not None:
            words.append(self.process(column.computed))
        elif not column.nullable:
            words.append("NOT NULL")
        return " ".join(words)

    def visit_computed_column(self, generated: Any, **kw: Any) -> str:
        """An expression of other columns; DuckDB never stores it."""
        text = self.sql_compiler.process(generated.sqltext, include_table=False, literal_binds=True)
        return f"GENERATED ALWAYS AS ({text}) VIRTUAL"

    def _sequence_of(self, column: Any) -> str:
        """The name of the sequence, beside the table."""
        name = self.preparer.quote(f"{column.table.name}_{column.name}_seq")
        schema = self.preparer.schema_for_object(column.table)
        return f"{self.preparer.quote_schema(schema)}.{name}" if schema else name


def _numbered(table: Any) -> Any:
    """The column that numbers the rows of a table by itself, if any."""
    column = table._autoincrement_column
    if column is None or column.server_default is not None or column.default is not None:
        return None
    return column if isinstance(column.type, sqltypes.Integer) else None


class TypeCompiler(PGTypeCompiler):
    """Names of types."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """A Python float is a DOUBLE, unless fewer digits will do."""
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        """DOUBLE."""
        return "DOUBLE"

    visit_DOUBLE = visit_double = visit_DOUBLE_PRECISION

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        """BLOB."""
        return "BLOB"

    visit_BYTEA = visit_BLOB = visit_large_binary

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        """With a zone or without; all have microseconds."""
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"

    visit_DATETIME = visit_datetime = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        """With a zone or without."""
        return "TIMETZ" if type_.timezone else "TIME"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:
        """INTERVAL."""
        return "INTERVAL"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        """JSON."""
        return "JSON"

    visit_JSONB = visit_JSON

    def visit_duckdb(self, type_: Any, **kw: Any) -> str:
        """A type that only DuckDB has, by its name."""
        return str(type_.name)
