"""What was measured on this machine, kept in small files named by the hash of what it hangs on."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any


def read_note(folder: Path | None, key: object) -> dict[str, Any] | None:
    """The note of that key; None where there is none that can be read."""
    if folder is None:
        return None
    try:
        note = json.loads(_file(folder, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def write_note(folder: Path | None, key: object, note: dict[str, Any]) -> None:
    """Keep a note; where the folder cannot be written it is done without."""
    if folder is None:
        return
    file = _file(folder, key)
    part = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(note), encoding="utf-8")
        os.replace(part, file)


def _file(folder: Path, key: object) -> Path:
    return folder / "tuning" / f"{blake2b(repr(key).encode(), digest_size=12).hexdigest()}.json"
