"""What whole numbers cost: the bound for sums of rounded noise against exact laws; the charge for imperfect draws."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sottovoce.deployment.gopa import RoundedGaussian, delta_charge, sum_mu
from sottovoce.errors import ConfigError

EPSILONS = np.linspace(0.0, 4.0, 9)


def law_of_sum(std, parties):
    """Probabilities of a sum of rounded Gaussians by convolution, centred."""
    width = math.ceil(9 * std + 2)
    one = np.diff(norm.cdf((np.arange(-width, width + 2) - 0.5) / std))
    law = np.array([1.0])
    for _ in range(parties):
        law = np.convolve(law, one)
    return law


def exact_delta(law, shift, epsilon):
    """Hockey-stick divergence between a law on the integers and its shift."""
    one = np.concatenate([law, np.zeros(shift)])
    two = np.concatenate([np.zeros(shift), law])
    return np.maximum(one - math.exp(epsilon) * two, 0).sum()


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("std", [0.2, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("parties", [1, 2, 7, 20])
@pytest.mark.parametrize("shift", [1, 3, 10])
def test_bound_covers_the_exact_sum_of_rounded_noise(std, parties, shift):
    mu = sum_mu(RoundedGaussian(std=std), sensitivity=shift, honest_parties=parties, dimension=1)
    law = law_of_sum(std, parties)
    for epsilon in EPSILONS:
        assert exact_delta(law, shift, epsilon) <= gaussian_delta(mu, epsilon) + 1e-12


def test_the_continuous_guarantee_is_not_one_for_coarse_whole_numbers():
    # Twenty parties with a fifth of a unit each: their rounded noise is almost always zero.
    law, continuous = law_of_sum(0.2, 20), 1 / (0.2 * math.sqrt(20))
    assert exact_delta(law, 1, 1.0) > gaussian_delta(continuous, 1.0) + 0.05


def test_with_enough_fraction_bits_the_price_of_whole_numbers_vanishes():
    law = RoundedGaussian(std=0.57 * 2**24)
    mu = sum_mu(law, sensitivity=2**24, honest_parties=5000, dimension=1)
    assert math.isclose(mu, 1 / (0.57 * math.sqrt(5000)), rel_tol=1e-7)
    # A million parties and sixteen bits are not enough: the split needs more units than the vector has.
    coarse = sum_mu(RoundedGaussian(std=0.04 * 2**16), sensitivity=2**16, honest_parties=10**6, dimension=1)
    assert coarse > 3 / (0.04 * math.sqrt(10**6))


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 6))
def test_bound_is_above_the_best_split_into_whole_numbers(parties, dimension, radius):
    best = 0.0
    for change in product(range(-radius, radius + 1), repeat=dimension):
        if sum(c * c for c in change) <= radius**2:
            squares = 0
            for c in change:
                q, r = divmod(abs(c), parties)
                squares += r * (q + 1) ** 2 + (parties - r) * q**2
            best = max(best, squares)
    bound = sum_mu(RoundedGaussian(std=1.0), sensitivity=radius, honest_parties=parties, dimension=dimension) ** 2
    assert best <= bound * (1 + 1e-12)


def test_one_party_alone_has_the_continuous_guarantee():
    assert sum_mu(RoundedGaussian(std=4.0), sensitivity=2.0, honest_parties=1, dimension=9) == 0.5


def test_charge_to_delta_is_linear_in_the_draws_and_tiny():
    law = RoundedGaussian(std=2.0**16)
    one = delta_charge(law, draws=1, epsilon=1.0)
    assert math.isclose(one, (1 + math.e) * (math.floor(13.2 * 2**16 + 1) + 1) / 2**128, rel_tol=1e-12)
    assert math.isclose(delta_charge(law, draws=10**12, epsilon=1.0), one * 10**12)
    assert delta_charge(law, draws=10**12, epsilon=1.0) < 1e-19


@pytest.mark.parametrize(
    "changes",
    [
        {"sensitivity": -1.0},
        {"sensitivity": math.nan},
        {"sensitivity": math.inf},
        {"sensitivity": True},
        {"honest_parties": 0},
        {"honest_parties": 2.0},
        {"dimension": 0},
    ],
)
def test_numbers_out_of_range_are_refused(changes):
    arguments = {"sensitivity": 1.0, "honest_parties": 3, "dimension": 2} | changes
    with pytest.raises(ConfigError, match=next(iter(changes))):
        sum_mu(RoundedGaussian(std=1.0), **arguments)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, 701.0])
def test_epsilons_out_of_range_are_refused(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        delta_charge(RoundedGaussian(std=1.0), draws=1, epsilon=epsilon)
