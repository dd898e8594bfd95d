"""CREATE MODEL and DROP MODEL, read."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from mlsql.errors import ProgrammingError
from mlsql.parser.dialect import parse
from mlsql.parser.parameters import Parameters, bind
from mlsql.parser.statements import Statement

CREATE = "CREATE [OR REPLACE] MODEL [IF NOT EXISTS] name FROM 'file' WITH (task => …, …)"
DROP = "DROP MODEL [IF EXISTS] name"


@dataclass(frozen=True)
class CreateModel:
    """CREATE MODEL: the file and the options as expressions, to be evaluated by DuckDB."""

    name: str
    source: exp.Expr
    options: dict[str, exp.Expr] = field(default_factory=dict)
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropModel:
    """DROP MODEL."""

    name: str
    if_exists: bool = False


def is_model_statement(statement: Statement) -> bool:
    """Whether it is CREATE MODEL or DROP MODEL, however it goes on."""
    words = statement.words(4)
    return words[:2] in (["CREATE", "MODEL"], ["DROP", "MODEL"]) or \
        words == ["CREATE", "OR", "REPLACE", "MODEL"]


def read_model_statement(
    statement: Statement, parameters: Parameters
) -> CreateModel | DropModel:
    """The parts of the statement; one that goes on otherwise is an error with its form."""
    words = statement.words(len(statement.tokens))
    if words[0] == "DROP":
        return _drop(statement, words)
    place = words.index("MODEL") + 1
    careful = words[place:place + 3] == ["IF", "NOT", "EXISTS"]
    place += 3 * careful
    if words[place + 1:place + 2] != ["FROM"] or len(words) < place + 3:
        raise ProgrammingError(f"the statement is {CREATE}")
    replace = words[1] == "OR"
    if replace and careful:
        raise ProgrammingError("OR REPLACE and IF NOT EXISTS exclude each other")
    source, options = _source(statement, words, place + 2, parameters)
    return CreateModel(statement.tokens[place].text, source, options, replace, careful)


def _drop(statement: Statement, words: list[str]) -> DropModel:
    careful = words[2:4] == ["IF", "EXISTS"]
    place = 4 if careful else 2
    if len(words) != place + 1:
        raise ProgrammingError(f"the statement is {DROP}")
    return DropModel(statement.tokens[place].text, careful)


def _source(
    statement: Statement, words: list[str], place: int, parameters: Parameters
) -> tuple[exp.Expr, dict[str, exp.Expr]]:
    """The file and the options, read as the arguments of a call."""
    last = words[-1] == ")"
    start = next((i for i in range(place, len(words) - 1)
                  if words[i] == "WITH" and words[i + 1] == "("
                  and statement.tokens[i].token_type == TokenType.WITH), None)
    if start is None or not last:
        if len(words) > place + 2:
            raise ProgrammingError(f"the statement is {CREATE}")
        source, inside = statement.rest(place), ""
    else:
        source = _between(statement, place, start)
        inside = _between(statement, start + 2, len(words) - 1)
    call = f"SELECT mlsql_model({source}{', ' if inside.strip() else ''}{inside})"
    tree = bind(parse(call), parameters)
    arguments = list(tree.expressions[0].expressions)
    return arguments[0], {_name(node): node.expression for node in arguments[1:]}


def _between(statement: Statement, first: int, last: int) -> str:
    base = statement.tokens[0].start
    return statement.text[statement.tokens[first].start - base:
                          statement.tokens[last].start - base]


def _name(node: exp.Expr) -> str:
    if not isinstance(node, (exp.Kwarg, exp.PropertyEQ, exp.EQ)):
        raise ProgrammingError(f"an option is written name => value: the statement is {CREATE}")
    return str(node.this.name).lower()
