"""Randomized response: its epsilon, its design and its estimate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting import pure
from sottovoce.accounting import randomized_response as rr

inner = st.floats(1e-6, 1 - 1e-6)


def test_two_fair_coins_are_ln_three():
    """Vlaski & Sayed, eq. 11.12-11.16: answers 3/4 and 1/4, ratio 3."""
    assert rr.two_coins() == (0.75, 0.25)
    assert rr.epsilon(*rr.two_coins()) == pytest.approx(math.log(3), rel=1e-15)


def test_two_unfair_coins_by_simulation():
    """400,000 answers per truth; five standard errors are 0.004. Swapped coins would give q = 0.06, not 0.56."""
    random = np.random.default_rng(1)
    truthful, heads = random.random(400_000) < 0.3, random.random(400_000) < 0.8
    p, q = rr.two_coins(0.3, 0.8)
    assert np.where(truthful, True, heads).mean() == pytest.approx(p, abs=0.004)
    assert np.where(truthful, False, heads).mean() == pytest.approx(q, abs=0.004)
    assert abs(rr.two_coins(0.8, 0.3)[1] - q) > 0.4


@settings(deadline=None)
@given(inner, inner)
def test_epsilon_is_the_largest_log_ratio_over_both_answers_and_both_orders(p, q):
    ratios = [p / q, q / p, (1 - p) / (1 - q), (1 - q) / (1 - p)]
    assert rr.epsilon(p, q) == pytest.approx(math.log(max(ratios)), rel=1e-9, abs=1e-15)
    assert rr.epsilon(p, q) == rr.epsilon(q, p)


def test_the_answer_zero_counts_too():
    """p = 0.99, q = 0.5: a 1 is worth ln 1.98 = 0.68, a 0 is worth ln 50 = 3.91."""
    assert rr.epsilon(0.99, 0.5) == pytest.approx(math.log(50), rel=1e-12)


def test_an_answer_impossible_under_one_truth_is_infinite_and_equal_designs_reveal_nothing():
    assert rr.epsilon(1.0, 0.5) == rr.epsilon(0.5, 0.0) == rr.epsilon(1.0, 0.0) == math.inf
    assert rr.epsilon(0.3, 0.3) == rr.epsilon(0.0, 0.0) == rr.epsilon(1.0, 1.0) == 0.0
    assert rr.epsilon(*rr.two_coins(1.0)) == math.inf


def test_a_tiny_difference_keeps_its_digits():
    assert rr.epsilon(0.5 + 2.0**-40, 0.5) == pytest.approx(2.0**-39, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1e-6, 15.0), st.integers(2, 12))
def test_probabilities_invert_epsilon_for_any_number_of_categories(epsilon, categories):
    p, q = rr.probabilities(epsilon, categories=categories)
    assert p + (categories - 1) * q == pytest.approx(1.0, rel=1e-12)
    matrix = np.full((categories, categories), q) + (p - q) * np.eye(categories)
    assert rr.epsilon_of_categories(matrix) == pytest.approx(epsilon, rel=1e-6)
    if categories == 2:
        assert rr.epsilon(p, q) == pytest.approx(epsilon, rel=1e-6)


def test_no_symmetric_design_with_the_same_epsilon_is_more_truthful():
    p, q = rr.probabilities(1.0)
    assert rr.epsilon(p + 1e-6, q - 1e-6) > 1.0
    assert rr.probabilities(0.0) == (0.5, 0.5)


def test_telling_the_truth_or_drawing_uniformly_among_three():
    """By hand, L = 3, truthful 0.4: 0.6 against 0.2, so ln 3; gamma = 0.6 = L / (e^epsilon + L - 1) = 3 / 5."""
    matrix = rr.truth_or_uniform(0.4, 3)
    np.testing.assert_allclose(matrix, [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], rtol=1e-15)
    assert rr.epsilon_of_categories(matrix) == pytest.approx(math.log(3), rel=1e-14)
    assert rr.epsilon_of_categories(rr.truth_or_uniform(0.0, 4)) == 0.0
    assert rr.epsilon_of_categories(rr.truth_or_uniform(1.0, 4)) == math.inf


@settings(deadline=None)
@given(inner, inner)
def test_two_categories_agree_with_the_binary_formula(p, q):
    assert rr.epsilon_of_categories([[1 - p, p], [1 - q, q]]) == pytest.approx(rr.epsilon(p, q), rel=1e-6, abs=1e-12)


def test_the_symmetric_design_attains_the_worst_delta_of_its_epsilon():
    """Brute force over all four sets of answers."""
    p, q = rr.probabilities(1.3)
    for epsilon in (0.0, 0.5, 1.2):
        gaps = [
            sum(a - math.exp(epsilon) * b for a, b in chosen)
            for chosen in ([(p, q)], [(1 - p, 1 - q)], [(p, q), (1 - p, 1 - q)])
        ]
        assert max(0.0, *gaps) == pytest.approx(pure.delta(1.3, epsilon), rel=1e-12)


def test_the_estimate_is_unbiased_and_its_standard_error_true():
    """20,000 surveys of n = 200 at pi = 0.3: the mean within 4.5 standard errors of 0.3; the raw rate misses by 40.

    The variance is known to 1 % (the root of 2 / 20,000): 5 % accepts it and rejects forgetting 1 / (p - q)^2 = 4.
    """
    random, n, pi = np.random.default_rng(5), 200, 0.3
    p, q = rr.two_coins()
    truths = random.random((20_000, n)) < pi
    rates = (random.random((20_000, n)) < np.where(truths, p, q)).mean(axis=1)
    results = [rr.estimate_rate(float(rate), p, q, n) for rate in rates]
    estimates = np.array([result.estimate for result in results])
    spread = estimates.std() / math.sqrt(len(estimates))
    assert abs(estimates.mean() - pi) < 4.5 * spread
    assert abs(rates.mean() - pi) > 40 * spread
    claimed = np.mean([result.standard_error**2 for result in results])
    assert claimed == pytest.approx(estimates.var(), rel=0.05)
    assert rates.var() < 0.3 * estimates.var()


def test_about_the_respondents_themselves_the_estimate_errs_less():
    """With fixed truths only coins vary: the variance falls by pi (1 - pi) / n; 40,000 surveys know it to 0.7 %."""
    random, n, pi = np.random.default_rng(6), 200, 0.3
    p, q = rr.two_coins(0.8)
    truths = np.arange(n) < pi * n
    rates = (random.random((40_000, n)) < np.where(truths, p, q)).mean(axis=1)
    drawn = (q + (p - q) * pi) * (1 - q - (p - q) * pi) / n / (p - q) ** 2
    assert ((rates - q) / (p - q)).var() == pytest.approx(drawn - pi * (1 - pi) / n, rel=0.04)
    assert pi * (1 - pi) / n > 0.2 * drawn


def test_estimate_by_hand():
    """(0.5 - 0.25) / 0.5 = 0.5; sqrt(0.25 / 100) / 0.5 = 0.1 with n = 101."""
    assert rr.estimate_rate(0.5, 0.75, 0.25, 101) == pytest.approx((0.5, 0.1), rel=1e-14)


@pytest.mark.parametrize(
    "call",
    [
        lambda: rr.epsilon(1.1, 0.5),
        lambda: rr.epsilon(0.5, math.nan),
        lambda: rr.epsilon(True, 0.5),
        lambda: rr.two_coins(-0.1),
        lambda: rr.probabilities(-1.0),
        lambda: rr.probabilities(math.inf),
        lambda: rr.probabilities(1.0, categories=1),
        lambda: rr.probabilities(1.0, categories=2.5),
        lambda: rr.truth_or_uniform(0.5, True),
        lambda: rr.estimate_rate(0.5, 0.3, 0.3, 10),
        lambda: rr.estimate_rate(0.5, 0.7, 0.3, 1),
        lambda: rr.estimate_rate(1.5, 0.7, 0.3, 10),
        lambda: rr.epsilon_of_categories([[0.5, 0.6], [0.5, 0.5]]),
        lambda: rr.epsilon_of_categories([[1.5, -0.5], [0.5, 0.5]]),
        lambda: rr.epsilon_of_categories([[math.nan, 1.0], [0.5, 0.5]]),
        lambda: rr.epsilon_of_categories([[0.5, 0.5]]),
        lambda: rr.epsilon_of_categories([0.5, 0.5]),
        lambda: rr.epsilon_of_categories("no"),
    ],
)
def test_malformed_designs_are_refused(call):
    with pytest.raises(sv.ConfigError):
        call()
