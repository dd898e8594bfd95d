"""The columns that a sampled row must have for its label and values to be computed from it."""

from __future__ import annotations

from sqlglot import exp

from mlsql.parser.dialect import to_sql
from mlsql.planner.names import Names
from mlsql.planner.trees import calls_models
from mlsql.planner.tried import tried
from mlsql.udfs.function import ModelOutput


class RowColumns:
    """Collects the columns of a population while expressions are written over them."""

    def __init__(self, names: Names, scope: exp.Select) -> None:
        self._names = names
        self._scope = scope
        self._by_text: dict[str, str] = {}
        self.columns: list[tuple[str, exp.Expr]] = []
        self.arguments: list[str] = []

    def column(self, node: exp.Expr, letter: str) -> str:
        """The name of the column that holds an expression of the scope."""
        text = to_sql(node)
        if text not in self._by_text:
            name = f"{letter}{len(self.columns)}"
            self._by_text[text] = name
            self.columns.append((name, node.copy()))
            if letter == "a":
                self.arguments.append(name)
        return self._by_text[text]

    def over(self, node: exp.Expr) -> exp.Expr:
        """The expression over the population's columns; models' arguments are columns, too."""
        held = exp.Paren(this=node.copy())
        for call in list(held.find_all(ModelOutput)):
            if not calls_models(call.this) and call.this.find(exp.Column):
                call.set("this", exp.column(self.column(call.this, "a")))
        done = {name for name, _ in self.columns}
        for column in list(held.find_all(exp.Column)):
            if isinstance(column.parent, ModelOutput) and column.name in done:
                continue
            if not _is_parameter(column):
                column.replace(exp.column(self.column(column, "x")))
        written: exp.Expr = held.this
        return written.pop()

    def tried(self, node: exp.Expr) -> exp.Expr:
        """The expression, NULL where it would raise."""
        return tried(node)


def _is_parameter(column: exp.Column) -> bool:
    """Whether a column is the parameter of a lambda around it."""
    first = column.parts[0].name
    around = column.find_ancestor(exp.Lambda, exp.Comprehension)
    while around is not None:
        if any(p.name == first for p in around.expressions):
            return True
        around = around.find_ancestor(exp.Lambda, exp.Comprehension)
    return False
