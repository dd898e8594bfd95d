"""What an executor is given and what it gives back: handles travel, pixels do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Step:
    """One model over one column of the rows, on the rows that its guard lets through.

    `guard` is an SQL condition over the share's columns, or None for every row. It may name
    out_0 … out_{i-1}, the outputs of earlier steps. A row passes where the condition is TRUE.
    A NULL argument is never given to the model: its output is NULL.
    """

    model: ModelSpec
    argument: str
    guard: str | None = None


@dataclass(frozen=True)
class Share:
    """A piece of work: the rows, in the order wanted, and the steps to take on each.

    Beside the arguments and whatever the guards name, `rows` has for each step i the columns
    known_i (BOOLEAN: the output is already known) and out_i (that output, else NULL). Where there
    are columns key_i (BIGINT), two steps with one model and equal keys ask for the same output.
    `accept` is the condition under which a row counts as passed, over the same columns. So many
    passed rows as `wanted` says are enough; None asks for all.
    """

    rows: pa.Table
    steps: tuple[Step, ...]
    accept: str | None = None
    wanted: int | None = None


@dataclass(frozen=True)
class RowError:
    """One input that could not be used: where it is and why. `row` counts within the share."""

    row: int
    step: int
    model: str | None
    message: str
    uri: str | None = None
    frame: int | None = None
    cause: BaseException | None = None
    value: str | None = None  # the input of a model that takes no media, shortened


@dataclass(frozen=True)
class Counters:
    """What was done, since the counters before. Times are in seconds.

    `calls` are inputs given to a model, each counted once even if its batch had to be split;
    `batches` is how often the model was called; `frames_decoded` are pictures made readable.
    """

    calls: int = 0
    batches: int = 0
    frames_decoded: int = 0
    seconds_decode: float = 0.0
    seconds_prepare: float = 0.0
    seconds_infer: float = 0.0
    seconds_wait: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        mine, others = vars(self), vars(other)  # astuple would copy every number deeply
        return Counters(**{name: mine[name] + others[name] for name in mine})


@dataclass(frozen=True)
class Answers:
    """The outputs of one step for some rows of a share: `outputs[j]` belongs to `rows[j]`.

    Rows are ascending. They are the rows whose output had to be found: those known, with a NULL
    argument or stopped by the guard are not among them; one with an error is, with NULL.
    """

    step: int
    rows: pa.Array  # int64, positions in Share.rows
    outputs: pa.Array  # the model's output type
    counters: Counters
    errors: tuple[RowError, ...] = ()


@dataclass(frozen=True)
class BatchDone:
    """One batch of rows went through all steps: the positions of those that `accept` passed.

    A share has at least one. `covered` is how many of the share's first rows are finished, so
    that LIMIT can stop.
    """

    covered: int
    passed: pa.Array  # int64, positions in Share.rows


Event = Answers | BatchDone


class Executor(Protocol):
    """Runs shares, one after the other. A BatchDone comes after all answers for the rows it covers.

    Errors come in the order of rows, and none of a row before all rows above it are covered.
    Workers may run ahead of what is pulled, by little where a share says how much is wanted.
    Closing the iterator stops all work at once and keeps nothing open.
    """

    @property
    def width(self) -> int:
        """How many batches are worked on side by side, as far as that is known."""

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        """The events of each share, with the share's ordinal."""

    def enough(self) -> None:
        """Between two events: no further row is wanted. Answers there are may come, then the end.

        Errors of rows not covered yet do not come any more.
        """

    def cancel(self) -> None:
        """From any thread: end the run in progress, which then raises Interrupted."""

    def close(self) -> None:
        """End what the executor holds: threads, processes, loaded models."""
