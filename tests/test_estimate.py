"""The statistics of approximate answers: known values, and what must hold for any input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsql.planner.estimate.betting import RatioSequence
from mlsql.planner.estimate.bounds import (
    count_bounds,
    distinct_bounds,
    filtered_mean_bounds,
    mean_bounds,
    sum_bounds,
)
from mlsql.planner.estimate.clusters import ClusterSearch
from mlsql.planner.estimate.confidence import delta_by_group, delta_of
from mlsql.planner.estimate.distinct import DistinctSearch
from mlsql.planner.estimate.distributions import (
    binomial_below,
    draws_for,
    hypergeometric_below,
    marked_at_least,
    marked_at_most,
    share_at_least,
    share_at_most,
)
from mlsql.planner.estimate.groups import GroupSearch
from mlsql.planner.estimate.mean import Known, MeanSearch
from mlsql.planner.estimate.neighbours import (
    anchor_rows,
    autocorrelation,
    choose_spacing,
    interpolated,
    pilot_pairs,
)
from mlsql.planner.estimate.precision import precision_threshold, returned_rows, threshold_grid
from mlsql.planner.estimate.precision_search import PrecisionSearch
from mlsql.planner.estimate.predict import labels_for_mean, labels_for_share
from mlsql.planner.estimate.price import least_share, misses_allowed, recall_labels
from mlsql.planner.estimate.recall import (
    RecallSearch,
    order_statistic,
    positives_needed,
    rare_positives,
    recall_threshold,
)
from mlsql.planner.estimate.sampling import (
    UniformOrder,
    cluster_order,
    importance_draws,
    stratified_orders,
    uniform_order,
)
from mlsql.planner.estimate.topk import TopKSearch, inflation
from mlsql.planner.estimate.total import TotalBound
from mlsql.planner.estimate.variate import combined_scores, fit_variate, variate_offsets
from mlsql.planner.estimate.weighted import WeightedSearch, stratum_chances


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Distributions


def test_tails_agree_with_their_sums() -> None:
    exact = sum(math.comb(20, j) * 0.3**j * 0.7 ** (20 - j) for j in range(5))
    assert binomial_below(4, 20, 0.3) == pytest.approx(exact)
    ways = sum(math.comb(12, j) * math.comb(38, 10 - j) for j in range(3))
    assert hypergeometric_below(2, 50, 12, 10) == pytest.approx(ways / math.comb(50, 10))
    assert binomial_below(-1, 5, 0.5) == 0 and binomial_below(5, 5, 0.5) == 1
    assert hypergeometric_below(0, 10, 8, 5) == 0  # three at least


def test_clopper_pearson_is_the_inverse_of_the_binomial() -> None:
    low, high = share_at_least(17, 20, 0.05), share_at_most(17, 20, 0.05)
    assert 1 - binomial_below(16, 20, low) == pytest.approx(0.05)
    assert binomial_below(17, 20, high) == pytest.approx(0.05)
    assert share_at_least(29, 29, 0.05) >= 0.9 > share_at_least(28, 28, 0.05)
    assert share_at_least(0, 9, 0.05) == 0 and share_at_most(9, 9, 0.05) == 1


@given(st.integers(1, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_bounds_on_marked_rows_are_the_last_credible(rows: int, draw: st.DataObject) -> None:
    drawn = draw.draw(st.integers(0, rows))
    found = draw.draw(st.integers(0, drawn))
    most = marked_at_most(found, rows, drawn, 0.05)
    assert found <= most <= rows - drawn + found
    assert hypergeometric_below(found, rows, most, drawn) > 0.05
    if most < rows - drawn + found:
        assert hypergeometric_below(found, rows, most + 1, drawn) <= 0.05
    assert found <= marked_at_least(found, rows, drawn, 0.05) <= most


# Sampling


def test_orders_are_permutations_and_uniform() -> None:
    firsts = [int(UniformOrder(10, rng(seed))[0:1][0]) for seed in range(500)]
    assert set(firsts) == set(range(10)) and max(np.bincount(firsts)) < 90
    order = UniformOrder(100, rng(), np.arange(0, 100, 3))
    assert len(order) == 66
    assert sorted(order[:66]) == [row for row in range(100) if row % 3]
    long = UniformOrder(10_000, rng())
    some = long[:50].copy()
    assert len(set(long[:10_000])) == 10_000 and (long[:50] == some).all()
    assert sorted(uniform_order(50, rng())) == list(range(50))
    strata = np.array([2, 0, 2, 2, 0])
    assert [sorted(part) for part in stratified_orders(strata, rng())] == [[1, 4], [], [0, 2, 3]]


def test_importance_draws_weigh_what_they_favour() -> None:
    scores = np.array([0.0, 0.01, 0.25, 1.0, np.nan])
    draws = importance_draws(scores, 40_000, rng())
    assert draws.largest <= 10 and draws.weights.max() <= draws.largest
    assert np.mean(draws.weights) == pytest.approx(1, abs=0.05)  # E w = 1
    counts = np.bincount(draws.rows)
    assert counts[3] / counts[2] == pytest.approx(2, rel=0.1)  # ∝ √A
    assert counts[4] == pytest.approx(counts[3], rel=0.1)  # NULLs as the highest
    assert importance_draws(np.zeros(4), 10, rng()).largest == 1


def test_clusters_cover_every_row_once() -> None:
    found = cluster_order(np.array([0, 3, 4]), 9, rng())
    assert sorted(np.concatenate([found.rows(c) for c in found.order])) == list(range(9))


# Confidence sequences


def test_the_interval_narrows_only_and_ends_exactly() -> None:
    values = rng(1).random(3_000)
    sequence = RatioSequence(0.02, 0.05, population=3_000)
    before = (0.0, 1.0)
    for start in range(0, 3_000, 100):
        sequence.feed(values[start:start + 100])
        now = sequence.interval()
        assert before[0] <= now[0] <= now[1] <= before[1]
        before = now
    assert before == (pytest.approx(values.mean()),) * 2


def test_the_ends_are_where_the_wealth_reaches_its_threshold() -> None:
    """Against a grid over m, computed from the formula alone, with replacement."""
    values = rng(2).beta(2, 5, 400)
    sequence = RatioSequence(0.05, 0.05, stake=0.5)
    sequence.feed(values)
    low, high = sequence.interval()
    mean, variance, third, n = 0.5, 0.25, 0.0, 1.0
    up, down = [], []
    for value in values:
        skew = third / variance
        up.append(0.05 / (variance / n + 0.05 * max(-skew, 0)))
        down.append(0.05 / (variance / n + 0.05 * max(skew, 0)))
        mean = (mean * n + value) / (n + 1)
        variance, third, n = variance + (value - mean) ** 2, third + (value - mean) ** 3, n + 1

    def wealth(m: float) -> tuple[float, float]:
        rising = np.minimum(up, 0.5 / m)
        falling = np.minimum(down, 0.5 / (1 - m))
        sums = (np.cumsum(np.log1p(rising * (values - m))),
                np.cumsum(np.log1p(-falling * (values - m))))
        return float(sums[0][15::16].max()), float(sums[1][15::16].max())

    line = math.log(2 / 0.05)
    kept = [m for m in np.linspace(0.001, 0.999, 1_997) if max(wealth(m)) < line]
    assert low == pytest.approx(kept[0], abs=6e-4) and high == pytest.approx(kept[-1], abs=6e-4)
    assert wealth(low)[0] >= line and wealth(high)[1] >= line  # rounded outwards


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_batches_make_no_difference(values: list[float], cut: int, seed: int) -> None:
    passed = rng(seed).random(len(values)) < 0.7
    a, b = np.array(values) * passed, passed.astype(float)
    one, two = (RatioSequence(0.1, 0.1, population=80) for _ in range(2))
    one.feed(a, b)
    two.feed(a[:cut], b[:cut])
    two.feed(a[cut:], b[cut:])
    two.interval()  # looking makes no difference either
    assert one.interval() == pytest.approx(two.interval(), abs=1e-3)  # their tolerance
    hard = filtered_mean_bounds(np.array(values), passed, 80 - len(values), (0.0, 1.0))
    low, high = one.interval()
    assert low >= hard[0] - 1e-6 and high <= hard[1] + 1e-6  # hard bounds are part of it


def test_more_rows_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 rows fed out of 2"):
        RatioSequence(0.1, 0.05, population=2).feed(np.ones(3))


# Means


def labelled(search: MeanSearch, values: np.ndarray, passed: np.ndarray | None = None) -> None:
    while len(rows := search.ask(50)):
        search.tell(values[rows], None if passed is None else passed[rows])


def test_a_mean_with_its_predicted_labels() -> None:
    values = np.minimum(rng(3).poisson(2, 50_000), 20).astype(float)
    search = MeanSearch(len(values), (0, 20), 0.1, 0.05, rng())
    labelled(search, values)
    found = search.estimate()
    assert abs(found.value - values.mean()) <= 0.1 and found.high - found.low <= 0.2 + 1e-9
    assert found.labels == pytest.approx(
        labels_for_mean(values.var(), 20, 0.1, 0.05, len(values)), rel=0.3)
    total = found.times(len(values))
    assert total.low <= values.sum() <= total.high


def test_known_rows_count_exactly_however_they_were_chosen() -> None:
    values = np.sort(np.minimum(rng(4).poisson(2, 5_000), 20)).astype(float)
    top = np.arange(4_000, 5_000)
    search = MeanSearch(5_000, (0, 20), 0.1, 0.05, rng(), known=Known(top, values[top]))
    labelled(search, values)
    assert abs(search.estimate().value - values.mean()) <= 0.1
    everything = Known(np.arange(5_000), values)
    whole = MeanSearch(5_000, (0, 20), 0.1, 0.05, rng(), known=everything)
    assert whole.done and whole.estimate().exact and whole.estimate().value == values.mean()


def test_a_value_out_of_range_makes_the_run_exact() -> None:
    values = rng(5).random(3_000)
    values[rng(6).permutation(3_000)[:1_000]] = 9.0
    search = MeanSearch(3_000, (0, 1), 0.05, 0.05, rng())
    search.tell(values[search.ask(50)])
    assert search.beyond and search.estimate().high == math.inf
    labelled(search, values)
    assert search.estimate().exact and search.estimate().value == pytest.approx(values.mean())


def test_a_mean_over_rows_that_pass() -> None:
    values, passed = rng(7).random(20_000), rng(8).random(20_000) < 0.2
    search = MeanSearch(20_000, (0, 1), 0.03, 0.05, rng())
    labelled(search, values, passed)
    assert abs(search.estimate().value - values[passed].mean()) <= 0.03
    none = MeanSearch(300, (0, 1), 0.03, 0.05, rng())
    labelled(none, values, np.zeros(20_000, bool))
    assert none.estimate().exact and math.isnan(none.estimate().value)


def test_relative_errors_end_and_need_values_from_zero_up() -> None:
    values = rng(9).poisson(3, 20_000).clip(0, 20).astype(float)
    search = MeanSearch(20_000, (0, 20), 0.1, 0.05, rng(), relative=True)
    labelled(search, values)
    assert search.estimate().value == pytest.approx(values.mean(), rel=0.1)
    zeros = MeanSearch(500, (0, 20), 0.1, 0.05, rng(), relative=True)
    labelled(zeros, np.zeros(500))
    assert zeros.estimate().exact and zeros.estimate().value == 0
    with pytest.raises(ValueError, match="never negative"):
        MeanSearch(10, (-1, 1), 0.1, 0.05, rng(), relative=True)


def test_a_prefix_of_what_was_asked_for_may_be_told() -> None:
    values = rng(10).random(1_000)
    search = MeanSearch(1_000, (0, 1), 0.1, 0.05, rng())
    rows = search.ask(16)
    search.tell(values[rows[:5]])
    assert (search.ask(8)[:8] == rows[5:13]).all() and search.estimate().labels == 5


def test_a_control_variate_saves_labels_and_an_empty_one_changes_nothing() -> None:
    values = rng(11).normal(5, 1, 40_000).clip(0, 10)
    scores = values + rng(12).normal(0, 0.4, 40_000)
    pilot = np.arange(200)
    fit = fit_variate(values[pilot], scores[pilot])
    assert fit.useful and fit.correlation > 0.9 and fit.residual < 0.3 * fit.variance
    offsets = variate_offsets(scores, fit.coefficient)
    assert offsets.mean() == pytest.approx(0, abs=1e-12)
    known = Known(pilot, values[pilot])
    with_, without = (MeanSearch(40_000, (0, 10), 0.05, 0.05, rng(1), known=known, offsets=o)
                      for o in (offsets, None))
    for search in (with_, without):
        labelled(search, values)
        assert abs(search.estimate().value - values.mean()) <= 0.05
    assert 2 * with_.estimate().labels < without.estimate().labels
    constant = fit_variate(values[pilot], np.ones(200))
    assert not constant.useful and constant.coefficient == 0
    nulls = np.where(rng().random(40_000) < 0.1, np.nan, scores)
    assert variate_offsets(nulls, 1.0).mean() == pytest.approx(0, abs=1e-9)
    joined = combined_scores(values[pilot], np.c_[scores, nulls * 0 + 1][pilot][:, :1],
                             scores[:, None])
    assert np.corrcoef(joined, scores)[0, 1] == pytest.approx(1)


def test_labels_for_a_share_are_those_of_the_best_bet() -> None:
    assert labels_for_share(0.0, 0.02, 0.05) == pytest.approx(math.log(40) / -math.log(0.98))
    assert labels_for_share(0.5, 0.01, 0.05) == pytest.approx(
        labels_for_mean(0.25, 0, 0.01, 0.05), rel=0.01)
    assert labels_for_share(0.1, 0.01, 0.05) == pytest.approx(labels_for_share(0.9, 0.01, 0.05))


# Neighbours


def test_anchors_and_interpolation_stay_inside_their_file() -> None:
    starts = np.array([0, 10, 13])
    rows = anchor_rows(starts, 20, 4)
    assert rows.tolist() == [0, 4, 8, 9, 10, 12, 13, 17, 19]
    ramp = np.r_[np.arange(10), np.arange(3) + 50, np.arange(7) - 9].astype(float)
    assert interpolated(starts, 20, rows, ramp[rows]) == pytest.approx(ramp)
    some = np.array([2, 15])
    level = interpolated(starts, 20, some, np.array([1.0, 3.0]))
    assert level[[0, 9, 11, 19]].tolist() == [1, 1, 2, 3]


def test_the_spacing_follows_the_autocorrelation() -> None:
    noise = rng(13)
    slow = np.zeros(60_000)
    for i in range(1, len(slow)):
        slow[i] = 0.99 * slow[i - 1] + noise.normal()
    starts = np.zeros(1, np.int64)
    first, second, gaps = pilot_pairs(starts, len(slow), (1, 10, 100, 1_000), 100, rng())
    assert (second - first == gaps).all()
    lags, correlations = autocorrelation(slow[first], slow[second], gaps)
    assert correlations[1] == pytest.approx(0.99**10, abs=0.1) and correlations[3] < 0.3
    span = float(np.ptp(slow))
    spacing, labels = choose_spacing(slow.var(), lags, correlations, starts, len(slow), span, 0.1,
                                     0.05)
    assert 5 <= spacing <= 100
    assert labels < 0.6 * labels_for_mean(slow.var(), span, 0.1, 0.05, len(slow))
    none, _ = choose_spacing(1.0, lags, np.zeros(len(lags)), starts, len(slow), 10.0, 0.3, 0.05)
    assert none == 0


# Groups, strata, clusters, distinct


def test_small_groups_are_labelled_in_full_and_take_no_delta() -> None:
    assert delta_by_group(0.05, [10, 5_000, 6_000], 100) == [0, 0.025, 0.025]
    assert delta_of(0.95, 2) == pytest.approx(0.025)
    values = rng(14).random(9_000)
    groups = np.r_[np.zeros(20, int), np.ones(4_000, int), np.full(4_980, 2)]
    search = GroupSearch(groups, (0, 1), 0.05, 0.05, rng())
    while len(rows := search.ask(64)):
        search.tell(values[rows])
    found = search.estimates()
    assert [one.exact for one in found] == [True, False, False]
    for group, one in enumerate(found):
        assert abs(one.value - values[groups == group].mean()) <= 0.05


def test_weighted_draws_label_no_row_twice() -> None:
    passed = np.arange(4_000) < 400
    scores = np.where(passed, 0.9, 0.1)
    strata = (scores > 0.5).astype(int)
    chances = stratum_chances(strata, np.array([0.01, 0.99]), np.ones(2))
    assert chances.sum() == pytest.approx(1) and chances.min() >= 0.5 / 4_000 - 1e-12
    values = rng(15).random(4_000)
    search = WeightedSearch(chances, (0, 1), 0.1, 0.05, rng())
    asked: list[int] = []
    while len(rows := search.ask(32)):
        asked.extend(rows.tolist())
        search.tell(values[rows], passed[rows])
    assert len(asked) == len(set(asked)) == search.estimate().labels
    assert abs(search.estimate().value - values[passed].mean()) <= 0.1


def test_clusters_are_told_whole() -> None:
    values = np.repeat(rng(16).random(600), 10)
    search = ClusterSearch(np.arange(0, 6_000, 10), 6_000, (0, 1), 0.1, 0.05, rng())
    while len(rows := search.ask(25)):
        assert len(rows) % 10 == 0 and len(rows) <= 25
        search.tell(values[rows])
    assert abs(search.estimate().value - values.mean()) <= 0.1 and not search.estimate().exact


def test_distinct_keys_with_a_row_that_passes() -> None:
    keys = rng(17).permutation(np.arange(12_000) // 6)
    passed = rng(18).random(12_000) < 0.1
    truth = len(np.unique(keys[passed]))
    search = DistinctSearch(keys, 150.0, 0.05, rng())
    while len(rows := search.ask(40)):
        search.tell(passed[rows])
    found = search.estimate()
    assert abs(found.value - truth) <= 150 and found.labels < 12_000
    exact = DistinctSearch(keys[:60] * 0, 0.1, 0.05, rng())
    while len(rows := exact.ask(40)):
        exact.tell(passed[rows])
    assert exact.estimate().exact and exact.estimate().value == float(passed[:60].any())


def test_hard_bounds_put_each_unseen_row_at_its_worst() -> None:
    values, passed = np.array([2.0, 4.0, 6.0]), np.array([True, True, False])
    assert mean_bounds(values, 2, (0, 10)) == (12 / 5, 32 / 5)
    assert filtered_mean_bounds(values, passed, 2, (0, 10)) == (6 / 4, 26 / 4)
    assert filtered_mean_bounds(values, passed, 2, (5, 10)) == (3, 26 / 4)  # none need pass
    assert sum_bounds(values, passed, 2, (1, 10)) == (6, 26)
    assert count_bounds(passed, 2) == (2, 4)
    keys = np.array([0, 0, 1, 2])
    seen = np.array([True, False, True, False])
    assert distinct_bounds(keys, seen, np.array([True, False, False, False])) == (1, 2)


# Recall


def test_positives_that_a_recall_target_needs() -> None:
    assert [positives_needed(g, 0.05) for g in (0.9, 0.95, 0.99)] == [29, 59, 299]
    assert draws_for(0.1, 0.05) == 29
    assert order_statistic(28, 0.9, 0.05) == 0 and order_statistic(29, 0.9, 0.05) == 1
    for found in (29, 60, 200, 1_000):
        k = order_statistic(found, 0.9, 0.05)
        assert 1 - binomial_below(k - 1, found, 0.1) >= 0.95 > 1 - binomial_below(k, found, 0.1)


def test_fewer_positives_do_where_few_can_exist() -> None:
    assert order_statistic(60, 0.9, 0.05, 10**6) == order_statistic(60, 0.9, 0.05)
    assert order_statistic(60, 0.9, 0.05, 2_500) in (2, 3)  # little is gained
    assert order_statistic(60, 0.9, 0.05, 80) > order_statistic(60, 0.9, 0.05) + 3
    assert order_statistic(20, 0.9, 0.05) == 0 < order_statistic(20, 0.9, 0.05, 40)
    least = rare_positives(14_697, 51, 0.9, 0.05)
    assert 18 <= least < positives_needed(0.9, 0.05)


def test_the_hypergeometric_rule_is_right_at_every_number_of_positives() -> None:
    """By enumeration: which share of samples leaves more than a tenth of P below the threshold."""
    for positives in (25, 30, 39, 40):
        k = order_statistic(20, 0.9, 0.05, 40)
        ranks = np.argsort(rng(positives).random((20_000, positives)), axis=1)[:, :20]
        kth = np.sort(ranks, axis=1)[:, k - 1]  # that many positives lie below it
        missed = kth - (k - 1)
        assert np.mean(missed > misses_allowed(positives, 0.9)) <= 0.055


def test_the_threshold_is_an_order_statistic_and_ties_are_in() -> None:
    scores = np.r_[np.linspace(0.5, 1, 60), np.zeros(40)]
    labels = scores > 0
    k = order_statistic(60, 0.9, 0.05)
    assert recall_threshold(scores, labels, 0.9, 0.05) == np.sort(scores[labels])[k - 1]
    assert recall_threshold(scores[:20], labels[:20], 0.9, 0.05) == -math.inf
    tied = RecallSearch(np.r_[np.full(300, 0.7), np.zeros(300)], 0.9, 0.05, rng(), positives=40)
    truth = np.r_[np.ones(300, bool), np.zeros(300, bool)]
    while len(rows := tied.ask(10)):
        tied.tell(truth[rows])
    chosen = tied.selection()
    assert chosen.threshold == 0.7
    assert sorted(np.r_[chosen.positives, chosen.unchecked]) == list(range(300))


def test_null_scores_go_to_the_oracle_and_nothing_found_means_all() -> None:
    scores = rng(19).random(500)
    scores[::10] = np.nan
    truth = np.zeros(500, bool)
    truth[::20] = True
    search = RecallSearch(scores, 0.9, 0.05, rng())
    first = search.ask(100)
    assert np.isnan(scores[first]).all() and len(first) == 50
    search.tell(truth[first])
    while len(rows := search.ask(100)):
        search.tell(truth[rows])
    chosen = search.selection()
    assert chosen.labels == 500 and not len(chosen.unchecked)
    assert sorted(chosen.positives) == np.flatnonzero(truth).tolist()
    limited = RecallSearch(scores, 0.9, 0.05, rng(), limit=100)
    while len(rows := limited.ask(64)):
        limited.tell(truth[rows])
    chosen = limited.selection()
    assert chosen.threshold == -math.inf and chosen.labels == 100
    assert len(chosen.unchecked) == 400 and "of 29 positives" in chosen.note


def test_known_labels_are_returned_and_not_drawn() -> None:
    scores, truth = rng(20).random(2_000), rng(21).random(2_000) < 0.3
    known = np.arange(0, 2_000, 2)
    search = RecallSearch(scores, 0.9, 0.05, rng(), known=(known, truth[known]))
    while len(rows := search.ask(64)):
        assert (rows % 2 == 1).all()
        search.tell(truth[rows])
    assert set(known[truth[known]]) <= set(search.selection().positives)


def test_what_certification_costs_at_least() -> None:
    assert [round(least_share(p, 0.9, 0.05), 3) for p in (51, 263, 2_823)] == [0.393, 0.105, 0.011]
    assert misses_allowed(30, 0.9) == 3 and misses_allowed(9, 0.9) == 0
    assert recall_labels(1_000, 20, 0.9, 0.05) == 1_000
    assert recall_labels(10_000, 1_000, 0.9, 0.05) == pytest.approx(29 * 10_001 / 1_001)


# Precision


def test_precision_thresholds_come_from_a_fixed_sequence() -> None:
    grid = threshold_grid(np.r_[np.linspace(0, 1, 1_000), np.nan])
    assert (np.diff(grid) < 0).all() and grid[-1] == 0
    scores = np.linspace(0, 1, 400)
    labels = scores > 0.5
    threshold = precision_threshold(scores, labels, np.array([0.9, 0.7, 0.5, 0.45, 0.2]), 0.9, 0.05)
    assert threshold == 0.5  # 200 of 220 do not prove 90 %
    assert precision_threshold(scores, labels, np.array([0.99, 0.5]), 0.9, 0.05) == math.inf
    kept = returned_rows(scores, 0.9, np.array([0, 399]), np.array([True, False]))
    assert 0 in kept and 399 not in kept and 390 in kept


def test_precision_search_by_bets() -> None:
    scores = rng(22).random(20_000)
    truth = rng(23).random(20_000) < np.clip(3 * scores - 1.5, 0, 1)
    search = PrecisionSearch(scores, 0.9, 0.05, rng())
    while len(rows := search.ask(32)):
        search.tell(truth[rows])
    chosen = search.selection()
    returned = np.r_[chosen.positives, chosen.unchecked]
    assert truth[returned].mean() >= 0.9 and len(chosen.unchecked) > 3_000
    assert chosen.labels < 3_000
    lies = PrecisionSearch(1 - scores, 0.9, 0.05, rng())
    while len(rows := lies.ask(32)):
        lies.tell(truth[rows])
    assert lies.selection().threshold == math.inf and not len(lies.selection().unchecked)


def test_labels_for_a_lower_threshold_settle_those_above_it_and_the_promise_holds() -> None:
    labels, misses = {0: 0, 3: 0}, 0
    for seed in range(60):
        rng = np.random.default_rng((9, seed))
        scores = rng.random(3000)
        truth = rng.random(3000) < np.clip(0.3 + scores, 0, 1)  # precise enough from .6 up or so
        grid = np.array([0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
        for aim in labels:
            search = PrecisionSearch(scores, 0.9, 0.05, np.random.default_rng(seed), grid=grid,
                                     aim=aim, patience=250)
            while len(rows := search.ask(100)):
                search.tell(truth[rows])
            found = search.selection()
            got = np.union1d(found.positives, found.unchecked)
            misses += bool(len(got)) and truth[got].mean() < 0.9
            labels[aim] += search.labels
    assert labels[3] < labels[0] and misses <= 12


def test_precision_of_a_small_table_is_certain_once_enough_are_found() -> None:
    search = PrecisionSearch(np.linspace(0, 1, 20), 0.9, 0.05, rng())
    while len(search.ask(1)):
        search.tell(np.ones(1, bool))
    assert search.selection().threshold == 0 and 10 < search.labels <= 18


# Top-k


def test_top_k_stops_early_and_is_right() -> None:
    means = rng(24).gamma(2, 2, 3_000)
    values = means + rng(25).normal(size=3_000)
    held = np.arange(150)
    search = TopKSearch(means, np.ones(3_000), 5, 0.05, (held, values[held]))
    while len(rows := search.ask(20)):
        search.tell(values[rows])
    found = search.result()
    assert found.confidence >= 0.95 and found.labels < 1_000 and not found.exact
    assert found.rows.tolist() == np.argsort(-values)[:5].tolist()


def test_spreads_are_inflated_until_held_out_rows_are_covered() -> None:
    values = rng(26).normal(size=2_000) * 3
    factor = inflation(values, np.zeros(2_000), np.ones(2_000))
    assert 2.8 <= factor <= 4.5
    assert inflation(values, np.zeros(2_000), np.full(2_000, 9.0)) == 1
    assert inflation(np.zeros(0), np.zeros(0), np.zeros(0)) == math.inf


def test_top_k_without_held_out_rows_asks_everything() -> None:
    values = rng(27).random(80)
    nothing = (np.zeros(0, np.int64), np.zeros(0))
    search = TopKSearch(np.where(values > 0.9, np.nan, values), np.ones(80), 3, 0.05, nothing)
    assert np.isnan(np.where(values > 0.9, np.nan, values)[search.ask(2)]).all()  # NULLs first
    while len(rows := search.ask(7)):
        search.tell(values[rows])
    assert search.result().exact
    assert search.result().rows.tolist() == np.argsort(-values)[:3].tolist()


def test_a_wrong_calibration_raises_an_alarm_while_running() -> None:
    values = rng(28).normal(size=1_000)
    values[200:] += 6  # what the held-out rows do not show
    held = np.arange(200)
    search = TopKSearch(np.linspace(0, 1, 1_000), np.ones(1_000), 10, 0.05, (held, values[held]))
    before = search.inflation
    search.tell(values[search.ask(20)])
    assert search.alarms > 0 and search.inflation > before


def test_a_bound_of_the_total_holds_while_rows_are_labelled_between_the_samples() -> None:
    size, delta, trials, misses, narrow = 600, 0.1, 300, 0, 0
    for seed in range(trials):
        rng = np.random.default_rng((5, seed))
        truth = np.zeros(size, bool)
        truth[rng.permutation(size)[:60]] = True
        bound, seen = TotalBound(size, delta), np.zeros(size, bool)
        for _ in range(4):
            # Searched in between, by someone who sees half of what is there.
            some = rng.permutation(np.flatnonzero(~seen & truth))[:4]
            seen[np.union1d(some, rng.permutation(np.flatnonzero(~seen))[:10])] = True
            order = rng.permutation(np.flatnonzero(~seen))
            bound.begin(int(truth[seen].sum()), len(order), 50)
            for at in bound.sizes:
                bound.look(int(truth[order[:at]].sum()))
            seen[order[:bound.sizes[-1]]] = True
        misses += bound.at_most < 60
        narrow += bound.at_most < 100
    assert misses <= trials * delta and narrow > trials / 2


def test_the_bound_of_a_total_is_the_exact_test_and_stays_when_a_sample_says_less() -> None:
    bound = TotalBound(14_000, 0.05)
    assert bound.next_delta == pytest.approx(0.05 * 0.75 * 0.8)
    bound.begin(51, 13_949, 6400)
    bound.look(0)
    # (1 - f)^(m + 1) <= 0.03: five that are hidden would show.
    assert bound.at_most == 51 + marked_at_most(0, 13_949, 6400, 0.03) < 57
    before = bound.at_most
    bound.begin(51, 7549, 10)
    bound.look(0)
    assert bound.at_most == before
    assert bound.next_delta == pytest.approx(0.05 * 0.06 * 0.8)
