"""Every error mlsql raises, one tree, shared by all layers.

Error                           PEP 249's root
 +- InterfaceError              the client library was misused
 +- DatabaseError
     +- DataError               one input could not be used
     |   +- MediaError          a picture or video cannot be read
     |   +- ModelOutputError    a model raised, or answered with the wrong shape
     +- OperationalError        the run could not go on
     |   +- Interrupted         stopped by the user
     |   +- TimeLimit           stopped by statement_timeout
     |   +- CallLimit           stopped by max_model_calls
     +- IntegrityError
     +- InternalError           a fault of mlsql itself
     +- NotSupportedError
     +- ProgrammingError        the statement is wrong
         +- UnknownName         a label, model, setting or option nobody knows
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Warning(UserWarning):  # noqa: A001 - the name PEP 249 asks for
    """Something the user should know, although the statement went on."""


class Error(Exception):
    """The root of all errors of mlsql."""


class InterfaceError(Error):
    """The client library was misused (closed connection, fetch before execute)."""


class DatabaseError(Error):
    """The statement failed."""


class DataError(DatabaseError):
    """One input could not be used."""


class MediaError(DataError):
    """A picture or video cannot be read; `uri` and `frame` say which."""

    def __init__(self, message: str, uri: str | None = None, frame: int | None = None) -> None:
        super().__init__(message)
        self.uri = uri
        self.frame = frame

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.uri, self.frame))


class ModelOutputError(DataError):
    """A model raised, or did not answer every input of its batch; `model` names it."""

    def __init__(self, message: str, model: str | None = None) -> None:
        super().__init__(message)
        self.model = model

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.model))


class OperationalError(DatabaseError):
    """The run could not go on."""


class Interrupted(OperationalError):
    """The user stopped the statement."""


class TimeLimit(OperationalError):
    """`statement_timeout` ended the statement."""


class CallLimit(OperationalError):
    """`max_model_calls` ended the statement."""


class IntegrityError(DatabaseError):
    """A constraint of the database does not hold."""


class InternalError(DatabaseError):
    """A fault of mlsql itself."""


class NotSupportedError(DatabaseError):
    """The statement is valid, but mlsql does not do it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong; `line` and `column` say where, from 1, where that is known."""

    line: int | None = None
    column: int | None = None


class UnknownName(ProgrammingError):
    """A name nobody knows: a label, a model, a setting or an option."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UnknownName:
    """The error for an unknown name, with the nearest known ones.

    >>> print(unknown('label', 'brid', ['bird', 'boat'], 'for ssd (2 labels)'))
    unknown label 'brid' for ssd (2 labels): did you mean 'bird'?
    """
    near = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.6)
    head = " ".join(part for part in (f"unknown {kind} {name!r}", where) if part)
    if not near:
        return UnknownName(head)
    return UnknownName(f"{head}: did you mean {' or '.join(repr(n) for n in near)}?")
