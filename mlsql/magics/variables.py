"""What a statement takes from the notebook: text for {{x}}, values for :x.

The session itself finds the DataFrames that a FROM names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from mlsql.errors import ProgrammingError, unknown
from mlsql.parser.statements import split

_INSERTED = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_AFTER_VALUE = (
    TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.R_PAREN,
    TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.BYTE_STRING)


def inserted(sql: str, names: Mapping[str, Any]) -> str:
    """The text with each {{expression}} replaced by its value; what is no Python stays."""
    return _INSERTED.sub(lambda found: _value(found, names), sql)


def _value(found: re.Match[str], names: Mapping[str, Any]) -> str:
    try:
        code = compile(found[1].strip(), "{{…}}", "eval")
    except SyntaxError:
        return found[0]
    try:
        return str(eval(code, dict(names)))
    except NameError as error:
        name = error.name or found[1]
        raise unknown("variable", name, _public(names), f"in {found[0]}") from None
    except Exception as error:
        raise ProgrammingError(f"{found[0]}: {type(error).__name__}: {error}") from error


def bound(sql: str, names: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """One statement with each :name as $name, and the values of these; None where there are none.

    A colon after a value is a slice, a key or an alias, and stays as it is.
    """
    text, done = "", 0
    values: dict[str, Any] = {}
    for mark, name in _markers(_tokens(sql)):
        if name.text not in names:
            raise unknown("variable", name.text, _public(names), f"in {mark.text}{name.text}")
        values[name.text] = _bindable(names[name.text])
        text += f"{sql[done:mark.start]}$"
        done = mark.start + 1
    return text + sql[done:], values or None


def _markers(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, Token]]:
    """The marks : and $ before a name, each with that name."""
    for at in range(len(tokens) - 1):
        mark, name = tokens[at], tokens[at + 1]
        if name.start != mark.start + 1 or not name.text.isidentifier():
            continue
        if name.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        named = mark.token_type == TokenType.COLON and not _follows_value(tokens[:at], mark)
        if named or mark.token_type == TokenType.PARAMETER:
            yield mark, name


def _follows_value(before: tuple[Token, ...], mark: Token) -> bool:
    if not before:
        return False
    last = before[-1]
    if last.token_type in _AFTER_VALUE:
        return True
    if last.token_type == TokenType.L_BRACKET:  # a slice from the start, or a list
        return len(before) > 1 and before[-2].token_type in _AFTER_VALUE
    return last.end + 1 == mark.start and last.text.isidentifier()


def _bindable(value: Any) -> Any:
    """The value as SQL takes it: a picture as its handle, a path as its text."""
    from mlsql.image import Image

    if isinstance(value, Image):
        return {"uri": value.uri, "frame": value.frame, "data": value.data}
    return str(value) if hasattr(value, "__fspath__") else value


def _tokens(sql: str) -> tuple[Token, ...]:
    """The tokens of a statement, none where it cannot be read: DuckDB says why."""
    return tuple(token for statement in split(sql) for token in statement.tokens)


def _public(names: Mapping[str, Any]) -> list[str]:
    return [name for name in names if not name.startswith("_")]
