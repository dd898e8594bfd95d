"""What is kept under a name: views and macros that ask models, variables set to what one says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.exec.statement import Answer
from mlsql.exec.stores import registered
from mlsql.parser.dialect import to_sql

if TYPE_CHECKING:
    from mlsql.exec.statement import Runner
    from mlsql.parser.macros import CreateMacro
    from mlsql.parser.parameters import Parameters
    from mlsql.parser.statements import Statement


def create_view(runner: Runner, tree: exp.Create, parameters: Parameters) -> Answer:
    """CREATE VIEW over media, models or views of ours."""
    if parameters:
        raise ProgrammingError("a view cannot hold parameters")
    columns = [(row[0], row[1]) for row in runner.described(tree.expression).fetchall()]
    runner.begin_if_waiting()
    runner.connection.execute(runner.views.create(tree, columns, to_sql(tree.expression)))
    runner.forget_catalog()
    return Answer()


def create_macro(runner: Runner, wanted: CreateMacro, parameters: Parameters) -> Answer:
    """CREATE MACRO whose body asks models."""
    if parameters:
        raise ProgrammingError("a macro cannot hold parameters of a statement")
    if runner.is_call(wanted.name) and not runner.macros.knows(wanted.name):
        raise ProgrammingError(f"{wanted.name!r} is a function already: name the macro otherwise")
    runner.begin_if_waiting()
    runner.connection.execute(runner.macros.create(wanted))
    runner.forget_catalog()
    return Answer()


def set_variable(
    runner: Runner, statement: Statement, parameters: Parameters, owns_transaction: bool
) -> Answer:
    """SET VARIABLE name = expression: of the row that the expression alone gives."""
    if statement.words(4)[3:] not in (["="], ["TO"]):
        raise ProgrammingError("SET VARIABLE name = expression: no equals sign was found")
    answer = runner.run(f"SELECT {statement.rest(4)}", parameters, owns_transaction)
    kind = answer.kinds[0] if answer.kinds else answer.rows.types[0]
    rows = answer.rows
    value = rows if hasattr(rows, "schema") else rows.to_arrow_table()
    with registered(runner.connection, "mlsql_value", value):
        runner.connection.execute(f"SET VARIABLE {statement.tokens[2].text} = "
                                  f"(SELECT CAST(COLUMNS(*) AS {kind}) FROM mlsql_value)")
    return Answer(stats=answer.stats, errors=answer.errors, notes=answer.notes,
                  used_models=answer.used_models)
