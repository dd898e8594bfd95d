"""One statement from text to answer: does it concern us, what does it read, plan it, run it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mlsql.config import Settings
from mlsql.errors import (
    InternalError,
    NotSupportedError,
    ProgrammingError,
    Warning,
    unknown,
)
from mlsql.exec.progress import Progress
from mlsql.exec.resources import Resources
from mlsql.exec.sources import READERS, is_media_file
from mlsql.exec.stats import Stats
from mlsql.exec.tables import table_functions
from mlsql.fetched import fetched
from mlsql.foreign import held, placed, translated
from mlsql.parser.accuracy import Accuracy, has_accuracy, split_accuracy
from mlsql.parser.dialect import located, parse, to_sql
from mlsql.parser.macros import read_create_macro
from mlsql.parser.model_statements import DropModel, is_model_statement, read_model_statement
from mlsql.parser.parameters import Parameters, bind
from mlsql.parser.statements import Explain, Statement, one
from mlsql.planner.bounds_of_items import without_bounds
from mlsql.udfs.function import functions

if TYPE_CHECKING:
    import duckdb

    from mlsql.exec.approximate.report import Approximation
    from mlsql.exec.share import RowError
    from mlsql.exec.sources import Sources
    from mlsql.exec.tally import Tally
    from mlsql.planner.nodes import Plan
    from mlsql.udfs.spec import ModelSpec

_CHANGES_CATALOG = {"CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "USE", "ROLLBACK", "IMPORT",
                    "ABORT", "COMMIT"}


# Statements that name a view or table without reading it: DuckDB's catalog has all they need.
_NAMES_ONLY = (exp.Drop, exp.Alter, exp.Comment, exp.Command, exp.Use, exp.Set)


@dataclass(frozen=True)
class Answer:
    """What a statement gave: rows (None where it has none to give) and how it got them."""

    rows: Any = None
    names: tuple[str, ...] | None = None
    stats: Stats = field(default_factory=Stats)
    errors: tuple[RowError, ...] = ()
    notes: tuple[str, ...] = ()
    used_models: bool = False
    approximation: Approximation | None = None
    kinds: tuple[Any, ...] | None = None
    """The columns' types, where the rows do not tell."""


class Runner(Resources):
    """Runs statements, one at a time; `peels` off leaves every call to be recorded."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, settings: Settings) -> None:
        super().__init__(connection, settings)
        self.last = Answer()
        self.peels = True
        self.table_functions = table_functions(self)

    # --- what a statement is --------------------------------------------------------------

    def concerns(self, statements: Iterable[Statement]) -> bool:
        """Whether DuckDB alone cannot answer one of the statements."""
        return any(s.mentions(self._is_name, self.is_call) or _is_ours(s) or has_accuracy(s)
                   for s in statements)

    def _is_name(self, word: str) -> bool:
        return is_media_file(word) or self.views.knows(word)

    def is_call(self, word: str) -> bool:
        """Whether a word before a parenthesis is a function of ours."""
        name = word.upper()
        return (name in functions() or name in READERS or name in self.table_functions
                or self.registry.own(word) is not None or self.macros.knows(word))

    def check(self, spec: ModelSpec) -> None:
        """Refuse a model that no statement could call: its types or its name are taken."""
        import duckdb

        for what, kind in (("input", spec.input_type), ("output", spec.output_type)):
            try:
                self.connection.execute(f"SELECT NULL::{kind}").fetchall()
            except duckdb.Error as error:
                raise ProgrammingError(f"{spec.name}: {what} {kind!r} is no type of DuckDB's: "
                                       f"{str(error).splitlines()[0]}") from error
        taken = spec.name.upper() in functions() or spec.name.upper() in self.table_functions
        if taken or self.context().function_type(spec.name) is not None:
            raise ProgrammingError(f"{spec.name!r} is a function already: name the model otherwise")

    def begin_if_waiting(self) -> None:
        """Begin the transaction in which what a statement writes is to wait for a commit."""
        if self.leaves_open and not self.left_open:
            self.connection.execute("BEGIN TRANSACTION")
            self.left_open = True

    def plain(self, statement: Statement, parameters: Parameters) -> Answer:
        """A statement that DuckDB runs as it came."""
        self.begin_if_waiting()
        if statement.words(1)[:1] and statement.words(1)[0] in _CHANGES_CATALOG:
            self.forget_catalog()
            self.models.forget()
        if not statement.tokens and not statement.text.strip():
            return Answer()
        if not self.settings.number("statement_timeout"):
            return self._plain(statement, parameters)
        from mlsql.exec.limits import Guardrails
        from mlsql.exec.tally import Tally

        guardrails = Guardrails(self.settings, Tally())
        try:
            with guardrails.watching(self.connection.interrupt):
                return self._plain(statement, parameters)
        except Exception as error:
            raise guardrails.reason(error) from error

    def _plain(self, statement: Statement, parameters: Parameters) -> Answer:
        import duckdb

        given = _given(parameters) if parameters else None
        try:
            quick = fetched(self.connection, statement.text, given)
            if quick is not None:
                return Answer(quick.rows, quick.names, kinds=quick.kinds)
            rows = self.connection.sql(statement.text, params=given)
            if rows is None or rows.columns == ["Success"]:
                return Answer()
            return Answer(held(rows), tuple(rows.columns))
        except duckdb.Error as error:
            raise placed(error, self.connection, statement.text, given) from error

    # --- statements of ours ---------------------------------------------------------------

    def run(self, text: str, parameters: Parameters, owns_transaction: bool) -> Answer:
        """A statement that asks models, or reads media or views of ours."""
        statement = one(text)
        if is_model_statement(statement):
            return self._change_model(statement, parameters)
        if _is_ours(statement):
            return self._show(statement)
        from mlsql.exec.definitions import create_macro, create_view, set_variable

        if statement.words(2) == ["SET", "VARIABLE"]:
            return set_variable(self, statement, parameters, owns_transaction)
        macro = read_create_macro(statement)
        if macro is not None:
            return create_macro(self, macro, parameters)
        text, accuracy = split_accuracy(statement)
        statement = statement if accuracy is None else one(text)
        tree = bind(self._parsed(text), parameters)
        self._refuse(tree)
        self._as_query(tree)
        if isinstance(tree, _NAMES_ONLY) or _describes_table(tree):
            return self.plain(statement, parameters)
        if isinstance(tree, exp.Describe):
            return Answer(self.described(tree.this))
        if accuracy is not None and isinstance(tree, exp.Create) and tree.kind == "VIEW":
            raise NotSupportedError("a view cannot hold an accuracy clause: "
                                    "give it with the query that reads the view")
        if isinstance(tree, exp.Create) and tree.kind == "VIEW":
            return create_view(self, tree, parameters)
        if accuracy is not None and not self._asks(tree):
            warnings.warn("the accuracy clause is of no use: no model is asked", Warning,
                          stacklevel=2)
            accuracy = None
        if not self._asks(tree) and not any(map(self._reads, tree.find_all(exp.Table))):
            return self.plain(statement, parameters)  # it only has a word of ours in it
        sources = self.sources()
        resolved = sources.resolve(self.opened(tree))
        self.progress = Progress(self.listeners)
        try:
            sampled = self._sampled(resolved, text, owns_transaction, accuracy)
            return sampled or self._peeled_or_recorded(without_bounds(resolved), sources, text,
                                                       owns_transaction)
        finally:
            self.progress.finish()
            sources.close()
            if not isinstance(tree, (exp.Query, exp.Copy)):
                self.forget_catalog()

    def _sampled(
        self, tree: exp.Expr, text: str, owns_transaction: bool, clause: Accuracy | None
    ) -> Answer | None:
        """The answer from a sample, where an accuracy target asks for it and one can be had."""
        from mlsql.exec.approximate.targets import any_target

        if not any_target(clause, self.settings) or not self._asks(tree):
            return None
        from mlsql.exec.approximate.run import approximate

        return approximate(self, tree, text, owns_transaction, clause)

    def _peeled_or_recorded(
        self, tree: exp.Expr, sources: Sources, text: str, owns_transaction: bool
    ) -> Answer:
        """Run the peeled plan; if it is one that DuckDB does not take, all calls are recorded.

        A statement that binds as it was written is then a fault of the plan, not of the user's.
        """
        from mlsql.exec.tally import Tally

        tally = Tally()
        tally.errors.extend(sources.errors)
        learned: dict[str, Any] = {}
        planned = None
        self.progress.follow(tally)
        try:
            planned = self.planned(tree.copy(), text)
            return self._run(planned, text, owns_transaction, tally, learned)
        except (InternalError, ProgrammingError) as error:
            # Without a plan the statement itself does not bind.
            ours = planned is not None or isinstance(error, InternalError)
            if not ours or not owns_transaction or not self.peels:
                raise
        recorded = replace(self.planned(tree, text, peels=False), notes=(
            "recorded, because the plan for it did not bind",))
        return self._run(recorded, text, owns_transaction, tally, learned)

    def planned(self, resolved: exp.Expr, text: str, peels: bool | None = None) -> Plan:
        """The plan of a statement over tables; what does not bind is an error with its place."""
        import duckdb

        from mlsql.exec.limits import Guardrails
        from mlsql.planner.plan import plan

        prefix = f"mlsql_{self.next_number()}"
        try:
            return plan(resolved, self.context(), prefix,
                        peels=self.peels if peels is None else peels,
                        skips=self.settings.text("on_error") == "skip",
                        limited=Guardrails.any_limit(self.settings))
        except ProgrammingError as error:
            if not isinstance(error.__cause__, duckdb.Error):
                raise
            message = located(str(error), text)
            missing = re.search(r"Scalar Function with name (\w+) does not exist", message)
            if missing and not re.search(rf"\b{missing[1]}\b", text, re.I):
                raise unknown("model", missing[1], self.registry.names(),
                              "which a view asks: register it") from error.__cause__
            if missing:
                message += f"\nModels of this session: {', '.join(self.registry.names())}"
            raise ProgrammingError(message) from error.__cause__

    def _run(
        self, planned: Plan, text: str, owns_transaction: bool, tally: Tally,
        learned: dict[str, Any],
    ) -> Answer:
        """Run a plan; `learned` goes in and out: what models answered, also if this fails."""
        import duckdb

        from mlsql.exec.engine import Engine
        from mlsql.exec.limits import Guardrails
        from mlsql.exec.stage_run import Machinery

        guardrails = self.guardrails = Guardrails(self.settings, tally)
        cache = self.cache() if planned.stores else None
        use = Machinery(self.connection, self.executor(), cache, tally, guardrails,
                        self.progress, self.measured, "order_steps" not in self.rules_off)
        engine = Engine(planned, use, self.measured.learn, owns_transaction, self.leaves_open)
        engine.know(learned)
        try:
            with guardrails.watching(self.stop_now):
                rows = engine.run()
            self.left_open = engine.left_open
        except Exception as error:
            reason = guardrails.reason(error)
            if isinstance(reason, duckdb.Error):
                reason = translated(reason, located(str(reason), text))
            raise reason from error.__cause__ or error
        finally:
            self.guardrails = None
            learned.update(engine.learned())
            if cache is not None:
                cache.flush()
            stats = tally.stats()
            if planned.stores:
                self.last = Answer(stats=stats, errors=tuple(tally.errors))
        specs = {store.spec.name: store.spec for store in planned.stores}
        for model in stats.models:
            if model.model in specs:  # the others ran before, for a sample
                self.measured.ran(specs[model.model], model)
        self.measured.save()
        names, rows = rows if rows is not None else (None, None)
        return Answer(rows, names, stats, tuple(tally.errors),
                      (*planned.notes, *guardrails.notes), bool(planned.stores))

    def _refuse(self, tree: exp.Expr) -> None:
        """Places where DuckDB keeps an expression for later: no model can be asked there."""
        if not self._asks(tree):
            return
        if isinstance(tree, exp.Create) and tree.kind not in ("TABLE", "VIEW"):
            raise NotSupportedError(
                f"CREATE {tree.kind} cannot hold a model call: make it a view")
        if isinstance(tree, exp.Alter) or (
                isinstance(tree, exp.Create) and self._asks(tree.this)):
            raise NotSupportedError("a constraint, default or generated column cannot ask a model")

    def _reads(self, table: exp.Table) -> bool:
        """Whether a source is a media file or a view of ours."""
        return is_media_file(table.name) or self.views.finds(table)

    def _asks(self, tree: exp.Expr) -> bool:
        """Whether a statement calls a function of ours."""
        return any(self.is_call(call.name) for call in tree.find_all(exp.Anonymous))

    def _parsed(self, text: str) -> exp.Expr:
        """The tree of a statement; where it is none, what DuckDB's own parser says of it."""
        import duckdb

        try:
            return parse(text)
        except ProgrammingError:
            try:
                self.connection.extract_statements(text)
            except duckdb.Error as error:
                raise ProgrammingError(str(error)) from error
            raise

    def _as_query(self, tree: exp.Expr) -> None:
        """SUMMARIZE, DESCRIBE and COPY of a source or view of ours are of a query over it."""
        if not isinstance(tree, (exp.Describe, exp.Summarize, exp.Copy)):
            return
        table: exp.Expr = tree.this
        if isinstance(table, exp.Literal):
            table = exp.Table(this=exp.to_identifier(table.name, quoted=True))
        if not isinstance(table, exp.Table) or (isinstance(tree, exp.Copy) and tree.args["kind"]):
            return
        view = self.views.finds(table) and not isinstance(tree, exp.Describe)
        if view or is_media_file(table.name):
            tree.set("this", exp.select("*").from_(table))
        if isinstance(tree.this, exp.Select) and not isinstance(tree, exp.Describe):
            tree.set("this", tree.this.subquery())

    def opened(self, tree: exp.Expr) -> exp.Expr:
        """The statement with views and macros of ours replaced by what they stand for."""
        return self.macros.expand(self.views.expand(self.macros.expand(tree)))

    def forget_catalog(self) -> None:
        """What the catalog holds may have changed."""
        self.views.forget()
        self.macros.forget()

    def described(self, query: exp.Expr) -> duckdb.DuckDBPyRelation:
        """DESCRIBE of a query over media, models or views of ours; nothing of it is run."""
        from mlsql.planner.expand import expand
        from mlsql.planner.names import Names, stub

        sources = self.sources()
        try:
            resolved = sources.resolve(self.opened(_held(query)))
            context = self.context()
            bound = stub(expand(resolved.this, context, Names(context)))
            return held(self.connection.sql(f"DESCRIBE {to_sql(bound)}"))
        finally:
            sources.close()

    def _show(self, statement: Statement) -> Answer:
        words = statement.words(2)
        if words == ["SHOW", "MODELS"]:
            return Answer(self.table_functions["MODELS"]())
        return Answer(self.table_functions["MODELS"](statement.rest(2).strip().strip("'\"")))

    def _change_model(self, statement: Statement, parameters: Parameters) -> Answer:
        from mlsql.exec.model_statements import create_model, drop_model

        wanted = read_model_statement(statement, parameters)
        if isinstance(wanted, DropModel):
            drop_model(self, wanted)
        else:
            create_model(self, wanted)
        return Answer()

    def explain(
        self, wanted: Explain, parameters: Parameters, owns_transaction: bool
    ) -> Answer:
        """The plan of a statement as a table; with ANALYZE, run and measured."""
        from mlsql.exec.explaining import explained

        return explained(self, wanted, parameters, owns_transaction)


def _held(query: exp.Expr) -> exp.Subquery:
    """A copy of a query below another node, so that any part of it can be replaced."""
    return exp.Subquery(this=query.copy())


def _describes_table(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Describe) and isinstance(tree.this, exp.Table)


def _is_ours(statement: Statement) -> bool:
    return statement.words(2) in (["SHOW", "MODELS"], ["DESCRIBE", "MODEL"]) or \
        is_model_statement(statement)


def _given(parameters: Any) -> Any:
    return dict(parameters) if hasattr(parameters, "keys") else list(parameters)
