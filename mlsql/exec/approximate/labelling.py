"""Finding the rows that a condition selects with few labels, and proving that few were missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlsql.exec.approximate.field import Guess, Kernel, Track, guess
from mlsql.planner.approximate_score import Atom, Formula, chance
from mlsql.planner.estimate.distributions import marked_at_most

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ask = Callable[[Rows], Floats]

_BATCH = 1 / 80  # of all rows, labelled in one round of a search
# Of δ: one attempt at proof after the other, and in each the looks at a growing sample.
_SHARES = ((0.6, 0.1, 0.05), (0.12, 0.03, 0.02), (0.05, 0.02, 0.01))
_LOOKS = (1.0, 1.4, 2.0)  # sizes of the sample, fixed before it is drawn
# Chances are taken for too low where a round found more than they foretold, never for too high:
# a proof that fails costs more than a round too many.
_TRUST = (1.0, 1.5)
_PULL = 4.0  # labels that a guess is worth
_FADES = 0.8  # what a forecast counts for, against one of a round later
_FEWEST_TO_PROVE = 10  # labels; with about as many rows left, all of them are looked at


@dataclass
class Labels:
    """What is known of every row: its label, the numbers that it is made of, and a guess."""

    ask: Ask  # label and values of rows, one a column; NaN is NULL
    size: int
    formula: Formula
    track: Track
    features: NDArray[np.float32] | None = None
    seen: Flags = field(init=False)
    label: Flags = field(init=False)
    chances: Floats = field(init=False)
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
        self.chances = np.full(self.size, 0.5)
        self._foretold = np.full(self.size, np.nan)
        self._round = np.zeros(self.size, np.int64)

    @property
    def found(self) -> int:
        """Positives among the labelled rows."""
        return int(self.label[self.seen].sum())

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
        self.label[rows] = answers[:, 0] == 1
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
        self.chances = calibrated(raw, guessed, self.label[rows], weights)
        self._raw = raw
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
        return _holds(atom, found.mean, found.deviation, self._counts(atom.value))

    def _left_out(self, atom: Atom, rows: Rows) -> Floats:
        """The same for labelled rows, each guessed without itself."""
        assert self._values is not None
        found = self.guesses[atom.value]
        known = ~np.isnan(self._values[rows, atom.value])
        mean = np.full(len(rows), np.nan)
        mean[known] = found.left_out
        holds = _holds(atom, mean, found.deviation[rows], self._counts(atom.value))
        return np.where(np.isnan(holds), 0.5, holds)

    def _counts(self, value: int) -> bool:
        """Whether all values so far are numbers of something."""
        assert self._values is not None
        numbers = self._values[self.seen, value]
        numbers = numbers[~np.isnan(numbers)]
        return bool(len(numbers)) and bool((numbers == np.rint(numbers)).all()) \
            and float(numbers.min()) >= 0 and float(numbers.max()) > 1


def stabilised(counts: Floats) -> Floats:
    """Counts on a scale on which they vary alike whatever their mean: √(y + 3/8) (Anscombe)."""
    out: Floats = np.sqrt(np.maximum(counts, 0.0) + 0.375)
    return out


def _holds(atom: Atom, mean: Floats, deviation: Floats, counts: bool) -> Floats:
    """The probability that a normal value meets a condition; counts lie half way between."""
    from scipy.special import ndtr

    spread = np.maximum(deviation, 1e-6)
    shift = 0.5 if counts else 0.0

    def above(bound: float) -> Floats:
        level = float(stabilised(np.array([bound]))[0]) if counts else bound
        return np.asarray(ndtr((mean - level) / spread), np.float64)

    if atom.op in (">=", "<"):
        least = above(atom.bound - shift)
        return least if atom.op == ">=" else 1 - least
    if atom.op in (">", "<="):
        more = above(atom.bound + shift)
        return more if atom.op == ">" else 1 - more
    inside = above(atom.bound - (shift or 0.5)) - above(atom.bound + (shift or 0.5))
    held: Floats = inside if atom.op == "=" else 1 - inside
    return held


def calibrated(
    raw: Floats, guessed: Floats, labels: Flags, weights: Floats | None = None
) -> Floats:
    """Chances as often right as they say: logistic, on what labelled rows were guessed before.

    `guessed` are forecasts made without the row's own label, as far as they can be of the time
    before it: rows are labelled because their forecast was high, so that it was too high on average
    (the winner's curse), and only forecasts of that time show by how much. Fits
    logit p = a + b · logit(guess) (Platt 1999), pulled towards a = 0, b = 1; the order stays.
    """
    if len(labels) < 20:
        return np.array(raw, np.float64)
    heavy = np.ones(len(labels)) if weights is None else weights
    x, given = _logit(guessed), np.array([0.0, 1.0])
    columns = np.stack([np.ones(len(x)), x], 1)
    at, pull = given.copy(), _PULL * np.diag([0.25, 1.0])
    for _ in range(12):
        held = 1 / (1 + np.exp(-columns @ at))
        slope = columns.T @ (heavy * (labels - held)) - pull @ (at - given)
        bend = columns.T @ (columns * (heavy * held * (1 - held))[:, None]) + pull
        at = np.clip(at + np.clip(np.linalg.solve(bend, slope), -1, 1), [-6, 0.05], [6, 4])
    known: Floats = 1 / (1 + np.exp(-(at[0] + at[1] * _logit(raw))))
    return known


def _logit(chances: Floats) -> Floats:
    inside = np.clip(chances, 1e-9, 1 - 1e-9)
    out: Floats = np.log(inside / (1 - inside))
    return out


def proof_labels(found: float, hidden: float, left: int, recall: float, delta: float) -> int:
    """About how many uniform labels of the rest prove recall, if `hidden` positives lie there.

    With x found in a share f of the rest, at most M lie there where P[Bin(M, f) ≤ x] = δ (normal
    approximation; for x = 0 exactly). x is taken for its mean and a deviation, so that the proof
    succeeds more often than not. `left` where no smaller number does.
    """
    from scipy.special import ndtri

    if left <= 2 * _FEWEST_TO_PROVE:
        return left
    share = np.geomspace(_FEWEST_TO_PROVE / left, 1.0, 160)[:-1]
    got = hidden * share + np.sqrt(hidden * share * (1 - share))
    spread = -float(ndtri(delta)) * np.sqrt(share * (1 - share))
    root = (spread + np.sqrt(spread**2 + 4 * share * (got + 0.5))) / (2 * share)
    none = np.log(delta) / np.log1p(-share)
    most = np.where(got < 0.3, none, np.maximum(root**2, none))
    enough = found + np.minimum(got, hidden) >= recall * (found + most)
    return max(1, int(np.ceil(share[np.argmax(enough)] * left))) if enough.any() else left


def is_proved(found: int, got: int, left: int, labels: int, recall: float, delta: float) -> bool:
    """Whether `got` positives among uniform labels of the rest prove the recall of all found."""
    most = marked_at_most(got, left, labels, delta) if labels < left else got
    return found + got >= recall * (found + most) or most == got


@dataclass(frozen=True)
class Price:
    """What finding and proving would still cost: rows to label first, then to draw, and in all."""

    search: int
    proof: int

    @property
    def total(self) -> int:
        """All labels still to come."""
        return self.search + self.proof


def price(labels: Labels, recall: float, delta: float) -> Price:
    """The cheapest split: label the likeliest rows first, prove the rest by uniform labels."""
    left = labels.left
    chances = np.minimum(labels.trust * np.sort(labels.chances[left])[::-1], 1.0)
    gained = np.concatenate([[0.0], np.cumsum(chances)])
    hidden = max(float(gained[-1]), labels.total - labels.found)
    best = Price(len(left), 0)
    for part in _steps(len(left)):
        found = labels.found + gained[part]
        proof = proof_labels(found, hidden - gained[part], len(left) - part, recall, delta) \
            if part < len(left) else 0
        if part + proof < best.total:
            best = Price(part, proof)
    return best


def _steps(left: int) -> list[int]:
    return sorted({int(left * share) for share in (
        0, .005, .01, .015, .02, .03, .04, .05, .06, .08, .1, .12, .15, .18, .21, .25, .3, .35,
        .4, .5, .6, .7, .8, .9)})


@dataclass(frozen=True)
class Proof:
    """How a recall target was kept: by proof from `drawn` uniform labels, or by all labels."""

    exact: bool
    attempts: int
    drawn: int
    recall: float


def _look_and_learn(labels: Labels, rows: Rows) -> int:
    """Label rows, and see how far their chances could be trusted: the rest is like the last."""
    foretold = float(labels.chances[rows].sum())
    got = int(labels.look(rows).sum())
    ratio = (got + 1) / (foretold + 1)
    labels.trust = float(np.clip(0.4 * labels.trust + 0.6 * ratio, *_TRUST))
    return got


def label_until_proved(
    labels: Labels, recall: float, delta: float, rng: np.random.Generator, *,
    allowed: Callable[[int], int], told: Callable[[Price], None] = lambda _: None,
) -> Proof | None:
    """Label likely rows, then prove that few were missed; None where no more may be asked.

    Whatever was labelled first, the draws of a proof are uniform over the rows left by then, and
    nothing that was seen had a say in them: so the proof holds for any guess. Each attempt has a
    share of δ; the last one is to label every row.
    """
    for attempt, shares in enumerate(_SHARES):
        wanted = _search(labels, recall, shares[0] * delta, allowed, told)
        if wanted is None:
            return None
        if not len(labels.left):
            return Proof(True, attempt, 0, 1.0)
        drawn = _prove(labels, wanted.proof, recall, [s * delta for s in shares], rng, allowed)
        if drawn is None:
            return None
        if drawn.recall >= recall:
            return Proof(drawn.exact, attempt + 1, drawn.drawn, drawn.recall)
    left = labels.left
    if allowed(len(left)) < len(left):
        return None
    labels.look(left)
    return Proof(True, len(_SHARES), 0, 1.0)


def _search(
    labels: Labels, recall: float, delta: float, allowed: Callable[[int], int],
    told: Callable[[Price], None],
) -> Price | None:
    """Label likely rows as long as that is cheaper than to prove; None where no more is allowed."""
    batch = max(32, int(labels.size * _BATCH))
    while True:
        labels.refit()
        wanted = price(labels, recall, delta)
        told(wanted)
        if not wanted.search:
            return wanted
        left = labels.left
        likely = left[np.argsort(-labels.chances[left], kind="stable")]
        count = allowed(min(wanted.search, batch))
        if not count:
            return None
        _look_and_learn(labels, likely[:count])


def _prove(
    labels: Labels, first: int, recall: float, deltas: list[float], rng: np.random.Generator,
    allowed: Callable[[int], int],
) -> Proof | None:
    """One attempt: a uniform sample that grows to sizes fixed before it, each with its own δ.

    By the union bound the probability that any of the looks proves what is not so is at most the
    sum of the δs, whenever it is given up. It is when the next look is not likely to succeed.
    """
    before, left = labels.found, labels.left
    order = rng.permutation(left)
    sizes = [min(len(left), max(1, int(first * part))) for part in _LOOKS]
    got = start = 0
    proof = Proof(False, 0, 0, 0.0)
    for size, delta, then in zip(sizes, deltas, [*sizes[1:], 0], strict=True):
        if allowed(size - start) < size - start:
            return None
        got += _look_and_learn(labels, order[start:size]) if size > start else 0
        start = size
        most = marked_at_most(got, len(left), size, delta) if size < len(left) else got
        proof = Proof(size == len(left), 0, size, (before + got) / max(before + most, 1))
        if proof.exact or is_proved(before, got, len(left), size, recall, delta):
            return Proof(proof.exact, 0, size, 1.0 if proof.exact else max(proof.recall, recall))
        foreseen = round(got * then / size)
        if not is_proved(before, foreseen, len(left), max(then, 1), recall, deltas[-1]):
            break
    hidden = got * (len(left) / max(start, 1) - 1)
    foretold = float(labels.chances[labels.left].sum())
    labels.total = labels.found + (hidden + foretold) / 2
    return Proof(False, 0, start, 0.0)
