"""CONTRIBUTING's recipes: each block works as the file that it stands for."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import mlsql
from mlsql.planner import driver
from mlsql.udfs import function as functions
from mlsql.udfs import registry

ROOT = Path(__file__).parent.parent
RECIPE = re.compile(r"`(mlsql/[a-z_/]+\.py)`:\n\n```python\n(.*?)```", re.S)
RECIPES = dict(RECIPE.findall((ROOT / "CONTRIBUTING.md").read_text()))


@pytest.fixture
def recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[ModuleType]:
    """The module of a recipe, in its folder as far as the package can tell."""
    path = request.param
    file = tmp_path / Path(path).name
    file.write_text(RECIPES[path])
    package = importlib.import_module(".".join(Path(path).parent.parts))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    _forget()
    name = f"{package.__name__}.{file.stem}"
    yield importlib.import_module(name)
    sys.modules.pop(name, None)
    _forget()


def _forget() -> None:
    for found in (functions.functions, registry.shipped, driver.rules):
        found.cache_clear()


def test_recipes_are_short() -> None:
    assert len(RECIPES) == 4
    assert all(len(code.splitlines()) <= 15 for code in RECIPES.values())


@pytest.mark.parametrize("recipe", ["mlsql/udfs/functions/is_crowded.py"], indirect=True)
def test_a_function(recipe: ModuleType) -> None:
    with mlsql.connect(config={"cache": False}) as con:
        plan = con.sql("EXPLAIN SELECT IS_CROWDED(NULL)").fetchall()
        assert any("person" in str(row) for row in plan)
        assert con.execute("SELECT IS_CROWDED(NULL)").fetchall() == [(None,)]


@pytest.mark.parametrize("recipe", ["mlsql/udfs/models/brightness.py"], indirect=True)
def test_a_model(recipe: ModuleType, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    import numpy as np

    cv2.imwrite(str(tmp_path / "grey.png"), np.full((4, 4, 3), 7, np.uint8))
    with mlsql.connect(config={"cache": False}) as con:
        found = con.execute(
            f"SELECT ML_PREDICT('brightness', image) FROM '{tmp_path}/grey.png'").fetchall()
        assert found == [(7.0,)]


@pytest.mark.parametrize("recipe", ["mlsql/planner/rules/as_written.py"], indirect=True)
def test_a_rule(recipe: ModuleType) -> None:
    assert "as_written" in driver.rules()
    with mlsql.connect(config={"cache": False}) as con:
        con.register_model(lambda xs: [x > 2 for x in xs], name="over_two", task="predict",
                           input="INTEGER", output="BOOLEAN")
        sql = "SELECT x FROM range(5) t(x) WHERE over_two(x::INTEGER) ORDER BY x"
        assert con.execute(sql).fetchall() == [(3,), (4,)]


@pytest.mark.parametrize("recipe", ["mlsql/exec/executors/patient.py"], indirect=True)
def test_an_executor(recipe: ModuleType) -> None:
    from mlsql.exec.executors import executor

    made = executor("patient")
    assert list(made.run([])) == []
    made.close()
