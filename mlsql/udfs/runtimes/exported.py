"""Programs that torch.export saved: a graph in JSON, and weights.

Reading one, torch unpickles whatever is marked as pickled and evaluates the expressions of sizes
as Python. So both are looked at before: only tensors and plain arithmetic are let in.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlsql.errors import OperationalError
from mlsql.udfs.runtimes import Network, Runtime
from mlsql.udfs.runtimes._archive import members, network, quiet, unpickled

_OPERATIONS = frozenset(re.findall(r"\w+", """
    FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv LShift
    RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator
    TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity Max Min Abs Pow Mul Add
    Eq Ne Lt Le Gt Ge And Or Not floor ceiling oo int_oo Symbol Integer Float Rational Equality
    Unequality StrictLessThan LessThan StrictGreaterThan GreaterThan"""))
_SYMBOL = re.compile(r"[a-z]{1,5}\d+")
_DATA = "data/"


def _recognises(path: Path) -> bool:
    return any(re.fullmatch(r"models/[^/]+\.json", name) for name in members(path))


def _load(path: Path, device: str, architecture: str | None, arguments: Mapping[str, Any]
          ) -> Network:
    import torch

    content = path.read_bytes()  # once: what is looked at is what is loaded
    _look_over(content, path)
    with quiet():
        program = torch.export.load(io.BytesIO(content))
        module = program.module().to(device)
    return network(module, device)


def _look_over(content: bytes, path: Path) -> None:
    """Refuse an archive that would make torch run code in loading it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        inside = {name.partition("/")[2]: name for name in archive.namelist()}
        if len(inside) != len(archive.namelist()):
            raise OperationalError(f"{path} has two members of one name")
        for short, name in inside.items():
            if short.startswith(f"{_DATA}aotinductor/"):
                raise OperationalError(f"{path} holds machine code, which is not run")
            if short.startswith("models/"):
                _refuse_code(json.loads(archive.read(name)), path)
            elif short.endswith("_config.json") and short.startswith(_DATA):
                folder = short.rpartition("/")[0]
                for payload in _pickled(json.loads(archive.read(name)), path):
                    _refuse_pickle(archive.read(inside[f"{folder}/{payload}"]), path)
            elif short.endswith(".pt"):
                _refuse_pickle(archive.read(name), path)


def _pickled(config: Any, path: Path) -> Iterator[str]:
    for payload in config["config"].values():
        kind = str(payload["path_name"])
        if payload.get("use_pickle"):
            yield kind
        elif not kind.startswith(("weight_", "tensor_")):
            raise OperationalError(f"{path} holds an object that is no tensor: it is not loaded")


def _refuse_pickle(content: bytes, path: Path) -> None:
    if content:
        unpickled(io.BytesIO(content), "cpu", path)


def _refuse_code(node: Any, path: Path) -> None:
    """Every expression of the graph must be arithmetic over sizes."""
    if isinstance(node, dict):
        expression = node.get("expr_str")
        if isinstance(expression, str) and not _is_arithmetic(expression):
            raise OperationalError(
                f"{path}: {expression!r} is no arithmetic, and is not evaluated")
        for part in node.values():
            _refuse_code(part, path)
    elif isinstance(node, list):
        for part in node:
            _refuse_code(part, path)


def _is_arithmetic(expression: str) -> bool:
    """Whether it is built of numbers, symbols for sizes, and the operations known here."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return all(_is_harmless(node, called) for node in ast.walk(tree))


def _is_harmless(node: ast.AST, called: set[int]) -> bool:
    if isinstance(node, ast.Name):
        allowed = node.id in _OPERATIONS
        return allowed if id(node) in called else allowed or bool(_SYMBOL.fullmatch(node.id))
    if isinstance(node, ast.Constant):
        text = isinstance(node.value, str) and _SYMBOL.fullmatch(node.value) is not None
        return text or isinstance(node.value, (int, float, bool))
    return isinstance(node, _FORMS)


_FORMS = (ast.Expression, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
          ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)

RUNTIME = Runtime("export", "saved by torch.export.save", _recognises, _load)
