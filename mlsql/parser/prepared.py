"""PREPARE, EXECUTE and DEALLOCATE, as far as their words go."""

from __future__ import annotations

from dataclasses import dataclass

from mlsql.errors import ProgrammingError
from mlsql.parser.statements import Statement


@dataclass(frozen=True)
class Prepare:
    """PREPARE name AS statement."""

    name: str
    inner: str


@dataclass(frozen=True)
class Execute:
    """EXECUTE name, with the text of what stands in the parentheses, if anything does."""

    name: str
    arguments: str = ""


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE [PREPARE] name."""

    name: str


def read_prepared(statement: Statement) -> Prepare | Execute | Deallocate | None:
    """What a statement says of a prepared one; None for any other statement."""
    words = statement.words(3)
    if words[:1] == ["PREPARE"] and words[2:3] == ["AS"]:
        return Prepare(_name(statement, 1), statement.rest(3))
    if words[:1] == ["EXECUTE"] and len(words) > 1:
        return Execute(_name(statement, 1), _arguments(statement))
    if words[:1] == ["DEALLOCATE"] and len(words) > 1:
        return Deallocate(_name(statement, 2 if words[1] == "PREPARE" else 1))
    return None


def _name(statement: Statement, place: int) -> str:
    return statement.tokens[place].text.lower() if len(statement.tokens) > place else ""


def _arguments(statement: Statement) -> str:
    rest = statement.rest(2).strip()
    if not rest:
        return ""
    if not rest.startswith("(") or not rest.endswith(")"):
        raise ProgrammingError("EXECUTE name (value, ...): the values stand in parentheses")
    return rest[1:-1].strip()
