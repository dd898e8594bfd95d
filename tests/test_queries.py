"""Whatever the query, its rows are those of DuckDB; a new case is a line of queries.sql."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.sessions import Asking, Rows, reference

QUERIES = [line for line in Path(__file__).with_name("queries.sql").read_text("utf-8").splitlines()
           if line and not line.startswith("--")]


@pytest.fixture(scope="module")
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with reference() as connection:
        yield connection


def in_order(sql: str, rows: Rows) -> Rows:
    """The rows as they are where the query orders them, else sorted."""
    ordered = re.search(r"(?i)\border by [^()]*(\([^()]*\)[^()]*)*$", sql)
    return rows if ordered else sorted(rows, key=repr)


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_types_and_calls(s: Asking, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    expected = plain.sql(sql)
    result = s.run(sql)
    assert in_order(sql, result.fetchall()) == in_order(sql, expected.fetchall())
    assert result.types == [str(kind) for kind in expected.types]
    assert result.stats.calls == s.calls
    assert not any("did not bind" in note for note in result.warnings)


@pytest.mark.parametrize("sql", QUERIES)
def test_recording_alone_gives_the_same(
    s: Asking, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    s.session._runner.peels = False
    try:
        assert in_order(sql, s.rows(sql)) == in_order(sql, plain.sql(sql).fetchall())
    finally:
        s.session._runner.peels = True


def test_nothing_is_asked_twice(s: Asking) -> None:
    for sql in QUERIES:
        s.run(sql)
        for name in ("sq", "big", "up"):
            asked = s.asked(name)
            assert len(asked) == len(set(asked)), sql


def test_there_are_many_and_none_twice() -> None:
    assert len(QUERIES) >= 120 and len(set(QUERIES)) == len(QUERIES)
