"""The README keeps its word: its commands, its code, and the answer it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import mlsql

TESTS = "pip install '.[test]' && pytest -n auto --dist loadfile"


def blocks(root: Path, language: str) -> list[str]:
    """The code blocks of a language, in order."""
    text = (root / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_its_two_commands(root: Path) -> None:
    commands = [line for block in blocks(root, "sh") for line in block.splitlines()]
    assert commands[:2] == ["pip install . && mlsql demo", TESTS]


def test_the_server_runs_the_readmes_command(root: Path) -> None:
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o100
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    found = re.search(r"grep -m 1 '(.*)' README\.md", script.read_text())
    assert found is not None
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if re.search(found[1], line))
    assert first == TESTS


def test_its_python_runs(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = blocks(root, "python")
    assert found
    names: dict[str, object] = {"__name__": "readme"}
    for block in found:
        exec(compile(block, "README.md", "exec"), names)
    con = names["con"]
    assert isinstance(con, mlsql.Session)
    assert "daylight" in con.models


def test_its_answer_is_the_real_one(
    root: Path, bikes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bikes.mp4").symlink_to(bikes)
    monkeypatch.chdir(tmp_path)
    sql = blocks(root, "sql")[0]
    shown = blocks(root, "text")[0]
    with mlsql.connect() as con:
        assert cells(repr(con.sql(sql))) == cells(shown)


def cells(table: str) -> list[list[str | float]]:
    """The cells of a drawn table; numbers to the third digit, as devices differ in the last."""
    found = []
    for line in table.strip().splitlines():
        if line.startswith("│"):
            found.append([near(word.strip()) for word in line.strip("│").split("│")])
    assert found
    return found


def near(word: str) -> str | float:
    try:
        return round(float(word), 3)
    except ValueError:
        return word


def test_its_functions_are_those_there_are(root: Path) -> None:
    from mlsql.udfs.function import functions

    text = "".join((root / page).read_text(encoding="utf-8")
                   for page in ("README.md", "docs/sql.md"))
    for name in functions():
        assert f"{name.upper()}(" in text or f"`{name.upper()}`" in text, name


def test_its_extras_and_its_command_exist(root: Path) -> None:
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r"^test = \[$", project, re.MULTILINE)
    assert '\n[project.scripts]\nmlsql = "mlsql.__main__:main"\n' in project
