"""Taking the models out of a statement, clause by clause in execution order.

What is not proved here is left to look-up functions that record what they miss (Plan.lookups).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp

from mlsql.planner.candidates import candidates, cheap
from mlsql.planner.context import Context
from mlsql.planner.dml import as_select
from mlsql.planner.names import Names
from mlsql.planner.nodes import Conjunct, Lookup, Node, Stage, Store
from mlsql.planner.settle import Settler
from mlsql.planner.shape import (
    distinct_wanted,
    gives_rows_singly,
    has_sample,
    joins_inner,
    resolved_order,
    stops_early,
    top_rows,
    wants_nothing,
)
from mlsql.planner.stages import StageBuilder
from mlsql.planner.substitute import allows_subquery, look_up, look_up_call
from mlsql.planner.trees import (
    Query,
    as_written,
    calls_models,
    conjuncts,
    ctes,
    keep,
    kept,
    nested,
    own,
    owner,
    place,
    read_ctes,
    sources,
)
from mlsql.planner.tried import tried
from mlsql.planner.wanted import (
    ABOVE_WHERE,
    PROVED,
    first_calls,
    group_calls,
    is_ready,
    is_recorded,
    parts,
    row_calls,
    shared_keys,
    spelt_call,
)
from mlsql.tree import copy_of, find, find_all
from mlsql.udfs.function import ModelOutput

_RECORDED_SOURCE = "a source that is itself recorded"


@dataclass
class Peeler:
    """Walks a statement and gives the nodes to run before it; the tree is changed in place."""

    context: Context
    names: Names
    prefix: str
    peels: bool = True  # off: everything is recorded
    stops: bool = True  # off: LIMIT ends nothing early, for rows may be lost above it
    nodes: list[Node] = field(default_factory=list)
    stores: dict[str, Store] = field(default_factory=dict)
    lookups: dict[str, Lookup] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # Calls, as spelt, that DuckDB would not know for keys of GROUP BY if they were subqueries.
    as_functions: set[tuple[str, str]] = field(default_factory=set)

    def statement(self, root: exp.Expr) -> None:
        """Peel every query of the statement; calls outside any query are recorded."""
        if self.peels and isinstance(root, (exp.Update, exp.Delete)):
            with as_select(root) as scope:
                for cte in ctes(scope):
                    self._queries(cte.this)
                self._select(scope)
        elif self.peels and not isinstance(root, (exp.Merge, exp.Pivot)):
            for query in [root] if isinstance(root, Query) else nested(root):
                self.query(query)
        self.record(root, "")

    def query(self, query: exp.Expr) -> None:
        """A SELECT or set operation, what it defines first."""
        if wants_nothing(query) and "limit_early" not in self.context.switched_off():
            self._substitute(sorted(find_all(query, ModelOutput), key=lambda c: -c.depth))
            return
        with_ = query.args.get("with_")
        read = read_ctes(query)
        for cte in ctes(query):
            if cte.alias.lower() not in read:  # DuckDB does not run it
                self._substitute(sorted(find_all(cte, ModelOutput), key=lambda c: -c.depth))
            elif with_ is not None and with_.recursive and _recursive(cte):
                self.record(cte, "a recursive query")
            else:
                self._queries(cte.this)
                self._constants(cte.this, None)
        if isinstance(query, exp.Select):
            self._select(query)
        else:
            self._queries(query.this)
            self._queries(query.expression)

    def _queries(self, node: exp.Expr) -> None:
        for query in [node] if isinstance(node, Query) else nested(node):
            self.query(query)

    def _select(self, scope: exp.Select) -> None:
        for source in sources(scope):
            self._queries(source)
            self._constants(source, scope)
        if not calls_models(scope):
            return
        scope.meta["correlated"] = owner(scope) is not None and self.names.is_correlated(scope)
        reason = self._unproved(scope)
        if reason:
            self.record(scope, reason)
            return
        Settler(self.context, self.names, self.prefix, self.nodes).settle(scope)
        if not joins_inner(scope):
            for number, join in enumerate(scope.args.get("joins") or []):
                self._on(scope, number, join)
                if isinstance(join.this, exp.Unnest) and calls_models(join.this):
                    self.record(scope, _RECORDED_SOURCE)
                    return
        with _also_where(scope, kept(scope, "asked", [])):
            self._where(scope)
            self._above_where(scope)

    def _constants(self, source: exp.Expr, scope: exp.Select | None) -> None:
        """The calls in VALUES as a source: their arguments hang on no row."""
        while isinstance(source, exp.Values) and (wanted := [
                c for c in own(source, ModelOutput)
                if is_ready(c, self.lookups) and not any(own(c.this, exp.Column))]):
            builder = self._builder()
            builder.add(wanted, source)
            rows = exp.Select(expressions=[exp.alias_(tried(e), n) for n, e in builder.columns])
            self._add_stage(scope, "FROM", builder, [], rows)
            self._substitute(wanted)

    def _unproved(self, scope: exp.Select) -> str:
        """Why the rows of a scope cannot be foreseen, '' if they can."""
        if has_sample(scope) and (len(sources(scope)) > 1 or scope.meta["correlated"]):
            return "a sample of joined sources"
        if any(find(source, exp.Anonymous) is not None and is_recorded(source, self.lookups)
               for source in sources(scope)):
            return _RECORDED_SOURCE
        around = owner(scope)
        if scope.meta["correlated"] and around is not None:
            if place(scope, around) not in ("where", "expressions", "having", "qualify", "order"):
                return "a correlated query in FROM"
            if owner(around) is not None and around.meta.get("correlated") is None:
                return "a correlated query in a query that was not read before it"
        if scope.meta["correlated"] and any(
                join.args.get("on") is not None and not self.names.binds(scope, join.args["on"])
                for join in scope.args.get("joins") or []) and not joins_inner(scope):
            return "an outer join on what is around it"
        if any(isinstance(s, (exp.Lateral, exp.Pivot)) and calls_models(s)
               for s in sources(scope)):
            return "a model in a lateral source"
        return ""

    def _on(self, scope: exp.Select, number: int, join: exp.Join) -> None:
        self._unnested(scope, number, join)
        if join.args.get("on") is None or not calls_models(join.args["on"]):
            return
        self._nested(join.args["on"], correlated=False)
        while wanted := [c for c in own(join.args["on"], ModelOutput) if is_ready(c, self.lookups)]:
            only, wanted = self._side(scope, join, wanted)
            builder = self._builder()
            filters = [self._conjunct(builder, c, wanted, scope, only)
                       for c in conjuncts(join.args["on"]) if calls_models(c)]
            filters = [f for f in filters if f.calls]
            self._finish(scope, "ON", builder, filters, wanted, only=only,
                         join=number if only is None else None)
            # No subquery: in ON of an outer join under a range join DuckDB fails on one, for good.
            for call in wanted:
                self._record_call(call, proved=True)
        self.record_nested(join.args["on"], "a correlated query in ON")

    def _side(
        self, scope: exp.Select, join: exp.Join, ready: list[ModelOutput]
    ) -> tuple[frozenset[int] | None, list[ModelOutput]]:
        """The calls of one source that no known part of ON ties to another, and that source.

        (None, all calls) where the pairs are to be looked at.
        """
        known = [(c, self.names.sources_of(scope, c)) for c in cheap(join.args["on"])]
        first = self.names.sources_of(scope, ready[0].this)
        if scope.meta["correlated"] or not first or any(s is None for _, s in known):
            return None, ready
        # A range joins nearly everything with everything: pairs would cost more than they spare.
        side = _tied(first, [s for c, s in known if s and isinstance(c.unnest(), exp.EQ)])
        if len(side) != 1 or self._hangs_on_others(sources(scope)[min(side)]):
            return None, ready
        own_part = [c for c, s in known if s is not None and s <= side]
        keep(scope, "tied", {**kept(scope, "tied", {}), side: own_part})
        return side, [c for c in ready if self._speaks_of(scope, c, side)]

    def _hangs_on_others(self, source: exp.Expr) -> bool:
        """Whether a source speaks, or may speak, of those before it."""
        if isinstance(source, (exp.Lateral, exp.Unnest)):
            return True
        return any(self.names.is_correlated(q) for q in find_all(source, exp.Select))

    def _unnested(self, scope: exp.Select, number: int, join: exp.Join) -> None:
        """UNNEST(model(x)) as a source: x is of the sources before it."""
        if not isinstance(join.this, exp.Unnest):
            return
        while wanted := [c for c in own(join.this, ModelOutput) if is_ready(c, self.lookups)]:
            builder = self._builder()
            builder.add(wanted, join.this)
            before = frozenset(range(number + 1))
            where = scope.args.get("where")
            known = [c for c in cheap(where.this) if not nested(c) and (
                self.names.sources_of(scope, c) or {-1}) <= before] if where is not None else []
            outer = any(j.side in ("RIGHT", "FULL") for j in (scope.args["joins"])[number:])
            rows = candidates(scope, builder.columns, before=number, more=[] if outer else known)
            self._add_stage(scope, "FROM", builder, [], rows)
            self._substitute(wanted)

    def _where(self, scope: exp.Select) -> None:
        """The conditions on rows: WHERE, and ON where all joins are inner ones."""
        clauses = _conditions(scope)
        for clause in clauses:
            self._nested(clause, correlated=False)
        while ready := [c for clause in clauses for c in own(clause, ModelOutput)
                        if is_ready(c, self.lookups)]:
            only, wanted = self._component(scope, ready)
            builder = self._builder()
            filters = [self._conjunct(builder, c, wanted, scope, only)
                       for clause in clauses for c in conjuncts(clause.args.get("on", clause.this))
                       if calls_models(c)]
            filters = [f for f in filters if f.calls]
            tails = self._tails(scope, builder, filters) if only is None else []
            self._finish(scope, "WHERE", builder, filters, [*wanted, *tails], only=only)
            tying = self._tying(scope, clauses, wanted)
            self._substitute([c for c in [*wanted, *tails] if not any(c is t for t in tying)])
            for call in tying:
                self._record_call(call, proved=True)
        for clause in clauses:
            self._nested(clause, correlated=True)

    def _tying(
        self, scope: exp.Select, clauses: list[exp.Expr], wanted: list[ModelOutput]
    ) -> list[ModelOutput]:
        """The calls in equalities of two sources: DuckDB joins by the hash of a function's value.

        A subquery it would evaluate above the product of the two.
        """
        correlated = bool(scope.meta["correlated"])  # the other source may be one around
        if len(sources(scope)) < 2 and not correlated:
            return []
        found = []
        for clause in clauses:
            for condition in conjuncts(clause.args.get("on", clause.this)):
                spoken = self.names.sources_of(scope, condition) or set()
                ties = len(spoken) > 1 or correlated
                if isinstance(condition.unnest(), exp.EQ) and ties:
                    found += [c for c in own(condition, ModelOutput)
                              if any(c is w for w in wanted)]
        return found

    def _component(
        self, scope: exp.Select, ready: list[ModelOutput]
    ) -> tuple[frozenset[int] | None, list[ModelOutput]]:
        """The calls whose arguments come from sources that known conditions tie together.

        (None, all calls) where that is all the sources. Taking the others in too would pair each
        row of one with each of the other for nothing.
        """
        correlated = bool(scope.meta["correlated"])
        if not joins_inner(scope) or (len(sources(scope)) < 2 and not correlated):
            return None, ready
        known = [c for clause in _conditions(scope)
                 for c in cheap(clause.args.get("on", clause.this))]
        spoken = [(c, self.names.sources_of(scope, c)) for c in known]
        first = self.names.sources_of(scope, ready[0].this)
        if first is None or any(s is None for _, s in spoken) or not (first or correlated):
            return None, ready
        # An argument of the scopes around alone (no source here) wants one look for each of theirs.
        tied = _tied(first, [s for _, s in spoken if s]) if first else frozenset()
        mine = [c for c in ready if self._speaks_of(scope, c, tied)]
        if len(tied) == len(sources(scope)):
            return None, mine
        ties = {**kept(scope, "tied", {}), tied: [c for c, s in spoken if s is not None
                                                  and s <= tied]}
        keep(scope, "tied", ties)
        keep(scope, "apart", {i: [c for c, s in spoken if s == {i}]
                              for i in range(len(sources(scope)))})
        return tied, mine

    def _speaks_of(
        self, scope: exp.Select, call: ModelOutput, tied: frozenset[int]
    ) -> bool:
        spoken = self.names.sources_of(scope, call.this)
        return spoken is not None and spoken <= tied and bool(spoken) == bool(tied)

    def _tails(
        self, scope: exp.Select, builder: StageBuilder, filters: list[Conjunct]
    ) -> list[ModelOutput]:
        """The calls above WHERE that each row wants once it has passed: the same stage makes them.

        One decoding then serves both. Only where WHERE is settled by this very stage.
        """
        if any(f.condition is None for f in filters):
            return []
        if any(nested(c) for clause in _conditions(scope) for c in conjuncts(
                clause.args.get("on", clause.this)) if calls_models(c)):
            return []
        if "merge_tail" in self.context.switched_off():
            return []
        self._drop_unused(scope)
        rows = row_calls(scope, self.context, self.lookups)
        if scope.args.get("limit") is not None and not stops_early(scope, self.context):
            return []
        for call, root in rows:
            builder.add([call], root)
        return [call for call, _ in rows]

    def _above_where(self, scope: exp.Select) -> None:
        for clause in ABOVE_WHERE:
            for part in parts(scope, clause):
                self._nested(part, correlated=False)
        self._drop_unused(scope)
        self.as_functions |= shared_keys(scope)
        while rows := first_calls(scope, self.context, self.lookups):
            builder = self._builder()
            for call, root in rows:
                builder.add([call], root)
            order = resolved_order(scope)
            ordered = order is not None and not calls_models(order)
            top = top_rows(scope, self.context) if ordered and self.stops else None
            self._finish(scope, "SELECT", builder, [], [call for call, _ in rows], top=top)
            self._substitute([call for call, _ in rows])
        while groups := group_calls(scope, self.context, self.lookups):
            builder = self._builder()
            for call, root in groups:
                builder.add([call], root)
            self._finish(scope, "HAVING", builder, [], [c for c, _ in groups], grouped=True)
            # Within a subquery DuckDB does not know an expression with one for a key of GROUP BY.
            hard = [call for call, _ in groups if find(call.this, exp.Query)]
            self._substitute([c for c, _ in groups if not any(c is h for h in hard)])
            for call in hard:
                self._record_call(call, proved=True)
        for clause in ABOVE_WHERE:
            for part in parts(scope, clause):
                self._nested(part, correlated=True)
        self.record(scope, "an argument that is known only above its clause")

    def _drop_unused(self, scope: exp.Select) -> None:
        """Calls of items that nothing reads: their outputs are looked up, and never asked for."""
        unused = kept(scope, "unused", ())
        for item in scope.expressions:
            if id(item.unalias()) in unused:
                self._substitute(sorted(find_all(item, ModelOutput), key=lambda c: -c.depth))

    def _nested(self, clause: exp.Expr, *, correlated: bool) -> None:
        """Peel the queries nested in a clause, those of one kind."""
        for query in nested(clause):
            if not calls_models(query):
                continue
            if self._is_correlated(query) == correlated:
                self.query(query)

    def _is_correlated(self, query: exp.Expr) -> bool:
        selects = [query] if isinstance(query, exp.Select) else list(find_all(query, exp.Select))
        return any(self.names.is_correlated(s) for s in selects)

    def _builder(self) -> StageBuilder:
        return StageBuilder(self._store, lambda name: self.context.function_type(name) is not None)

    def _conjunct(
        self, builder: StageBuilder, condition: exp.Expr, wanted: list[ModelOutput],
        scope: exp.Select, only: frozenset[int] | None,
    ) -> Conjunct:
        mine = [c for c in own(condition, ModelOutput) if any(c is w for w in wanted)]
        spoken = self.names.sources_of(scope, condition) if only is not None else None
        if only is not None and not (spoken is not None and spoken <= only):
            calls = [k for call in mine for k in builder.add([call], call)]
            return Conjunct(tuple(calls), None, as_written(condition))
        return builder.conjunct(condition, mine)

    def _finish(
        self, scope: exp.Select, where: str, builder: StageBuilder, filters: list[Conjunct],
        wanted: list[ModelOutput], *, join: int | None = None, grouped: bool = False,
        only: frozenset[int] | None = None, top: int | None = None,
    ) -> None:
        left = [c for c in find_all(scope, ModelOutput) if not any(c is w for w in wanted)]
        decided = not left and all(f.condition is not None for f in filters)
        decides = decided and join is None and not grouped and only is None and self.stops
        limit = stops_early(scope, self.context) if decides else None
        again = distinct_wanted(scope, self.context) if decides and top is None else None
        rows = candidates(scope, builder.columns, join=join, grouped=grouped, only=only, top=top,
                          alone=self._stands_alone(scope, builder))
        stage = self._add_stage(scope, where, builder, filters, rows)
        self.nodes[-1] = replace(
            stage, limit=again or (limit if top is None else None), again=again is not None,
            singly=decides and top is None and gives_rows_singly(scope, self.context))

    def _stands_alone(self, scope: exp.Select, builder: StageBuilder) -> bool:
        """Whether the candidates of a correlated scope speak of nothing around it."""
        known = [c for clause in _conditions(scope)
                 for c in cheap(clause.args.get("on", clause.this))]
        return all(self.names.binds(scope, e) for e in [*(e for _, e in builder.columns), *known])

    def _add_stage(
        self, scope: exp.Select | None, where: str, builder: StageBuilder, filters: list[Conjunct],
        rows: exp.Select,
    ) -> Stage:
        first = {k for f in filters for k in f.calls}
        tail = tuple(k for k in range(len(builder.calls)) if k not in first)
        name = f"{self.prefix}_s{sum(isinstance(n, Stage) for n in self.nodes)}"
        stage = Stage(name, where, rows, tuple(builder.columns), tuple(builder.calls),
                      tuple(filters), tail, scope=scope)
        self.nodes.append(stage)
        return stage

    def _store(self, call: ModelOutput) -> str:
        spec = call.spec
        if spec.name not in self.stores:
            self.stores[spec.name] = Store(f"{self.prefix}_m{len(self.stores)}", spec)
        return self.stores[spec.name].name

    def _substitute(self, calls: Iterable[ModelOutput]) -> None:
        for call in calls:
            if allows_subquery(call) and spelt_call(call) not in self.as_functions:
                call.replace(look_up(call, self._store(call)))
            else:
                self._record_call(call, proved=True)

    def record(self, root: exp.Expr, reason: str) -> None:
        """Leave the calls below `root` to look-ups that note what they miss."""
        calls = sorted(find_all(root, ModelOutput), key=lambda c: -c.depth)
        if calls and reason:
            self.notes.append(f"recorded, because of {reason}")
        for call in calls:
            self._record_call(call)

    def record_nested(self, clause: exp.Expr, reason: str) -> None:
        """The same for the queries nested in a clause."""
        for query in nested(clause):
            self.record(query, reason)

    def _record_call(self, call: ModelOutput, proved: bool = False) -> None:
        store = self._store(call)
        lookup = self.lookups.setdefault(
            store, Lookup(f"{self.prefix}_f{len(self.lookups)}", store, call.spec))
        found = look_up_call(call, lookup)
        keep(found, PROVED, proved)
        call.replace(found)


@contextmanager
def _also_where(scope: exp.Select, conditions: Sequence[exp.Expr]) -> Iterator[None]:
    """Inside, WHERE holds also what the SELECT around wants of the rows; DuckDB filters there."""
    if not conditions:
        yield
        return
    where = scope.args.get("where")
    own_part = [] if where is None else [exp.paren(where.this, copy=False)]
    more = [exp.paren(copy_of(condition), copy=False) for condition in conditions]
    scope.set("where", exp.Where(this=exp.and_(*own_part, *more, copy=False)))
    yield
    scope.set("where", exp.Where(this=own_part[0].this) if own_part else None)


def _conditions(scope: exp.Select) -> list[exp.Expr]:
    """The clauses that hold conditions on rows before grouping."""
    where = [scope.args["where"]] if scope.args.get("where") is not None else []
    if not joins_inner(scope):
        return where
    return [j for j in scope.args.get("joins") or [] if j.args.get("on") is not None] + where


def _tied(start: set[int], conditions: list[set[int]]) -> frozenset[int]:
    """The sources that can be reached from `start` along conditions that speak of several."""
    reached, grown = set(start), True
    while grown:
        grown = False
        for spoken in conditions:
            if spoken & reached and not spoken <= reached:
                reached |= spoken
                grown = True
    return frozenset(reached)


def _recursive(cte: exp.CTE) -> bool:
    return any(t.name.lower() == cte.alias.lower() for t in find_all(cte.this, exp.Table))
