"""What is known of the rows of a condition: labels, and how likely each of the others is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.calibration import calibrated, drawn_chance, held_chance, stabilised
from mlsql.exec.approximate.field import Guess, Kernel, Track, guess
from mlsql.planner.approximate_score import Atom, Formula, chance

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ask = Callable[[Rows], Floats]

_FADES = 0.8  # what a forecast counts for, against one of a round later


@dataclass
class Labels:
    """What is known of every row: its label, the numbers that it is made of, and a guess."""

    ask: Ask  # label and values of rows, one a column; NaN is NULL
    size: int
    formula: Formula
    track: Track
    features: NDArray[np.float32] | None = None
    predicts: bool = False  # a positive is a row whose answer is not the one that is expected
    seen: Flags = field(init=False)
    label: Flags = field(init=False)
    expected: Flags = field(init=False)  # what the answer is taken for until there is a label
    chances: Floats = field(init=False)  # to be a positive
    guesses: dict[int, Guess] = field(default_factory=dict)
    trust: float = 1.0  # how many of the positives foretold of late there were, as a share
    total: float = 0.0  # positives there are in all, by the guess and a proof that failed
    _values: Floats | None = None
    _kernels: dict[int, tuple[int, Kernel]] = field(default_factory=dict)
    _centres: dict[int, float] = field(default_factory=dict)
    _raw: Floats | None = None  # the last guess, before it was calibrated
    _rounds: int = 0
    _foretold: Floats = field(init=False)  # of each labelled row before its label was known
    _round: Rows = field(init=False)  # when it was labelled

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.size, bool)
        self.label = np.zeros(self.size, bool)
        self.expected = np.zeros(self.size, bool)
        self.chances = np.full(self.size, 0.5)
        self._foretold = np.full(self.size, np.nan)
        self._round = np.zeros(self.size, np.int64)

    @property
    def found(self) -> int:
        """Positives among the labelled rows."""
        return int(self.label[self.seen].sum())

    @property
    def selected(self) -> Flags:
        """The rows that the condition selects, those without a label as they are expected to."""
        found: Flags = (self.label & self.seen) != self.expected
        return found

    @property
    def explained(self) -> float:
        """The share of variance that the guess explains, of the value that it knows least about."""
        return min((g.explained for g in self.guesses.values()), default=0.0)

    @property
    def left(self) -> Rows:
        """The rows without a label."""
        return np.flatnonzero(~self.seen)

    def look(self, rows: Rows) -> Flags:
        """The labels of these rows, asked for where they are not known."""
        answers = self.ask(rows)
        if self._values is None:
            self._values = np.full((self.size, answers.shape[1] - 1), np.nan)
        self._values[rows] = answers[:, 1:]
        self.label[rows] = (answers[:, 0] == 1) != self.expected[rows]
        if self._raw is not None:
            new = rows[~self.seen[rows]]
            self._foretold[new], self._round[new] = self._raw[new], self._rounds
        self.seen[rows] = True
        return self.label[rows]

    def refit(self) -> None:
        """Guess anew how likely each row is a positive, from all labels so far."""
        rows = np.flatnonzero(self.seen)
        if not len(rows) or self._values is None:
            return
        alone = np.full(self.size, np.nan)

        def known(atom: Atom) -> Floats:
            return self._chance(atom, rows, alone)

        raw = chance(self.formula, known)
        left_out = chance(self.formula, lambda atom: self._left_out(atom, rows))
        before = self._foretold[rows]
        guessed = np.where(np.isnan(before), left_out, before)
        self._rounds += 1
        weights = np.where(np.isnan(before), 1.0, _FADES ** (self._rounds - self._round[rows]))
        selected = calibrated(raw, guessed, self.label[rows] != self.expected[rows], weights)
        self._raw = raw
        if self.predicts:
            left = self.left
            self.expected[left] = selected[left] > 0.5
        self.chances = np.where(self.expected, 1 - selected, selected)
        self.chances[np.isnan(raw)] = 1.0  # no guess: a row to look at

    def _guess(self, value: int, rows: Rows) -> tuple[Guess, Rows]:
        assert self._values is not None
        numbers = self._values[rows, value]
        if self._counts(value):
            numbers = stabilised(numbers)
        own = rows[~np.isnan(numbers)]
        numbers = numbers[~np.isnan(numbers)]
        kernel = None
        before = self._kernels.get(value)
        if before is not None and len(own) < 2 * before[0]:
            kernel = before[1]
        # The first labels are spread evenly; later ones are there because they are high.
        centre = self._centres.setdefault(value, float(numbers.mean()) if len(own) else 0.0)
        found = guess(self.track, own, numbers, self.features, kernel, centre)
        if kernel is None:
            self._kernels[value] = (len(own), found.kernel)
        self.guesses[value] = found
        return found, own

    def _chance(self, atom: Atom, rows: Rows, alone: Floats) -> Floats:
        found, own = self._guess(atom.value, rows)
        if not len(own):
            return np.full(self.size, 0.5)
        return self._held(atom, found.mean, found.deviation)

    def _held(self, atom: Atom, mean: Floats, deviation: Floats) -> Floats:
        if self._yes_or_no(atom.value):
            return drawn_chance(atom, mean, 0.25 / max(int(self.seen.sum()), 1))
        return held_chance(atom, mean, deviation, self._counts(atom.value))

    def _left_out(self, atom: Atom, rows: Rows) -> Floats:
        """The same for labelled rows, each guessed without itself."""
        assert self._values is not None
        found = self.guesses[atom.value]
        known = ~np.isnan(self._values[rows, atom.value])
        mean = np.full(len(rows), np.nan)
        mean[known] = found.left_out
        holds = self._held(atom, mean, found.deviation[rows])
        return np.where(np.isnan(holds), 0.5, holds)

    def _yes_or_no(self, value: int) -> bool:
        """Whether all values so far are 0 or 1."""
        assert self._values is not None
        numbers = self._values[self.seen, value]
        numbers = numbers[~np.isnan(numbers)]
        return bool(len(numbers)) and bool(((numbers == 0) | (numbers == 1)).all())

    def _counts(self, value: int) -> bool:
        """Whether all values so far are numbers of something."""
        assert self._values is not None
        numbers = self._values[self.seen, value]
        numbers = numbers[~np.isnan(numbers)]
        return bool(len(numbers)) and bool((numbers == np.rint(numbers)).all()) \
            and float(numbers.min()) >= 0 and float(numbers.max()) > 1
