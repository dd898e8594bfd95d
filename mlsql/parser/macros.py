"""CREATE MACRO as it is written: its head, its parameters with their defaults, its body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mlsql.errors import NotSupportedError, ProgrammingError
from mlsql.parser.dialect import parse
from mlsql.parser.statements import Statement

_BEFORE = {"OR", "REPLACE", "TEMP", "TEMPORARY"}


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters, each with its default where it has one, and its body's text."""

    name: str
    parameters: tuple[tuple[str, str | None], ...]
    body: str
    is_table: bool

    @property
    def shown(self) -> str:
        """How it is called, for messages."""
        given = (name if default is None else f"{name} := {default}"
                 for name, default in self.parameters)
        return f"{self.name}({', '.join(given)})"

    def expression(self) -> exp.Expr:
        """The body as a tree of its own: a query, or an expression."""
        tree = parse(self.body if self.is_table else f"SELECT {self.body}")
        if self.is_table:
            return tree
        (item,) = tree.expressions
        return exp.paren(item.unalias().copy(), copy=False)


@dataclass(frozen=True)
class CreateMacro:
    """CREATE MACRO: the text up to the name, the name, and the text from the parameters on."""

    head: str
    name: str
    definition: str


def read_create_macro(statement: Statement) -> CreateMacro | None:
    """The parts of a CREATE MACRO or CREATE FUNCTION, None for any other statement."""
    words = statement.words(12)
    if words[:1] != ["CREATE"]:
        return None
    place = 1
    while words[place : place + 1] and words[place] in _BEFORE:
        place += 1
    if words[place : place + 1] not in (["MACRO"], ["FUNCTION"]):
        return None
    opening = next((i for i, token in enumerate(statement.tokens)
                    if token.token_type == TokenType.L_PAREN), None)
    if opening is None:
        raise ProgrammingError("CREATE MACRO name(parameters) AS …: no parenthesis was found")
    start = statement.tokens[0].start
    at = statement.tokens[opening].start - start
    return CreateMacro(statement.text[:at], statement.tokens[opening - 1].text,
                       statement.text[at:])


def read_macro(name: str, definition: str, tokens: tuple[Token, ...]) -> Macro:
    """The macro of that name and definition, '(x, y := 2) AS body' or '… AS TABLE query'."""
    closing = _closing(tokens)
    rest = tokens[closing + 1 :]
    if not rest or rest[0].text.upper() != "AS" or len(rest) < 2:
        raise ProgrammingError(f"CREATE MACRO {name}(parameters) AS …: no AS was found")
    is_table = rest[1].text.upper() == "TABLE"
    body = rest[2:] if is_table else rest[1:]
    if not body:
        raise ProgrammingError(f"CREATE MACRO {name}: it has no body")
    if not is_table and any(t.token_type == TokenType.COMMA for t, deep in _depths(body)
                            if not deep):
        raise NotSupportedError(
            f"CREATE MACRO {name}: a macro that asks a model has one definition")
    parameters = tuple(_parameter(part, definition) for part in _parts(tokens[1:closing]))
    return Macro(name, parameters, definition[body[0].start :], is_table)


def _closing(tokens: tuple[Token, ...]) -> int:
    for place, (token, deep) in enumerate(_depths(tokens)):
        if token.token_type == TokenType.R_PAREN and not deep:
            return place
    raise ProgrammingError("CREATE MACRO: the parenthesis of its parameters is not closed")


def _depths(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, int]]:
    """The tokens, each with how many parentheses of any kind are open behind it."""
    deep = 0
    for token in tokens:
        deep += token.text in ("(", "[", "{")
        deep -= token.text in (")", "]", "}")
        yield token, deep


def _parts(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    parts: list[list[Token]] = [[]]
    for token, deep in _depths(tokens):
        if token.token_type == TokenType.COMMA and not deep:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts if part]


def _parameter(tokens: tuple[Token, ...], text: str) -> tuple[str, str | None]:
    """A parameter's name, and the text of its default."""
    at = next((i for i, token in enumerate(tokens) if token.text in (":=", "=>", "=")), None)
    if at is None or at + 1 >= len(tokens):
        return tokens[0].text.lower(), None
    return tokens[0].text.lower(), text[tokens[at + 1].start : tokens[-1].end + 1]
