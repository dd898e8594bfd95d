"""The items of a SELECT of aggregates: which a sample estimates, and the statement over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.planner.approximate_rows import RowColumns
from mlsql.planner.bounds_of_items import HIGH, LOW
from mlsql.planner.context import Context
from mlsql.planner.shape import is_aggregate
from mlsql.planner.trees import as_written, calls_models, is_volatile, nested, own

_LINEAR = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Cast, exp.Round,
           exp.Literal, exp.Alias)


@dataclass(frozen=True)
class Estimated:
    """One aggregate: `kind` is 'avg', 'sum', 'count', or 'exact' where no model is needed.

    `value` and `condition` are of a row, over the population's columns; a row counts where the
    label of WHERE and the condition hold and the value is not NULL. `sql` is an exact aggregate.
    `whole` marks one that is a whole number. `name` is its column in the final statement; with
    _low and _high there are those of its interval.
    """

    name: str
    kind: str
    shown: str
    value: exp.Expr | None = None
    condition: exp.Expr | None = None
    sql: exp.Expr | None = None
    whole: bool = False
    target: tuple[int, exp.Expr] | None = None  # the item it stands in, as a formula of it


def estimated_items(
    scope: exp.Select, context: Context, rows: RowColumns, keys: Mapping[str, exp.Expr],
    label: exp.Expr | None,
) -> tuple[exp.Select, tuple[Estimated, ...]]:
    """The statement over a table mlsql_estimates, and what is estimated for that table."""
    reader = _Items(scope, context, rows, keys, label)
    final = exp.Select(expressions=[reader.item(i, item)
                                    for i, item in enumerate(scope.expressions)])
    final = final.from_("mlsql_estimates")
    if scope.args.get("order") is not None:
        order = scope.args["order"].copy()
        for part in order.expressions:
            held = exp.Paren(this=part.this.copy())
            part.set("this", reader.written(held).this)
        final.set("order", order)
    for part in ("limit", "offset"):
        if scope.args.get(part) is not None:
            final.set(part, scope.args[part].copy())
    if not any(e.kind != "exact" for e in reader.found.values()):
        raise _uncertified("no aggregate hangs on a model")
    return final, tuple(reader.found.values())


class _Items:
    def __init__(
        self, scope: exp.Select, context: Context, rows: RowColumns,
        keys: Mapping[str, exp.Expr], label: exp.Expr | None,
    ) -> None:
        self._scope, self._context, self._rows = scope, context, rows
        self._keys = {to_sql(key): name for name, key in keys.items()}
        self._label = label
        self.found: dict[str, Estimated] = {}

    def item(self, place: int, item: exp.Expr) -> exp.Expr:
        """An item of the final statement, named as the one it came from."""
        named = item if isinstance(item, exp.Alias) else exp.alias_(
            item.copy(), item.output_name or to_sql(item), quoted=True)
        written = self.written(exp.Paren(this=named.this.copy()))
        self._check(place, written.this)
        return exp.alias_(written.this.copy(), named.alias, quoted=True)

    def written(self, held: exp.Paren) -> exp.Paren:
        """The expression below `held` with keys and aggregates as columns of the estimates."""
        for call in list(own(held, exp.Anonymous)):
            if call.name.upper() in (LOW, HIGH):
                self._bound(call)
        for node in [n for n in own(held, exp.Expr) if is_aggregate(n, self._context)]:
            if node.find_ancestor(exp.AggFunc) is None:
                filtered = node.parent if isinstance(node.parent, exp.Filter) else node
                filtered.replace(exp.column(self._estimate(filtered)))
        for node in list(held.walk()):
            if node.parent is not None and to_sql(node) in self._keys:
                node.replace(exp.column(self._keys[to_sql(node)]))
        return held

    def _bound(self, call: exp.Anonymous) -> None:
        if len(call.expressions) != 1 or not is_aggregate(_function(call.expressions[0]),
                                                          self._context):
            raise _uncertified(f"{call.name} takes one aggregate")
        name = self._estimate(call.expressions[0])
        end = "low" if call.name.upper() == LOW else "high"
        call.replace(exp.column(name if self.found[to_sql_key(self, name)].kind == "exact"
                                else f"{name}_{end}"))

    def _estimate(self, node: exp.Expr) -> str:
        text = to_sql(node)
        if text not in self.found:
            self.found[text] = self._read(node, f"g{len(self.found)}")
        return self.found[text].name

    def _read(self, node: exp.Expr, name: str) -> Estimated:
        if not calls_models(node) and self._label is None:
            return Estimated(name, "exact", as_written(node), sql=self._rows.over(node))
        if nested(node) or is_volatile(node):
            raise _uncertified(f"{as_written(node)} holds a subquery or is volatile")
        call = _function(node)
        condition = node.expression.this if isinstance(node, exp.Filter) else None
        kind, value = _kind(call)
        if isinstance(call, exp.CountIf):
            condition = call.this if condition is None else exp.and_(condition, call.this)
        return Estimated(
            name, kind, as_written(node), None if value is None else self._rows.over(value),
            None if condition is None else self._rows.over(condition),
            whole=kind == "count")

    def _check(self, place: int, written: exp.Expr) -> None:
        """An item may be one estimate in linear arithmetic: else its interval is not known."""
        names = {e.name for e in self.found.values() if e.kind != "exact"}
        used = {c.name.removesuffix("_low").removesuffix("_high")
                for c in written.find_all(exp.Column)} & names
        if len(used) > 1:
            raise _uncertified("an item combines several estimates")
        if used and not all(isinstance(n, (*_LINEAR, exp.Column, exp.Identifier, exp.DataType))
                            for n in written.walk()):
            raise _uncertified("an item is no linear formula of its aggregate")
        for key, known in self.found.items():
            if known.name in used and known.target is None:
                self.found[key] = _replaced(known, place, written)


def _replaced(known: Estimated, place: int, written: exp.Expr) -> Estimated:
    from dataclasses import replace

    return replace(known, target=(place, written.copy()))


def to_sql_key(items: _Items, name: str) -> str:
    """The text under which an estimate of that name was found."""
    return next(key for key, found in items.found.items() if found.name == name)


def _function(node: exp.Expr) -> exp.Expr:
    inner: exp.Expr = node.this if isinstance(node, exp.Filter) else node
    return inner


def _kind(call: exp.Expr) -> tuple[str, exp.Expr | None]:
    """The kind of estimate, and the value of a row; None where only the rows are counted."""
    inner = call.this if isinstance(call, (exp.Avg, exp.Sum, exp.Count)) else None
    if isinstance(inner, exp.Distinct) or call.args.get("expressions"):
        raise _uncertified(f"{as_written(call)} looks at all values")
    if isinstance(call, exp.CountIf):
        return "count", None
    if isinstance(call, exp.Count):
        return "count", None if inner is None or isinstance(inner, (exp.Star, exp.Literal)) \
            else inner
    if isinstance(call, exp.Avg) and inner is not None:
        return "avg", inner
    if isinstance(call, exp.Sum) and inner is not None:
        return "sum", inner
    raise _uncertified(f"{as_written(call)} has no interval that a sample can certify")


def _uncertified(reason: str) -> Exception:
    from mlsql.planner.approximate import Uncertified

    return Uncertified(reason)
