"""What was typed, kept across restarts: readable by its owner alone, and without secrets."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_SECRET = re.compile(
    r"""\bsecret\b|\bpassw(?:or)?d\b|\bpwd\b|token|credential|private_?key|api_?key|access_?key
      | secret_?key|_secret\b|://[^/\s'"@]+:[^/\s'"@]+@|\bsk-\w|\bAKIA[0-9A-Z]{8}""",
    re.IGNORECASE | re.VERBOSE)


def history() -> History:
    """The history of earlier sessions, or one of this session alone where it cannot be kept."""
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            path.chmod(0o600)
    except OSError as error:
        print(f"history is not kept: {error}", file=sys.stderr)
        return InMemoryHistory()
    return OwnHistory(str(path))


def place() -> Path:
    """The file of the history: MLSQL_HISTORY, or mlsql/history in the folder for state."""
    given = os.environ.get("MLSQL_HISTORY")
    if given:
        return Path(given).expanduser()
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "mlsql" / "history"


def is_secret(statement: str) -> bool:
    """Whether a statement reads as if a password or key were in it."""
    return _SECRET.search(statement) is not None


class OwnHistory(FileHistory):
    """A file of statements; one with a secret, or after a blank, is remembered but not written."""

    def store_string(self, string: str) -> None:
        """Write a statement to the file; a full disk loses it and nothing else."""
        if string[:1].isspace() or is_secret(string):
            return
        try:
            super().store_string(string)
        except OSError:
            pass  # it is still known to this session
