"""Model functions become expressions over model outputs; aliases that hide a call are opened."""

from __future__ import annotations

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.parser.dialect import to_sql
from mlsql.planner.context import Context
from mlsql.planner.headings import name_item
from mlsql.planner.names import Names, finished
from mlsql.planner.shape import key_items
from mlsql.planner.trees import (
    WRITTEN,
    Query,
    calls_models,
    ctes,
    is_volatile,
    names_parameter,
    nested,
    own,
    owner,
    shown,
    sources,
)
from mlsql.tree import copy_of, find, find_all
from mlsql.udfs.function import Function, functions, output, read_call
from mlsql.udfs.media import as_media, fitted, is_media
from mlsql.udfs.spec import IMAGE_TYPE

_RETURNS = "mlsql_returns"  # on a picture made of another: its type, which need not be asked for


def expand(root: exp.Expr, context: Context, names: Names) -> exp.Expr:
    """The statement with every model function expanded, in place."""
    return _Expander(context, names).statement(root)


class _Expander:
    def __init__(self, context: Context, names: Names) -> None:
        self._context = context
        self._names = names

    def statement(self, root: exp.Expr) -> exp.Expr:
        for dot in sorted(find_all(root, exp.Dot), key=lambda d: -d.depth):
            self._turn_around(dot)
        if isinstance(root, Query):
            return self.query(root)
        for query in nested(root):
            self.query(query)
        for call in self._calls(root):
            self._expand(call, None)
        return root

    def _turn_around(self, dot: exp.Dot) -> None:
        """x.f(y) is f(x, y), as DuckDB has it."""
        call = dot.expression
        if isinstance(call, exp.Anonymous) and self._is_ours(call):
            subject = copy_of(dot.this)
            names = list(find_all(subject, exp.Identifier))
            if all(isinstance(n, (exp.Dot, exp.Identifier)) for n in subject.walk()):
                subject = exp.column(*reversed(names))
            call.set("expressions", [subject, *call.expressions])
            dot.replace(call)

    def query(self, query: exp.Expr) -> exp.Expr:
        for cte in ctes(query):
            self._queries(cte.this)
        if isinstance(query, exp.Select):
            self._select(query)
        else:
            self._queries(query.this)
            self._queries(query.expression)
        return query

    def _queries(self, node: exp.Expr) -> None:
        for query in [node] if isinstance(node, Query) else nested(node):
            self.query(query)

    def _select(self, scope: exp.Select) -> None:
        for source in sources(scope):
            self._queries(source)
            for call in self._calls(source):
                self._expand(call, scope)
        self._names.settle(scope)
        self._open_aliases(scope)
        for query in [q for q in nested(scope) if not _in_sources(q, scope)]:
            self.query(query)
        for call in self._calls(scope):
            self._expand(call, scope)

    def _calls(self, root: exp.Expr) -> list[exp.Anonymous]:
        """The calls of ours that `root` itself owns, innermost first."""
        found = [n for n in own(root, exp.Anonymous) if self._is_ours(n)]
        return sorted(found, key=lambda n: -n.depth)

    def _is_ours(self, node: exp.Anonymous) -> bool:
        name = node.name.upper()
        return name in functions() or self._context.predictor(name) is not None

    def _expand(self, node: exp.Anonymous, scope: exp.Select | None) -> None:
        function = functions().get(node.name.upper())
        if function is None:
            self._predict(node, scope)
        else:
            self._call(function, node, scope)

    def _call(self, function: Function, node: exp.Anonymous, scope: exp.Select | None) -> None:
        given = list(node.expressions)
        place = function.subject
        type = self._type(given[place], scope) if place < len(given) else None
        if function.shadows and not is_media(type):
            return
        if place < len(given) and function.arguments[place] == "media":
            given[place] = _picture(function, given[place], type)
        self._check_labels(function, given, scope)
        _name_projection(node, self._context)
        types = [self._type(n, scope) for n in given] if function.typed else ()
        expanded = function.expand(read_call(function, given, type, types), self._context)
        for part in (expanded, expanded.unnest()):  # parentheses may be taken off
            part.meta[WRITTEN] = shown(node)
        if function.returns == IMAGE_TYPE:
            expanded.meta[_RETURNS] = function.returns
        node.replace(expanded)

    def _check_labels(
        self, function: Function, given: list[exp.Expr], scope: exp.Select | None
    ) -> None:
        """A label that is no literal must be text, too."""
        for name, node in zip(function.arguments, given, strict=False):
            kind = self._type(node, scope) if name == "label" else None
            text = kind in (None, "VARCHAR", "NULL", '"NULL"') or str(kind).startswith("ENUM")
            if not text:
                raise ProgrammingError(f"{function.name}: a label is text, not {kind}")

    def _predict(self, node: exp.Anonymous, scope: exp.Select | None) -> None:
        spec = self._context.predictor(node.name)
        assert spec is not None
        if len(node.expressions) != 1:
            raise ProgrammingError(
                f"{spec.name} takes one argument ({spec.input_type}), not {len(node.expressions)}")
        _name_projection(node, self._context)
        argument = node.expressions[0]
        type = self._type(argument, scope)
        asked = output(spec, fitted(spec, argument, type))
        asked.meta[WRITTEN] = shown(node)
        node.replace(asked)

    def _type(self, node: exp.Expr, scope: exp.Select | None) -> str | None:
        if isinstance(node, exp.Literal) and (type := _type_of_literal(node)):
            return type
        if names_parameter(node):
            return None  # to ask would be an error, and end a transaction of the user's
        if node.meta.get(_RETURNS) is not None:
            return str(node.meta[_RETURNS])
        if scope is None:
            return self._type_in_update(node)
        return self._names.type_of(scope, node)

    def _type_in_update(self, node: exp.Expr) -> str | None:
        statement = node.find_ancestor(exp.Update, exp.Delete, exp.Merge)
        if statement is None or find(statement, exp.Table) is None:
            return None
        target = copy_of(statement.this)
        query = exp.Select(expressions=[exp.alias_(copy_of(node), "mlsql_t")]).from_(target)
        try:
            return self._context.describe(to_sql(finished(query, query)))[0][1]
        except ProgrammingError:
            return None  # it speaks of more than the table, such as a lambda's parameter

    def _open_aliases(self, scope: exp.Select) -> None:
        """Put the expression in the place of an alias that stands for a call."""
        if not any(self._is_ours(n) for n in find_all(scope, exp.Anonymous)) and \
                not calls_models(scope):
            return
        # Not only those that hide a call: what a call or a condition beside it names must be
        # there for the candidates, too, which have no such items.
        hidden = {item.alias.lower(): item.this for item in scope.expressions
                  if isinstance(item, exp.Alias) and not is_volatile(item)}
        for _ in range(len(hidden)):  # an alias may stand for another
            if not any([self._open(scope, c, hidden) for c in list(find_all(scope, exp.Column))]):
                return

    def _open(self, scope: exp.Select, column: exp.Column, hidden: dict[str, exp.Expr]) -> bool:
        name = column.name.lower()
        if name not in hidden or column.table or not self._reaches(scope, column):
            return False
        if not self._opens(scope, column):
            return False
        if find(hidden[name], exp.Window) and column.find_ancestor(exp.Window, exp.Select) \
                is not scope:
            return False  # DuckDB takes one window in another by its alias only
        opened: exp.Expr = exp.paren(copy_of(hidden[name]), copy=False)
        meant = opened if owner(column) is scope else self._carried(opened, scope, column)
        if meant is None:
            return False
        if column.parent is scope:  # a whole item: it keeps its name
            meant = exp.alias_(meant, column.name, quoted=True, copy=False)
        column.replace(meant)
        return True

    def _carried(
        self, meant: exp.Expr, scope: exp.Select, column: exp.Column
    ) -> exp.Expr | None:
        """An expression of `scope` that means the same where a nested query names it by its alias.

        None where it speaks of what a query between has under the same name.
        """
        between, inner = [], owner(column)
        while inner is not None and inner is not scope:
            between.append(inner)
            inner = owner(inner)
        for part in list(find_all(meant, exp.Column)):
            if not part.table:
                holders = [s for s in self._names.sources(scope)
                           if s.columns is not None and part.name.lower() in s.columns]
                if len(holders) == 1 and holders[0].name:
                    part.set("table", exp.to_identifier(holders[0].name, quoted=True))
            if any(self._names.is_local(query, part, doubt=False) for query in between):
                return None
        return meant

    def _reaches(self, scope: exp.Select, column: exp.Column) -> bool:
        """Whether a column in a nested query is not that query's own."""
        below: exp.Expr = column
        inner = owner(column)
        while inner is not None and inner is not scope:
            # A source of `inner` itself, which may be what cannot be told because of the column.
            within = _clause(below, inner) in ("from_", "joins")
            named = set() if within else {
                i.alias.lower() for i in inner.expressions if isinstance(i, exp.Alias)}
            if self._names.is_local(inner, column, doubt=not within) or \
                    column.name.lower() in named:
                return False
            below = inner
            inner = owner(inner)
        return inner is scope

    def _opens(self, scope: exp.Select, column: exp.Column) -> bool:
        clause = _clause(column, scope)
        if clause in ("from_", "with_", "distinct"):
            return False
        if clause == "order" and isinstance(column.parent, exp.Ordered):
            return False
        if clause == "group" and isinstance(column.parent, exp.Group):
            return False
        if clause == "having":
            keys = {i.alias.lower() for i in key_items(scope)
                    if isinstance(i, exp.Alias) and any(map(self._is_ours, _anonymous(i)))}
            return column.name.lower() not in keys
        return not self._names.is_local(scope, column)


def _picture(function: Function, node: exp.Expr, type: str | None) -> exp.Expr:
    picture = as_media(node, type)
    if picture is None:
        raise ProgrammingError(
            f"{function.name} looks at a picture (a frame, an image, a path or a BLOB): "
            f"{to_sql(node)} is {type}")
    return picture


def _name_projection(node: exp.Expr, context: Context) -> None:
    """Name the item of SELECT that a call stands in, before the call is expanded."""
    below, above = node, node.parent
    while above is not None and not isinstance(above, (exp.Select, exp.Alias)):
        below, above = above, above.parent
    if isinstance(above, exp.Select) and below.arg_key == "expressions" \
            and find(below, exp.Columns) is None:  # of those each column names its own item
        name_item(below, context)


def _anonymous(node: exp.Expr) -> list[exp.Anonymous]:
    return list(find_all(node, exp.Anonymous))


def _clause(node: exp.Expr, scope: exp.Select) -> str:
    below, above = node, node.parent
    while above is not None and above is not scope:
        below, above = above, above.parent
    return str(below.arg_key)


def _type_of_literal(node: exp.Literal) -> str | None:
    """DuckDB's type of a literal, where it needs no asking."""
    if node.is_string:
        return "VARCHAR"
    return "INTEGER" if node.is_int and abs(int(node.this)) < 2**31 else None


def _in_sources(query: exp.Expr, scope: exp.Select) -> bool:
    """Whether a nested query is a source or CTE of the scope, and no part of a clause."""
    below, above = query, query.parent
    while above is not None and above is not scope:
        if isinstance(above, (exp.Join, exp.From, exp.With)):
            return below.arg_key != "on"
        below, above = above, above.parent
    return False
