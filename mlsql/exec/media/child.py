"""The process in which hostile formats are decoded: a crash there costs one picture, not us."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.wire import Message, pack, unpack

if TYPE_CHECKING:
    import numpy as np

PICTURE_SECONDS = 30.0
LISTING_SECONDS = 120.0
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class TimedOut(Exception):
    """The contained process did not answer in time."""


class Child:
    """A contained process, started at its first use and again after it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process that runs now."""
        return None if self._process is None else self._process.pid

    def call(
        self, request: Message, name: str, blob: bytes = b"", seconds: float = PICTURE_SECONDS
    ) -> tuple[Message, list[bytearray]]:
        """The answer to one request; a refusal, a crash or no answer in time is a MediaError."""
        message = {**request, "name": name, "seconds": seconds}
        with self._lock:
            answer, blobs = self._exchange(message, name, blob, seconds)
        if "error" in answer:
            raise MediaError(answer["error"], name, answer.get("frame"))
        return answer, blobs

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _exchange(
        self, message: Message, name: str, blob: bytes, seconds: float
    ) -> tuple[Message, list[bytearray]]:
        for attempt in (1, 2):
            fresh = self._process is None or self._process.poll() is not None
            process = self._start() if fresh else self._process
            assert process is not None
            try:
                return _talk(process, pack(message, [blob]), time.monotonic() + seconds)
            except TimedOut:
                self._end()
                raise MediaError(
                    f"{name}: its decoder gave no answer within {seconds:g} s", name) from None
            except (OSError, EOFError, ValueError) as error:
                status = self._end()
                # A process that died while idle says nothing of this picture: ask a fresh one.
                if attempt == 1 and not fresh:
                    continue
                raise MediaError(f"{name}: its decoder crashed ({status})", name) from error
            except BaseException:
                self._end()  # an answer is half read: the next request must not find the rest
                raise
        raise AssertionError("unreachable")

    def _start(self) -> subprocess.Popen[bytes]:
        self._end()
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mlsql.exec.media.contained"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}, bufsize=0,
            start_new_session=True,  # Ctrl-C is for us: the child ends when its input closes
        )
        return self._process

    def _end(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "not running"
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            code = process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def _talk(
    process: subprocess.Popen[bytes], pieces: list[bytes | memoryview], deadline: float
) -> tuple[Message, list[bytearray]]:
    assert process.stdin is not None and process.stdout is not None
    _write(process.stdin.fileno(), pieces, deadline)
    out = process.stdout.fileno()
    return unpack(lambda size: _read(out, size, deadline))


def _write(fd: int, pieces: list[bytes | memoryview], deadline: float) -> None:
    os.set_blocking(fd, False)
    for piece in pieces:
        view = memoryview(piece)
        while view:
            _await(deadline, write=fd)
            view = view[os.write(fd, view[:1 << 20]):]


def _read(fd: int, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        _await(deadline, read=fd)
        got = os.readv(fd, [view[:1 << 20]])
        if not got:
            raise EOFError("the process ended")
        view = view[got:]
    return data


def _await(deadline: float, read: int | None = None, write: int | None = None) -> None:
    fd = read if read is not None else write
    assert fd is not None
    poll = select.poll()
    poll.register(fd, select.POLLIN if read is not None else select.POLLOUT)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimedOut


def pixels_of(answer: Message, blobs: list[bytearray]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The picture of an answer: uint8, (height, width, 3)."""
    import numpy as np

    height, width, depth = (int(n) for n in answer["shape"])
    return np.frombuffer(blobs[0], np.uint8).reshape(height, width, depth)


_children: dict[int, Child] = {}


def child() -> Child:
    """The one contained process of this process (a forked process has its own)."""
    mine = _children.get(os.getpid())
    if mine is None:
        mine = _children.setdefault(os.getpid(), Child())
        atexit.register(mine.close)
    return mine
