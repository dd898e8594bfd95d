"""A picture that nobody has decoded yet, and what may be read."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import NamedTuple

from mlsql.errors import MediaError, NotSupportedError

_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(,[^:/]*)?:")


class Handle(NamedTuple):
    """Names one picture: a video's (uri, frame), a file (uri), or encoded bytes (data)."""

    uri: str | None = None
    frame: int | None = None
    data: bytes | None = None


@dataclass(frozen=True)
class Limits:
    """What media may be read: the largest picture in pixels, and which files.

    `external` and `directories` are DuckDB's enable_external_access and allowed_directories:
    without external access only files below the directories are read.
    """

    max_pixels: int = 178_956_970
    external: bool = True
    directories: tuple[str, ...] = ()
    urls: bool = False

    def check(self, path: str) -> str:
        """The absolute name of a local file that may be read; else a MediaError that says why."""
        if "\0" in path:
            raise MediaError(f"{path!r} is not a file name: it holds a zero byte", path)
        if not os.path.lexists(path) and _PROTOCOL.match(path):
            self._refuse_url(path)
        if not self.allows(path):
            raise MediaError(
                f"{path}: may not be read: enable_external_access is false and the file is not "
                f"below allowed_directories ({', '.join(self.directories) or 'none'})", path)
        return os.path.realpath(path) if not self.external else os.path.abspath(path)

    def allows(self, path: str) -> bool:
        """Whether the policy lets this file or directory be read, links and '..' followed."""
        if self.external:
            return True
        real = os.path.realpath(path)
        roots = (os.path.realpath(d) for d in self.directories)
        return any(real == r or real.startswith(r.rstrip(os.sep) + os.sep) for r in roots)

    def check_size(self, width: int, height: int, what: str) -> None:
        """Refuse a picture with more pixels than allowed, or with none."""
        if width <= 0 or height <= 0:
            raise MediaError(f"{what}: has no pixels ({width} x {height})", what)
        if width * height > self.max_pixels:
            raise MediaError(
                f"{what}: has {width * height:,} pixels ({width} x {height}), more than "
                f"max_pixels = {self.max_pixels:,}", what)

    def _refuse_url(self, path: str) -> None:
        if self.urls:
            raise NotSupportedError(f"{path}: URLs cannot be read; copy the file here first")
        raise MediaError(f"{path}: only local files are read, and no file has this name", path)


def stat_file(path: str, shown: str | None = None) -> os.stat_result:
    """The status of a regular file that is not empty; anything else is a clear MediaError."""
    name = path if shown is None else shown
    try:
        found = os.stat(path)
    except OSError as error:
        if os.path.islink(path):
            target = os.readlink(path)
            raise MediaError(f"{name}: is a link to {target!r}, which is missing", name) from error
        raise MediaError(f"{name}: {error.strerror or error}", name) from error
    if stat.S_ISDIR(found.st_mode):
        inside = name.rstrip("/") + "/*"
        raise MediaError(f"{name}: is a directory; name its files, as in {inside!r}", name)
    if not stat.S_ISREG(found.st_mode):
        raise MediaError(f"{name}: is not a regular file", name)
    if found.st_size == 0:
        raise MediaError(f"{name}: is empty (0 bytes)", name)
    return found
