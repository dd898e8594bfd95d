"""The content of files as 128 bits, each file read once a machine until it changes."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from mlsql.exec.memo import FingerprintMemo

DIGEST_BYTES = 16
_CHUNK = 1 << 20
_JOB_BYTES = 64 << 20
_JOB_FILES = 256
# A file may change twice within one tick of its file system's clock. What was touched this
# recently is therefore read again instead of being remembered.
_SETTLED_SECONDS = 2.0

Check = Callable[[], None]


class FileState(NamedTuple):
    """A file as stat sees it: while this stays equal, the content does."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


def of_bytes(data: bytes | memoryview) -> bytes:
    """The fingerprint of a blob, equal to that of a file with the same bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def file_state(uri: str) -> FileState | OSError:
    """What stat says of a regular file; for anything else the error that names it."""
    try:
        found = os.stat(uri)
    except OSError as error:
        return error
    except ValueError as error:  # a NUL or a lone surrogate in the name
        return OSError(f"{uri!r} cannot be a path: {error}")
    if not stat.S_ISREG(found.st_mode):
        return OSError(f"{uri!r} is not a regular file")
    return _state(uri if uri[:1] == "/" else os.path.abspath(uri), found)


class ContentFingerprints:
    """Content fingerprints of files, remembered in `folder` (None: by this object alone)."""

    def __init__(self, folder: Path | None, threads: int = 4) -> None:
        self._memo = FingerprintMemo(folder)
        self._threads = threads

    def of(self, uris: Sequence[str]) -> dict[str, str | OSError]:
        """The fingerprint of each distinct uri as 32 hex digits, or why there is none."""
        found: dict[str, str | OSError] = {}
        states = {uri: file_state(uri) for uri in dict.fromkeys(uris)}
        digests = self.of_states(s for s in states.values() if isinstance(s, FileState))
        for uri, state in states.items():
            digest = digests[state] if isinstance(state, FileState) else state
            found[uri] = digest.hex() if isinstance(digest, bytes) else digest
        return found

    def of_states(
        self, states: Iterable[FileState], check: Check | None = None
    ) -> dict[FileState, bytes | OSError]:
        """The fingerprint of each file in just that state; an error where it is in another.

        `check` is called every tenth of a second while files are read; what it raises ends
        the reading.
        """
        wanted = list(dict.fromkeys(states))
        known: dict[FileState, bytes | OSError] = dict(self._memo.get(wanted))
        unknown = [state for state in wanted if state not in known]
        if unknown:
            fresh = _read_all(unknown, self._threads, check)
            settled = time.time_ns() - int(_SETTLED_SECONDS * 1e9)
            self._memo.put([(state, digest) for state, digest in fresh.items()
                            if isinstance(digest, bytes) and state.ctime_ns < settled])
            known.update(fresh)
        return known

    def close(self) -> None:
        """Close the memo's file."""
        self._memo.close()


def _state(path: str, found: os.stat_result) -> FileState:
    return FileState(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns,
                     found.st_ino, found.st_dev)


def _read_all(
    states: Sequence[FileState], threads: int, check: Check | None
) -> dict[FileState, bytes | OSError]:
    from concurrent.futures import ThreadPoolExecutor, wait

    stop = threading.Event()
    jobs = list(_jobs(states))
    pool = ThreadPoolExecutor(min(threads, len(jobs)), thread_name_prefix="mlsql-fingerprint")
    try:
        futures = [pool.submit(_read_job, job, stop) for job in jobs]
        while wait(futures, timeout=0.1).not_done:
            if check is not None:
                check()
        return {state: digest for future in futures for state, digest in future.result()}
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _jobs(states: Sequence[FileState]) -> Iterator[list[FileState]]:
    """Lists of files to read in one go: a big one alone, small ones together."""
    job: list[FileState] = []
    size = 0
    for state in states:
        if job and (size + state.size > _JOB_BYTES or len(job) == _JOB_FILES):
            yield job
            job, size = [], 0
        job.append(state)
        size += state.size
    yield job


def _read_job(
    job: Sequence[FileState], stop: threading.Event
) -> list[tuple[FileState, bytes | OSError]]:
    buffer = bytearray(_CHUNK)
    return [(state, _read(state, buffer, stop)) for state in job]


def _read(state: FileState, buffer: bytearray, stop: threading.Event) -> bytes | OSError:
    digest = blake2b(digest_size=DIGEST_BYTES)
    view = memoryview(buffer)
    try:
        with open(state.path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                if stop.is_set():
                    return OSError(f"{state.path!r} was not read to its end")
                digest.update(view[:count])
            if _state(state.path, os.fstat(file.fileno())) != state:
                return OSError(f"{state.path!r} changed while it was read")
    except OSError as error:
        return error
    return digest.digest()
