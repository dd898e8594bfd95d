"""What a running stage shows of its conditions: the order to try them in may change by it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from mlsql.exec.measured import LEAST_MS, Measurements
from mlsql.planner.cost import conjunct_cost, ordered, stage_cost
from mlsql.planner.nodes import Stage

if TYPE_CHECKING:
    from mlsql.exec.share import Counters

# A row seen one piece ago counts half as much as one of the latest piece: data drift.
_FADING = 0.5
# What past runs say weighs as much as so many rows.
_PRIOR_ROWS = 4.0
# An order must be expected to save this share of the cost before it takes another's place.
_WORTH_CHANGING = 0.05
# A trial of another first condition may cost this share of what is left to do.
_TRIAL_SHARE = 0.02
# For so many pieces a trial's outcome counts more than what a condition dropped after others.
_FRESH = 8
# A batch that had to wait for the processor is an outlier among so many.
_BATCHES = 9


class Learning:
    """Costs and selectivities of one stage, from past runs and from the rows seen so far."""

    def __init__(self, measured: Measurements) -> None:
        self._measured = measured
        self._judged: dict[str, tuple[float, float]] = {}  # rows that reached it, and passed
        self._alone: dict[str, tuple[float, float]] = {}  # the same where nothing came before it
        self._fresh: dict[str, int] = {}  # pieces until what was seen of it alone is too old
        self._spent: dict[str, deque[float]] = {}  # milliseconds a call, of the latest batches
        self._unknown: Mapping[int, float] = {}
        self._rows = 1
        self.total: dict[str, tuple[int, int]] = {}  # every row alike, for runs to come

    def about_to_see(self, rows: int, unknown: Mapping[int, float]) -> None:
        """How many rows are left, and for each call the share whose output is not known yet."""
        self._rows, self._unknown = max(1, rows), unknown

    def saw(self, judged: Mapping[str, tuple[int, int]], first: str = "") -> None:
        """A piece was judged: for each condition the rows that reached it, and those it passed.

        `first` is the condition that came before all others.
        """
        self._fresh = {text: left - 1 for text, left in self._fresh.items() if left > 1}
        for text, counts in judged.items():
            self._judged[text] = _faded(self._judged.get(text), counts)
            known = self.total.get(text, (0, 0))
            self.total[text] = (known[0] + counts[0], known[1] + counts[1])
        if first:
            self._alone[first] = _faded(self._alone.get(first), judged[first])
            self._fresh[first] = _FRESH

    def ran(self, model: str, counters: Counters) -> None:
        """A batch of a model."""
        if counters.calls:
            each = 1000 * counters.seconds_infer / counters.calls
            self._spent.setdefault(model, deque(maxlen=_BATCHES)).append(each)

    def order(self, stage: Stage) -> Stage:
        """The stage with its conditions in the order that now looks cheapest."""
        better = ordered(stage, self)
        expected = stage_cost(stage, self)
        worth = stage_cost(better, self) <= expected * (1 - _WORTH_CHANGING)
        return better if worth else stage

    def trial(self, stage: Stage, rows: int) -> Stage | None:
        """The stage with a condition first that never was, where to try that costs next to nothing.

        What a condition drops after another says little of what it would drop before it. `rows`
        are those of the trial.
        """
        left = stage_cost(stage, self) * self._rows
        for conjunct in stage.filters[1:]:
            cost = conjunct_cost(stage, conjunct, self) * rows
            tried = conjunct.text in self._alone or conjunct.condition is None
            if not tried and conjunct.calls and cost <= _TRIAL_SHARE * left:
                others = tuple(f for f in stage.filters if f is not conjunct)
                return replace(stage, filters=(conjunct, *others))
        return None

    # --- estimates ------------------------------------------------------------------------

    def call_ms(self, stage: Stage, call: int) -> float:
        """Milliseconds for a row that reaches the call: the model's, where it must be asked.

        Loading a model that has not run yet is spread over the rows that are left.
        """
        spec = stage.calls[call].spec
        spent = self._spent.get(spec.name)
        if spent:
            each = max(LEAST_MS, median(spent))
        else:
            past = self._measured.cost_ms(spec)
            each = spec.cost_ms if past is None else past
        loading = 0.0 if spent or self._measured.is_loaded(spec.name) else spec.load_ms
        unknown = self._unknown.get(call, 1.0)
        return unknown * each + (loading / self._rows if unknown else 0.0)

    def selectivity(self, key: str) -> float | None:
        """The share of rows passed, recent ones first; what past runs showed fills in."""
        seen = self._alone if key in self._fresh else self._judged
        reached, passed = seen.get(key, (0.0, 0.0))
        past = self._measured.selectivity(key)
        if past is not None:
            return (passed + past * _PRIOR_ROWS) / (reached + _PRIOR_ROWS)
        return passed / reached if reached >= _PRIOR_ROWS else None


def _faded(before: tuple[float, float] | None, new: tuple[int, int]) -> tuple[float, float]:
    reached, passed = before or (0.0, 0.0)
    return reached * _FADING + new[0], passed * _FADING + new[1]
