"""Bounds from hits and false alarms: limits, coverage, power, and the corrections without which they would be wrong."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sottovoce.accounting import gaussian, pure
from sottovoce.accounting import randomized_response as rr
from sottovoce.attacks.bounds import clopper_pearson, tradeoff_mu
from sottovoce.attacks.bounds.clopper_pearson import (
    Limits,
    _divided,
    epsilons,
    limits_at,
    lower_limit,
    mus,
    upper_limit,
)
from sottovoce.errors import ConfigError, UnsupportedClaim

TRIALS = 400
# Failures allowed among 400 trials that each fail with probability 0.05: exceeded with probability below 1e-4.
ALLOWED = int(binom.isf(1e-4, TRIALS, 0.05))


def gaussian_worlds(random, size, mu=2.0):
    return random.normal(size=size), random.normal(size=size) + mu


def laplace_worlds(random, size, epsilon=1.0):
    return random.laplace(size=size), random.laplace(size=size) + epsilon


def response_worlds(random, size, epsilon=1.0):
    p, q = rr.probabilities(epsilon)
    return (random.random(size) < q).astype(float), (random.random(size) < p).astype(float)


def failures(worlds, truth, bound, size=200):
    return sum(bound(*worlds(np.random.default_rng(seed), size)) > truth for seed in range(TRIALS))


@pytest.mark.parametrize(("count", "trials"), [(0, 1), (1, 1), (0, 50), (7, 50), (50, 50), (999, 1000)])
@pytest.mark.parametrize("error", [0.4, 0.05, 1e-4])
def test_limits_agree_with_scipy_and_with_their_definition(count, trials, error):
    interval = {
        side: binomtest(count, trials, alternative=side).proportion_ci(1 - error) for side in ("less", "greater")
    }
    low, high = float(lower_limit(count, trials, error)), float(upper_limit(count, trials, error))
    assert high == pytest.approx(interval["less"].high, rel=1e-8)
    assert low == pytest.approx(interval["greater"].low, rel=1e-8)
    if count < trials:
        assert binom.cdf(count, trials, high) == pytest.approx(error, rel=1e-9)
    if count > 0:
        assert binom.sf(count - 1, trials, low) == pytest.approx(error, rel=1e-9)


def test_bounds_at_one_threshold_by_hand():
    """90 of 100 against 10 of 100 at 95 %; each limit has half of the error."""
    zeros, ones = np.repeat([0.0, 1.0], [90, 10]), np.repeat([0.0, 1.0], [10, 90])
    found = clopper_pearson(zeros, ones, delta=0.01, confidence=0.95, thresholds=0.5)
    limit = binomtest(10, 100, alternative="less").proportion_ci(0.975).high
    assert found.epsilon == pytest.approx(math.log((1 - limit - 0.01) / limit), rel=1e-8)
    shown = tradeoff_mu(zeros, ones, confidence=0.95, thresholds=0.5)
    # Total variation at the symmetric point.
    assert gaussian.delta(shown.mu, 0.0) == pytest.approx(1 - 2 * limit, rel=1e-8)
    assert found.threshold == shown.threshold == 0.5


def test_the_direction_of_rare_misses_counts_as_much_as_that_of_rare_false_alarms():
    """F = 0.5 and T = 1: a score below the threshold betrays world 0, one above it next to nothing."""
    zeros, ones = np.repeat([0.0, 1.0], [500, 500]), np.ones(1000)
    forward = clopper_pearson(zeros, ones, delta=0.0, confidence=0.95, thresholds=0.5).epsilon
    mirrored = clopper_pearson(-ones, -zeros, delta=0.0, confidence=0.95, thresholds=-0.5).epsilon
    assert forward > 4.0
    assert mirrored == pytest.approx(forward, rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.2])
def test_what_a_threshold_shows_is_the_smallest_guarantee_that_allows_it(delta):
    """Brute force over epsilon and mu: both inequalities of (epsilon, delta)-DP, and the Gaussian curve by its epsilons."""
    for high, low in itertools.product([0.001, 0.1, 0.4], [0.05, 0.5, 0.999]):
        limits = Limits(np.array([high]), np.array([low]))
        grid = np.linspace(0.0, 8.0, 80_001)
        allowed = (low <= np.exp(grid) * high + delta) & (1 - high <= np.exp(grid) * (1 - low) + delta)
        assert epsilons(limits, delta)[0] == pytest.approx(grid[allowed][0], abs=2e-4)
        # mu-GDP is the family of all (epsilon, delta(mu, epsilon)): the point is allowed when all of them allow it.
        mu = mus(limits)[0]
        assert excess(high, low, max(mu, 1e-9)) <= 1e-12
        if mu > 0.0:
            assert excess(high, low, 0.99 * mu) > 0.0


def excess(high, low, mu):
    """By how much the rates break the worst of the (epsilon, delta) pairs of mu-GDP, in either direction."""
    factors, slopes = np.exp(np.linspace(0.0, 20.0, 1001)), np.linspace(0.0, 20.0, 1001)
    deltas = np.array([gaussian.delta(mu, e) for e in slopes])
    return max((low - factors * high - deltas).max(), (1 - high - factors * (1 - low) - deltas).max())


@pytest.mark.parametrize("thresholds", ["bonferroni", "split"])
@pytest.mark.parametrize(
    ("worlds", "delta", "truth"),
    [
        (gaussian_worlds, 0.05, gaussian.epsilon(2.0, 0.05)),
        (laplace_worlds, 0.0, 1.0),
        (response_worlds, 0.0, 1.0),
        (response_worlds, 0.1, pure.epsilon(1.0, 0.1)),
    ],
)
def test_epsilon_is_below_the_truth_as_often_as_promised(worlds, delta, truth, thresholds):
    """400 trials of 200 + 200 scores: at most ALLOWED failures at 95 %."""
    bound = lambda *scores: clopper_pearson(*scores, delta=delta, confidence=0.95, thresholds=thresholds).epsilon  # noqa: E731
    assert failures(worlds, truth, bound) <= ALLOWED


@pytest.mark.parametrize("thresholds", ["bonferroni", "split"])
@pytest.mark.parametrize(
    ("worlds", "truth"), [(gaussian_worlds, 2.0), (laplace_worlds, pure.mu(1.0)), (response_worlds, pure.mu(1.0))]
)
def test_mu_is_below_any_true_mu_also_when_the_noise_is_not_gaussian(worlds, truth, thresholds):
    bound = lambda *scores: tradeoff_mu(*scores, confidence=0.95, thresholds=thresholds).mu  # noqa: E731
    assert failures(worlds, truth, bound) <= ALLOWED


@pytest.mark.parametrize("thresholds", ["bonferroni", "split", 0.5])
def test_a_claim_of_three_quarters_of_the_truth_is_refuted(thresholds):
    """Power of the count of failures: 2000 + 2000 answers with epsilon = 1, held against 0.75."""
    bound = lambda *scores: clopper_pearson(*scores, delta=0.0, confidence=0.95, thresholds=thresholds).epsilon  # noqa: E731
    assert failures(response_worlds, 0.75, bound, size=2000) > ALLOWED


def test_the_best_of_all_thresholds_without_correction_breaks_the_promise():
    """Equal worlds, where every epsilon above 0 is wrong: the same count of failures that accepts us rejects this.

    At 60 % confidence, because two limits that must both fail in the same direction hide a missing correction at 95 %.
    """
    allowed = int(binom.isf(1e-4, TRIALS, 0.4))

    def uncorrected(zeros, ones):
        seen = np.unique(np.concatenate([zeros, ones]))
        return epsilons(limits_at(zeros, ones, seen, 0.4 * len(seen)), 0.0).max()

    equal = lambda random, size: gaussian_worlds(random, size, mu=0.0)  # noqa: E731
    assert failures(equal, 0.0, uncorrected) > allowed
    for thresholds in ("bonferroni", "split"):
        corrected = lambda *s, t=thresholds: clopper_pearson(*s, delta=0.0, confidence=0.6, thresholds=t).epsilon  # noqa: E731
        assert failures(equal, 0.0, corrected) <= allowed


@pytest.mark.parametrize("thresholds", ["bonferroni", "split"])
def test_sorted_scores_do_not_break_the_promise(thresholds):
    """The halves of sorted scores, taken in order, would differ: world 1's second half lies above its median."""
    equal = lambda random, size: tuple(np.sort(s) for s in gaussian_worlds(random, size, mu=0.0))  # noqa: E731
    bound = lambda *scores: clopper_pearson(*scores, delta=0.0, confidence=0.95, thresholds=thresholds).epsilon  # noqa: E731
    assert failures(equal, 0.0, bound) <= ALLOWED
    descending = lambda random, size: (np.sort(random.normal(size=size))[::-1], np.sort(random.normal(size=size)))  # noqa: E731
    assert failures(descending, 0.0, bound) <= ALLOWED


def test_the_parts_of_sorted_scores_are_alike():
    """Means of two halves of 0..999 differ by less than 5 standard errors (18 each); halves in order differ by 500."""
    first, rest = _divided(np.arange(1000.0), 500)
    assert abs(first.mean() - rest.mean()) < 5 * 18.3
    assert sorted([*first, *rest]) == list(range(1000))


def test_several_thresholds_share_the_error():
    """Three thresholds of which one shows something: its bound is that of a single one with a third of the error."""
    zeros, ones = gaussian_worlds(np.random.default_rng(6), 300)
    several = clopper_pearson(zeros, ones, delta=0.0, confidence=0.94, thresholds=[-90.0, 1.5, 90.0])
    assert several.threshold == 1.5
    alone = clopper_pearson(zeros, ones, delta=0.0, confidence=0.98, thresholds=1.5)
    assert several.epsilon == pytest.approx(alone.epsilon, rel=1e-9)


@pytest.mark.parametrize("thresholds", ["bonferroni", "split"])
def test_bounds_have_power(thresholds):
    """20,000 scores per world: most of a Laplace or randomized response's epsilon, and of a Gaussian's mu, is found."""
    random = np.random.default_rng(0)
    options = {"confidence": 0.95, "thresholds": thresholds}
    assert 0.8 < clopper_pearson(*laplace_worlds(random, 20_000), delta=0.0, **options).epsilon < 1.0
    assert 0.9 < clopper_pearson(*response_worlds(random, 20_000), delta=0.0, **options).epsilon < 1.0
    assert 1.8 < tradeoff_mu(*gaussian_worlds(random, 20_000), **options).mu < 2.0
    assert clopper_pearson(*gaussian_worlds(random, 20_000), delta=1e-5, **options).epsilon > 4.0


@pytest.mark.parametrize("thresholds", ["bonferroni", "split", 0.5])
def test_perfect_separation_gives_a_finite_bound_that_grows_with_the_number_of_runs(thresholds):
    found = [
        clopper_pearson(np.zeros(n), np.ones(n), delta=0.0, confidence=0.95, thresholds=thresholds).epsilon
        for n in (100, 1000, 10_000)
    ]
    assert 2.0 < found[0] < found[1] < found[2] < math.log(10_000)
    infinite = clopper_pearson(
        np.full(100, -np.inf), np.full(100, np.inf), delta=0.0, confidence=0.95, thresholds=thresholds
    )
    assert infinite.epsilon == found[0]


def test_no_bound_exceeds_what_the_number_of_runs_allows():
    """With n perfect runs the false-alarm limit is 1 - (a/2)^(1/n), Clopper & Pearson's closed form for 0 of n."""
    n = 1000
    found = clopper_pearson(np.zeros(n), np.ones(n), delta=0.0, confidence=0.95, thresholds=0.5).epsilon
    low = 0.025 ** (1 / n)
    assert found == pytest.approx(math.log(low / (1 - low)), rel=1e-9)


@pytest.mark.parametrize("thresholds", ["bonferroni", "split", 0.0])
def test_constant_scores_and_scores_of_the_wrong_sign_show_nothing(thresholds):
    options = {"confidence": 0.95, "thresholds": thresholds}
    zeros, ones = gaussian_worlds(np.random.default_rng(3), 500)
    for pair in ((np.zeros(50), np.zeros(60)), (ones, zeros)):
        assert clopper_pearson(*pair, delta=0.0, **options).epsilon == 0.0
        assert tradeoff_mu(*pair, **options).mu == 0.0


def test_monotone_transformations_of_scores_change_nothing():
    zeros, ones = gaussian_worlds(np.random.default_rng(4), 500)
    for thresholds in ("bonferroni", "split"):
        options = {"delta": 1e-5, "confidence": 0.9, "thresholds": thresholds}
        assert (
            clopper_pearson(np.exp(zeros), np.exp(ones), **options).epsilon
            == clopper_pearson(zeros, ones, **options).epsilon
        )


def test_more_confidence_more_delta_and_more_thresholds_show_less():
    zeros, ones = gaussian_worlds(np.random.default_rng(5), 1000)
    base = clopper_pearson(zeros, ones, delta=1e-3, confidence=0.9, thresholds=2.0).epsilon
    assert clopper_pearson(zeros, ones, delta=1e-3, confidence=0.99, thresholds=2.0).epsilon < base
    assert clopper_pearson(zeros, ones, delta=1e-1, confidence=0.9, thresholds=2.0).epsilon < base
    assert clopper_pearson(zeros, ones, delta=1e-3, confidence=0.9, thresholds=[2.0, -50.0, 50.0]).epsilon < base
    assert clopper_pearson(zeros, ones, delta=1e-3, confidence=0.9, thresholds=[2.0, 2.0]).epsilon == base


@pytest.mark.parametrize(
    "change",
    [
        {"delta": -1e-9}, {"delta": 1.0}, {"delta": math.nan}, {"delta": True}, {"confidence": 1.0}, {"confidence": 0.3},
        {"confidence": math.nan}, {"thresholds": "best"}, {"thresholds": math.nan}, {"thresholds": []},
        {"thresholds": True}, {"scores0": [0.0, math.nan]}, {"scores0": []}, {"scores0": [[0.0, 1.0]]},
        {"scores1": [True, False]}, {"scores1": ["a", "b"]}, {"scores1": [1.0]},
    ],
)  # fmt: skip
def test_malformed_input_is_refused(change):
    given = {"scores0": [0.0, 0.1], "scores1": [0.9, 1.0], "delta": 0.0, "confidence": 0.95, **change}
    with pytest.raises(ConfigError):
        clopper_pearson(given.pop("scores0"), given.pop("scores1"), **given)


def test_delta_and_confidence_have_no_default():
    with pytest.raises(TypeError):
        clopper_pearson([0.0, 0.1], [0.9, 1.0], delta=0.0)
    with pytest.raises(TypeError):
        clopper_pearson([0.0, 0.1], [0.9, 1.0], confidence=0.95)


def test_a_bound_on_mu_is_not_turned_into_an_epsilon():
    """A mechanism that is not mu-GDP may still have the epsilon of that curve at some delta."""
    found = tradeoff_mu(np.zeros(100), np.ones(100), confidence=0.95)
    with pytest.raises(UnsupportedClaim, match="clopper_pearson"):
        found.at(1e-5)
