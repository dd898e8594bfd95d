"""A DataFrame of the notebook made a table of the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlsql.errors import ProgrammingError, unknown
from mlsql.session import Session
from mlsql.variables import is_table, readable

_ROWS = "mlsql_persisted"


def persist(
    session: Session, name: str, names: Mapping[str, Any], how: str, *, index: bool
) -> str:
    """Make the table, replace it, or add to it, as `how` says; what was done, in words.

    The index of a pandas frame becomes columns unless `index` is false.
    """
    if not name.isidentifier():
        raise ProgrammingError(f"--{how} wants the name of one DataFrame, not {name!r}")
    if name not in names:
        raise unknown("variable", name, [n for n in names if is_table(names[n])])
    rows = names[name]
    if not is_table(rows):
        raise ProgrammingError(f"{name} is a {type(rows).__name__}: it has no rows for a table")
    if index and hasattr(rows, "reset_index"):
        rows = rows.reset_index()
    session.register(_ROWS, readable(rows))
    try:
        session.execute(_statement(session, name, how))
        count = session.execute(f"SELECT count(*) FROM {_ROWS}").fetchall()[0][0]
    finally:
        session.unregister(_ROWS)
    return f"{count:,} row{'' if count == 1 else 's'} in the table {name}"


def _statement(session: Session, name: str, how: str) -> str:
    there = session.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE lower(table_name) = lower($1)", [name])
    if how == "append" and there.fetchall()[0][0]:
        return f'INSERT INTO "{name}" BY NAME FROM {_ROWS}'
    replace = "OR REPLACE " if how == "persist-replace" else ""
    return f'CREATE {replace}TABLE "{name}" AS FROM {_ROWS}'
