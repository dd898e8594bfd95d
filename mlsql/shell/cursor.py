"""What stands at the cursor of a statement that is being typed, told without a parser.

A statement in the making does not parse; its tokens and open brackets say enough.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*(?P<ended>\n)?|/\*.*?(?:\*/|\Z))
    | (?P<string>[eE]?'(?P<text>(?:[^']|'')*)(?P<closed>')?)
    | (?P<quoted>"(?:[^"]|"")*"?)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>\w[\w$]*)
    | (?P<arrow>=>|:=)
    | (?P<mark>[^\s])
    """,
    re.VERBOSE | re.DOTALL)
_MODEL = re.compile(r"\bmodel\s*(?:=>|:=)\s*'([^']*)'", re.IGNORECASE)


@dataclass
class Frame:
    """An open bracket: the function before it, the argument that the cursor is in, its option."""

    bracket: str
    function: str = ""
    argument: int = 0
    option: str = ""
    words: list[str] = field(default_factory=list)
    model: str | None = None


@dataclass(frozen=True)
class Cursor:
    """The place at the end of a text.

    `inside` is 'string', 'code' or 'nothing' (a comment, a dollar quote); `prefix` is what stands
    there of the present word or string, `qualifier` the name before its point, `before` the words
    before it, in upper case. `frame` is the innermost call around it.
    """

    inside: str
    prefix: str = ""
    qualifier: str = ""
    before: tuple[str, ...] = ()
    frame: Frame | None = None
    tables: tuple[str, ...] = ()


def at_end(text: str, after: str = "") -> Cursor:
    """What the end of `text` is; `after` is what follows it, where an option may stand."""
    frames: list[Frame] = []
    words: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            position += 1
            continue
        kind, last = match.lastgroup, match.end() == len(text)
        if match["comment"]:
            if last and not match["ended"] and not match[0].endswith("*/"):
                return Cursor("nothing")
        elif match["dollar"]:
            close = text.find(match["dollar"], match.end())
            if close < 0:
                return Cursor("nothing")
            position = close + len(match["dollar"])
            continue
        elif match["string"]:
            if not match["closed"]:
                return Cursor("string", match["text"], "", tuple(words[-3:]),
                              _call(frames, after), _sources(words))
            _note(frames, words, f"'{match['text']}'")
        elif match["word"] and last:
            qualifier = words[-2] if words[-1:] == ["."] and len(words) > 1 else ""
            return Cursor("code", match["word"], qualifier, tuple(words[-3:]),
                          _call(frames, after), _sources(words))
        elif kind is not None:
            _take(frames, words, match[0])
        position = match.end()
    qualifier = words[-2] if words[-1:] == ["."] and len(words) > 1 else ""
    return Cursor("code", "", qualifier, tuple(words[-3:]), _call(frames, after), _sources(words))


def _take(frames: list[Frame], words: list[str], token: str) -> None:
    """A token that is no string: brackets open and close calls, commas part arguments."""
    if token in "([{":
        frames.append(Frame(token, words[-1].upper() if token == "(" and words else ""))
    elif token in ")]}":
        if frames:
            frames.pop()
    elif token == ";":
        frames.clear()
        words.clear()
        return
    elif token == "," and frames:
        frames[-1].argument += 1
        frames[-1].option = ""
    elif token in ("=>", ":=") and frames and words:
        frames[-1].option = words[-1].lower()
    _note(frames, words, token)


def _note(frames: list[Frame], words: list[str], token: str) -> None:
    words.append(token.strip('"') if token.startswith('"') else token)
    if frames and token.startswith("'") and frames[-1].option == "model":
        frames[-1].model = token.strip("'")


def _call(frames: Sequence[Frame], after: str) -> Frame | None:
    """The call around the cursor, even from inside a list; its model may stand on either side."""
    for frame in reversed(frames):
        if frame.bracket == "(":
            if frame.model is None:
                named = _MODEL.search(_rest(after))
                frame.model = named[1] if named else None
            return frame
        if frame.bracket != "[":
            return None
    return None


def _rest(after: str) -> str:
    """What follows of the present call: up to the bracket that closes it."""
    depth = 0
    for position, character in enumerate(after):
        depth += (character in "([") - (character in ")")
        if depth < 0:
            return after[:position]
    return after


def _sources(words: Sequence[str]) -> tuple[str, ...]:
    """The tables and files after FROM and JOIN, so far."""
    found = []
    for before, word in pairwise(words):
        if before.upper() in ("FROM", "JOIN", "UPDATE", "INTO", "TABLE", "DESCRIBE"):
            found.append(word.strip("'"))
    return tuple(found)
