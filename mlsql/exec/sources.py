"""What FROM names beyond DuckDB's own tables: media files, our views, our table functions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mlsql.errors import ProgrammingError, unknown
from mlsql.exec.media.names import is_image, is_video
from mlsql.parser.dialect import to_sql

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from mlsql.exec.media.handle import Limits
    from mlsql.exec.media.sources import SourceTable
    from mlsql.exec.share import RowError

TableFunction = Callable[..., "pa.Table"]

_VIDEO_OPTIONS = ("fps", "every", "stride", "keyframes", "start", "end")
READERS = ("READ_VIDEO", "READ_IMAGES")


def is_media_file(name: str) -> bool:
    """Whether a name in FROM is that of a video or picture, or a pattern for some."""
    return is_video(name) or is_image(name)


@dataclass
class Sources:
    """Puts registered tables in the place of media sources, for the length of a statement."""

    connection: duckdb.DuckDBPyConnection
    limits: Callable[[], Limits]
    memo: Any
    on_error: str
    functions: Mapping[str, TableFunction]
    prefix: str
    errors: list[RowError] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)  # by name, the source that it holds
    _names: list[str] = field(default_factory=list)

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """The statement with every such source replaced."""
        for table in list(tree.find_all(exp.Table)):
            found = self._rows(table)
            if found is not None:
                self._replace(table, *found)
        return tree

    def close(self) -> None:
        """Take the tables away again."""
        for name in self._names:
            self.connection.unregister(name)
        self._names = []

    def _rows(self, table: exp.Table) -> tuple[pa.Table, str] | None:
        """The rows of a source of ours and the name it goes by; None for any other source."""
        if isinstance(table.this, exp.Anonymous):
            return self._function(table.this)
        if table.args.get("db") or not is_media_file(table.name):
            return None
        listed = self._list(table.name, {})
        return listed, os.path.splitext(os.path.basename(table.name))[0]

    def _function(self, call: exp.Anonymous) -> tuple[pa.Table, str] | None:
        name = call.name.upper()
        if name in READERS:
            paths, options = self._arguments(call)
            return self._read(name, paths, options), name.lower()
        made = self.functions.get(name)
        if made is None:
            return None
        arguments = [self._constant(node) for node in call.expressions]
        try:
            inspect.signature(made).bind(*arguments)
        except TypeError as error:
            raise ProgrammingError(f"{name.lower()}(): {error}") from None
        return made(*arguments), name.lower()

    def _read(self, name: str, paths: Any, options: dict[str, Any]) -> pa.Table:
        from mlsql.exec.media.sources import image_table, video_table

        if name == "READ_VIDEO":
            return self._kept(video_table(paths, self.limits(), memo=self.memo,
                                          on_error=self.on_error, **options))
        if options:
            raise unknown("option", next(iter(options)), (), "of READ_IMAGES(path)")
        return self._kept(image_table(paths, self.limits(), on_error=self.on_error))

    def _list(self, path: str, options: dict[str, Any]) -> pa.Table:
        return self._read("READ_VIDEO" if is_video(path) else "READ_IMAGES", path, options)

    def _kept(self, source: SourceTable) -> pa.Table:
        self.errors.extend(source.errors)
        return source.table

    def _arguments(self, call: exp.Anonymous) -> tuple[Any, dict[str, Any]]:
        """The paths and the options by name."""
        paths, options = [], {}
        for node in call.expressions:
            if isinstance(node, (exp.Kwarg, exp.PropertyEQ, exp.EQ)):
                name = node.this.name.lower()
                if name not in _VIDEO_OPTIONS:
                    raise unknown("option", name, _VIDEO_OPTIONS, f"of {call.name.upper()}")
                options[name] = self._constant(node.expression)
                if name == "keyframes" and not isinstance(options[name], bool):
                    raise ProgrammingError(
                        f"{call.name.upper()}: keyframes takes true or false, "
                        f"not {options[name]!r}")
            else:
                paths.append(self._constant(node))
        if len(paths) != 1:
            raise ProgrammingError(
                f"{call.name.upper()} takes one path, pattern, or list of them, not {len(paths)}")
        if not isinstance(paths[0], (str, list)):
            raise ProgrammingError(
                f"{call.name.upper()} takes a path, pattern, or list of them, not {paths[0]!r}")
        return paths[0], options

    def _constant(self, node: exp.Expr) -> Any:
        """The value of an expression without columns."""
        if isinstance(node, exp.Literal) and node.is_string:
            return node.this
        import duckdb

        try:
            rows = self.connection.execute(f"SELECT {to_sql(node)}").fetchall()
        except duckdb.Error as error:
            raise ProgrammingError(f"{to_sql(node)} must be a constant: {error}") from error
        value = rows[0][0]
        return float(value) if isinstance(value, Decimal) else value

    def _replace(self, table: exp.Table, rows: pa.Table, alias: str) -> None:
        name = f"{self.prefix}_src{len(self._names)}"
        self.connection.register(name, rows)
        self._names.append(name)
        bare = table.copy()
        bare.set("alias", None)
        self.written[name] = to_sql(bare)
        table.set("this", exp.to_identifier(name))
        if not table.alias:
            named = table.args.get("alias") or exp.TableAlias()
            named.set("this", exp.to_identifier(alias, quoted=True))
            table.set("alias", named)
