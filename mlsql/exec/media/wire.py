"""How the contained process is spoken to: a JSON line's length, the JSON, then raw bytes.

Nothing that is read here is executed or unpickled, on either side.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]
_LENGTH = struct.Struct("<I")


def pack(message: Message, blobs: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """The pieces to write for one message and its blobs."""
    text = json.dumps({**message, "blobs": [len(b) for b in blobs]}).encode()
    return [_LENGTH.pack(len(text)) + text, *blobs]


def unpack(read: Callable[[int], bytearray]) -> tuple[Message, list[bytearray]]:
    """The next message; `read(n)` gives exactly n bytes or raises EOFError."""
    (length,) = _LENGTH.unpack(read(_LENGTH.size))
    message: Message = json.loads(read(length))
    return message, [read(size) for size in message.pop("blobs")]
