"""The sizes of pictures in a table, from the headers of their files: nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlsql.errors import Error
from mlsql.image import Image

_MOST = 1000  # files; a table of more is none that somebody reads


def sized(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows, their pictures told their sizes; one that cannot be read stays without."""
    known: dict[str, tuple[int, int] | None] = {}
    for row in rows:
        for value in row:
            if isinstance(value, Image) and value.size is None and value.uri is not None:
                if value.uri not in known and len(known) < _MOST:
                    known[value.uri] = size_of(value)
                value.size = known.get(value.uri)
        yield row


def size_of(image: Image) -> tuple[int, int] | None:
    """Width and height of a picture in a file; None where the file cannot be read."""
    from mlsql.exec.media.handle import Limits
    from mlsql.exec.media.images import header_of_file
    from mlsql.exec.media.video import list_video

    assert image.uri is not None
    try:
        if image.frame is None:
            return header_of_file(image.uri, Limits()).upright
        listing = list_video(image.uri, Limits())
        return listing.width, listing.height
    except (Error, OSError):
        return None
