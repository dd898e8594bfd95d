"""What stands before the SQL of a magic: options, a connection, and where the result goes.

The options that JupySQL also has carry its letters and mean the same.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlsql.errors import ProgrammingError, UnknownName


@dataclass(frozen=True)
class Option:
    """One option of a magic; `value` names what follows it, where something does."""

    letter: str
    name: str
    meaning: str
    value: str = ""


OPTIONS = (
    Option("a", "connection_arguments", "settings of the new connection, as JSON", "JSON"),
    Option("A", "alias", "name the new connection", "NAME"),
    Option("f", "file", "run the SQL of a file", "PATH"),
    Option("h", "help", "say what there is"),
    Option("l", "connections", "list the connections"),
    Option("n", "no-index", "with -p, -P and --append: leave a DataFrame's index out"),
    Option("N", "no-execute", "with -S: do not run it"),
    Option("p", "persist", "make a DataFrame a table of its name"),
    Option("P", "persist-replace", "the same, in place of a table that is there"),
    Option("", "append", "add a DataFrame's rows to the table of its name"),
    Option("S", "save", "keep the query under a name", "NAME"),
    Option("w", "with", "put a kept query before this one as a CTE; may be given again", "NAME"),
    Option("x", "close", "close a connection", "NAME"),
)
_NAMED = {f"--{o.name}": o for o in OPTIONS} | {f"-{o.letter}": o for o in OPTIONS if o.letter}
_PERSISTS = frozenset({"persist", "persist-replace", "append"})
_WORD = re.compile(r"\s*(\S+)")
_VALUE = re.compile(r"""\s*('[^']*'|"[^"]*"|\S+)""")
_TARGET = re.compile(r"\s*([^\W\d]\w*)\s*(=?)\s*<<")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?==|$)")


@dataclass(frozen=True)
class Asked:
    """A magic's line and cell, read.

    `target` is the variable that takes the result, which is shown as well if `shows`. The name
    that goes with -p, -P and --append is the option `table`.
    """

    sql: str
    target: str | None = None
    shows: bool = True
    connection: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def given(self, name: str) -> Any:
        """The value of an option, True for one without, None where it was not given."""
        return self.options.get(name)


def read(line: str, cell: str | None, is_connection: Callable[[str], bool]) -> Asked:
    """The parts of a magic. `is_connection` knows the words that name one."""
    asked = _Front(line, is_connection).read()
    if cell is None:
        return asked
    sql, target, shows = cell, asked.target, asked.shows
    if asked.sql.strip():
        sql = f"{asked.sql}\n{cell}"
    elif target is None and (found := _TARGET.match(cell)):
        sql, target, shows = cell[found.end():], found[1], bool(found[2])
    return Asked(sql, target, shows, asked.connection, asked.options)


class _Front:
    """Reads a line from its start up to the SQL."""

    def __init__(self, line: str, is_connection: Callable[[str], bool]) -> None:
        self._line, self._is_connection = line, is_connection
        self._at = 0
        self._options: dict[str, Any] = {}
        self._target: re.Match[str] | None = None
        self._connection: str | None = None

    def read(self) -> Asked:
        while self._one():
            pass
        target = self._target
        return Asked(self._line[self._at:].lstrip(), target[1] if target else None,
                     target is None or bool(target[2]), self._connection, self._options)

    def _one(self) -> bool:
        """Whether one more word belongs to the front."""
        word = _WORD.match(self._line, self._at)
        if word is None:
            return False
        if _OPTION.match(word[1]):
            self._option(word)
            return True
        if not _PERSISTS.isdisjoint(self._options) and "table" not in self._options:
            self._options["table"], self._at = word[1], word.end()
            return True
        target = _TARGET.match(self._line, self._at)
        if target and self._target is None:
            self._target, self._at = target, target.end()
            return True
        if self._connection is None and self._is_connection(word[1]):
            self._connection, self._at = word[1], word.end()
            return True
        return False

    def _option(self, word: re.Match[str]) -> None:
        name, glued, _ = word[1].partition("=")
        option = _NAMED.get(name)
        if option is None:
            near = difflib.get_close_matches(name, _NAMED, 1)
            raise UnknownName(f"unknown option {name}" + (
                f": did you mean {near[0]}?" if near else ": %mlsql --help lists them"))
        self._at = word.start(1) + len(name) + len(glued)
        if not option.value:
            if glued:
                raise ProgrammingError(f"{name} takes no value")
            self._options[option.name] = True
            return
        value = _VALUE.match(self._line, self._at)
        if value is None:
            raise ProgrammingError(f"{name} wants a value: {option.value}")
        self._at = value.end()
        self._keep(option.name, _unquoted(value[1]))

    def _keep(self, name: str, value: str) -> None:
        if name == "with":
            self._options[name] = [*self._options.get(name, []), value]
        elif name == "connection_arguments":
            self._options[name] = _arguments(value)
        else:
            self._options[name] = value


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _arguments(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise ProgrammingError(f"-a wants JSON, as in '{{\"device\": \"cpu\"}}': {error}") from None
    if not isinstance(found, dict):
        raise ProgrammingError("-a wants a JSON object of settings, as in '{\"device\": \"cpu\"}'")
    return found


def usage() -> str:
    """What a magic takes, as text."""
    lines = ["%mlsql [options] [connection] [name <<] SQL", "",
             "  name << SQL     the result goes to a variable; name = << SQL shows it as well",
             "  {{expression}}  inserts text, :name binds a value, FROM name scans a DataFrame",
             "  connection      mlsql:///films.db, a name from -A, a variable that holds one", ""]
    for option in OPTIONS:
        letter = f"-{option.letter}, " if option.letter else "    "
        lines.append(f"  {letter}--{option.name} {option.value}".ljust(36) + option.meaning)
    return "\n".join(lines)
