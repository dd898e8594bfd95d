"""A script as statements: what each one is, before anything is parsed in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from mlsql.errors import ProgrammingError
from mlsql.parser.dialect import WORDS

_REMEMBERED = 8_192  # characters of a script
_MARKERS = (TokenType.PLACEHOLDER, TokenType.QDCOLON)
_OPENS_TRANSACTION = ("BEGIN", "START")
_ENDS_TRANSACTION = ("COMMIT", "END", "ROLLBACK", "ABORT")


@dataclass(frozen=True)
class Statement:
    """One statement of a script: its text, and its tokens (none where it could not be read)."""

    text: str
    tokens: tuple[Token, ...] = ()

    def words(self, count: int) -> list[str]:
        """The first words, in upper case."""
        return [token.text.upper() for token in self.tokens[:count]]

    @property
    def opens_transaction(self) -> bool:
        """Whether it is BEGIN."""
        return self.words(1)[:1] in ([w] for w in _OPENS_TRANSACTION)

    @property
    def ends_transaction(self) -> bool:
        """Whether it is COMMIT or ROLLBACK."""
        return self.words(1)[:1] in ([w] for w in _ENDS_TRANSACTION)

    def rest(self, count: int) -> str:
        """The text after the first words."""
        if len(self.tokens) <= count:
            return ""
        return self.text[self.tokens[count].start - self.tokens[0].start:]

    def mentions(self, is_name: Callable[[str], bool], is_call: Callable[[str], bool]) -> bool:
        """Whether a word or text satisfies `is_name`, or a word before a parenthesis `is_call`."""
        for token, following in zip_longest(self.tokens, self.tokens[1:]):
            called = following is not None and following.token_type == TokenType.L_PAREN
            if (called and is_call(token.text)) or is_name(token.text):
                return True
        return False


def split(script: str) -> list[Statement]:
    """The statements of a script; semicolons in strings, quotes and comments do not count.

    A text that cannot be read as tokens is one statement: DuckDB says what is wrong with it.
    """
    return list(_remembered(script) if len(script) <= _REMEMBERED else _split(script))


@lru_cache(maxsize=256)
def _remembered(script: str) -> list[Statement]:
    """Programs say the same thing again and again, and reading it takes a millisecond or two."""
    return _split(script)


def _split(script: str) -> list[Statement]:
    try:
        tokens = WORDS.tokenize(script)
    except TokenError:
        return [Statement(script)]
    statements: list[Statement] = []
    current: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            _close(script, current, statements)
            current = []
        else:
            current.append(token)
    _close(script, current, statements)
    return statements


def _close(script: str, tokens: list[Token], statements: list[Statement]) -> None:
    if tokens:
        text = script[tokens[0].start: tokens[-1].end + 1]
        statements.append(Statement(text, tuple(tokens)))


def number_markers(statement: Statement) -> str:
    """The text with each ? as $1, $2 … in the order they stand."""
    base = statement.tokens[0].start if statement.tokens else 0
    text, done, count = "", 0, 0
    for token in statement.tokens:
        # A cast of a marker (?::) is one operator to sqlglot.
        if token.token_type in _MARKERS and token.text in ("?", "?::"):
            count += 1
            start = token.start - base
            text += statement.text[done:start] + f"${count}"
            done = start + 1
    return text + statement.text[done:]


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [ANALYZE] [VERBOSE] [(FORMAT JSON)] and the statement that it is about."""

    inner: str
    analyze: bool = False
    verbose: bool = False
    json: bool = False


def read_explain(statement: Statement) -> Explain | None:
    """The parts of an EXPLAIN, None for any other statement."""
    words = statement.words(12)
    if words[:1] != ["EXPLAIN"]:
        return None
    place, options = 1, []
    if words[1:2] == ["("]:
        place = words.index(")") + 1 if ")" in words else 1
        options = words[2: place - 1]
    while words[place: place + 1] in (["ANALYZE"], ["VERBOSE"]):
        options.append(words[place])
        place += 1
    return Explain(statement.rest(place), "ANALYZE" in options, "VERBOSE" in options,
                   "JSON" in options)


@dataclass(frozen=True)
class SetOption:
    """SET name = value or RESET name (value None)."""

    name: str
    value: str | None


def read_set(statement: Statement) -> SetOption | None:
    """A SET or RESET of one plain name, else None."""
    words = statement.words(3)
    if words[:1] not in (["SET"], ["RESET"]):
        return None
    place = 2 if words[1:2] in (["SESSION"], ["GLOBAL"], ["LOCAL"]) else 1
    tokens = statement.tokens[place:]
    if not tokens:
        return None
    if words[0] == "RESET":
        return SetOption(tokens[0].text, None)
    if len(tokens) < 3 or tokens[1].text.upper() not in ("=", "TO"):
        return None
    return SetOption(tokens[0].text, _value(tokens[2:]))


def _value(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def one(script: str) -> Statement:
    """The only statement of a text."""
    statements = split(script)
    if len(statements) != 1:
        raise ProgrammingError(f"one statement is wanted, not {len(statements)}")
    return statements[0]
