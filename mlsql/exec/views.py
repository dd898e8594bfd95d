"""Views over media and models: kept in DuckDB's own catalog, answered by mlsql.

DuckDB cannot bind their definitions, so what it holds is a view of the right columns whose only
row source is an error, with the definition beside it. Names, schemas, DROP and ALTER are DuckDB's;
opened without mlsql, such a view says what it needs instead of giving a wrong answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from mlsql.parser.dialect import parse, to_sql

if TYPE_CHECKING:
    import duckdb

    from mlsql.planner.context import Column

_MARK = "mlsql_view"


class Views:
    """The views of ours in one database; read again when the catalog may have changed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._sql: dict[str, str] | None = None
        self._ours: dict[str, str] = {}

    def forget(self) -> None:
        """The catalog may have changed."""
        self._sql = None

    def query(self, name: str) -> str | None:
        """The query of any view of that name that DuckDB answers itself."""
        self._read()
        sql = (self._sql or {}).get(name.lower())
        created = parse(sql) if sql and name.lower() not in self._ours else None
        return to_sql(created.expression) if isinstance(created, exp.Create) else None

    def definition(self, name: str) -> str | None:
        """The SQL of the view of that name, if it is one of ours."""
        self._read()
        return self._ours.get(name.lower())

    def expand(self, tree: exp.Expr) -> exp.Expr:
        """The statement with our views replaced by their definitions, as deep as they go."""
        self._read()
        if not self._ours:
            return tree
        while any([self._expand_one(table) for table in list(tree.find_all(exp.Table))]):
            pass
        return tree

    def create(self, statement: exp.Create, columns: list[Column], definition: str) -> str:
        """The DuckDB statement that keeps the view."""
        target = statement.this
        given = [c.name for c in target.expressions] if isinstance(target, exp.Schema) else []
        names = given + [name for name, _ in columns[len(given):]]
        nulls = [exp.alias_(exp.cast(exp.null(), kind, dialect="duckdb"), name, quoted=True)
                 for name, (_, kind) in zip(names, columns, strict=True)]
        text = exp.select(exp.alias_(exp.Literal.string(definition), "definition"))
        fails = exp.cast(exp.Anonymous(this="error", expressions=[exp.Literal.string(
            f"the view {to_sql(target)} asks models or media: open the database with mlsql")]),
            "BOOLEAN", dialect="duckdb")
        body = exp.select(*nulls).from_(text.subquery(_MARK)).where(fails)
        kept = statement.copy()
        kept.set("expression", body)
        if isinstance(target, exp.Schema):
            kept.set("this", target.this.copy())
        return to_sql(kept)

    def _read(self) -> None:
        if self._sql is not None:
            return
        found = self._connection.execute(
            "SELECT lower(view_name), sql FROM duckdb_views() WHERE NOT internal").fetchall()
        self._sql = dict(found)
        definitions = {n: _definition(sql) for n, sql in found if _MARK in sql}
        self._ours = {n: d for n, d in definitions.items() if d is not None}

    def _expand_one(self, table: exp.Table) -> bool:
        read = isinstance(table.parent, (exp.From, exp.Join)) and \
            not isinstance(table.this, exp.Func)
        definition = self.definition(table.name) if read else None
        if definition is None or _is_cte(table):
            return False
        query = exp.Subquery(this=parse(definition))
        alias = table.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(table.name, quoted=True))
        query.set("alias", alias.copy())
        for name in ("joins", "sample", "pivots"):
            if table.args.get(name):
                query.set(name, table.args[name])
        table.replace(query)
        return True


def _definition(sql: str) -> str | None:
    """The definition beside the error, from the text of the view that DuckDB holds."""
    for subquery in parse(sql).find_all(exp.Subquery):
        if subquery.alias == _MARK:
            select = subquery.this
            text = select.expressions[0].this if isinstance(select, exp.Select) else None
            if isinstance(text, exp.Literal):
                return str(text.this)
    return None


def _is_cte(table: exp.Table) -> bool:
    from mlsql.planner.trees import visible_ctes

    return not table.args.get("db") and any(
        c.alias.lower() == table.name.lower() for c in visible_ctes(table))
