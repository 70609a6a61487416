"""A total variation charged to delta: against brute force over epsilon, an explicit worst pair, and composition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sottovoce.accounting import gaussian
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way, charged_delta
from sottovoce.errors import ConfigError, UnsupportedClaim


def brute_delta(ways, epsilon):
    """The smallest charged delta at any epsilon up to the one asked about, on a fine grid."""
    e = np.linspace(0.0, epsilon, 4001)
    return min(
        (norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) + (1 + np.exp(e)) * off).min()
        for mu, off in ways
    )


@pytest.mark.parametrize("ways", [[(1.0, 1e-4)], [(0.3, 1e-6)], [(1.0, 1e-3), (1.4, 0.0)], [(2.0, 0.05), (2.5, 1e-5)]])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0, 9.0])
def test_delta_is_the_smallest_over_all_proofs_and_smaller_epsilons(ways, epsilon):
    stated = ChargedTradeoff(tuple(Way(*way) for way in ways)).delta(epsilon)
    assert stated == pytest.approx(brute_delta(ways, epsilon), rel=1e-5)


@given(st.floats(0.01, 5.0), st.floats(-40.0, -1.0), st.floats(-30.0, -0.1))
def test_epsilon_is_the_inverse_of_delta_and_infinite_where_the_charge_is_not_paid(mu, log_off, log_delta):
    one, delta = ChargedTradeoff((Way(mu, math.exp(log_off)),)), math.exp(log_delta)
    epsilon = one.epsilon(delta)
    if math.isinf(epsilon):
        assert one.delta(600.0) > delta
        return
    assert one.delta(epsilon) <= delta
    if epsilon > 1e-6:
        assert one.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


def test_without_a_charge_it_is_the_gaussian_guarantee():
    one = ChargedTradeoff((Way(0.7, 0.0),))
    assert one.mu == 0.7
    assert one.epsilon(1e-5) == gaussian.epsilon(0.7, 1e-5)
    assert one.delta(1.5) == gaussian.delta(0.7, 1.5)
    assert one.epsilon(0.0) == math.inf
    assert ChargedTradeoff((Way(0.7, 1e-30),)).mu is None
    assert ChargedTradeoff((Way(0.7, 1e-30), Way(0.9, 0.0))).mu == 0.9


def test_two_laws_at_the_stated_distance_attain_no_more_and_almost_as_much():
    # Mass t of each law is moved to a point of its own, where it identifies the world: within t of N(0,1), N(mu,1).
    mu, off, edges = 1.0, 1e-3, np.linspace(-12, 13, 200_001)
    one, two = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges, loc=mu))
    # Taken where the other world is likelier, so that hardly anything that counted is lost.
    last, first = np.searchsorted(np.cumsum(one[::-1]), off), np.searchsorted(np.cumsum(two), off)
    one[len(one) - last :], two[:first] = 0.0, 0.0
    for epsilon in (0.0, 0.5, 1.5):
        attained = np.maximum(one - math.exp(epsilon) * two, 0.0).sum() + (1.0 - one.sum())
        stated = ChargedTradeoff((Way(mu, off),)).delta(epsilon)
        assert attained <= stated
        assert attained > gaussian.delta(mu, epsilon) + 0.9 * (1 + math.exp(epsilon)) * off


def test_nothing_but_the_charge_is_left_of_identical_worlds():
    one = ChargedTradeoff((Way(0.0, 1e-6),))
    assert one.delta(3.0) == pytest.approx(2e-6)
    assert one.epsilon(1e-5) == 0.0


def test_charge_is_linear_until_delta_is_one():
    assert charged_delta(1.0, 1e-6, total_variation=1e-8) == pytest.approx(1e-6 + 1e-8 * (1 + math.e), rel=1e-12)
    assert charged_delta(1.0, 0.5, total_variation=0.5) == 1.0
    assert charged_delta(800.0, 0.0, total_variation=1e-300) == 1.0
    assert charged_delta(800.0, 0.1, total_variation=0.0) == 0.1


def test_scaling_is_refused():
    with pytest.raises(UnsupportedClaim, match="Account the run"):
        ChargedTradeoff((Way(1.0, 1e-9),)).scaled(2.0)


@pytest.mark.parametrize(
    "ways", [(), (Way(-1.0, 0.0),), (Way(math.inf, 0.0),), (Way(math.nan, 0.0),), (Way(1.0, 1.5),), (Way(1.0, -0.1),)]
)
def test_proofs_that_bound_nothing_are_refused(ways):
    with pytest.raises(ConfigError, match=r"mu|total_variation|proof"):
        ChargedTradeoff(ways)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, True])
def test_epsilons_and_deltas_out_of_range_are_refused(wrong):
    one = ChargedTradeoff((Way(1.0, 1e-9),))
    with pytest.raises(ConfigError, match="epsilon"):
        one.delta(wrong)
    with pytest.raises(ConfigError, match="delta"):
        one.epsilon(wrong)
