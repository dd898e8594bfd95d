"""The reference pages: written from the code, up to date, complete, and true to what runs.

`python -m mlsql.docs` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlsql
from mlsql.config import SETTINGS
from mlsql.docs import __main__ as docs
from mlsql.docs.settings import EXAMPLE
from mlsql.docs.statements import STATEMENTS
from mlsql.exec.tables import MEANINGS
from mlsql.udfs.function import Function, functions
from mlsql.udfs.function_options import meaning_of
from mlsql.udfs.model_files import OPTIONS
from mlsql.udfs.runtimes import runtimes
from tests.model_files import exported

FUNCTIONS = sorted(functions().values(), key=lambda f: f.name)


@pytest.fixture(scope="module")
def con(bikes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlsql.Session]:
    """A session in a folder with what the examples want."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bikes.mp4").symlink_to(bikes)
    exported(shades(), folder / "shades.pt2")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with mlsql.connect(config={"cache_dir": str(folder / "cache")}) as session:
            yield session


def shades() -> object:
    """Scores of dark and light."""
    import torch

    class Shades(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            light = x.mean(dim=(1, 2, 3))
            return torch.stack([0.5 - light, light - 0.5], 1) * 10

    return Shades().eval()


def test_the_pages_are_what_the_code_says(root: Path) -> None:
    assert docs.stale(root / "docs") == [], "run python -m mlsql.docs"


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["docs", str(tmp_path), "--check"])
    assert docs.main() == 1
    monkeypatch.setattr("sys.argv", ["docs", str(tmp_path)])
    assert docs.main() == 0
    assert docs.stale(tmp_path) == []
    page = tmp_path / "settings.md"
    page.write_text(page.read_text() + "more\n")
    monkeypatch.setattr("sys.argv", ["docs", str(tmp_path), "--check"])
    assert docs.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"{page} is stale"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_each_function_is_told_in_full(function: Function, root: Path) -> None:
    assert function.meaning.endswith(".") and function.example, function.name
    assert function.name + "(" in function.example or function.name == "AI_CLASSIFY"
    for option in function.options:
        meaning, default = meaning_of(function.name, option)
        assert meaning and default
    page = (root / "docs" / "sql.md").read_text()
    assert f"\n### {function.name}\n" in page
    assert function.example in page


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_each_functions_example_runs(function: Function, con: mlsql.Session) -> None:
    result = con.execute(function.example)
    if function.example.startswith("COPY"):
        assert con.execute("SELECT count(small) FROM 'thumbnails.parquet'").fetchall() == [(6,)]
        return
    rows = result.fetchall()
    assert rows and all(value is not None for row in rows for value in row)


@pytest.mark.parametrize("form", [f for f in STATEMENTS if f.example], ids=lambda f: f.title)
def test_each_statements_example_runs(form: object, con: mlsql.Session) -> None:
    example = getattr(form, "example")  # noqa: B009
    try:
        rows = con.execute(example).fetchall()
    finally:
        con.execute("RESET on_error")
    assert rows or example.startswith(("SET", "DROP"))


def test_the_settings_example_runs(con: mlsql.Session) -> None:
    try:
        assert con.execute(EXAMPLE).fetchall() == [("memory_budget", "512000000")]
    finally:
        con.execute("RESET memory_budget")


def test_each_setting_option_runtime_and_table_is_there(root: Path) -> None:
    settings = (root / "docs" / "settings.md").read_text()
    for setting in SETTINGS.values():
        row = next(line for line in settings.splitlines() if line.startswith(f"| `{setting.name}`"))
        assert f"`MLSQL_{setting.name.upper()}`" in row
        assert setting.meaning and setting.meaning.capitalize()[:10].lower() in row.lower()
    page = (root / "docs" / "sql.md").read_text()
    for name in (*OPTIONS, *runtimes(), *MEANINGS):
        assert f"| `{name}`" in page, name


def test_functions_says_the_same(con: mlsql.Session) -> None:
    rows = con.execute("SELECT name, usage, returns, meaning, options, example FROM functions() "
                       "ORDER BY name").fetchall()
    assert rows == [(f.name.lower(), f.signature, f.returns, f.meaning, list(f.options), f.example)
                    for f in FUNCTIONS]


def test_settings_says_the_same(con: mlsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = con.execute("SELECT name, \"default\", meaning, variable FROM settings()").fetchall()
    assert rows == [(s.name, str(s.default), s.meaning, s.variable) for s in SETTINGS.values()]
    monkeypatch.setenv(SETTINGS["batch_size"].variable, "7")
    with mlsql.connect() as other:
        sql = "SELECT value FROM settings() WHERE name = 'batch_size'"
        assert other.execute(sql).fetchall() == [("7",)]


def test_each_table_function_is_in_the_table(con: mlsql.Session) -> None:
    runner = con._runner
    told = {re.match(r"\w+", form)[0].upper() for form in MEANINGS}  # type: ignore[index]
    assert told == set(runner.table_functions)


def test_links_within_the_pages_lead_somewhere(root: Path) -> None:
    for page in docs.PAGES:
        text = (root / "docs" / page).read_text()
        for target in re.findall(r"\]\(([^)]+)\)", text):
            file, _, anchor = target.partition("#")
            found = text if not file else (root / "docs" / file).read_text()
            headings = {h.lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", found, re.M)}
            assert not anchor or anchor in headings, target
