"""The contained process itself: answers requests on its input until that closes.

Run as `python -m mlsql.exec.media.contained`; see `child` for the other side.
"""

from __future__ import annotations

import os
import queue
import resource
import sys
import threading
from typing import BinaryIO

from mlsql.errors import MediaError
from mlsql.exec.media.exotic import Exotic
from mlsql.exec.media.wire import Message, pack, unpack

_SPACE = 4 << 30  # bytes of address space for the libraries and their tables
_SPACE_A_PIXEL = 16  # a picture as stored, as decoded and as RGB
Request = tuple[Message, list[bytearray]]


def main() -> None:
    """Serve until the input closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not land between the answers
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    exotic = Exotic()
    while (request := requests.get()) is not None:
        _allow(request[0]["seconds"], request[0]["max_pixels"])
        for piece in _answer(exotic, request):
            answers.write(piece)
        answers.flush()


def _listen(source: BinaryIO, requests: queue.SimpleQueue[Request | None]) -> None:
    """Queue the requests; when the parent is gone, end at once, even amid a decode."""
    try:
        while True:
            requests.put(unpack(lambda size: _exactly(source, size)))
    except EOFError:
        os._exit(0)


def _exactly(source: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = source.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        view = view[got:]
    return data


def _answer(exotic: Exotic, request: Request) -> list[bytes | memoryview]:
    message, blobs = request
    try:
        answer, out = exotic.answer(message, blobs[0])
    except MediaError as error:
        return pack({"error": str(error), "frame": error.frame})
    except MemoryError:
        return pack({"error": f"{message['name']}: needs more memory than a decoder may take"})
    except Exception as error:
        return pack({"error": f"{message['name']}: cannot be decoded ({error or type(error)})"})
    return pack(answer, out)


def _allow(seconds: float, pixels: int) -> None:
    """Bound the next request's memory, and its CPU time lest it outlive a parent that is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + 4 * seconds) + 2)
    _lower(resource.RLIMIT_AS, _SPACE + _SPACE_A_PIXEL * pixels)


def _lower(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
