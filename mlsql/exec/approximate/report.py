"""How an approximate answer was obtained, as its result tells it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interval:
    """What is known of one estimate: the value lies in low to high, ends included.

    `column` is the result's column, `group` the values of the keys of GROUP BY as text, and `delta`
    this estimate's share of the chance to be wrong. `met` is whether the target was reached.
    """

    column: str
    value: float
    low: float
    high: float
    delta: float
    group: tuple[str, ...] = ()
    met: bool = True

    @property
    def half_width(self) -> float:
        """Half the length."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Approximation:
    """How an answer to an accuracy target was obtained; it is true where not all rows were seen.

    The reference is the answer that the models give on every row, not the truth. `method` and
    `proxy` are words for people; `rows` are the candidates, `labelled` those whose answer was
    looked at (`calls` of them by a call of a model, the others known before), `expected_calls`
    what was expected of the plan and `exact_calls` of the exact run. `recall` is a lower bound,
    `precision` an estimate with the ends of its interval.
    """

    method: str
    target: str
    confidence: float
    seed: int
    rows: int
    labelled: int
    calls: int = 0
    expected_calls: int | None = None
    exact_calls: int | None = None
    proxy: str = "none"
    exact: bool = False
    intervals: tuple[Interval, ...] = ()
    recall: float | None = None
    precision: tuple[float, float, float] | None = None
    notes: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return not self.exact

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the only interval; None where there are several or none."""
        if len(self.intervals) != 1:
            return None
        return self.intervals[0].low, self.intervals[0].high
