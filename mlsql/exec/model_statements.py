"""CREATE MODEL and DROP MODEL, carried out."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mlsql.errors import MediaError, ProgrammingError
from mlsql.exec.device import resolved
from mlsql.exec.model_catalog import StoredModel
from mlsql.parser.dialect import to_sql
from mlsql.parser.model_statements import CreateModel, DropModel
from mlsql.udfs.model_files import checked_options, file_spec, named_labels
from mlsql.udfs.weights import digest

if TYPE_CHECKING:
    from mlsql.exec.statement import Runner


def create_model(runner: Runner, wanted: CreateModel) -> None:
    """Look a file over, try it, and keep it as a model of the database."""
    from mlsql.udfs.model_trial import tried

    registry, name = runner.registry, wanted.name
    if name in registry and not wanted.replace:
        if wanted.if_not_exists:
            return
        raise ProgrammingError(f"a model named {registry.named(name).name!r} exists already: to "
                               "replace it, say CREATE OR REPLACE MODEL")
    if registry.is_of_session(name):
        raise ProgrammingError(f"{name!r} is a model of this session, which register_model made: "
                               "name the other one otherwise")
    path = _readable(runner, _constant(runner, wanted.source), f"CREATE MODEL {name}")
    options = checked_options(
        name, {key: _constant(runner, node) for key, node in wanted.options.items()})
    if "architecture" in options and not runner.limits().external:
        raise ProgrammingError(f"CREATE MODEL {name}: architecture imports a module, which "
                               "enable_external_access = false forbids")
    options = _with_labels(runner, name, options)
    sha256 = digest(Path(path))
    device = resolved(runner.settings.text("device"))
    runner.check(file_spec(name, path, sha256, {**options, "vector": 1}
                           if options["task"] == "embed" else options))
    runner.models.put(StoredModel(name, path, sha256, tried(name, path, sha256, options, device)))


def drop_model(runner: Runner, wanted: DropModel) -> None:
    """Forget a model, of the database or of the session; the file stays where it is."""
    registry = runner.registry
    if wanted.if_exists and wanted.name not in registry:
        return
    spec = registry.named(wanted.name)
    if registry.is_of_session(spec.name):
        registry.remove(spec.name)
    elif spec.name.lower() in runner.models.specs():
        runner.models.drop(spec.name)
    else:
        raise ProgrammingError(f"{spec.name!r} comes with mlsql and cannot be dropped")


def _constant(runner: Runner, node: exp.Expr) -> Any:
    """The value of an expression without columns."""
    import duckdb

    try:
        value = runner.connection.execute(f"SELECT {to_sql(node)}").fetchall()[0][0]
    except duckdb.Error as error:
        raise ProgrammingError(f"{to_sql(node)} must be a constant: {error}") from error
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _readable(runner: Runner, path: Any, what: str) -> str:
    """The absolute name of a file that there is, and that may be read."""
    if not isinstance(path, str):
        raise ProgrammingError(f"{what}: a file's name is wanted, not {path!r}")
    path = os.path.expanduser(path)
    try:
        found = runner.limits().check(path)
    except MediaError as error:
        raise ProgrammingError(f"{what}: {error}") from error
    if not os.path.isfile(found):
        raise ProgrammingError(f"{what}: there is no file {path}")
    return str(found)


def _with_labels(runner: Runner, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the labels as a list: a text among them names one."""
    labels = options.get("labels")
    if not isinstance(labels, str):
        return options
    known = named_labels(labels)
    if known is None:
        path = _readable(runner, labels, f"CREATE MODEL {name}, labels")
        lines = Path(path).read_text("utf-8").splitlines()
        known = tuple(line.strip() for line in lines if line.strip())
    return {**options, "labels": list(known)}
