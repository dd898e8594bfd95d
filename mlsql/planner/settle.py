"""Sources that might give other rows when they are evaluated again are evaluated once.

Candidates and the final statement then speak of the same rows. What is filter, project, join and
union only is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mlsql.planner.context import Context
from mlsql.planner.names import Names, with_ctes
from mlsql.planner.nodes import Materialise, Node
from mlsql.planner.shape import has_sample, is_repeatable
from mlsql.planner.substitute import QUERY
from mlsql.planner.trees import (
    aliased,
    calls_models,
    is_volatile,
    keep,
    own,
    sources,
    visible_ctes,
)
from mlsql.tree import copy_of
from mlsql.udfs.function import ModelOutput


@dataclass
class Settler:
    """Adds a node for each table that is made, and reads that table in the source's place."""

    context: Context
    names: Names
    prefix: str
    nodes: list[Node]

    def settle(self, scope: exp.Select) -> None:
        """Make what the scope reads the same at every evaluation."""
        if scope.meta["correlated"]:
            return
        self._draw(scope)
        if has_sample(scope):
            self._sample(scope)
        for source in sources(scope):
            if isinstance(source, exp.Subquery) and not is_repeatable(source.this, self.context):
                if not calls_models(source):
                    self._materialise(source.this)
            elif isinstance(source, exp.Table):
                self._table(source, scope)

    def _draw(self, scope: exp.Select) -> None:
        """SELECT p(random()) FROM t: the arguments are drawn once, as columns of the source."""
        calls = [c for c in own(scope, ModelOutput) if is_volatile(c.this)
                 and not calls_models(c.this)]
        starred = any(item.is_star for item in scope.expressions)
        if not calls or starred or len(sources(scope)) > 1:
            return
        drawn = [exp.alias_(copy_of(c.this), f"mlsql_v{i}") for i, c in enumerate(calls)]
        if sources(scope):
            source = sources(scope)[0]
            query = exp.select("*", *drawn).from_(copy_of(source))
            source.replace(query.subquery(aliased(source) or "mlsql_v"))
        else:
            scope.set("from_", exp.From(this=exp.select(*drawn).subquery("mlsql_v")))
        for i, call in enumerate(calls):
            call.set("this", exp.column(f"mlsql_v{i}"))
        self.names.settle(scope, anew=True)

    def _sample(self, scope: exp.Select) -> None:
        """USING SAMPLE over one source: the sample is drawn once."""
        source = sources(scope)[0]
        drawn = exp.Select(expressions=[exp.Star()], from_=exp.From(this=copy_of(source)))
        drawn.set("sample", copy_of(scope.args["sample"]))
        scope.set("sample", None)
        source.replace(self._made(drawn).subquery(aliased(source) or "mlsql_sample"))

    def _made(self, query: exp.Expr) -> exp.Select:
        """SELECT * FROM a new table that will hold a query's rows."""
        whole = with_ctes(copy_of(query), list(visible_ctes(query)))
        made = exp.select("*").from_(exp.to_table(self._new_table(whole)))
        keep(made, QUERY, whole)
        return made

    def _table(self, source: exp.Table, scope: exp.Select) -> None:
        cte = _cte_of(source, scope)
        if cte is not None:
            body = cte.this
            if not calls_models(body) and not is_repeatable(body, self.context):
                self._materialise(body)
        elif not is_repeatable(source, self.context):
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=copy_of(source)))
            source.replace(self._made(query).subquery(source.alias_or_name))

    def _materialise(self, query: exp.Expr) -> None:
        query.replace(self._made(query))

    def _new_table(self, query: exp.Expr) -> str:
        table = f"{self.prefix}_rows{sum(isinstance(n, Materialise) for n in self.nodes)}"
        self.nodes.append(Materialise(table, query))
        return table


def _cte_of(source: exp.Table, scope: exp.Select) -> exp.CTE | None:
    if source.args.get("db"):
        return None
    found = [c for c in visible_ctes(scope) if c.alias.lower() == source.name.lower()]
    return found[-1] if found else None
