"""The accuracy clauses at the end of a statement: what they say, and the statement without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from mlsql.errors import ProgrammingError
from mlsql.parser.dialect import caret
from mlsql.parser.statements import Statement


@dataclass(frozen=True)
class Accuracy:
    """What a statement says of its accuracy; None where it says nothing.

    `error` is a half-width, in the units of the result or, if `relative`, as a share of it.
    `recall`, `precision` and `confidence` are shares; `checked` is whether the oracle model looks
    at every row that a recall target returns; `oracle_limit` is the most calls it may be asked.
    """

    error: float | None = None
    relative: bool = False
    recall: float | None = None
    precision: float | None = None
    confidence: float | None = None
    checked: bool = True
    oracle_limit: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether any target is given."""
        return self.error is not None or self.recall is not None or self.precision is not None


_STARTS = (("ERROR", "WITHIN"), ("RECALL", "TARGET"), ("PRECISION", "TARGET"), ("ORACLE", "LIMIT"))


def has_accuracy(statement: Statement) -> bool:
    """Whether a statement ends in accuracy clauses."""
    return _start(statement.tokens) is not None


def split_accuracy(statement: Statement) -> tuple[str, Accuracy | None]:
    """The text without its accuracy clauses, and what they say; None where there are none.

    A clause that makes no sense is a ProgrammingError with a caret under the word.
    """
    start = _start(statement.tokens)
    if start is None:
        return statement.text, None
    base = statement.tokens[0].start
    end = statement.tokens[start - 1].end + 1 - base
    return statement.text[:end], _Reader(statement, start).read()


def _start(tokens: Sequence[Token]) -> int | None:
    """The first token of the clauses: a pair of their words, outside parentheses, and a number."""
    depth = 0
    for i in range(len(tokens) - 1, 0, -1):
        kind = tokens[i].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth < 0:
            return None
        if depth == 0 and _pair(tokens, i) in _STARTS and _numeric(tokens, i + 2):
            earlier = _start(tokens[:i])
            return i if earlier is None else earlier
    return None


def _pair(tokens: Sequence[Token], i: int) -> tuple[str, ...]:
    return tuple(t.text.upper() for t in tokens[i: i + 2]
                 if t.token_type not in (TokenType.STRING, TokenType.IDENTIFIER))


def _numeric(tokens: Sequence[Token], i: int) -> bool:
    if i < len(tokens) and tokens[i].token_type in (TokenType.DASH, TokenType.PLUS):
        i += 1
    if i < len(tokens) and tokens[i].token_type == TokenType.DOT:  # .9 is a dot and a number
        i += 1
    return i < len(tokens) and tokens[i].token_type == TokenType.NUMBER


class _Reader:
    """Reads the clauses one after the other."""

    def __init__(self, statement: Statement, start: int) -> None:
        self._statement = statement
        self._tokens = statement.tokens
        self._at = start
        self._said = Accuracy()

    def read(self) -> Accuracy:
        while self._at < len(self._tokens):
            clause = _CLAUSES.get(_pair(self._tokens, self._at))
            if clause is None:
                self._fail("an accuracy clause is wanted here: ERROR WITHIN, RECALL TARGET, "
                           "PRECISION TARGET, AT CONFIDENCE or ORACLE LIMIT")
            self._at += 2
            clause(self)
        if not self._said.wanted and self._said.confidence is not None:
            self._fail("AT CONFIDENCE wants a target before it", back=1)
        return self._said

    def error(self) -> None:
        self._once("error")
        place = self._at
        value, percent = self._number()
        if value <= 0:
            self._fail("ERROR WITHIN takes a number above 0", at=place)
        relative = self._word("RELATIVE") or percent
        self._said = replace(self._said, error=value / 100 if percent else value,
                             relative=relative)

    def recall(self) -> None:
        self._once("recall")
        self._said = replace(self._said, recall=self._share("RECALL TARGET", closed=True))
        if self._word("UNCHECKED"):
            self._said = replace(self._said, checked=False)
        else:
            self._word("CHECKED")

    def precision(self) -> None:
        self._once("precision")
        self._said = replace(self._said, precision=self._share("PRECISION TARGET", closed=True))

    def confidence(self) -> None:
        place, share = self._at, self._share("AT CONFIDENCE", closed=False)
        if self._said.confidence not in (None, share):
            self._fail("one confidence goes with all targets of a statement", at=place)
        self._said = replace(self._said, confidence=share)

    def oracle(self) -> None:
        self._once("oracle_limit")
        place = self._at
        value, percent = self._number()
        if percent or value < 1 or value != int(value):
            self._fail("ORACLE LIMIT takes a whole number of calls, at least 1", at=place)
        self._said = replace(self._said, oracle_limit=int(value))

    def _share(self, clause: str, closed: bool) -> float:
        """A share, written as .95 or 95%; 95 alone would be guesswork."""
        place = self._at
        value, percent = self._number()
        share = value / 100 if percent else value
        if not 0 < share < 1 and not (closed and share == 1):
            self._fail(f"{clause} takes a share between 0 and 1, such as 0.95 or 95%", at=place)
        return share

    def _number(self) -> tuple[float, bool]:
        if not _numeric(self._tokens, self._at):
            self._fail("a number is wanted here")
        sign = -1.0 if self._word("-") else 1.0
        self._word("+")
        point = "." if self._word(".") else ""
        value = sign * float(point + self._tokens[self._at].text.replace("_", ""))
        self._at += 1
        return value, self._word("%") or self._word("PERCENT")

    def _word(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at].text.upper() == text
        self._at += found
        return found

    def _once(self, field: str) -> None:
        if getattr(self._said, field) is not None:
            self._fail("this clause is there already", back=2)

    def _fail(self, what: str, at: int | None = None, back: int = 0) -> NoReturn:
        place = min((self._at if at is None else at) - back, len(self._tokens) - 1)
        base = self._tokens[0].start
        text, start = self._statement.text, self._tokens[place].start - base
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        raise ProgrammingError(f"syntax error at line {line}, column {column}: {what}\n"
                               f"{caret(text, line, column)}")


_CLAUSES: dict[tuple[str, ...], Callable[[_Reader], None]] = {
    ("ERROR", "WITHIN"): _Reader.error,
    ("RECALL", "TARGET"): _Reader.recall,
    ("PRECISION", "TARGET"): _Reader.precision,
    ("AT", "CONFIDENCE"): _Reader.confidence,
    ("ORACLE", "LIMIT"): _Reader.oracle,
}
