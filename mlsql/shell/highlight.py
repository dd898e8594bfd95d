"""SQL in colours: DuckDB's words beyond those of Postgres, and the model functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pygments.lexers.sql import PostgresLexer
from pygments.token import Keyword, Name

from mlsql.udfs.function import functions

_WORDS = frozenset((
    "anti", "asof", "confidence", "describe", "error", "exclude", "macro", "model", "models",
    "oracle", "pivot", "positional", "precision", "qualify", "recall", "semi", "summarize",
    "target", "try_cast", "unpivot", "within"))


class SqlLexer(PostgresLexer):  # type: ignore[misc]
    """Postgres' SQL, whose dollar quotes and nested comments are DuckDB's, and our words."""

    name = "mlsql"
    aliases = ()

    def get_tokens_unprocessed(self, text: str, *args: Any) -> Iterator[tuple[int, Any, str]]:
        """The tokens, with names that are words or model functions marked as such."""
        for at, kind, value in super().get_tokens_unprocessed(text, *args):
            if kind is Name and value.upper() in functions():
                kind = Name.Function
            elif kind is Name and value.lower() in _WORDS:
                kind = Keyword
            yield at, kind, value
