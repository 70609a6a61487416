"""mu-GDP: the exact curve between epsilon and delta, and its inverses."""

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting import gaussian


def exact_log_delta(mu, epsilon):
    """The defining formula at 60 digits and more: the two terms share up to 2 |log10 mu| digits."""
    with mp.workdps(60 + 2 * int(abs(math.log10(mu)))):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.log(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


def exact_epsilon(mu, delta, near):
    with mp.workdps(80):
        return mp.findroot(lambda e: exact_log_delta(mu, e) - mp.log(mp.mpf(delta)), mp.mpf(near))


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.5, 5.0, 40.0, 1e3])
@pytest.mark.parametrize("t", [-7.0, -0.4, 0.0, 1e-4, 0.5, 3.0, 15.0, 38.0, 141.5, 999.0, 1001.0, 1e6])
def test_log_delta_equals_sixty_digit_arithmetic_from_the_bulk_to_the_far_tail(mu, t):
    """t = 141.5 is ln delta = -1e4. Allowed: the effect of rounding epsilon, d ln delta = -t d(epsilon / mu)."""
    epsilon = max(0.0, mu * (t + mu / 2))
    rounding = 1e-15 * (1 + abs(t) * (epsilon / mu + mu))
    assert abs(gaussian.log_delta(mu, epsilon) - exact_log_delta(mu, epsilon)) <= 20 * rounding


@pytest.mark.parametrize(("mu", "epsilon"), [(12.0, 0.0), (14.0, 3.0), (60.0, 1200.0), (100.0, 1.0)])
def test_log_delta_keeps_the_digits_of_one_minus_delta(mu, epsilon):
    """Down to ln delta = -1e-545 in the last case, where the float answer is zero."""
    exact = float(exact_log_delta(mu, epsilon)) if mu < 100 else 0.0
    assert gaussian.log_delta(mu, epsilon) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.3, 1.0, 7.0])
def test_delta_at_epsilon_zero_is_the_total_variation_distance(mu):
    """2 Phi(mu / 2) - 1 = erf(mu / sqrt 8), where the difference of the two normal terms has no digits left."""
    assert gaussian.delta(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-14)


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 0.03, 0.5, 1.0, 3.0, 30.0, 1e3])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-3, 1e-5, 3e-7, 1e-10, 1e-20, 1e-50])
def test_epsilon_solves_the_exact_equation_and_mu_inverts_it(mu, delta):
    epsilon = gaussian.epsilon(mu, delta)
    if exact_log_delta(mu, 0.0) <= math.log(delta):
        assert epsilon == 0.0
        return
    exact = exact_epsilon(mu, delta, epsilon)
    assert abs(epsilon / exact - 1) < 1e-12
    assert gaussian.mu(epsilon, delta) == pytest.approx(mu, rel=1e-11)


@pytest.mark.parametrize(
    ("mu", "delta", "expected"),
    [  # bisection with 40-digit arithmetic (mpmath)
        (1.0, 1e-5, 4.3771780956812245),
        (0.5, 1e-6, 2.254084650219741),
        (3.0, 1e-5, 16.675494402828164),
    ],
)
def test_golden_epsilons(mu, delta, expected):
    assert gaussian.epsilon(mu, delta) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [0.01, 1e-5, 1e-9])
def test_epsilon_agrees_with_another_package(mu, delta):
    """dp-accounting solves the same equation with log-cdfs and bisection to 1e-12."""
    assert gaussian.epsilon(mu, delta) == pytest.approx(get_epsilon_gaussian(1 / mu, delta), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [  # root finding in SciPy and in 50-digit arithmetic agree to all digits shown
        (0.1, 1e-5, 30.749566131978),
        (0.5, 1e-6, 8.057618480725),
        (1.0, 1e-5, 3.730631634816),
        (1.0, 1e-6, 4.224678889327),
        (2.0, 1e-5, 1.993812445644),
        (4.0, 1e-6, 1.193518587158),
        (8.0, 1e-5, 0.600229072199),
        (10.0, 1e-8, 0.615846355760),
    ],
)
def test_golden_standard_deviations(epsilon, delta, expected):
    assert gaussian.std(epsilon, delta, 1.0) == pytest.approx(expected, rel=1e-11)
    assert gaussian.std(epsilon, delta, 2.5) == pytest.approx(2.5 * expected, rel=1e-11)


def test_delta_is_the_hockey_stick_divergence_of_two_gaussians():
    """Integral of (density of N(mu, 1) - e^epsilon density of N(0, 1))_+ by a fine grid; no formula shared."""
    x = np.linspace(-12, 14, 1_000_001)
    for mu, epsilon in [(0.3, 0.1), (1.0, 0.0), (1.0, 2.0), (2.5, 4.0)]:
        p, q = (np.exp(-((x - shift) ** 2) / 2) / math.sqrt(2 * math.pi) for shift in (mu, 0.0))
        integral = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
        assert gaussian.delta(mu, epsilon) == pytest.approx(integral, rel=1e-8)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(-50, -0.31))
def test_epsilon_is_never_below_what_delta_allows(mu, log10_delta):
    """At epsilon, delta is at most the one asked for, up to the rounding of epsilon times its slope t / mu."""
    delta = 10.0**log10_delta
    epsilon = gaussian.epsilon(mu, delta)
    t = epsilon / mu - mu / 2
    assert gaussian.log_delta(mu, epsilon) <= math.log(delta) + 1e-14 * (1 + abs(t) * (epsilon / mu + mu))


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1.001, 10.0), st.floats(1e-50, 0.5))
def test_more_shift_costs_more_epsilon_and_a_larger_delta_costs_less(mu, factor, delta):
    assert gaussian.epsilon(mu * factor, delta) >= gaussian.epsilon(mu, delta)
    assert gaussian.epsilon(mu, min(0.5, delta * factor)) <= gaussian.epsilon(mu, delta)


def test_the_ends_of_the_range():
    assert gaussian.epsilon(0.0, 0.0) == gaussian.epsilon(0.0, 1e-5) == 0.0
    assert gaussian.epsilon(1.0, 0.0) == gaussian.epsilon(math.inf, 1e-5) == math.inf
    assert gaussian.delta(0.0, 0.0) == 0.0
    assert gaussian.delta(math.inf, 3.0) == 1.0
    assert gaussian.log_delta(0.0, 1.0) == gaussian.log_delta(1e-160, 1e308) == -math.inf
    assert gaussian.mu(1.0, 0.0) == 0.0
    assert gaussian.mu(1e308, 1e-5) == pytest.approx(math.sqrt(2) * 1e154, rel=1e-12)


def test_the_classical_formula_is_valid_below_one_and_too_small_at_ten():
    """At epsilon = 10, delta = 1e-8 it prescribes 0.610636 where 0.615846 is needed: its true delta is above 1e-8."""
    for epsilon, delta in [(0.1, 1e-5), (0.5, 1e-6), (0.99, 1e-3)]:
        assert gaussian.delta(1 / gaussian.classic_std(epsilon, delta, 1.0), epsilon) < delta
    assert gaussian.classic_std(0.1, 1e-5, 1.0) == pytest.approx(48.448053, rel=1e-7)  # sqrt(2 ln 125000) / 0.1
    assert gaussian.classic_std(0.5, 1e-6, 3.0) == pytest.approx(3 * 10.597605, rel=1e-7)
    outside = math.sqrt(2 * math.log(1.25 / 1e-8)) / 10
    assert outside == pytest.approx(0.610636, rel=1e-6)
    assert gaussian.delta(1 / outside, 10.0) > 1.2e-8
    for epsilon in (0.0, 1.0, 10.0):
        with pytest.raises(sv.ConfigError, match="use std"):
            gaussian.classic_std(epsilon, 1e-8, 1.0)


@pytest.mark.parametrize("bad", [math.nan, -0.1, True, "1", None, np.array([1.0]), 1 + 0j])
def test_what_is_no_number_in_range_is_refused(bad):
    for call in (
        lambda: gaussian.delta(bad, 1.0),
        lambda: gaussian.delta(1.0, bad),
        lambda: gaussian.epsilon(bad, 1e-5),
        lambda: gaussian.epsilon(1.0, bad),
        lambda: gaussian.mu(bad, 1e-5),
        lambda: gaussian.mu(1.0, bad),
        lambda: gaussian.std(1.0, 1e-5, bad),
        lambda: gaussian.classic_std(0.5, bad, 1.0),
    ):
        with pytest.raises(sv.ConfigError, match="must be a number in"):
            call()


def test_ends_that_mean_no_privacy_or_no_noise_are_refused():
    for call in (
        lambda: gaussian.delta(1.0, math.inf),
        lambda: gaussian.epsilon(1.0, 1.0),
        lambda: gaussian.mu(1.0, 1.0),
        lambda: gaussian.std(1.0, 0.0, 1.0),
        lambda: gaussian.std(1.0, 1e-5, 0.0),
        lambda: gaussian.std(1.0, 1e-5, math.inf),
    ):
        with pytest.raises(sv.ConfigError):
            call()


def test_numpy_scalars_and_integers_are_numbers_and_results_are_floats():
    assert type(gaussian.epsilon(np.float32(1.0), np.float64(1e-5))) is float
    assert gaussian.epsilon(np.int64(1), 1e-5) == gaussian.epsilon(1, 1e-5) == gaussian.epsilon(1.0, 1e-5)
