"""Queries kept under a name, which later ones take as CTEs."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlsql.errors import ProgrammingError, unknown
from mlsql.magics.line import Asked
from mlsql.parser.statements import split


@dataclass
class Snippets:
    """Texts of queries by name, each with the names that it needs before it."""

    _kept: dict[str, tuple[str, list[str]]] = field(default_factory=dict)

    def composed(self, sql: str, asked: Asked) -> str:
        """The statement with the kept queries it wants before it; it is kept itself if asked."""
        wanted = asked.given("with") or []
        name = asked.given("save")
        if asked.given("no-execute") and name is None:
            raise ProgrammingError("-N goes with -S NAME")
        if name is not None:
            self._keep(name, sql, wanted)
        return self._after(wanted, sql)

    def _keep(self, name: str, sql: str, wanted: list[str]) -> None:
        found = split(sql)
        if len(found) != 1 or found[0].words(1)[0] not in ("SELECT", "FROM", "WITH", "VALUES"):
            raise ProgrammingError("-S keeps one query")
        if name in self._needed(wanted):
            raise ProgrammingError(f"the query {name!r} would need itself")
        self._kept[name] = (found[0].text, wanted)

    def _after(self, wanted: list[str], sql: str) -> str:
        if not wanted:
            return sql
        found = split(sql)
        if len(found) == 1 and found[0].words(1) == ["WITH"]:
            raise ProgrammingError("-w goes before a query without a WITH of its own")
        parts = [f"{_quoted(name)} AS (\n{self._kept[name][0]}\n)" for name in self._needed(wanted)]
        return f"WITH {', '.join(parts)}\n{sql}"

    def _needed(self, wanted: list[str]) -> list[str]:
        """The names wanted and those that these need, each after what it needs."""
        order: list[str] = []
        for name in wanted:
            if name not in self._kept:
                raise unknown("kept query", name, self._kept)
            order += [n for n in (*self._needed(self._kept[name][1]), name) if n not in order]
        return order


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
