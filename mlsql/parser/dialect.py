"""DuckDB's dialect with the model functions left as plain calls."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from mlsql.errors import ProgrammingError

# sqlglot gives these names nodes of their own, which know neither our arguments nor our options.
_OURS = (
    "CONTAINS", "PREDICT", "AI_CLASSIFY", "AI_EMBED", "AI_SIMILARITY", "AI_FILTER",
    "ML_PREDICT", "CLASSIFY", "DETECT", "EMBED", "SIMILARITY", "SCORE", "CROP", "RESIZE", "IMAGE",
)


class MlsqlDialect(DuckDB):
    """DuckDB's dialect as mlsql reads it."""

    class Parser(DuckDB.Parser):
        FUNCTIONS = {k: v for k, v in DuckDB.Parser.FUNCTIONS.items() if k not in _OURS}

    class Generator(DuckDB.Generator):
        def function_fallback_sql(self, expression: exp.Func) -> str:
            """A model's output in a tree that is shown or compared; it never reaches DuckDB."""
            model = expression.args.get("model")
            if expression.key != "modeloutput" or model is None:
                return super().function_fallback_sql(expression)
            return f"OUTPUT({model.name}, {self.sql(expression, 'this')})"


DIALECT = MlsqlDialect()


def parse(sql: str) -> exp.Expression:
    """The tree of one statement; a ProgrammingError with line, column and a caret if it is none."""
    try:
        tree = DIALECT.parse(sql)
    except ParseError as error:
        raise syntax_error(sql, error) from None
    statements = [t for t in tree if t is not None]
    if len(statements) != 1:
        raise ProgrammingError(f"one statement is wanted, not {len(statements)}")
    parsed: exp.Expression = statements[0]  # type: ignore[assignment]
    return parsed


def to_sql(tree: exp.Expression) -> str:
    """The SQL text that DuckDB is given."""
    return tree.sql(dialect=DIALECT)


def syntax_error(sql: str, error: ParseError) -> ProgrammingError:
    """sqlglot's complaint as one line, the place in the text, and a caret under it."""
    first = error.errors[0] if error.errors else {}
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    what = str(first.get("description") or error).rstrip(".")
    near = str(first.get("highlight") or "")
    column = max(1, column - max(0, len(near) - 1))
    return ProgrammingError(
        f"syntax error at line {line}, column {column}: {what}\n{caret(sql, line, column)}")


def caret(sql: str, line: int, column: int) -> str:
    """The line of the text and a caret under its column (both count from 1)."""
    lines = sql.splitlines() or [""]
    text = lines[min(line, len(lines)) - 1]
    head = f"LINE {line}: "
    return f"{head}{text}\n{' ' * (len(head) + column - 1)}^"


def located(message: str, sql: str) -> str:
    """DuckDB's complaint with the place in the user's own text instead of that in ours.

    The name that the message quotes is looked for in the text; where it does not stand, no place
    is given.
    """
    head = message.split("\n\nLINE ")[0].rstrip()
    for name in re.findall(r'"([^"]+)"|(?<= )(\w+)\(', head):
        wanted = (name[0] or name[1]).lower()
        for token in DIALECT.tokenize(sql):
            if token.text.lower() == wanted:
                line = sql.count("\n", 0, token.start) + 1
                column = token.start - (sql.rfind("\n", 0, token.start) + 1) + 1
                return f"{head}\n{caret(sql, line, column)}"
    return head
