"""A statement with a target: recognised, priced, and answered from a sample, or left to exact."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mlsql.errors import NotSupportedError, ProgrammingError, Warning
from mlsql.exec.approximate.report import Approximation
from mlsql.exec.approximate.targets import Targets, targets
from mlsql.exec.limits import Guardrails
from mlsql.exec.stage_run import Machinery
from mlsql.exec.tally import Tally
from mlsql.parser.accuracy import Accuracy
from mlsql.planner.approximate import (
    Aggregates,
    Selection,
    Uncertified,
    aggregates_models,
    recognise,
    selects_by_models,
)
from mlsql.planner.bounds_of_items import without_bounds
from mlsql.planner.expand import expand
from mlsql.planner.headings import name_items
from mlsql.planner.names import Names
from mlsql.planner.trees import calls_models
from mlsql.udfs.function import ModelOutput

if TYPE_CHECKING:
    from mlsql.exec.statement import Answer, Runner
    from mlsql.udfs.spec import ModelSpec

Shape = Aggregates | Selection


def approximate(
    runner: Runner, resolved: exp.Expr, text: str, owns_transaction: bool,
    clause: Accuracy | None,
) -> Answer | None:
    """The answer from a sample; None where the statement is to run exactly, warned of if asked.

    `resolved` is the statement over tables, not expanded; it is left as it is.
    """
    wanted = targets(clause, runner.settings)
    try:
        shape = read(runner, resolved, wanted)
    except Uncertified as reason:
        if clause is not None:
            uncertified(runner, str(reason))
        return None
    if shape is None:
        return None
    return Run(runner, shape, wanted, text, owns_transaction).answer()


def uncertified(runner: Runner, reason: str) -> None:
    """Warn that a statement runs exactly, or refuse it, as the setting says."""
    message = f"the target cannot be certified ({reason})"
    if runner.settings.text("on_uncertified") == "refuse":
        raise NotSupportedError(f"{message}; SET on_uncertified = 'exact' would run it exactly")
    warnings.warn(f"{message}: the answer is exact", Warning, stacklevel=2)


def read(runner: Runner, resolved: exp.Expr, wanted: Targets) -> Shape | None:
    """The statement as something a sample can answer; None where its targets are not for it."""
    context = runner.context()
    try:
        tree = resolved.copy()
        names = Names(context)
        bare = without_bounds(tree.copy())
        name_items(bare, context)
        _rename(tree, bare)
        tree = expand(tree, context, names)
    except ProgrammingError:
        return None  # the exact plan says what is wrong, and where
    if not calls_models(tree):
        raise Uncertified("no model is asked")
    likeliest = runner.settings.text("limit_takes") == "likeliest"
    if likeliest and selects_by_models(tree, context) and tree.args.get("limit") is not None:
        found = recognise(tree, context, names)
        if isinstance(found, Selection) and found.limit is not None:
            return found
    if aggregates_models(tree, context):
        if wanted.error is None and wanted.agreement is not None:
            return None
        if wanted.error is None and wanted.oracle_limit is None:
            raise Uncertified("RECALL and PRECISION targets are for selections: "
                              "an aggregate takes ERROR WITHIN")
        if runner.settings.text("on_error") == "skip":
            raise Uncertified("on_error = 'skip' may lose rows")
        return recognise(tree, context, names)
    if wanted.agreement is not None:
        stops = tree.args.get("limit") is not None
        selection = None if stops else recognise(tree, context, names)
        return selection if isinstance(selection, Selection) else None
    if wanted.recall is None and wanted.precision is None and wanted.error is None:
        raise Uncertified("ORACLE LIMIT wants a target beside it")
    if wanted.recall is None and wanted.precision is None:
        if wanted.stated and wanted.error is not None:
            raise Uncertified("ERROR WITHIN is for AVG, SUM and COUNT: "
                              "a selection takes RECALL TARGET or PRECISION TARGET")
        return None
    if not selects_by_models(tree, context):
        raise Uncertified("no condition of WHERE asks a model")
    return recognise(tree, context, names)


def _rename(tree: exp.Expr, named: exp.Expr) -> None:
    """Give the items of `tree` the headings of `named`; those with CI_LOW keep their own text."""
    if not isinstance(tree, exp.Select) or not isinstance(named, exp.Select):
        return
    for item, other in zip(list(tree.expressions), named.expressions, strict=True):
        if isinstance(other, exp.Alias) and not isinstance(item, exp.Alias):
            bounded = any(c.name.upper() in ("CI_LOW", "CI_HIGH")
                          for c in item.find_all(exp.Anonymous))
            name = item.meta.get("written") if bounded else None
            hole = exp.Null()
            item.replace(hole)
            hole.replace(exp.alias_(item, name or other.alias, quoted=True, copy=False))


class Run:
    """One statement that runs on a sample."""

    def __init__(
        self, runner: Runner, shape: Shape, wanted: Targets, text: str, owns_transaction: bool
    ) -> None:
        self.runner, self.shape, self.targets, self.text = runner, shape, wanted, text
        self.owns = owns_transaction
        self.tally = Tally()
        runner.progress.follow(self.tally)
        self.guardrails = Guardrails(runner.settings, self.tally)
        self.cache = runner.cache()
        self.use = Machinery(runner.connection, runner.executor(), self.cache, self.tally,
                             self.guardrails, runner.progress)

    def answer(self) -> Answer | None:
        """Draw, label, and give the rows with how they were obtained."""
        from mlsql.exec.statement import Answer

        self.runner.guardrails = self.guardrails
        failed = True
        try:
            with self.guardrails.watching(self.runner.stop_now):
                found = self._found()
            failed = False
        except Uncertified as reason:
            uncertified(self.runner, str(reason))
            return None
        except Exception as error:
            reason_ = self.guardrails.reason(error)
            raise reason_ from error.__cause__ or error
        finally:
            self.runner.guardrails = None
            if self.cache is not None:
                self.cache.flush()
            stats = self.tally.stats()
            if failed:
                self.runner.last = Answer(stats=stats, errors=tuple(self.tally.errors))
        if found is None:
            return None
        names, rows, report, notes = found
        specs = self.specs()
        for model in stats.models:
            self.runner.measured.ran(specs[model.model], model)
        report = replace(report, calls=stats.calls)
        answer = Answer(rows, names, stats, tuple(self.tally.errors), notes, True, report)
        self.runner.last = answer
        return answer

    def specs(self) -> dict[str, ModelSpec]:
        """The models that the statement asks, by name."""
        trees = [self.shape.final, *self.expressions()]
        return {c.spec.name: c.spec for tree in trees for c in tree.find_all(ModelOutput)}

    def expressions(self) -> list[exp.Expr]:
        """What the oracle is asked of a row."""
        if isinstance(self.shape, Aggregates):
            from mlsql.exec.approximate.aggregate import expressions

            return expressions(self.shape)
        return [self.shape.judgement.label, *self.shape.judgement.values]

    def _found(self) -> tuple[tuple[str, ...], Any, Approximation, tuple[str, ...]] | None:
        if isinstance(self.shape, Aggregates):
            from mlsql.exec.approximate.aggregates import answer_aggregates

            return answer_aggregates(self, self.shape)
        from mlsql.exec.approximate.selection import answer_selection

        return answer_selection(self, self.shape)
