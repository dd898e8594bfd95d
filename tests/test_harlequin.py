"""The adapter in harlequin itself: its catalog, a real query, an error, and being stopped."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from harlequin import Harlequin
from harlequin.exception import HarlequinConfigError, HarlequinConnectionError, HarlequinQueryError
from harlequin.plugins import load_adapter

import mlsql
from mlsql.harlequin import MlsqlAdapter, MlsqlConnection


@pytest.fixture
def con(tmp_path: Path) -> Iterator[MlsqlConnection]:
    found = MlsqlAdapter([str(tmp_path / "shop.db")], setting=["threads=2"]).connect()
    yield found
    found.close()


def test_it_is_found_by_its_entry_point() -> None:
    assert load_adapter("mlsql") is MlsqlAdapter


def test_queries_and_other_statements(con: MlsqlConnection) -> None:
    assert con.execute("CREATE TABLE t(a INT, b VARCHAR, c DECIMAL(9, 2), d INT[])") is None
    assert con.execute("INSERT INTO t VALUES (1, 'x', 1.5, [1]), (2, 'y', 2.5, [])") is None
    cursor = con.execute("SELECT * FROM t ORDER BY a")
    assert cursor is not None
    assert cursor.columns() == [("a", "#"), ("b", "s"), ("c", "#.#"), ("d", "[]")]
    assert cursor.fetchall().num_rows == 2
    cursor = con.execute("SELECT * FROM t ORDER BY a")
    assert cursor is not None and cursor.set_limit(1).fetchall().num_rows == 1
    returned = con.execute("INSERT INTO t VALUES (3, 'z', 0, []) RETURNING a")
    assert returned is not None and returned.fetchall().to_pydict() == {"a": [3]}


def test_errors_are_those_that_harlequin_shows(con: MlsqlConnection, tmp_path: Path) -> None:
    with pytest.raises(HarlequinQueryError, match="nope"):
        con.execute("DROP TABLE nope")
    cursor = con.execute("SELECT nope")
    assert cursor is not None
    with pytest.raises(HarlequinQueryError, match="LINE 1: SELECT nope"):
        cursor.fetchall()
    with pytest.raises(HarlequinConfigError, match="name=value"):
        MlsqlAdapter([], setting=["threads"])
    with pytest.raises(HarlequinConfigError, match="one database"):
        MlsqlAdapter(["a.db", "b.db"])
    with pytest.raises(HarlequinConnectionError):
        MlsqlAdapter([str(tmp_path / "absent.db")], read_only=True).connect()


def test_the_catalog_and_the_completions(con: MlsqlConnection) -> None:
    con.execute('CREATE SCHEMA s; CREATE TABLE s."a b"(x INT); CREATE VIEW v AS SELECT 1 AS one')
    database, models = con.get_catalog().items
    assert (database.label, models.label) == ("shop", "models")
    assert [schema.label for schema in database.children] == ["main", "s"]
    main, inner = database.children
    assert [(t.label, t.type_label) for t in main.children] == [("v", "v")]
    assert inner.children[0].qualified_identifier == '"shop"."s"."a b"'
    assert [(c.label, c.type_name) for c in inner.children[0].children] == [("x", "INTEGER")]
    assert "ssd_mobilenet_v2" in [model.label for model in models.children]
    words = {completion.label for completion in con.get_completions()}
    assert {"CONTAINS", "DETECT", "ssd_mobilenet_v2", "list_filter"} <= words


def test_transactions_are_switched(con: MlsqlConnection) -> None:
    con.execute("CREATE TABLE t(a INT)")
    assert con.transaction_mode.label == "Auto"
    manual = con.toggle_transaction_mode()
    con.execute("INSERT INTO t VALUES (1)")
    assert manual.label == "Manual" and manual.rollback is not None
    manual.rollback()
    assert con.toggle_transaction_mode().label == "Auto"
    cursor = con.execute("FROM t")
    assert cursor is not None and cursor.fetchall().num_rows == 0


def test_in_harlequin(bikes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    path = str(tmp_path / "shop.db")
    with mlsql.connect(path) as session:
        session.execute("CREATE TABLE people(name VARCHAR)")
    asyncio.run(_session(path, bikes))


async def _session(path: str, bikes: Path) -> None:
    app = Harlequin(adapter=MlsqlAdapter([path]))
    async with app.run_test(size=(120, 40)) as pilot:
        async def until(seen: Callable[[], bool]) -> None:
            started = time.monotonic()
            while not seen():
                assert time.monotonic() - started < 120, _screen(app)
                await pilot.pause(0.1)

        async def run(sql: str) -> None:
            app.editor.text = sql
            app.editor.focus()
            await pilot.pause(0.2)
            await pilot.press("ctrl+j")

        await until(lambda: app.editor is not None and "▶ models" in _screen(app))
        assert "▶ shop" in _screen(app)
        await run(f"SELECT frame_id, frame, COUNT_OBJECTS(frame, 'person') AS people "
                  f"FROM '{bikes}' WHERE frame_id BETWEEN 119 AND 121")
        await until(lambda: "bikes.mp4#121" in _screen(app))
        assert re.search(r"120\s+<image bikes\.mp4#120>\s+2", _screen(app))
        await run("SELECT nope")
        await until(lambda: 'Referenced column "nope"' in _screen(app))


def _screen(app: Any) -> str:
    """The lines on the screen."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(
            r'<text[^>]*? x="([\d.]+)"[^>]*? y="([\d.]+)"[^>]*>(.*?)</text>',
            app.export_screenshot()):
        lines.setdefault(float(y), []).append((float(x), unescape(text).replace("\xa0", " ")))
    return "\n".join("".join(text for _, text in sorted(lines[y])) for y in sorted(lines))
