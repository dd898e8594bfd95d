"""What a statement does to the database, told from its words alone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

from mlsql.parser.statements import Statement

_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})
_LEAVES_ALONE = frozenset({
    "SELECT", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "SUMMARIZE", "PIVOT",
    "PIVOT_WIDER", "UNPIVOT", "SET", "RESET", "PRAGMA", "USE", "LOAD", "INSTALL", "ATTACH",
    "DETACH", "CHECKPOINT", "FORCE", "VACUUM", "EXPORT", "PREPARE", "DEALLOCATE",
    "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT",
})


def writes(statement: Statement) -> bool:
    """Whether it may change what a database holds, so that a transaction should stand around it.

    What is not known to leave everything alone may.
    """
    words = statement.words(4)
    if not words or words[1:2] == ["MODEL"] or words[1:4] == ["OR", "REPLACE", "MODEL"]:
        return False
    if words[0] in ("WITH", "(", "EXPLAIN"):
        runs = words[0] != "EXPLAIN" or "ANALYZE" in words
        return runs and any(word in _CHANGES for word in bare_words(statement))
    if words[0] == "COPY":
        return "TO" not in list(bare_words(statement))
    return words[0] not in _LEAVES_ALONE


def counts_changes(statement: Statement) -> bool:
    """Whether its only row says how many rows it changed: nobody asked it for any."""
    words = list(bare_words(statement))
    if "RETURNING" in words or not words:
        return False
    if words[0] == "WITH":
        return any(word in _CHANGES for word in words)
    return words[0] in _CHANGES | {"CREATE", "COPY", "TRUNCATE"}


def bare_words(statement: Statement) -> Iterator[str]:
    """The words outside parentheses, in upper case, without texts and quoted names."""
    depth = 0
    for token in statement.tokens:
        depth += nesting(token)
        if not depth and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
            yield token.text.upper()


def nesting(token: Token) -> int:
    """1 for a parenthesis that opens, -1 for one that closes."""
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
