"""Table functions of mlsql: models(), labels(m), functions(), settings(), last_query() and more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from mlsql.exec.stats import ModelStats
from mlsql.udfs import vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

    from mlsql.exec.share import RowError
    from mlsql.exec.statement import Runner


def table_functions(runner: Runner) -> Mapping[str, Callable[..., pa.Table]]:
    """The table functions by upper-case name."""
    return {
        "MODELS": lambda name=None: _models(runner, name),
        "LABELS": lambda model: _labels(runner, model),
        "LAST_QUERY": lambda: _last_query(runner),
        "QUERY_ERRORS": lambda: _query_errors(runner),
        "SETTINGS": lambda: _settings(runner),
        "FUNCTIONS": _functions,
    }


MEANINGS: Mapping[str, str] = {
    "models([name])": "the models there are, or one: task, labels, types, SHA-256, licence, origin",
    "labels(model)": "the words that a model understands, and the labels that each covers",
    "functions()": "mlsql's own functions: how each is called, what it returns and means",
    "settings()": "the settings with value, default, environment variable and meaning",
    "last_query()": "what the last statement that asked models cost, a row a model",
    "query_errors()": "the inputs that the last statement could not use, and why",
}
"""What each table function gives, by how it is called."""


def _functions() -> pa.Table:
    import pyarrow as pa

    from mlsql.udfs.function import functions

    rows = [{"name": f.name.lower(), "usage": f.signature, "returns": f.returns,
             "meaning": f.meaning, "options": list(f.options), "example": f.example or None}
            for f in sorted(functions().values(), key=lambda f: f.name)]
    text = pa.string()
    return pa.Table.from_pylist(rows, schema=pa.schema([
        ("name", text), ("usage", text), ("returns", text), ("meaning", text),
        ("options", pa.list_(text)), ("example", text)]))


def _models(runner: Runner, name: str | None) -> pa.Table:
    import pyarrow as pa

    names = runner.registry.names() if name is None else [runner.registry.named(str(name)).name]
    specs = [runner.registry.named(n) for n in names]
    return pa.table({
        "name": pa.array([s.name for s in specs], pa.string()),
        "task": pa.array([s.task for s in specs], pa.string()),
        "labels": pa.array([len(s.labels) for s in specs], pa.int64()),
        "min_score": pa.array([s.min_score for s in specs], pa.float64()),
        "input": pa.array([s.input_type for s in specs], pa.string()),
        "output": pa.array([s.output_type for s in specs], pa.string()),
        "sha256": pa.array([s.sha256 or None for s in specs], pa.string()),
        "licence": pa.array([s.licence or None for s in specs], pa.string()),
        "origin": pa.array([s.origin or None for s in specs], pa.string()),
    })


def _labels(runner: Runner, model: str) -> pa.Table:
    import pyarrow as pa

    spec = runner.registry.named(str(model))
    covers = vocabulary.words(spec)
    return pa.table({
        "label": pa.array(list(covers), pa.string()),
        "covers": pa.array([list(c) for c in covers.values()], pa.list_(pa.string())),
    })


def _last_query(runner: Runner) -> pa.Table:
    import pyarrow as pa

    how = runner.last.approximation
    low, high = (how.interval if how is not None else None) or (None, None)
    target = {} if how is None else {
        "method": how.method, "target": how.target, "interval_low": low, "interval_high": high,
        "confidence": how.confidence, "seed": how.seed}
    rows = [asdict(m) | target for m in runner.last.stats.models]
    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    schema = pa.schema([(f.name, kinds[str(f.type)]) for f in fields(ModelStats)] + [
        ("method", pa.string()), ("target", pa.string()), ("interval_low", pa.float64()),
        ("interval_high", pa.float64()), ("confidence", pa.float64()), ("seed", pa.int64())])
    return pa.Table.from_pylist(rows, schema=schema)


def _query_errors(runner: Runner) -> pa.Table:
    import pyarrow as pa

    rows: list[dict[str, Any]] = [
        {"path": e.uri, "frame_id": e.frame, "ts": _time(runner, e), "value": e.value,
         "model": e.model, "message": e.message,
         "cause": None if e.cause is None else f"{type(e.cause).__name__}: {e.cause}"}
        for e in runner.last.errors]
    schema = pa.schema([("path", pa.string()), ("frame_id", pa.int64()),
                        ("ts", pa.float64()), ("value", pa.string()), ("model", pa.string()),
                        ("message", pa.string()), ("cause", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


def _time(runner: Runner, error: RowError) -> float | None:
    """When a picture of a video is shown, in seconds from its first."""
    from mlsql.errors import Error
    from mlsql.exec.media.video import list_video

    if error.uri is None or error.frame is None:
        return None
    try:
        times = list_video(error.uri, runner.limits(), runner.listings()).ts
    except (Error, OSError):
        return None
    return float(times[error.frame]) if error.frame < len(times) else None


def _settings(runner: Runner) -> pa.Table:
    import pyarrow as pa

    rows = [{"name": s.name, "value": None if v is None else str(v), "default": str(s.default),
             "meaning": s.meaning, "variable": s.variable} for s, v in runner.settings]
    return pa.Table.from_pylist(rows, schema=pa.schema(
        [(n, pa.string()) for n in ("name", "value", "default", "meaning", "variable")]))
