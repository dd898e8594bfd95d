"""Exceptions on their way between processes: whatever they hold, the user sees what was raised."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One exception: its pickle, or None, and in words what stands for it where that is no use."""

    pickled: bytes | None
    words: str
    notes: tuple[str, ...]


class RemoteError(Exception):
    """Stands for an exception that cannot be brought here; says its type and message."""


def packed(error: BaseException) -> tuple[Cause, ...]:
    """An exception and those it was raised from, outermost first."""
    return tuple(_packed(link) for link in _chain(error))


def unpacked(causes: tuple[Cause, ...]) -> BaseException:
    """The exception again, chained as it was. It was pickled by a worker of ours."""
    links = [_unpacked(cause) for cause in causes]
    for outer, inner in itertools.pairwise(links):
        outer.__cause__ = inner
    return links[0]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _packed(error: BaseException) -> Cause:
    notes = tuple(str(note) for note in getattr(error, "__notes__", ()))
    words = f"{type(error).__name__}: {error}"
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # many can be pickled and not read again
    except Exception:
        return Cause(None, words, notes)
    return Cause(pickled, words, notes)


def _unpacked(cause: Cause) -> BaseException:
    error: BaseException = RemoteError(cause.words)
    if cause.pickled is not None:
        try:
            found = pickle.loads(cause.pickled)
            error = found if isinstance(found, BaseException) else error
        except Exception:
            pass  # its class is not known here: the words stand for it
    error.__notes__ = list(cause.notes)  # type: ignore[attr-defined]
    return error
