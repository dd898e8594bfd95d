"""Listings kept in a folder, so that a video is read for its packets once a machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from pathlib import Path

from mlsql.exec.media.listing import VideoListing, from_wire, to_wire
from mlsql.exec.media.wire import pack

VERSION = 1  # of the listing's content: raise it when the same file would be listed otherwise
Identity = tuple[str, int, int, int]  # resolved path, bytes, mtime in ns, inode


def identity(path: str, found: os.stat_result) -> Identity:
    """What tells one state of one file from another."""
    return os.path.realpath(path), found.st_size, found.st_mtime_ns, found.st_ino


def load(folder: Path, key: Identity) -> VideoListing | None:
    """The listing kept for a file; None if there is none, or what is kept is damaged."""
    try:
        data = memoryview((folder / _name(key)).read_bytes())
        (length,) = struct.unpack_from("<I", data)
        message = json.loads(bytes(data[4 : 4 + length]))
        at, blobs = 4 + length, []
        for size in message.pop("blobs"):
            blobs.append(data[at : at + size])
            at += size
        if at != len(data) or message.pop("key") != list(key):
            return None
        return from_wire(message, blobs)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def save(folder: Path, key: Identity, listing: VideoListing) -> None:
    """Keep a listing; a folder that cannot be written to keeps nothing."""
    message, blobs = to_wire(listing)
    with contextlib.suppress(OSError):
        target = folder / _name(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(pack({**message, "key": list(key)}, blobs))
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise


def _name(key: Identity) -> str:
    digest = hashlib.blake2b(json.dumps([VERSION, *key]).encode(), digest_size=16).hexdigest()
    return f"{digest[:2]}/{digest[2:]}"
