"""Macros that ask models: kept in DuckDB's own catalog, put in the place of their calls by mlsql.

DuckDB binds the body of a macro when it is made, and knows no model. What it holds is a macro of
the right name and parameters whose value is an error, with the definition beside it. DROP is
DuckDB's; opened without mlsql, such a macro says what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from mlsql.errors import ProgrammingError
from mlsql.exec.views import put_in_place
from mlsql.parser.dialect import WORDS, parse, to_sql
from mlsql.parser.macros import CreateMacro, Macro, read_macro
from mlsql.tree import copy_of, find_all

if TYPE_CHECKING:
    import duckdb

_MARK = "mlsql macro: "
_NEEDS = "this macro asks models: open the database with mlsql"
_DEEPEST = 64


class Macros:
    """The macros of ours in a session's databases; read again when the catalog may have changed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._macros: dict[str, Macro] | None = None
        self._schemas = {"main", "temp"}
        self._made = False  # by this session

    def forget(self) -> None:
        """The catalog may have changed."""
        self._macros = None

    def knows(self, name: str) -> bool:
        """Whether a macro of ours has that name."""
        return name.lower() in self._all()

    def create(self, wanted: CreateMacro) -> str:
        """The DuckDB statement that keeps a macro."""
        self._made = True
        macro = read_macro(wanted.name, wanted.definition, _tokens(wanted.definition))
        macro.expression()  # what cannot be read is said now
        text = to_sql(exp.Literal.string(_MARK + wanted.definition))
        error = to_sql(exp.Literal.string(_NEEDS))
        kept = f"CASE WHEN error({error}) IS NULL THEN {text} END"
        given = ", ".join(_quoted(name) if default is None else f"{_quoted(name)} := {default}"
                          for name, default in macro.parameters)
        what = f"TABLE SELECT {kept} AS definition" if macro.is_table else kept
        return f"{wanted.head}({given}) AS {what}"

    def expand(self, tree: exp.Expr) -> exp.Expr:
        """The statement with calls of our macros replaced by their bodies, as deep as they go."""
        if not self._all():
            return tree
        for _ in range(_DEEPEST):
            calls = [call for call in find_all(tree, exp.Anonymous) if self.knows(call.name)]
            if not calls:
                return tree
            call = calls[-1]  # the last in reading order holds none of the others
            tree = self._expand_one(tree, call)
        raise ProgrammingError(f"{calls[0].name}() goes deeper than {_DEEPEST} calls: does the "
                               "macro call itself?")

    def _expand_one(self, tree: exp.Expr, call: exp.Anonymous) -> exp.Expr:
        macro = self._all()[call.name.lower()]
        table = call.parent
        if macro.is_table != isinstance(table, exp.Table):
            where = "stands in FROM" if macro.is_table else "gives a value: it stands in no FROM"
            raise ProgrammingError(f"the macro {macro.shown} {where}")
        place, given = self._place(call)
        body = _filled(macro, given)
        if isinstance(table, exp.Table):
            put_in_place(table, body, macro.name, ())
            return tree
        if place is tree:
            return body
        place.replace(body)
        return tree

    def _all(self) -> dict[str, Macro]:
        if self._macros is None:
            found = self._kept() if self._made or self._may_have_some() else []
            self._schemas |= {schema.lower() for _, _, schema in found}
            read = ((name.lower(), _read(name, text)) for name, text, _ in found)
            self._macros = {name: macro for name, macro in read if macro is not None}
        return self._macros

    def _kept(self) -> list[tuple[str, str, str]]:
        return self._connection.execute(
            "SELECT function_name, macro_definition, schema_name FROM duckdb_functions() "
            "WHERE NOT internal AND contains(macro_definition, $1) "
            "ORDER BY database_name = 'temp'", [_MARK]).fetchall()

    def _may_have_some(self) -> bool:
        """Whether a database lies in a file: going through all functions takes some 20 ms."""
        return bool(self._connection.execute(
            "SELECT count(path) FROM duckdb_databases() WHERE NOT internal").fetchall()[0][0])

    def _place(self, call: exp.Anonymous) -> tuple[exp.Expr, list[exp.Expr]]:
        """What a call takes up, and its arguments: x.f(y) is f(x, y), main.f(y) is f(y)."""
        given = list(call.expressions)
        dot = call.parent
        if not isinstance(dot, exp.Dot) or dot.expression is not call:
            return call, given
        before = dot.this
        if isinstance(before, exp.Identifier):
            before = exp.column(before.copy())
        names = [part.name.lower() for part in before.parts] if \
            isinstance(before, exp.Column) else [""]
        return dot, given if names[-1] in self._schemas else [before, *given]


def _read(name: str, text: str) -> Macro | None:
    """One of ours, from the text by which DuckDB keeps it; None for one that says as much."""
    if _NEEDS not in text:
        return None
    tree = parse(text if text.upper().startswith("SELECT") else f"SELECT {text}")
    kept = [str(node.this) for node in find_all(tree, exp.Literal)
            if node.is_string and str(node.this).startswith(_MARK)]
    if not kept:
        return None
    definition = kept[0].removeprefix(_MARK)
    return read_macro(name, definition, _tokens(definition))


def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(WORDS.tokenize(text))


def _quoted(name: str) -> str:
    return to_sql(exp.to_identifier(name, quoted=True))


def _filled(macro: Macro, given: list[exp.Expr]) -> exp.Expr:
    """The body with the arguments in the place of the parameters."""
    values = _arguments(macro, given)
    body = macro.expression()
    for column in list(find_all(body, exp.Column)):
        first = column.parts[0].name.lower()
        if first in values and not isinstance(column.this, exp.Star):
            meant: exp.Expr = exp.paren(copy_of(values[first]), copy=False)
            for part in column.parts[1:]:
                meant = exp.Dot(this=meant, expression=copy_of(part))
            column.replace(meant)
    return body


def _arguments(macro: Macro, given: list[exp.Expr]) -> dict[str, exp.Expr]:
    """Each parameter's argument: by place, by name, or its default."""
    values: dict[str, exp.Expr] = {}
    names = [name for name, _ in macro.parameters]
    for place, node in enumerate(given):
        named = isinstance(node, (exp.PropertyEQ, exp.Kwarg))
        name = node.this.name.lower() if named else "".join(names[place : place + 1])
        if name not in names or name in values:
            raise ProgrammingError(
                f"the macro is {macro.shown}: argument {to_sql(node)} has no place")
        values[name] = node.expression if named else node
    for name, default in macro.parameters:
        if name not in values and default is not None:
            values[name] = parse(f"SELECT {default}").expressions[0].unalias()
    missing = [name for name in names if name not in values]
    if missing:
        raise ProgrammingError(f"the macro is {macro.shown}: {missing[0]} is missing")
    return values
