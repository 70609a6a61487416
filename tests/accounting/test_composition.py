"""Composition theorems and conversions."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import sottovoce as sv
from sottovoce.accounting import composition, gaussian, pure


def composed_response_delta(epsilon0, rounds, epsilon):
    """Exact delta of `rounds` randomized responses: the loss is (2 j - rounds) epsilon0 with j binomial."""
    j = np.arange(rounds + 1)
    loss = (2 * j - rounds) * epsilon0
    return float(np.sum(binom.pmf(j, rounds, 1 / (1 + math.exp(-epsilon0))) * np.maximum(-np.expm1(epsilon - loss), 0)))


def test_basic_composition_adds():
    assert composition.basic([(0.1, 1e-6), (0.2, 0.0), (0.5, 2e-6)]) == pytest.approx((0.8, 3e-6), rel=1e-15)
    assert composition.basic([]) == (0.0, 0.0)
    assert composition.basic([(math.inf, 0.0), (1.0, 0.7), (1.0, 0.7)]) == (math.inf, 1.0)


def test_advanced_composition_golden():
    """epsilon = 0.1, 100 rounds, slack 1e-6: sqrt(200 ln 1e6) 0.1 + 10 (e^0.1 - 1) = 6.30823, worked out apart."""
    epsilon, delta = composition.advanced(0.1, 1e-9, 100, 1e-6)
    assert epsilon == pytest.approx(6.30823, rel=1e-6)
    assert delta == pytest.approx(1.1e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon0", "rounds", "slack"), [(0.1, 100, 1e-6), (0.5, 20, 1e-3), (0.01, 5000, 1e-9), (2.0, 3, 0.1)]
)
def test_advanced_composition_holds_for_the_worst_pure_mechanism(epsilon0, rounds, slack):
    """Randomized response composes exactly, and every pure mechanism is a post-processing of it."""
    epsilon, delta = composition.advanced(epsilon0, 0.0, rounds, slack)
    assert composed_response_delta(epsilon0, rounds, epsilon) <= delta
    assert composed_response_delta(epsilon0, 1, 0.3 * epsilon0) == pytest.approx(pure.delta(epsilon0, 0.3 * epsilon0))


def test_advanced_beats_basic_for_many_small_rounds_and_loses_for_few_large_ones():
    assert composition.advanced(0.01, 0.0, 10_000, 1e-6)[0] < composition.basic([(0.01, 0.0)] * 10_000)[0]
    assert composition.advanced(2.0, 0.0, 3, 1e-6)[0] > 6.0
    assert composition.advanced(1e3, 0.0, 2, 1e-6)[0] == math.inf


def test_gaussian_composition_is_one_gaussian_in_a_longer_direction():
    """Releases shifted by 3, 4 and 12 standard deviations are one shift of length 13."""
    assert composition.gaussian([3.0, 4.0, 12.0]) == pytest.approx(13.0, rel=1e-15)
    assert composition.gaussian(np.full(100, 0.1)) == pytest.approx(1.0, rel=1e-14)
    assert composition.gaussian([]) == 0.0
    assert composition.gaussian([1.0, math.inf]) == math.inf


def test_gaussian_composition_by_simulation():
    """delta(1) of three releases from their joint likelihood ratio; 400,000 draws, standard error 0.0005."""
    random, mus = np.random.default_rng(3), np.array([0.4, 0.8, 0.3])
    loss = random.normal(size=(400_000, 3)) @ mus + mus @ mus / 2
    estimate = np.maximum(-np.expm1(1.0 - loss), 0).mean()
    assert gaussian.delta(composition.gaussian(mus), 1.0) == pytest.approx(estimate, abs=0.0025)
    assert abs(gaussian.delta(float(mus.sum()), 1.0) - estimate) > 0.1


@pytest.mark.parametrize(
    ("rho", "exact", "renyi", "classic"),
    [  # delta = 1e-5; Gaussian exact, dp-accounting 0.6.0's Renyi conversion at its default orders, textbook formula
        (0.1, 1.760057, 1.914250, 2.245966),
        (0.5, 4.377178, 4.728507, 5.298526),
    ],
)
def test_golden_conversions_of_zcdp(rho, exact, renyi, classic):
    assert gaussian.epsilon(math.sqrt(2 * rho), 1e-5) == pytest.approx(exact, abs=1e-6)
    orders = rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    assert composition.rdp(orders, [order * rho for order in orders], 1e-5) == pytest.approx(renyi, abs=1e-6)
    assert 0 <= renyi + 1e-6 - composition.zcdp(rho, 1e-5) < 2e-4  # all orders are a little better than those
    assert composition.zcdp_classic(rho, 1e-5) == pytest.approx(classic, abs=1e-6)


@settings(deadline=None)
@given(st.floats(1e-3, 30.0), st.floats(1e-12, 0.3))
def test_renyi_conversions_are_never_below_the_exact_gaussian_epsilon_nor_above_the_classical(mu, delta):
    rho = composition.zcdp_of_gaussian(mu)
    tight = composition.zcdp(rho, delta)
    assert tight >= gaussian.epsilon(mu, delta) * (1 - 1e-12)
    assert tight <= composition.zcdp_classic(rho, delta)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1e-12, 0.5), st.floats(1.0001, 1e4))
def test_zcdp_takes_the_best_of_all_orders(rho, delta, order):
    assert composition.zcdp(rho, delta) <= composition.rdp([order], [order * rho], delta) + 1e-9


@pytest.mark.parametrize("mu", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_renyi_conversion_agrees_with_another_package(mu, delta):
    orders = [1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0, 256.0]
    values = [composition.rdp_of_gaussian(mu, order) for order in orders]
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, values, delta)
    assert composition.rdp(orders, values, delta) == pytest.approx(theirs, rel=1e-12)


def test_renyi_divergence_of_two_gaussians_by_quadrature():
    """ln of the integral of p^a q^(1-a), over (a - 1)."""
    x, mu, order = np.linspace(-20, 30, 200_001), 1.3, 2.5
    p, q = np.exp(-((x - mu) ** 2) / 2), np.exp(-(x**2) / 2)
    integral = np.trapezoid(p**order * q ** (1 - order), x) / math.sqrt(2 * math.pi)
    assert composition.rdp_of_gaussian(mu, order) == pytest.approx(math.log(integral) / (order - 1), rel=1e-10)


def test_the_ends_of_the_range():
    assert composition.zcdp(0.0, 1e-5) == composition.zcdp_classic(0.0, 1e-5) == 0.0
    assert composition.zcdp(math.inf, 1e-5) == math.inf
    assert composition.zcdp(1e-12, 0.3) == 0.0
    assert composition.zcdp(1e300, 1e-5) == pytest.approx(1e300)
    assert composition.rdp([2.0, 4.0], [math.inf, math.inf], 1e-5) == math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: composition.basic([(-1.0, 0.0)]),
        lambda: composition.basic([(1.0, math.nan)]),
        lambda: composition.advanced(1.0, 0.0, 0, 1e-6),
        lambda: composition.advanced(1.0, 0.0, True, 1e-6),
        lambda: composition.advanced(1.0, 0.0, 2.0, 1e-6),
        lambda: composition.advanced(1.0, 0.0, 2, 0.0),
        lambda: composition.advanced(math.inf, 0.0, 2, 0.1),
        lambda: composition.gaussian([1.0, -1.0]),
        lambda: composition.gaussian([True]),
        lambda: composition.rdp([2.0], [1.0, 2.0], 1e-5),
        lambda: composition.rdp([], [], 1e-5),
        lambda: composition.rdp([1.0], [1.0], 1e-5),
        lambda: composition.rdp([2.0], [-1.0], 1e-5),
        lambda: composition.rdp([2.0], [1.0], 0.0),
        lambda: composition.zcdp(-1.0, 1e-5),
        lambda: composition.zcdp(1.0, 0.0),
        lambda: composition.zcdp_classic(1.0, 1.0),
        lambda: composition.rdp_of_gaussian(1.0, 0.5),
        lambda: composition.zcdp_of_gaussian(math.nan),
    ],
)
def test_malformed_numbers_are_refused(call):
    with pytest.raises(sv.ConfigError):
        call()
