"""A statement's text made another one: fewer rows, or many sets of values at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlglot.tokenizer_core import Token

from mlsql.errors import ProgrammingError
from mlsql.parser.effects import bare_words, nesting, writes
from mlsql.parser.statements import Statement, one, split

_QUERIES = frozenset({"SELECT", "FROM", "WITH", "VALUES", "(", "PIVOT", "UNPIVOT"})
# What ends a query, so that a LIMIT cannot be put behind it.
_ENDS = frozenset({"LIMIT", "OFFSET", "FETCH", "ERROR", "RECALL", "PRECISION", "ORACLE", "USING"})
_MOST_VALUES = 2000


def limited(sql: str, rows: int, offset: int = 0) -> str:
    """The statement of at most so many of its rows, after so many others."""
    statement = one(sql)
    if not _is_query(statement):
        raise ProgrammingError("limit() is of a query: this statement is none")
    if int(rows) < 0 or int(offset) < 0:
        raise ProgrammingError(f"limit() takes numbers of rows, not {rows} and {offset}")
    clause = f"LIMIT {int(rows)}" + (f" OFFSET {int(offset)}" if offset else "")
    if _ENDS.isdisjoint(bare_words(statement)):
        return f"{statement.text}\n{clause}"
    return f"SELECT * FROM (\n{statement.text}\n) {clause}"


def is_query(sql: str) -> bool:
    """Whether a text is one statement that gives rows and changes nothing."""
    statements = split(sql)
    return len(statements) == 1 and _is_query(statements[0])


def _is_query(statement: Statement) -> bool:
    return not _QUERIES.isdisjoint(statement.words(1)) and not writes(statement)


def at_once(sql: str, sets: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The statements and parameters that do the same as the statement with each of the sets.

    INSERT … VALUES (?, …) is written with many rows of values; others are as many statements.
    """
    places = _one_row_of_values(one(sql))
    if places is None:
        yield from ((sql, given) for given in sets)
        return
    start, end, markers = places
    size = max(1, _MOST_VALUES // max(1, markers))
    sets = iter(sets)
    while block := list(islice(sets, size)):
        if any(not isinstance(given, Sequence) or len(given) != markers for given in block):
            yield from ((sql, given) for given in block)  # the first wrong one says so
            continue
        text = f"{sql[:start]}{', '.join([sql[start:end]] * len(block))}{sql[end:]}"
        yield text, [value for given in block for value in given]


def _one_row_of_values(statement: Statement) -> tuple[int, int, int] | None:
    """Where the row of INSERT INTO … VALUES (…) stands, and its markers; None for all else."""
    tokens = statement.tokens
    words = [token.text.upper() for token in tokens]
    if words[:2] != ["INSERT", "INTO"] or "VALUES" not in words or words[-1] != ")":
        return None
    at = words.index("VALUES")
    row = tokens[at + 1:]
    if words[at + 1: at + 2] != ["("] or _closes(row) != len(row) - 1 or "SELECT" in words:
        return None
    if any(word.startswith(("?", "$")) for word in words[:at]) or "$" in "".join(words[at:]):
        return None
    return row[0].start, row[-1].end + 1, sum(word in ("?", "?::") for word in words[at:])


def _closes(tokens: Sequence[Token]) -> int:
    """Where the parenthesis that opens first is closed."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += nesting(token)
        if not depth:
            return at
    return -1
