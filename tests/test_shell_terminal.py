"""The shell on a terminal: what a person types, sees and breaks off."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.terminal import Terminal

LONG = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE a.range + b.range = 7;"


@pytest.fixture
def command() -> list[str]:
    return [sys.executable, "-m", "mlsql"]


@pytest.fixture
def environment(root: Path, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items()
            if name not in ("NO_COLOR", "COLUMNS", "LINES", "TMUX")}
    return {**kept, "PYTHONPATH": str(root), "TERM": "xterm-256color", "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"), "PROMPT_TOOLKIT_NO_CPR": "1",
            "PYTHONIOENCODING": "utf-8"}


def test_a_session(command: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    with Terminal(command, environment, tmp_path) as t:
        t.prompted()
        assert ".help helps" in t.screen()
        t.enter("SELECT 1 +")
        t.wait("   ...>")
        t.enter("41 AS answer, 'a;b' AS s, $$c;d$$ AS d /* ; */, NULL AS n;")
        t.prompted()
        assert "│      42 │ a;b     │ c;d     │ NULL │" in t.screen()
        assert re.search(r"\n1 row, \d+\.\d{3} s\n", t.screen())
        assert b"\x1b[2mNULL\x1b[0m" in t.written

        t.enter("SELECT nope;")
        t.wait("error: ")
        t.prompted()
        assert 'error: Referenced column "nope"' in t.screen()
        assert "\n         ^\n" in t.screen()

        t.enter(".mode csv")
        t.enter(".timer off")
        t.enter("SELECT 7 AS seven;")
        t.wait("seven\n7\nmlsql>")
        t.enter(".mode table")

        t.type("SELECT * FROM 'x.mp4' WHERE COUNT_OB")
        t.type("\t")
        t.wait("WHERE COUNT_OBJECTS(")
        t.type("frame, 'traffic l")
        t.wait("traffic light  label")  # a label's menu opens by itself
        t.type("\t")
        t.wait("COUNT_OBJECTS(frame, 'traffic light'")
        t.type("\x03")  # forgets the line
        t.prompted()

        t.enter(LONG)
        t.look(1.5)
        assert t.screen().endswith("b.range = 7;")
        t.type("\x03")
        assert t.prompted() < 2.5
        assert "interrupted after" in t.screen()
        t.enter("SELECT 'usable' AS still;")
        t.wait("│ usable")
        t.enter("CREATE SECRET s (TYPE s3, KEY_ID 'hunter2', SECRET 'hunter3');")
        t.prompted()
        t.type("\x04")
        assert t.ended() == 0

    history = (tmp_path / "state" / "mlsql" / "history").read_text()
    assert "'usable'" in history and "hunter" not in history

    with Terminal(command, environment, tmp_path) as t:  # history across restarts
        t.prompted()
        t.type("\x1b[A")
        t.wait("mlsql> SELECT 'usable' AS still;")
        t.type("\r")
        t.wait("│ usable")
        t.prompted()
        t.enter(".exit 3")
        assert t.ended() == 3


def test_a_long_query_shows_a_bar_and_can_be_stopped(
    command: list[str], environment: dict[str, str], tmp_path: Path, bikes: Path
) -> None:
    (tmp_path / "bikes.mp4").symlink_to(bikes)
    sql = ("SELECT count(*) AS n FROM 'bikes.mp4' "
           "WHERE frame_id < 96 AND CONTAINS(frame, 'bicycle');")
    with Terminal(command, environment, tmp_path) as t:
        t.prompted()
        t.enter("SET batch_size = 4;")
        t.prompted()
        t.enter(sql)
        t.wait("/s · model calls", seconds=200)
        assert re.search(r"━+╸?╺?━* frames \d+/96 · [\d.,]+/s · model calls \d+ · ", t.screen())
        t.type("\x03")
        took = t.prompted()
        assert "━" not in t.screen()
        (kept,) = re.findall(r"interrupted after [\d.]+ s; (\d+) model calls are kept", t.screen())
        assert 4 <= int(kept) < 96
        assert took < 5
        t.enter(sql)
        t.wait("1 row, ", seconds=200)
        t.prompted()
        (calls, cached) = re.findall(r"(\d+) model calls?, (\d+) cached", t.screen())[-1]
        assert int(cached) >= int(kept)
        assert int(calls) <= 96 - int(kept)
        assert "━ " not in t.screen()  # it ends in one line, the footer
        t.enter("exit")
        assert t.ended() == 0


def test_rows_alone_go_to_standard_output(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    quoted = " ".join(command)
    with Terminal(["bash", "-c", f"{quoted} --format csv > rows.csv"], environment, tmp_path) as t:
        t.prompted()
        t.enter("SELECT 1 AS a;")
        t.wait("1 row, ")
        t.enter("SELECT nope;")
        t.wait("error: ")
        t.enter(".exit")
        assert t.ended() == 0
    assert (tmp_path / "rows.csv").read_text() == "a\n1\n"


def test_no_color(command: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    with Terminal([*command, "-c", "SELECT NULL AS n", "-c", "SELECT nope"],
                  {**environment, "NO_COLOR": "1"}, tmp_path) as t:
        assert t.ended() == 1
        assert "│ NULL │" in t.screen() and "error: " in t.screen()
        assert b"\x1b[" not in t.written
