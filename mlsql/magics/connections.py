"""The sessions that a notebook works with, by name; one of them is the present one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsql.default import connect, default_session
from mlsql.errors import ProgrammingError, unknown
from mlsql.session import Session

_DEFAULT = "default"
_SCHEME = "mlsql:"
_SUFFIXES = (".db", ".ddb", ".duckdb")


class Connections:
    """Sessions by name. `default` is the process's own, which `mlsql.sql` uses too."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._targets: dict[str, str] = {}
        self._current = _DEFAULT

    @property
    def current(self) -> str:
        """The name of the present connection."""
        return self._current

    def names_one(self, word: str, names: Mapping[str, Any]) -> bool:
        """Whether a word says where to connect: a name, a variable, a URL or a database file."""
        return (word in self._sessions or word == _DEFAULT or word.startswith(_SCHEME)
                or "://" in word or Path(word).suffix.lower() in _SUFFIXES
                or isinstance(names.get(word), Session))

    def session(self) -> Session:
        """The present session."""
        if self._current == _DEFAULT and _DEFAULT not in self._sessions:
            self._sessions[_DEFAULT], self._targets[_DEFAULT] = default_session(), ":memory:"
        return self._sessions[self._current]

    def use(
        self, word: str, names: Mapping[str, Any], alias: str | None, arguments: dict[str, Any]
    ) -> None:
        """Make the connection that a word names the present one; a new one is opened."""
        given = names.get(word)
        name = alias or word
        if isinstance(given, Session):
            self._sessions[name], self._targets[name] = given, "a variable"
        elif word not in self._sessions and word != _DEFAULT:
            path = _path(word)
            read_only = bool(arguments.pop("read_only", False))
            self._sessions[name] = connect(path, read_only, arguments)
            self._targets[name] = path
        else:
            name = word
            if alias or arguments:
                raise ProgrammingError(f"the connection {word!r} is open already: close it first")
        self._current = name

    def close(self, name: str) -> None:
        """Close a connection; the default one is then the present one."""
        if name not in self._sessions:
            raise unknown("connection", name, self._sessions)
        session = self._sessions.pop(name)
        if name == _DEFAULT:
            self._sessions[name] = session
            raise ProgrammingError("the default connection belongs to the process")
        self._targets.pop(name)
        session.close()
        if self._current == name:
            self._current = _DEFAULT

    def listed(self) -> str:
        """One line a connection, the present one marked."""
        self.session()
        return "\n".join(f"{'*' if name == self._current else ' '} {name}  {self._targets[name]}"
                         for name in self._sessions)


def _path(word: str) -> str:
    """The database that a URL or path names."""
    scheme, mark, rest = word.partition("://")
    if not mark:
        return word
    if scheme != "mlsql":
        raise ProgrammingError(f"{word}: mlsql opens mlsql:///file.db and mlsql:// (in memory)")
    return rest.removeprefix("/") or ":memory:"
