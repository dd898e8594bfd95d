"""Views over media and models: kept in DuckDB's own catalog, answered by mlsql.

DuckDB cannot bind their definitions, so what it holds is a view of the right columns whose only
row source is an error, with the definition beside it. Names, schemas, DROP and ALTER are DuckDB's;
opened without mlsql, such a view says what it needs instead of giving a wrong answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from mlsql.parser.dialect import parse, to_sql

if TYPE_CHECKING:
    import duckdb

    from mlsql.planner.context import Column

_MARK = "mlsql_view"
_NEEDS = "this view asks models or reads media: open the database with mlsql"


@dataclass(frozen=True)
class View:
    """A view of the catalog; `definition` and `columns` are of one of ours."""

    database: str
    schema: str
    name: str
    sql: str
    definition: str | None = None
    columns: tuple[str, ...] = ()


class Views:
    """The views of a session's databases; read again when the catalog may have changed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._views: list[View] | None = None
        self._tables: list[View] = []  # of the names that views of ours have
        self._here: tuple[str, str] = ("", "")

    def forget(self) -> None:
        """The catalog may have changed."""
        self._views = None

    def knows(self, name: str) -> bool:
        """Whether any view of ours has that name, wherever it is."""
        return any(v.definition is not None and v.name == name.lower() for v in self._all())

    def finds(self, table: exp.Table) -> bool:
        """Whether a table in a statement is a view of ours."""
        view = self._find(table)
        return view is not None and view.definition is not None

    def query(self, table: exp.Table) -> str | None:
        """The query of the view that a table names, if DuckDB answers it itself."""
        view = self._find(table)
        if view is None or view.definition is not None:
            return None
        created = parse(view.sql)
        return to_sql(created.expression) if isinstance(created, exp.Create) else None

    def expand(self, tree: exp.Expr) -> exp.Expr:
        """The statement with our views replaced by their definitions, as deep as they go."""
        if not any(v.definition is not None for v in self._all()):
            return tree
        while any([self._expand_one(table) for table in list(tree.find_all(exp.Table))]):
            pass
        return tree

    def create(self, statement: exp.Create, columns: list[Column], definition: str) -> str:
        """The DuckDB statement that keeps the view."""
        target = statement.this
        given = [c.name for c in target.expressions] if isinstance(target, exp.Schema) else []
        names = given + [name for name, _ in columns[len(given):]]
        # Not NULLs: of a condition on one DuckDB would find that it cannot hold, and see no error.
        nulls = [exp.alias_(exp.cast(_error(), kind, dialect="duckdb"), name, quoted=True)
                 for name, (_, kind) in zip(names, columns, strict=True)]
        text = exp.select(exp.alias_(exp.Literal.string(definition), "definition"))
        fails = exp.cast(_error(), "BOOLEAN", dialect="duckdb")
        body = exp.select(*nulls).from_(text.subquery(_MARK)).where(fails)
        kept = statement.copy()
        kept.set("expression", body)
        if isinstance(target, exp.Schema):
            kept.set("this", target.this.copy())
        return to_sql(kept)

    def _all(self) -> list[View]:
        if self._views is None:
            found = self._connection.execute(
                "SELECT lower(database_name), lower(schema_name), lower(view_name), sql "
                "FROM duckdb_views() WHERE NOT internal").fetchall()
            self._views = [_read(*row) for row in found]
            here = self._connection.execute(
                "SELECT lower(current_database()), lower(current_schema())").fetchall()[0]
            self._here = (here[0], here[1])
            if any(v.definition is not None for v in self._views):
                tables = self._connection.execute(
                    "SELECT lower(database_name), lower(schema_name), lower(table_name), '' "
                    "FROM duckdb_tables() WHERE NOT internal").fetchall()
                self._tables = [View(*row) for row in tables]
        return self._views

    def _find(self, table: exp.Table) -> View | None:
        """The view that a name means: as qualified, or else in a place that is searched for it."""
        fitting = [v for v in [*self._all(), *self._tables] if v.name == table.name.lower()]
        if table.db:
            places = {(table.catalog.lower(), table.db.lower())} if table.catalog else \
                {(self._here[0], table.db.lower()), (table.db.lower(), "main")}
        else:
            places = {self._here, (self._here[0], "main"), ("temp", "main")}
        near = [v for v in fitting if (v.database, v.schema) in places]
        first = min(near, key=lambda v: (v.database != "temp", v.schema != self._here[1]),
                    default=None)
        return first if first is not None and first.sql else None

    def _expand_one(self, table: exp.Table) -> bool:
        read = isinstance(table.parent, (exp.From, exp.Join)) and \
            not isinstance(table.this, exp.Func)
        view = self._find(table) if read and not _is_cte(table) else None
        if view is None or view.definition is None:
            return False
        put_in_place(table, parse(view.definition), table.name, view.columns)
        return True


def put_in_place(
    table: exp.Table, query: exp.Expr, name: str, columns: tuple[str, ...]
) -> None:
    """Put a query where a table stood, under the table's alias or else under `name`."""
    subquery = exp.Subquery(this=query)
    alias = table.args.get("alias") or exp.TableAlias()
    if not alias.this:
        alias.set("this", exp.to_identifier(name, quoted=True))
    given = list(alias.args.get("columns") or [])
    alias.set("columns", given + [exp.to_identifier(column, quoted=True)
                                  for column in columns[len(given):]])
    subquery.set("alias", alias.copy())
    for part in ("joins", "sample", "pivots"):
        if table.args.get(part):
            subquery.set(part, table.args[part])
    table.replace(subquery)


def written(sql: str) -> str:
    """The statement that makes a table or view again, as it was written for one of ours."""
    if _MARK not in sql:
        return sql
    view = _read("", "", "", sql)
    created = parse(sql)
    if view.definition is None or not isinstance(created, exp.Create):
        return sql
    target = created.this
    name = to_sql(target.this if isinstance(target, exp.Schema) else target)
    columns = ", ".join(to_sql(exp.to_identifier(c, quoted=True)) for c in view.columns)
    return f"CREATE VIEW {name} ({columns}) AS {view.definition}"


def _error() -> exp.Expr:
    return exp.Anonymous(this="error", expressions=[exp.Literal.string(_NEEDS)])


def _read(database: str, schema: str, name: str, sql: str) -> View:
    if _MARK not in sql:
        return View(database, schema, name, sql)
    created = parse(sql)
    body = created.expression if isinstance(created, exp.Create) else None
    for subquery in created.find_all(exp.Subquery):
        if subquery.alias == _MARK and isinstance(body, exp.Select):
            text = subquery.this.expressions[0].this
            columns = tuple(item.alias_or_name for item in body.expressions)
            return View(database, schema, name, sql, str(text.this), columns)
    return View(database, schema, name, sql)


def _is_cte(table: exp.Table) -> bool:
    from mlsql.planner.trees import visible_ctes

    return not table.args.get("db") and any(
        c.alias.lower() == table.name.lower() for c in visible_ctes(table))


def definition_of(sql: str) -> str | None:
    """The query of a view of ours, from the statement by which DuckDB keeps it; else None."""
    return _read("", "", "", sql).definition
