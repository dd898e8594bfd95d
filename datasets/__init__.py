"""Data to try mlsql on: one file a data set, each giving tables as SQL sources.

This is a folder of the repository. It is not installed, and mlsql never imports it.

A file `datasets/x.py` has ORIGIN and LICENCE (texts), `where()` (the folder or file, or `Absent`
with what to do about it) and `tables()` (SQL of a source by table name).

>>> import mlsql, datasets
>>> con = mlsql.connect()
>>> datasets.attach(con, "bikes")
['bikes']
>>> con.sql("SELECT count(*) AS frames FROM bikes").fetchall()
[(250,)]
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from datasets.places import Absent

if TYPE_CHECKING:
    from mlsql import Session

_PARTS = ("places",)


class DataSet(Protocol):
    """What a file of this folder has."""

    ORIGIN: str
    LICENCE: str

    def where(self) -> Path:
        """Where the data lies; raises `Absent` if it does not."""

    def tables(self) -> dict[str, str]:
        """The SQL source of each table: what may stand after FROM, in parentheses."""


def names() -> list[str]:
    """The data sets there are."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in found if m.name not in _PARTS)


def load(name: str) -> DataSet:
    """The data set of that name."""
    if name not in names():
        raise Absent(f"no data set {name!r}; there are {', '.join(names())}")
    return cast(DataSet, importlib.import_module(f"datasets.{name}"))


def attach(session: Session, name: str) -> list[str]:
    """Make a view of each table of a data set; gives their names."""
    tables = load(name).tables()
    for table, source in tables.items():
        session.execute(f'CREATE OR REPLACE VIEW "{table}" AS {source}')
    return list(tables)
