"""One run with many canaries, normal scores, the curve of an attacker, and what a bound says about a guarantee."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score, roc_curve

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.attacks.bounds import (
    auc,
    clopper_pearson,
    count_guesses,
    curve,
    gaussian_dp,
    one_run,
    tpr_at_fpr,
    tradeoff_mu,
)
from sottovoce.attacks.bounds.gaussian_dp import centre_limit
from sottovoce.attacks.bounds.one_run import p_value
from sottovoce.errors import ConfigError, UnsupportedClaim

TRIALS = 400
ALLOWED = int(binom.isf(1e-4, TRIALS, 0.05))


# One run


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        # jax_privacy 2.0.0 gives 2.165175788 for the first; the others come from a separate implementation.
        (1000, 100, 95, 1e-5, 2.165175800), (1000, 100, 100, 1e-5, 3.465376), (1000, 500, 300, 0.0, 0.251685),
        (10_000, 1000, 900, 1e-5, 2.015194), (100, 100, 100, 0.0, 3.492965), (1000, 1000, 620, 1e-5, 0.380339),
    ],
)  # fmt: skip
def test_one_run_agrees_with_other_implementations(m, r, v, delta, expected):
    assert one_run(m, r, v, delta=delta, confidence=0.95).epsilon == pytest.approx(expected, abs=6e-7)


def test_the_p_value_is_the_formula_term_by_term():
    m, r, v, epsilon, delta = 30, 12, 9, 0.7, 1e-3
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    share = max(sum(mass[v - i : v]) / i for i in range(1, v + 1))
    assert p_value(m, r, v, epsilon=epsilon, delta=delta) == pytest.approx(sum(mass[v:]) + 2 * m * delta * share)


@pytest.mark.parametrize(
    ("m", "r", "v", "delta"), [(1000, 100, 95, 1e-3), (50, 50, 40, 1e-2), (20, 9, 9, 1e-4), (99, 3, 3, 0.0)]
)
def test_the_p_value_grows_with_epsilon_up_to_one_half_so_the_bound_is_unique(m, r, v, delta):
    values = np.array([p_value(m, r, v, epsilon=e, delta=delta) for e in np.linspace(0.0, 8.0, 400)])
    relevant = values[: int(np.argmax(values > 0.5)) + 1]
    assert (np.diff(relevant) >= 0.0).all()


def test_all_guesses_right_has_a_closed_form():
    """q^r = 1 - confidence."""
    q = 0.05 ** (1 / 100)
    assert one_run(100, 100, 100, delta=0.0, confidence=0.95).epsilon == pytest.approx(math.log(q / (1 - q)), rel=1e-10)


def test_delta_counts_all_canaries_abstentions_included():
    few, many = (one_run(m, 100, 95, delta=1e-4, confidence=0.95).epsilon for m in (100, 10_000))
    assert many < few < one_run(100, 100, 95, delta=0.0, confidence=0.95).epsilon


def test_guessing_at_random_and_a_large_delta_show_nothing():
    assert one_run(1000, 1000, 500, delta=0.0, confidence=0.95).epsilon == 0.0
    assert one_run(1000, 0, 0, delta=0.0, confidence=0.95).epsilon == 0.0
    assert one_run(1000, 100, 100, delta=0.5, confidence=0.95).epsilon < 0.1


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_one_run_is_below_the_truth_as_often_as_promised_and_nearly_tight(epsilon):
    """Randomized response on each coin: v ~ Bin(m, q) exactly, so the error is nearly spent; a 20 % lower truth is caught."""
    random = np.random.default_rng(7)
    found = np.array(
        [
            one_run(400, 400, int(v), delta=0.0, confidence=0.95).epsilon
            for v in random.binomial(400, expit(epsilon), size=TRIALS)
        ]
    )
    assert (found > epsilon).sum() <= ALLOWED
    assert (found > 0.8 * epsilon).sum() > ALLOWED
    assert (found > epsilon).sum() >= 1


def test_guesses_are_counted_at_both_ends():
    scores = np.array([0.1, 0.9, 0.5, 0.8, 0.2])
    included = np.array([False, True, False, False, True])
    assert count_guesses(scores, included, positive=2, negative=1) == (5, 3, 2)
    assert count_guesses(scores, included, positive=1, negative=2) == (5, 3, 2)
    assert count_guesses(scores, included, positive=0, negative=0) == (5, 0, 0)


def test_ties_know_nothing_of_the_coins_however_the_canaries_are_sorted():
    """1000 equal scores, members last: a stable sort would call all of the first 200 guesses right."""
    included = np.arange(1000) >= 500
    for coins in (included, ~included):
        _, r, v = count_guesses(np.zeros(1000), coins, positive=200, negative=0)
        assert abs(v - r / 2) < 5 * math.sqrt(r) / 2


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "confidence"),
    [
        (10, 11, 5, 0.0, 0.95), (10, 5, 6, 0.0, 0.95), (10, 5, -1, 0.0, 0.95), (10, 5.0, 3, 0.0, 0.95),
        (0, 0, 0, 0.0, 0.95), (True, 1, 1, 0.0, 0.95), (10, 5, 3, 1.0, 0.95), (10, 5, 3, math.nan, 0.95),
        (10, 5, 3, 0.0, 1.0), (10, 5, 3, 0.0, 0.0),
    ],
)  # fmt: skip
def test_one_run_refuses_malformed_counts(m, r, v, delta, confidence):
    with pytest.raises(ConfigError):
        one_run(m, r, v, delta=delta, confidence=confidence)


def test_count_guesses_refuses_more_guesses_than_canaries_and_coins_that_are_none():
    with pytest.raises(ConfigError, match="guess each once"):
        count_guesses([0.0, 1.0], np.array([True, False]), positive=2, negative=1)
    with pytest.raises(ConfigError, match="booleans"):
        count_guesses([0.0, 1.0], [0, 1], positive=1, negative=1)


# Normal scores


@pytest.mark.parametrize(("t", "freedom"), [(5.0, 8), (0.3, 2), (30.0, 2), (44.0, 1998), (-3.0, 50), (2000.0, 40)])
@pytest.mark.parametrize("level", [0.95, 0.05])
def test_limits_of_the_centre_by_simulation(t, freedom, level):
    """Two million draws of T: the frequency is within five standard errors (0.0008), and not at a centre 2 % further."""
    random = np.random.default_rng(1)
    z, c = random.normal(size=2_000_000), np.sqrt(random.chisquare(freedom, size=2_000_000) / freedom)
    centre = centre_limit(t, freedom, level)
    assert ((z + centre) / c <= t).mean() == pytest.approx(level, abs=0.0008)
    assert abs(((z + centre + 0.02 * abs(centre) + 0.02) / c <= t).mean() - level) > 0.0008


def test_limits_of_the_centre_for_huge_t_are_those_of_the_chi_square_law():
    """t C - Z is then t C."""
    from scipy.stats import chi2

    assert centre_limit(1e9, 30, 0.95) / 1e9 == pytest.approx(math.sqrt(chi2.ppf(0.05, 30) / 30), rel=1e-7)
    assert centre_limit(0.0, 30, 0.95) == pytest.approx(norm.ppf(0.05), rel=1e-9)


@pytest.mark.parametrize("mu", [0.5, 2.0, 8.0])
def test_gaussian_dp_covers_exactly_for_normal_scores_at_both_ends(mu):
    """400 trials at 95 %: failures at either end are neither too many nor absent (20 expected)."""
    low = high = 0
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        found = gaussian_dp(3 + 7 * random.normal(size=30), 3 + 7 * (random.normal(size=50) + mu), confidence=0.95)
        low += found.mu > mu
        high += found.upper_mu < mu
    assert 4 <= low <= ALLOWED
    assert 4 <= high <= ALLOWED


def test_gaussian_dp_reaches_further_than_counting_and_says_what_it_assumes():
    random = np.random.default_rng(2)
    zeros, ones = random.normal(size=1000), random.normal(size=1000) + 2
    found = gaussian_dp(zeros, ones, confidence=0.95)
    assert found.mu < 2.0 < found.upper_mu
    assert found.mu < found.estimate < found.upper_mu
    assert "normal" in found.assumes
    assert "assuming normal" in str(found)
    at = found.at(1e-5)
    assert at.epsilon == gaussian.epsilon(found.mu, 1e-5)
    assert at.epsilon > 2 * clopper_pearson(zeros, ones, delta=1e-5, confidence=0.95).epsilon


def test_gaussian_dp_is_unchanged_by_shift_and_scale_and_zero_for_the_wrong_sign():
    random = np.random.default_rng(3)
    zeros, ones = random.normal(size=50), random.normal(size=40) + 1
    assert gaussian_dp(5 + 3 * zeros, 5 + 3 * ones, confidence=0.9).mu == pytest.approx(
        gaussian_dp(zeros, ones, confidence=0.9).mu
    )
    flipped = gaussian_dp(-zeros, -ones, confidence=0.9)
    assert flipped.mu == 0.0
    assert flipped.estimate < 0.0


def test_gaussian_dp_misleads_for_scores_that_are_not_normal():
    """Why the assumption is named: answers of randomized response with epsilon = ln 99, where a normal tail invents more."""
    random = np.random.default_rng(4)
    response = (random.random((2, 2000)) < np.array([[0.01], [0.99]])).astype(float)
    truth = math.log(99)
    assert gaussian_dp(response[0], response[1], confidence=0.95).at(1e-6).epsilon > truth
    assert clopper_pearson(response[0], response[1], delta=1e-6, confidence=0.95).epsilon < truth


@pytest.mark.parametrize(
    ("zeros", "ones"),
    [([0.0, 0.0], [1.0, 1.0]), ([0.0], [1.0, 2.0]), ([0.0, math.inf], [1.0, 2.0]), ([0.0, 1.0], [1.0, math.nan])],
)
def test_gaussian_dp_refuses_scores_that_cannot_be_normal(zeros, ones):
    with pytest.raises(ConfigError):
        gaussian_dp(zeros, ones, confidence=0.95)


# The curve


@pytest.mark.parametrize("rounding", [8, 1, 0])
def test_auc_agrees_with_scikit_learn_and_with_all_pairs_ties_included(rounding):
    random = np.random.default_rng(5)
    zeros, ones = random.normal(size=80).round(rounding), (random.normal(size=50) + 1).round(rounding)
    pairs = (ones[None, :] > zeros[:, None]) + 0.5 * (ones[None, :] == zeros[:, None])
    found = auc(zeros, ones)
    labels, scores = np.repeat([0, 1], [80, 50]), np.concatenate([zeros, ones])
    assert found.value == pytest.approx(pairs.mean(), rel=1e-12)
    assert found.value == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
    variance = pairs.mean(1).var(ddof=1) / 80 + pairs.mean(0).var(ddof=1) / 50
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert auc(-zeros, -ones).value == pytest.approx(1 - found.value, rel=1e-12)
    false, true, thresholds = curve(zeros, ones)
    expected = roc_curve(labels, scores, drop_intermediate=False)
    for ours, theirs in zip((false, true, thresholds), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_the_error_of_the_auc_is_that_of_repeated_experiments():
    """N(0,1) and N(1,1): AUC = Phi(1/sqrt 2). The mean DeLong error is within 10 % of the spread; half of it is not."""
    random = np.random.default_rng(6)
    found = [auc(random.normal(size=60), random.normal(size=40) + 1) for _ in range(1000)]
    values, errors = np.array([f.value for f in found]), np.array([f.standard_error for f in found])
    truth = norm.cdf(1 / math.sqrt(2))
    assert abs(values.mean() - truth) < 5 * values.std() / math.sqrt(1000)
    assert errors.mean() == pytest.approx(values.std(), rel=0.1)
    inside = [f.interval(0.95)[0] <= truth <= f.interval(0.95)[1] for f in found]
    assert np.mean(inside) >= 0.95


def test_the_interval_of_an_auc_does_not_collapse_for_perfect_separation():
    found = auc(np.zeros(20), np.ones(30))
    assert (found.value, found.standard_error) == (1.0, 0.0)
    low, high = found.interval(0.95)
    assert low == pytest.approx((0.05 / 2) ** (1 / 20), rel=1e-9)  # kl(1, A) = -ln A
    assert high == 1.0
    assert auc(np.ones(20), np.zeros(30)).interval(0.95) == pytest.approx((0.0, 1 - low))
    assert auc(np.zeros(5), np.zeros(5)).value == 0.5
    # 1 of 10,000 pairs is won, by chance of two scores.
    barely = auc(np.arange(2.0), np.append(np.full(4999, -1.0), 0.5))
    assert barely.interval(0.95)[0] == 0.0
    assert barely.value < barely.interval(0.95)[1] < 1.0


def test_tpr_at_fpr_takes_the_best_threshold_and_interpolates_nothing():
    zeros, ones = np.arange(100.0), np.arange(100.0) + 10.5
    assert tpr_at_fpr(zeros, ones, fpr=0.0) == (0.11, 0.0, 99.5 - 0.0)
    assert tpr_at_fpr(zeros, ones, fpr=0.01)[:2] == (0.12, 0.01)
    assert tpr_at_fpr(zeros, ones, fpr=0.0199)[:2] == (0.12, 0.01)
    assert tpr_at_fpr(zeros, ones, fpr=1.0)[:2] == (1.0, 0.89)
    assert tpr_at_fpr([1.0, 1.0], [1.0, 1.0], fpr=0.5) == (0.0, 0.0, math.inf)
    with pytest.raises(ConfigError):
        tpr_at_fpr(zeros, ones, fpr=1.5)


# A bound against a guarantee


def guarantee(std):
    topology = sv.topologies.ring(3)
    noise = sv.noise.independent(sv.noise.Gaussian(std=std))
    return sv.account(
        topology, sv.algorithms.atc(step_size=1.0), noise, sv.observers.eavesdropper(), rounds=1, sensitivity=1.0
    )


def test_a_bound_contradicts_a_guarantee_below_it_and_no_other():
    """Scores of mu = 2; guarantees of mu = 1 and mu = 2."""
    random = np.random.default_rng(8)
    zeros, ones = random.normal(size=4000), random.normal(size=4000) + 2
    weak, right = guarantee(1.0), guarantee(0.5)
    assert (weak.mu, right.mu) == (pytest.approx(1.0), pytest.approx(2.0))
    for found in (
        tradeoff_mu(zeros, ones, confidence=0.99),
        gaussian_dp(zeros, ones, confidence=0.99),
        gaussian_dp(zeros, ones, confidence=0.99).at(1e-5),
        clopper_pearson(zeros, ones, delta=0.1, confidence=0.99),
    ):
        assert found.contradicts(weak)
        assert not found.contradicts(right)


def test_a_bound_can_be_written_as_json_and_read_by_people():
    found = one_run(100, 100, 90, delta=1e-5, confidence=0.95)
    written = json.loads(json.dumps(found.describe()))
    assert written["epsilon"] == found.epsilon
    assert written["assumes"] is None
    assert "confidence 0.95" in str(found)
    with pytest.raises(UnsupportedClaim):
        found.at(1e-6)
