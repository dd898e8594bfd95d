"""DuckDB's dialect with the model functions left as plain calls."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from mlsql.errors import ProgrammingError
from mlsql.tree import copy_of

# sqlglot gives these names nodes of their own, which know neither our arguments nor our options.
_OURS = (
    "CONTAINS", "PREDICT", "AI_CLASSIFY", "AI_EMBED", "AI_SIMILARITY", "AI_FILTER",
    "ML_PREDICT", "CLASSIFY", "DETECT", "EMBED", "SIMILARITY", "SCORE", "CROP", "RESIZE", "IMAGE",
    "ENCODE", "THUMBNAIL", "ANNOTATE",
)


# Strings, quoted names and comments, in which a dollar is a dollar; then a dollar-quoted text.
_DOLLARS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$(.*?)\$\1\$""", re.S)


def _requote(sql: str, keep: bool) -> str:
    """Dollar-quoted texts as common strings, so that what begins with a dollar is a parameter.

    sqlglot takes what stands between any two dollars for such a text. Without `keep` a text becomes
    a string of the same length, whatever it says: enough to find where a statement ends.
    """
    def quoted(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        if not keep:
            return f"'{'x' * (len(found[0]) - 2)}'"
        return f"'{found[2].replace(_QUOTE, 2 * _QUOTE)}'".ljust(len(found[0]))

    return _DOLLARS.sub(quoted, sql) if "$" in sql else sql


_QUOTE = "'"


_OF_JOIN = ("on", "using", "side", "kind", "method", "nearest")


class MlsqlDialect(DuckDB):
    """DuckDB's dialect as mlsql reads it."""

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        """The tokens of a text, at their own places in it."""
        return list(super().tokenize(_requote(sql, self._keeps_texts), dialect))

    _keeps_texts: ClassVar[bool] = True

    class Tokenizer(DuckDB.Tokenizer):
        HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        # ClickHouse's SETTINGS clause would hide the table function settings().
        KEYWORDS = {k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k != "SETTINGS"}

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        def _parse_expressions(self) -> list[exp.Expr]:
            """The items of a SELECT (and other lists), each with the text it was read from."""
            return list(self._parse_csv(self._parse_placed))

        def _parse_placed(self) -> exp.Expr | None:
            first = self._curr
            node: exp.Expr | None = self._parse_expression()
            if node is not None and first is not None and self._prev is not None:
                node.meta["written"] = self.sql[first.start: self._prev.end + 1]
            return node

        FUNCTIONS = {k: v for k, v in DuckDB.Parser.FUNCTIONS.items() if k not in _OURS}

    class Generator(DuckDB.Generator):  # type: ignore[misc, valid-type]
        def function_fallback_sql(self, expression: exp.Func) -> str:
            """A model's output in a tree that is shown or compared; it never reaches DuckDB."""
            model = expression.args.get("model")
            if expression.key != "modeloutput" or model is None:
                return str(super().function_fallback_sql(expression))
            return f"OUTPUT({model.name}, {self.sql(expression, 'this')})"

        def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
            """A comma before UNNEST stays one: it binds looser than a JOIN."""
            bare = not any(expression.args.get(part) for part in _OF_JOIN)
            if bare and isinstance(expression.this, exp.Unnest):
                return str(Generator.join_sql(self, expression))
            return str(super().join_sql(expression, join_op))


class WordsDialect(MlsqlDialect):
    """The same, with commands read as words: sqlglot takes what follows EXPLAIN as one string."""

    _keeps_texts = False

    class Tokenizer(MlsqlDialect.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


_PLACE = frozenset({"line", "col", "start", "end"})
DIALECT = MlsqlDialect()
WORDS = WordsDialect()
_LOG = logging.getLogger("sqlglot")


def parse(sql: str) -> exp.Expr:
    """The tree of one statement; a ProgrammingError with line, column and a caret if it is none."""
    try:
        with _quiet():
            tree = DIALECT.parse(sql)
    except ParseError as error:
        raise syntax_error(sql, error) from None
    except TokenError as error:
        raise ProgrammingError(f"syntax error: {error}") from None
    statements = [t for t in tree if t is not None]
    if len(statements) != 1:
        raise ProgrammingError(f"one statement is wanted, not {len(statements)}")
    return _without_places(statements[0])


def _without_places(tree: exp.Expr) -> exp.Expr:
    """The tree without where each name stood in the text: planning copies it many times."""
    for node in tree.walk():
        meta = node._meta
        if meta and _PLACE.issuperset(meta):
            node._meta = None
    return tree


@contextmanager
def _quiet() -> Iterator[None]:
    """Without sqlglot's remark that it takes a statement as it stands."""
    before, _LOG.disabled = _LOG.disabled, True
    try:
        yield
    finally:
        _LOG.disabled = before


def to_sql(tree: exp.Expr) -> str:
    """The SQL text that DuckDB is given."""
    # The generator changes what it is given.
    return DIALECT.generate(copy_of(tree), copy=False, unsupported_level=ErrorLevel.IGNORE)


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
