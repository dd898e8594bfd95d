"""What is remembered of files between runs: one small database, never needed, only quick."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlsql.exec.fingerprint import FileState

FILE_NAME = "fingerprints-1.sqlite"
_MOST_FILES = 1_000_000
_MOST_IN_MEMORY = 200_000
_AT_ONCE = 500
_COLUMNS = "path, size, mtime_ns, ctime_ns, inode, device"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER,"
    " ctime_ns INTEGER, inode TEXT, device TEXT, digest BLOB)"
)


class FingerprintMemo:
    """Fingerprints by file state, in memory and in `folder`; without a usable file, in memory.

    Nothing here raises: a database that is missing, locked, full or broken is done without.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._recent: dict[FileState, bytes] = {}

    def get(self, states: Sequence[FileState]) -> dict[FileState, bytes]:
        """The fingerprints known of files in just these states."""
        with self._lock:
            known = {s: self._recent[s] for s in states if s in self._recent}
            missing = [s for s in states if s not in known]
            if missing and self._open(create=False):
                with self._tolerant():
                    stored = dict(self._select(missing))
                    self._remember(stored)
                    known.update(stored)
            return known

    def put(self, digests: Sequence[tuple[FileState, bytes]]) -> None:
        """Remember the fingerprints of files in these states."""
        if not digests:
            return
        with self._lock:
            self._remember(dict(digests))
            if self._open(create=True):
                with self._tolerant():
                    self._insert(digests)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._drop()
            self._path = None

    def _remember(self, digests: dict[FileState, bytes]) -> None:
        if len(self._recent) + len(digests) > _MOST_IN_MEMORY:
            self._recent.clear()
        self._recent.update(digests)

    def _select(self, states: Sequence[FileState]) -> Iterator[tuple[FileState, bytes]]:
        assert self._database is not None
        wanted = {_row(state): state for state in states}
        for start in range(0, len(states), _AT_ONCE):
            paths = [os.fsencode(state.path) for state in states[start:start + _AT_ONCE]]
            marks = ",".join("?" * len(paths))
            for *key, digest in self._database.execute(
                f"SELECT {_COLUMNS}, digest FROM files WHERE path IN ({marks})", paths
            ):
                state = wanted.get(tuple(key))
                if state is not None and isinstance(digest, bytes) and len(digest) == 16:
                    yield state, digest

    def _insert(self, digests: Sequence[tuple[FileState, bytes]]) -> None:
        assert self._database is not None
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(*_row(state), digest) for state, digest in digests],
            )
            # A replaced row gets a new rowid, so the lowest ones are those longest untouched.
            self._database.execute(
                "DELETE FROM files WHERE rowid <= (SELECT max(rowid) FROM files) - ?",
                (_MOST_FILES,),
            )

    def _open(self, create: bool) -> bool:
        if self._database is not None:
            return True
        if self._path is None or not (create or os.path.exists(self._path)):
            return False
        for _ in range(2):  # a broken database is removed and begun again, once
            with self._tolerant():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._database = sqlite3.connect(
                    self._path, timeout=2.0, check_same_thread=False)
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = NORMAL")
                self._database.execute(_TABLE)
                return True
            if self._path is None or os.path.exists(self._path):
                return False
        return False

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError:  # locked, read-only, disk full
            self._drop()
            self._path = None
        except sqlite3.DatabaseError:  # not a database, or a torn one
            self._drop()
            self._remove()
        except OSError:
            self._drop()
            self._path = None

    def _remove(self) -> None:
        assert self._path is not None
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self._path}{end}").unlink()

    def _drop(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _row(state: FileState) -> tuple[bytes, int, int, int, str, str]:
    # Inodes and devices are unsigned 64-bit, which SQLite's integers cannot hold.
    return (os.fsencode(state.path), state.size, state.mtime_ns, state.ctime_ns,
            str(state.inode), str(state.device))
