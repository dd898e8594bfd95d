"""Cursors of PEP 249 over a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mlsql import errors
from mlsql.errors import InterfaceError
from mlsql.result import Result

if TYPE_CHECKING:
    from mlsql.parser.parameters import Parameters
    from mlsql.session import Session

Row = tuple[Any, ...]
Columns = list[tuple[str, str, None, None, "int | None", "int | None", None]]
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


class PEP249Errors:
    """The exceptions as attributes, so that code with a connection needs no import."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError


class Cursor:
    """Runs statements of a connection and hands out their rows.

    Several cursors share the connection's transaction. `arraysize` is what `fetchmany` gives
    unless told otherwise.
    """

    def __init__(self, connection: Session) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._rowcount = -1
        self._closed = False

    # --- running --------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Run statements now; `parameters` go in the place of ?, $1 or $name."""
        self._check_open()
        self._result, self._rowcount = None, -1
        self._result = self.connection.execute(operation, parameters)
        if self._result.changes is not None:
            self._rowcount = self._result.changes
        return self

    def executemany(
        self, operation: str, seq_of_parameters: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Cursor:
        """Run a statement once with each set of parameters; `rowcount` is of all of them."""
        self._check_open()
        self._result, self._rowcount = None, -1
        self._rowcount = self.connection.executemany(operation, seq_of_parameters)
        return self

    # --- what came of it ------------------------------------------------------------------

    @property
    def description(self) -> Columns | None:
        """Name and type of each column, and precision and scale where it is a DECIMAL.

        None before a statement has run, and for one that gives no rows.
        """
        if self._result is None or self._result.changes is not None:
            return None
        found = self._result.description
        return None if found is None else [
            (*column[:4], *_digits(column[1]), None) for column in found]

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed or gives; -1 where it did neither."""
        if self._result is None or self._result.changes is not None or self.description is None:
            return self._rowcount
        return self._result.rowcount

    @property
    def result(self) -> Result:
        """The last statement's result, with its `stats`, `df`, `arrow` and the rest."""
        return self._rows()

    @property
    def messages(self) -> list[tuple[type[Exception], str]]:
        """What the last statement's user should know, such as that a limit ended it early."""
        said = () if self._result is None else self._result.warnings
        return [(errors.Warning, text) for text in said]

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows, by default `arraysize`; fewer at the end."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """The rows not fetched yet."""
        return self._rows().fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows())

    def _rows(self) -> Result:
        self._check_open()
        if self._result is None:
            raise InterfaceError("no rows to fetch: execute a statement first")
        if self.description is None:
            raise InterfaceError("no rows to fetch: the last statement gives none")
        return self._result

    # --- the rest of PEP 249 --------------------------------------------------------------

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Has no effect: values are bound with the sizes they have."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Has no effect: values come in full."""

    def close(self) -> None:
        """Give up the rows; nothing can be asked of the cursor any more."""
        self._closed = True
        self._result = None

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check_usable()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _digits(kind: str) -> tuple[int | None, int | None]:
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else (None, None)
