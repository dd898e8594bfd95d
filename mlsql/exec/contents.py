"""What the cache's folder holds, model by model: describing, listing, clearing."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mlsql.exec.segments import leftovers, listed
from mlsql.exec.upkeep import model_folders, remove

if TYPE_CHECKING:
    from mlsql.udfs.spec import ModelSpec

_FILE = "model.json"
_FIELDS = ("name", "task", "output_type", "sha256", "version")
_SCHEMA = pa.schema([
    ("model", pa.string()), ("fingerprint", pa.string()), ("task", pa.string()),
    ("output_type", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()),
    ("last_used", pa.timestamp("us", "UTC")),
])


def describe(folder: Path, spec: ModelSpec) -> None:
    """Make a model's folder, and say in it whose it is."""
    path = folder / _FILE
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{_FILE}.{uuid.uuid4().hex}.tmp"
    try:
        temporary.write_text(json.dumps({name: getattr(spec, name) for name in _FIELDS}))
        os.replace(temporary, path)
    finally:
        remove(str(temporary))


def entries(outputs: Path) -> pa.Table:
    """One row a model that has outputs, the one used last first."""
    rows = []
    for folder in model_folders(outputs):
        segments = listed(folder)
        if segments:
            about = _described(folder)
            rows.append({
                "model": about.get("name"), "fingerprint": folder.name,
                "task": about.get("task"), "output_type": about.get("output_type"),
                "rows": sum(segment.rows for segment in segments),
                "bytes": sum(segment.size for segment in segments),
                "last_used": int(max(segment.used for segment in segments) * 1e6),
            })
    rows.sort(key=lambda row: -int(row["last_used"] or 0))
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def clear(outputs: Path, model: str | None) -> tuple[int, list[str]]:
    """Remove the outputs of a model, by name or fingerprint, or of all: bytes freed and paths."""
    freed = 0
    removed = []
    for folder in model_folders(outputs):
        if model not in (None, folder.name, _described(folder).get("name")):
            continue
        for segment in listed(folder):
            if remove(segment.path):
                freed += segment.size
                removed.append(segment.path)
        for path, _ in leftovers(folder):
            remove(path)
        remove(str(folder / _FILE))
        with contextlib.suppress(OSError):  # what is not ours stays, and the folder with it
            folder.rmdir()
    return freed, removed


def _described(folder: Path) -> dict[str, str]:
    try:
        about = json.loads((folder / _FILE).read_text())
    except (OSError, ValueError):
        return {}
    texts = about.items() if isinstance(about, dict) else ()
    return {name: text for name, text in texts if isinstance(text, str)}
