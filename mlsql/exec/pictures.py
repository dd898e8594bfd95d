"""What a worker asks of a decoder; every picture asked for is accounted for."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from mlsql.errors import MediaError, OperationalError
from mlsql.exec.faults import fault
from mlsql.exec.media.handle import Handle

Picture = np.ndarray | MediaError


class PictureDecoder(Protocol):
    """Decodes handles to upright RGB pictures, uint8 (height, width, 3), in an order of its own."""

    def decode(self, handles: Sequence[Handle]) -> Iterator[tuple[int, Picture]]:
        """Each position of `handles` once, with its picture or why there is none."""

    def close(self) -> None:
        """Close the files that are still open."""


def pictures(
    decoder: PictureDecoder, handles: Sequence[Handle]
) -> Generator[tuple[int, Picture], None, None]:
    """Each position exactly once, whatever the decoder does.

    If it raises, it is asked for the rest singly, so that a file costs its own pictures only.
    """
    missing = dict.fromkeys(range(len(handles)))
    try:
        for position, picture in decoder.decode(handles):
            if position in missing:
                del missing[position]
                yield position, picture
    except OperationalError:
        raise
    except Exception:
        pass  # whichever picture it was over says so again below
    for position in missing:
        yield position, _single(decoder, handles[position])


def _single(decoder: PictureDecoder, handle: Handle) -> Picture:
    cause: Exception | None = None
    try:
        for _, picture in decoder.decode([handle]):
            return picture
    except OperationalError:
        raise
    except Exception as error:
        cause = error
    reason = fault(cause).message if cause else "the decoder gave no picture"
    failed = MediaError(f"{handle.uri}: {reason}", handle.uri, handle.frame)
    failed.__cause__ = cause
    return failed


def weight(value: Any) -> int:
    """Bytes that a picture or prepared input holds; a view counts as the array it keeps alive."""
    if isinstance(value, np.ndarray):
        base = value.base
        return max(value.nbytes, weight(base)) if isinstance(base, np.ndarray) else value.nbytes
    if isinstance(value, (tuple, list)):
        return sum(weight(item) for item in value)
    size = getattr(value, "nbytes", None)
    return int(size) if isinstance(size, int) else sys.getsizeof(value)
