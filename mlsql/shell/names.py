"""The names that completion offers: asked of the session when needed, and again when they may
have changed.
"""

from __future__ import annotations

from functools import cached_property

from mlsql.config import SETTINGS, Setting
from mlsql.errors import Error
from mlsql.session import Session
from mlsql.udfs.function import Function, functions

VIDEO_COLUMNS = ("path", "frame_id", "ts", "pts", "keyframe", "width", "height", "frame")
IMAGE_COLUMNS = ("path", "image", "width", "height", "format", "bytes", "mtime")
_OWN_WORDS = ("CONFIDENCE", "ERROR", "MODEL", "MODELS", "ORACLE", "PRECISION", "RECALL", "TARGET",
              "WITHIN", "READ_VIDEO(", "READ_IMAGES(")


class Names:
    """The names of a session, for completion; a question that fails gives none."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def forget(self) -> None:
        """A statement has run: tables and models may be others now."""
        for name in ("tables", "columns", "models"):
            self.__dict__.pop(name, None)
        self._labels.clear()

    @cached_property
    def _labels(self) -> dict[tuple[str | None, str | None], list[str]]:
        return {}

    @cached_property
    def keywords(self) -> list[str]:
        """DuckDB's keywords and ours, in upper case."""
        theirs = self._column("SELECT upper(keyword_name) FROM duckdb_keywords()")
        return sorted({*theirs, *_OWN_WORDS})

    @property
    def functions(self) -> dict[str, Function]:
        """The model functions."""
        return dict(functions())

    @cached_property
    def builtins(self) -> list[str]:
        """DuckDB's own functions."""
        return self._column("SELECT DISTINCT function_name FROM duckdb_functions() "
                            "WHERE regexp_matches(function_name, '^[a-z][a-z0-9_]*$') ORDER BY 1")

    @cached_property
    def tables(self) -> list[str]:
        """Tables and views."""
        return self._column("SELECT table_name FROM duckdb_tables() WHERE NOT internal UNION "
                            "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """The columns of each table and view."""
        found: dict[str, list[str]] = {}
        try:
            rows = self._session.execute("SELECT table_name, column_name FROM duckdb_columns() "
                                         "WHERE NOT internal").fetchall()
        except Error:
            return found
        for table, column in rows:
            found.setdefault(table.lower(), []).append(column)
        return found

    @cached_property
    def models(self) -> list[str]:
        """The models."""
        return self._session.models

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings."""
        return dict(SETTINGS)

    def labels(self, model: str | None, task: str | None) -> list[str]:
        """The words that a model knows, or those that models of a task know where none is named."""
        key = (model, task)
        if key not in self._labels:
            self._labels[key] = self._session.words(model, task)
        return self._labels[key]

    def _column(self, sql: str) -> list[str]:
        try:
            return [row[0] for row in self._session.execute(sql).fetchall()]
        except Error:  # in a transaction that has failed, say
            return []
