"""One input that failed, as a value that takes the place of its answer."""

from __future__ import annotations

import traceback
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Why an input has no answer: one line, the model at fault (None: the media), the cause."""

    message: str
    model: str | None
    cause: BaseException


def fault(cause: BaseException, model: str | None = None) -> Fault:
    """The fault that an exception stands for.

    The exception's traceback becomes a note with the model's own frames: a traceback would keep
    the pictures of the batch alive, and does not travel between processes.
    """
    _detach(cause)
    line = next(iter(str(cause).strip().splitlines()), "")
    kind = type(cause).__name__
    if type(cause).__module__.startswith("mlsql."):
        return Fault(line or kind, model, cause)  # our own messages say what happened
    return Fault(f"{kind}: {line}" if line else kind, model, cause)


def _detach(error: BaseException) -> None:
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame, line) for frame, line in trace if not _ours(frame.f_globals)]
    if frames:
        text = "".join(traceback.StackSummary.extract(iter(frames)).format())
        notes: list[str] = getattr(error, "__notes__", [])
        # What add_note of Python 3.11 does: it is shown below the exception.
        error.__notes__ = [*notes, text.rstrip("\n")]  # type: ignore[attr-defined]
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        link = chain.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = None
            chain += [link.__cause__, link.__context__]


def _ours(names: dict[str, object]) -> bool:
    return str(names.get("__name__", "")).startswith("mlsql.exec.")
