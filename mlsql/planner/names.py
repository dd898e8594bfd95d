"""Which source a column belongs to, by what DuckDB says the sources hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from mlsql.errors import Error
from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Column, Context
from mlsql.planner.substitute import QUERY, TYPE
from mlsql.planner.trees import kept, owner, sources, visible_ctes
from mlsql.tree import copy_of, find_all, walk
from mlsql.udfs.function import ModelOutput, functions

Types = dict[str, str | None]  # column name in lower case -> DuckDB type, where it is known


@dataclass(frozen=True)
class Source:
    """A source of FROM: its name, and its columns where DuckDB could tell them."""

    name: str
    columns: Types | None


class Names:
    """Binds the names of one statement. Asks DuckDB once for the sources of each SELECT."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._described: dict[str, Sequence[Column] | None] = {}
        # By identity, with the scope itself, so that no other comes to have the same.
        self._settled: dict[int, tuple[exp.Select, list[Source] | None]] = {}

    def sources(self, scope: exp.Select) -> list[Source]:
        """The sources of a SELECT, in order."""
        return list(self._each(scope))

    def settle(self, scope: exp.Select, anew: bool = False) -> None:
        """The calls in the sources of a SELECT are expanded: what they hold changes no more."""
        if anew or id(scope) not in self._settled:
            self._settled[id(scope)] = (scope, None)  # asked for when first looked at

    def _each(self, scope: exp.Select) -> Iterable[Source]:
        settled = id(scope) in self._settled
        known = self._settled[id(scope)][1] if settled else None
        if known is not None:
            return known
        each = (self._source(scope, i, node) for i, node in enumerate(sources(scope)))
        if not settled:
            return each
        known = self._together(scope) or list(each)
        self._settled[id(scope)] = (scope, known)
        return known

    def _source(self, scope: exp.Select, position: int, node: exp.Expr) -> Source:
        name = _name_of(node)
        query = prefix(scope, position)
        query.set("expressions", [_all_of(name)])
        columns = self._columns(finished(query, scope))
        return Source(name.lower(), _written(node) if columns is None else _types(columns))

    def _together(self, scope: exp.Select) -> list[Source] | None:
        """All the sources by one question, since each costs a millisecond; None for no answer."""
        names = [_name_of(node) for node in sources(scope)]
        if len(names) < 2 or not all(names):
            return None
        query = prefix(scope)
        query.set("expressions", [item for name in names for item in (_all_of(name), _border())])
        columns = self._columns(finished(query, scope))
        if columns is None:
            return None
        parts: list[list[Column]] = [[]]
        for column in columns:
            if column[0] == _BORDER:
                parts.append([])
            else:
                parts[-1].append(column)
        return [Source(name.lower(), _types(part)) for name, part in zip(names, parts)]

    def type_of(self, scope: exp.Select, node: exp.Expr) -> str | None:
        """The DuckDB type of an expression of a SELECT, None where it cannot be told."""
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            found = self.column_type(scope, node)
            if found is not None:
                return found
        item = exp.alias_(copy_of(node), "mlsql_t")
        if self.binds(scope, node):  # what is around may hold the scope itself
            query = prefix(scope)
            query.set("expressions", [item])
        else:
            query = around(scope, exp.Select(expressions=[item]))
        columns = self._columns(finished(query, scope))
        return columns[0][1] if columns else None

    def column_type(self, scope: exp.Select | None, column: exp.Column) -> str | None:
        """The type of a plain column, looked for from the inside out."""
        while scope is not None:
            for source in self._each(scope):
                if source.columns is None or (column.table and column.table.lower() != source.name):
                    continue
                if column.name.lower() in source.columns and not column.args.get("db"):
                    return source.columns[column.name.lower()]
            scope = owner(scope)
        return None

    def is_local(self, scope: exp.Select, column: exp.Column, doubt: bool = True) -> bool:
        """Whether a column belongs to the SELECT itself rather than to one around it.

        `doubt` is the answer where a source may have it whose columns cannot be told.
        """
        first = column.parts[0].name.lower()
        for source in self._each(scope):
            if len(column.parts) > 1 and first == source.name:
                return True
            if (doubt if source.columns is None else first in source.columns):
                return True
        return False

    def sources_of(self, scope: exp.Select, node: exp.Expr) -> set[int] | None:
        """The numbers of the scope's sources that an expression speaks of; None if in doubt."""
        found: set[int] = set()
        columns = [node] if isinstance(node, exp.Column) else list(find_all(node, exp.Column))
        known = self.sources(scope)
        for column in columns:
            holders = [i for i, s in enumerate(known) if _holds_column(s, column)]
            if isinstance(column.this, exp.Star) or None in [s.columns for s in known]:
                return None
            found.update(holders)
        return found

    def is_correlated(self, scope: exp.Select) -> bool:
        """Whether anything in a SELECT refers to a SELECT around it."""
        return any(not self._bound_within(scope, column) for column in find_all(scope, exp.Column))

    def binds(self, scope: exp.Select, node: exp.Expr) -> bool:
        """Whether an expression of a SELECT speaks of nothing around it."""
        return all(self.is_local(scope, column) or isinstance(column.this, exp.Star)
                   for column in find_all(node, exp.Column))

    def _bound_within(self, scope: exp.Select, column: exp.Column) -> bool:
        if isinstance(column.this, exp.Star):
            return True
        inner = owner(column)
        while inner is not None:
            if self.is_local(inner, column) or _is_alias(inner, column):
                return True
            if inner is scope:
                return False
            inner = owner(inner)
        return True

    def _columns(self, query: exp.Expr) -> Sequence[Column] | None:
        if any(self._is_unknown(call) for call in find_all(query, exp.Anonymous)):
            return None
        sql = to_sql(query)
        if sql not in self._described:
            try:
                self._described[sql] = self._context.describe(sql)
            except Error:
                self._described[sql] = None
        return self._described[sql]

    def _is_unknown(self, call: exp.Anonymous) -> bool:
        """Whether a call is one of ours that is not expanded yet: DuckDB knows no such function."""
        function = functions().get(call.name.upper())
        if function is None:
            return self._context.predictor(call.name) is not None
        return not function.shadows


_BORDER = "mlsql border"


def _border() -> exp.Expr:
    return exp.alias_(exp.null(), _BORDER, quoted=True)


def _name_of(source: exp.Expr) -> str:
    name = str(source.alias_or_name)
    return name or ("unnamed_subquery" if isinstance(source, exp.Subquery) else "")


def _all_of(name: str) -> exp.Expr:
    star = exp.Star()
    return exp.Column(this=star, table=exp.to_identifier(name, quoted=True)) if name else star


def _written(source: exp.Expr) -> Types | None:
    """The columns that the statement itself names, as in (VALUES …) AS v(g, h)."""
    if not isinstance(source, exp.Values) or not source.expressions:
        return None
    names = [str(name) for name in source.alias_column_names]
    wide = len(source.expressions[0].expressions)
    return dict.fromkeys(map(str.lower, names)) if len(names) == wide else None


def _types(columns: Sequence[Column]) -> Types:
    return {name.lower(): type for name, type in columns}


def _holds_column(source: Source, column: exp.Column) -> bool:
    first = column.parts[0].name.lower()
    if len(column.parts) > 1 and first == source.name:
        return True
    return source.columns is not None and first in source.columns


def _is_alias(scope: exp.Select, column: exp.Column) -> bool:
    first = column.parts[0].name.lower()
    return any(isinstance(item, exp.Alias) and item.alias.lower() == first
               for item in scope.expressions)


def prefix(scope: exp.Select, last: int | None = None) -> exp.Select:
    """SELECT over the sources of a scope up to number `last`, joined anyhow (for binding only)."""
    query = exp.Select()
    first = scope.args.get("from_")
    if first is not None:
        query.set("from_", copy_of(first))
    joins = [copy_of(join) for join in (scope.args.get("joins") or [])]
    for join in joins if last is None else joins[:last]:
        if join.args.get("on") is not None:
            join.set("on", exp.true())
            if join.method == "ASOF":
                join.set("method", None)  # it wants an inequality
        if join.kind in ("SEMI", "ANTI") or join.side in ("SEMI", "ANTI"):
            join.set("kind", "")
            join.set("side", "")
        query.append("joins", join)
    return query


def around(scope: exp.Select, query: exp.Select) -> exp.Select:
    """`query`'s expressions over the scope's sources, and over those of the scopes around it."""
    inner = prefix(scope)
    inner.set("expressions", query.expressions)
    outer = owner(scope)
    while outer is not None and sources(outer):
        lateral = exp.Lateral(this=exp.Subquery(this=inner),
                              alias=exp.TableAlias(this=exp.to_identifier("mlsql_l")))
        inner = prefix(outer).join(lateral, copy=False)
        inner.set("expressions", [exp.column(exp.Star(), table="mlsql_l")])
        outer = owner(outer)
    return inner


def finished(query: exp.Expr, scope: exp.Expr) -> exp.Expr:
    """The query with typed NULLs for model outputs, and with the CTEs that its place sees."""
    stubbed = stub(query)
    return with_ctes(stubbed, [stub(cte) for cte in visible_ctes(scope)])


def with_ctes(query: exp.Expr, ctes: list[exp.Expr]) -> exp.Expr:
    """The query under the given CTEs, those of them that it needs."""
    wanted = _referenced(query)
    kept: list[exp.Expr] = []
    for cte in reversed(ctes):
        if cte.alias.lower() in wanted:
            wanted |= _referenced(cte.this)
            kept.insert(0, copy_of(cte))
    if kept:
        recursive = any(_refers_to_itself(cte) for cte in kept)
        query.set("with_", exp.With(expressions=kept, recursive=recursive))
    return query


def _referenced(query: exp.Expr) -> set[str]:
    return {table.name.lower() for table in find_all(query, exp.Table)}


def _refers_to_itself(cte: exp.Expr) -> bool:
    return cte.alias.lower() in _referenced(cte.this)


def stub(tree: exp.Expr) -> exp.Expr:
    """A copy that binds before anything has run, and is never run itself.

    In place of each model output, or of what was put in its place, stands a typed NULL; in place
    of each table that is still to be made, its query.
    """
    copied = copy_of(tree)
    for node in list(walk(copied)):
        if node.parent is None and node is not copied:
            continue  # below a node that was replaced
        changed = _stubbed(node)
        if changed is not None:
            if node is copied:
                return changed
            node.replace(changed)
    return copied


def _stubbed(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, ModelOutput):
        # The argument stays, to be bound, too.
        asked = exp.Is(this=exp.paren(stub(node.this), copy=False), expression=exp.null())
        return exp.Case(ifs=[exp.If(this=asked, true=_null(node.spec.output_type))])
    if node.meta.get(TYPE) is not None:
        return _null(node.meta[TYPE])
    if kept(node, QUERY) is not None:
        return stub(kept(node, QUERY))
    return None


def _null(kind: str) -> exp.Expr:
    return exp.Cast(this=exp.null(), to=copy_of(_type(kind)))


@lru_cache(maxsize=512)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")
