"""Aggregates within ±error: rows drawn in rounds until every interval is narrow enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from mlsql.errors import Interrupted, TimeLimit
from mlsql.exec.approximate.anchors import PILOT, RANGE, Choice, anchor_rows, choose, pilot_rows
from mlsql.exec.approximate.field import Guess, Track, fitted_kernel, guess
from mlsql.exec.approximate.oracle import Oracle
from mlsql.exec.approximate.targets import Targets
from mlsql.planner.approximate import Aggregates
from mlsql.planner.approximate_items import Estimated
from mlsql.planner.estimate.mean import Known, MeanSearch
from mlsql.planner.estimate.predict import labels_for_mean
from mlsql.planner.estimate.variate import fit_variate, variate_offsets

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Span = tuple[float, float]

_LEAST_ROUND = 32
_FIRST_ROUND = 0.7  # of the draws expected: the interval is narrow enough before them, if lucky
# The range of a count is mostly unused; ½, the common choice, would leave bets on it too small.
_STAKE = 0.9
_FOR_PRIOR = 30
_ENOUGH = 2  # times as many known rows as a pilot has: there is no need of one
_PRIOR_WEIGHT = 10.0


def expressions(shape: Aggregates) -> list[exp.Expr]:
    """For each estimated aggregate the number of a row that it is the mean or sum of.

    NULL where the row does not count; for a COUNT 1 where it does and 0 where it does not.
    """
    return [_of_row(e, shape.population.label) for e in sampled(shape)]


def sampled(shape: Aggregates) -> list[Estimated]:
    """The aggregates that a sample estimates; the others DuckDB computes."""
    return [e for e in shape.estimated if e.kind != "exact"]


def _of_row(estimated: Estimated, label: exp.Expr | None) -> exp.Expr:
    conditions = [c.copy() for c in (label, estimated.condition) if c is not None]
    value = estimated.value
    if estimated.kind == "count":
        if value is not None:
            held = exp.paren(value.copy(), copy=False)
            conditions.append(exp.not_(exp.Is(this=held, expression=exp.null()), copy=False))
        passed = exp.and_(*conditions, copy=False) if conditions else exp.true()
        return exp.Case(ifs=[exp.If(this=passed, true=exp.Literal.number(1))],
                        default=exp.Literal.number(0))
    assert value is not None
    if not conditions:
        return value.copy()
    passed = exp.and_(*conditions, copy=False)
    return exp.Case(ifs=[exp.If(this=passed, true=value.copy())])


@dataclass
class Group:
    """One group of one aggregate: its rows, and the search for its value."""

    number: int
    rows: Rows
    estimated: Estimated
    column: int
    error: float
    delta: float
    span: Span
    search: MeanSearch | None = None

    @property
    def scale(self) -> float:
        """What the mean over the group's rows is multiplied by."""
        return 1.0 if self.estimated.kind == "avg" else float(len(self.rows))

    def told(self, answers: Floats) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Values and which rows count, as MeanSearch wants them."""
        missing = np.isnan(answers)
        if self.estimated.kind == "avg":
            return np.where(missing, 0.0, answers), (~missing if missing.any() else None)
        return np.where(missing, 0.0, answers), None

    def interval(self) -> tuple[float, float, float]:
        """Value, low and high of the aggregate."""
        assert self.search is not None
        found = self.search.estimate().times(self.scale)
        return found.value, found.low, found.high


@dataclass(frozen=True)
class Method:
    """How the rows are drawn, in words, and the rows known before the draw."""

    words: str
    proxy: str
    expected: int
    known: Rows
    guessed: Guess | None = None
    plain: int = 0
    step: int | None = None


def prepare(
    oracle: Oracle, track: Track, groups: list[Group], targets: Targets, known: Rows,
    rng: np.random.Generator,
) -> Method:
    """Look at a pilot, choose between plain draws and anchors, and label the anchors."""
    if len(groups) > 1 or groups[0].estimated.kind not in ("avg", "sum", "count") \
            or groups[0].error <= 0:
        return _plain(oracle, groups, targets, known, rng)
    group = groups[0]
    known = np.union1d(known, _pilot(oracle, track, targets, known, rng))
    values, passed = group.told(oracle.ask(known)[:, group.column])
    if passed is not None:  # rows that do not count: no variate speaks of them
        return _plain(oracle, groups, targets, known, rng)
    error = _absolute(group, values, targets)
    guessed = guess(track, known, values) if track.has_neighbours else None
    choice = choose(guessed.kernel if guessed else fitted_kernel(track, known, values), track,
                    group.span[1] - group.span[0], error, group.delta, oracle.size)
    method = _narrowed(oracle, group, known, guessed, replace(choice, step=None), error)
    if choice.step is None or method.expected <= choice.labels:
        return method  # what is known already serves for anchors
    anchors = anchor_rows(track, choice.step)
    anchors = anchors[:len(anchors) if targets.oracle_limit is None else
                      oracle.limited(len(anchors), targets.oracle_limit)]
    known = np.union1d(known, anchors)
    values, _ = group.told(oracle.ask(known)[:, group.column])
    return _narrowed(oracle, group, known, guess(track, known, values), choice, error)


def _pilot(
    oracle: Oracle, track: Track, targets: Targets, known: Rows, rng: np.random.Generator
) -> Rows:
    """Rows that tell how values vary; none where enough is known already."""
    if len(known) >= _ENOUGH * PILOT:
        return known[:0]
    free = np.setdiff1d(np.arange(oracle.size), known)
    pilot = pilot_rows(track, free, rng)
    return pilot[:oracle.limited(len(pilot), targets.oracle_limit)]


def _absolute(group: Group, values: Floats, targets: Targets) -> float:
    """The error of the mean over the group's rows."""
    if not targets.relative:
        return group.error / group.scale
    return max(group.error * float(np.abs(values).mean()), 1e-9)


def _plain(
    oracle: Oracle, groups: list[Group], targets: Targets, known: Rows, rng: np.random.Generator,
) -> Method:
    return Method("uniform draws without replacement, betting confidence sequence", "none",
                  0, known)


def _narrowed(
    oracle: Oracle, group: Group, known: Rows, guessed: Guess | None, choice: Choice, error: float,
) -> Method:
    """Draws with neighbours as control variate, or without where they do not pay."""
    values, _ = group.told(oracle.ask(known)[:, group.column])
    span = group.span[1] - group.span[0]
    rest = oracle.size - len(known)
    plain = labels_for_mean(float(np.var(values)), RANGE * span, error, group.delta, rest)
    words = "uniform draws without replacement, betting confidence sequence"
    expected = np.inf
    if guessed is not None and guessed.explained > 0.1:
        # By distances to what is known: known rows may lie closer to each other than to the rest.
        left = float(np.mean(np.delete(guessed.deviation, known) ** 2)) if rest else 0.0
        expected = labels_for_mean(left, RANGE * 1.3 * span, error, group.delta, rest)
    if guessed is None or expected > plain:
        return Method(words, "none", round(plain), known, None, round(choice.plain), None)
    every = f"an anchor every {choice.step} rows" if choice.step else "the rows known before"
    return Method(
        f"control variate from neighbours in time ({every}), {words}", "neighbours",
        round(expected), known, guessed, round(choice.plain), choice.step)


def start(group: Group, oracle: Oracle, method: Method, targets: Targets, seed: int) -> None:
    """Set up the search: known rows enter exactly, the rest is drawn in an order of its own."""
    places = np.full(oracle.size, -1)
    places[group.rows] = np.arange(len(group.rows))
    own = method.known[places[method.known] >= 0]
    known = prior = None
    if len(own):
        values, passed = group.told(oracle.ask(own)[:, group.column])
        known = Known(places[own], values, passed)
        prior = _prior(values if passed is None else values[passed], method)
    offsets = None
    if method.guessed is not None:
        offsets = _offsets(group, oracle, method)
    relative = targets.relative
    error = group.error if relative else group.error / group.scale
    group.search = MeanSearch(
        len(group.rows), group.span, error, group.delta,
        np.random.default_rng([seed, group.number]), relative=relative, known=known,
        offsets=offsets, stake=_STAKE, prior=prior)


def _prior(values: Floats, method: Method) -> tuple[float, float, float] | None:
    """Mean and variance as the known rows have them: they are not drawn, so bets may use them."""
    if len(values) < _FOR_PRIOR:
        return None
    variance = float(np.var(values))
    if method.guessed is not None:
        variance *= 1 - min(method.guessed.explained, 0.95)
    return float(values.mean()), variance, _PRIOR_WEIGHT


def _offsets(group: Group, oracle: Oracle, method: Method) -> Floats:
    """The control variate, its slope from known values and their guesses without themselves."""
    assert method.guessed is not None
    values, _ = group.told(oracle.ask(method.known)[:, group.column])
    slope = fit_variate(values, method.guessed.left_out).coefficient
    guessed = np.clip(method.guessed.mean, *group.span)[group.rows]
    return variate_offsets(guessed, min(max(slope, 0.0), 1.0))


def run(
    oracle: Oracle, groups: list[Group], targets: Targets, method: Method
) -> tuple[str, ...]:
    """Draw in rounds until all searches are done, or the limit is; what the user should know."""
    first = True
    try:
        while any(not g.search.done for g in groups if g.search is not None):
            rows = _round(oracle, groups, targets, method.expected if first else None)
            if rows is None:
                return (f"ORACLE LIMIT {targets.oracle_limit:,} reached: the interval is valid, "
                        "but wider than asked",)
            first = False
            _publish(oracle, groups, targets)
    except (Interrupted, TimeLimit) as error:
        if not all(g.search is not None and np.isfinite(g.interval()).all() for g in groups):
            raise
        return (f"{error}: the interval is valid, but wider than asked",)
    return ()


def _round(
    oracle: Oracle, groups: list[Group], targets: Targets, expected: int | None
) -> int | None:
    """One round over all groups; None where no call may be made any more."""
    wanted: list[tuple[Group, Rows]] = []
    for group in groups:
        assert group.search is not None
        more = _size(group, expected)
        wanted.append((group, group.search.ask(more)))
    rows = np.unique(np.concatenate([g.rows[w] for g, w in wanted]))
    new = rows[~oracle.seen[rows]]
    allowed = oracle.limited(len(new), targets.oracle_limit)
    if allowed < len(new):
        share = allowed / max(len(new), 1)
        wanted = [(g, w[:int(len(w) * share)]) for g, w in wanted]
        if not any(len(w) for _, w in wanted):
            return None
    rows = np.unique(np.concatenate([g.rows[w] for g, w in wanted]))
    oracle.ask(rows)
    for group, places in wanted:
        assert group.search is not None
        if len(places):
            answers = oracle.ask(group.rows[places])[:, group.column]
            group.search.tell(*group.told(answers))
    return len(rows)


def _size(group: Group, expected: int | None) -> int:
    assert group.search is not None
    if expected:
        return max(_LEAST_ROUND, round(_FIRST_ROUND * expected))
    if group.search.beyond:
        return len(group.rows)
    try:
        more = int(group.search.expected_more)
    except (ValueError, OverflowError, ZeroDivisionError):
        more = 4 * _LEAST_ROUND
    drawn = group.search.estimate().labels
    return max(_LEAST_ROUND, drawn // 20, min(more, max(4 * _LEAST_ROUND, drawn)))


def _publish(oracle: Oracle, groups: list[Group], targets: Targets) -> None:
    value, low, high = groups[0].interval()
    if np.isfinite([value, low, high]).all():
        oracle.estimate(value, (high - low) / 2, targets.confidence)
