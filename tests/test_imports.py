"""What imports what, when, and at which cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlsql

HEAVY = {"torch", "ray", "cv2", "av", "PIL", "pandas", "polars", "onnxruntime", "openvino",
         "skvideo", "IPython"}
PLAIN = {"duckdb", "sqlglot"}


def modules(root: Path) -> list[Path]:
    found = sorted((root / "mlsql").rglob("*.py"))
    assert len(found) > 20
    return found


def at_import(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the module is imported: none in functions or for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not runs_later(node):
            yield from at_import(node)


def runs_later(node: ast.AST) -> bool:
    """Whether importing the module does not run this."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names}


def test_heavy_packages_are_imported_inside_functions(root: Path) -> None:
    found = [f"{path.relative_to(root)}:{node.lineno}" for path in modules(root)
             for node in at_import(ast.parse(path.read_text(encoding="utf-8")))
             if packages(node) & HEAVY and not is_run_by_workers_only(path)]
    assert found == []


def is_run_by_workers_only(path: Path) -> bool:
    """Files of network layers and graphs: private modules, imported by what loads a network."""
    return path.parent.name in ("models", "backends") and path.name.startswith("_")


def test_layers(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()",
         str(root / "pyproject.toml"), "--no-cache"],
        capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def loaded(statement: str, root: Path) -> dict[str, int]:
    """Microseconds of import of each top-level package that a statement loads."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", statement],
                          capture_output=True, text=True, cwd=root, check=True, timeout=60)
    found: dict[str, int] = {}
    for line in done.stderr.splitlines():
        if line.startswith("import time:") and "|" in line and "self [us]" not in line:
            own, _, name = line.removeprefix("import time:").split("|")
            top = name.strip().partition(".")[0]
            found[top] = found.get(top, 0) + int(own)
    return found


@pytest.mark.parametrize("statement", [
    "import mlsql",
    "import mlsql; mlsql.Error, mlsql.Image, mlsql.connect",
    "import mlsql; mlsql.sql('SELECT 1 AS a').outcome()",
    "import mlsql.planner.expand, mlsql.parser.dialect, mlsql.udfs.function",
])
def test_what_a_start_loads(statement: str, root: Path) -> None:
    assert not set(loaded(statement, root)) & HEAVY


def test_a_bare_import_loads_nothing_else(root: Path) -> None:
    assert not set(loaded("import mlsql", root)) & {*PLAIN, "numpy", "pyarrow"}


def test_the_import_is_fast(root: Path) -> None:
    """Under 150 ms beyond duckdb and sqlglot, with everything that `mlsql.connect` needs."""
    beyond = []
    for _ in range(5):
        times = loaded("import duckdb, sqlglot.dialects.duckdb; import mlsql; mlsql.connect", root)
        beyond.append(sum(us for name, us in times.items() if name not in PLAIN) / 1000
                      - _bare(root))
        if min(beyond) < 150:
            return
    pytest.fail(f"milliseconds beyond duckdb and sqlglot: {beyond}")


def _bare(root: Path) -> float:
    """Milliseconds of the standard library that duckdb and sqlglot load by themselves."""
    times = loaded("import duckdb, sqlglot.dialects.duckdb", root)
    return sum(us for name, us in times.items() if name not in PLAIN) / 1000


def test_every_name_is_there() -> None:
    for name in mlsql.__all__:
        assert getattr(mlsql, name).__name__ == name
        assert name in dir(mlsql)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        mlsql.conect  # noqa: B018


def test_the_version_is_that_of_the_package(root: Path) -> None:
    assert f'\nversion = "{mlsql.__version__}"\n' in (root / "pyproject.toml").read_text()
    assert f"## {mlsql.__version__}" in (root / "CHANGELOG.md").read_text()


def test_the_default_session_is_one() -> None:
    mlsql.execute("CREATE OR REPLACE TEMP TABLE of_the_process AS SELECT 7 AS i")
    assert mlsql.sql("FROM of_the_process").fetchall() == [(7,)]
    with mlsql.connect() as other, pytest.raises(mlsql.ProgrammingError, match="of_the_process"):
        other.execute("FROM of_the_process")
