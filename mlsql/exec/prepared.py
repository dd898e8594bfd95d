"""Prepared statements that ask models: PREPARE keeps the text, EXECUTE gives it its parameters.

DuckDB keeps those that are its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mlsql.exec.statement import Answer, Runner
from mlsql.parser.dialect import parse, to_sql
from mlsql.parser.parameters import Parameters
from mlsql.parser.prepared import Deallocate, Prepare, read_prepared
from mlsql.parser.statements import Statement, number_markers, one, split


@dataclass(frozen=True)
class Call:
    """What an EXECUTE asks to be run."""

    statement: Statement
    parameters: Parameters


class Prepared:
    """The prepared statements of a session that concern its runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._statements: dict[str, Statement] = {}

    def read(self, statement: Statement) -> Call | Answer | None:
        """What to do for a statement about a prepared one of ours; None for any other."""
        named = read_prepared(statement)
        if named is None:
            return None
        if isinstance(named, Prepare):
            return self._prepare(named)
        if named.name not in self._statements:
            return None
        if isinstance(named, Deallocate):
            del self._statements[named.name]
            return Answer()
        return Call(self._statements[named.name], self._values(named.arguments))

    def _prepare(self, named: Prepare) -> Answer | None:
        self._statements.pop(named.name, None)
        if not self._runner.concerns(split(named.inner)):
            return None
        statement = one(named.inner)
        parse(number_markers(statement))
        self._statements[named.name] = statement
        return Answer()

    def _values(self, arguments: str) -> Parameters:
        """The values of EXECUTE, by number or by name, computed by DuckDB."""
        if not arguments:
            return None
        given = parse(f"SELECT f({arguments})").expressions[0].expressions
        names = [a.this.name for a in given if isinstance(a, exp.PropertyEQ)]
        sql = ", ".join(to_sql(a.expression if isinstance(a, exp.PropertyEQ) else a)
                        for a in given)
        values = self._runner.connection.execute(f"SELECT {sql}").fetchall()[0]
        return dict(zip(names, values, strict=True)) if len(names) == len(given) else list(values)
