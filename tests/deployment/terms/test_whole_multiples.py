"""Factors that were computed become whole multiples of one size, and nobody is told more by them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.deployment.terms import MOST_MULTIPLE, in_whole_multiples, multiples

LAW = sv.noise.Gaussian(std=0.5)
FACTOR = st.floats(-3.0, 3.0).filter(lambda value: abs(value) > 1e-3)


def covariance(noise, agents, known=()):
    """What agents outside `known` add that nobody in it knows."""
    held, K = noise.parameters, agents
    S = np.diag(np.array(held["own"]) ** 2)
    for (i, j), (a, b) in zip(held["pairs"], held["factors"], strict=True):
        c = np.zeros(K)
        c[i], c[j] = a, b
        if i not in known and j not in known:
            S += np.outer(c, c)
    kept = [k for k in range(K) if k not in known]
    return S[np.ix_(kept, kept)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.05, 2.0), min_size=4, max_size=4),
    st.lists(st.tuples(FACTOR, FACTOR), min_size=6, max_size=6),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_whoever_looks_sees_no_less_noise_and_hardly_more(own, factors, known):
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    noise = sv.noise.designed(LAW, own=own, pairs=pairs, factors=factors)
    made = in_whole_multiples(noise)
    before, after = covariance(noise, 4, known), covariance(made, 4, known)
    scale = np.sqrt(np.diag(before))
    difference = (after - before) / np.outer(scale, scale)
    assert np.linalg.eigvalsh(difference)[0] >= -1e-14
    # A ratio is off by less than 1/4096 of its denominator, in units of what the stronger of the two adds.
    assert np.abs(difference).max() < 6 * 3.0**2 / 4096 / min(own) ** 2
    again = in_whole_multiples(made)
    assert again.parameters == made.parameters


def test_factors_are_whole_multiples_to_the_last_bit():
    generator = np.random.default_rng(0)
    pairs = [(i, j) for i in range(8) for j in range(i)]
    noise = sv.noise.designed(LAW, own=np.ones(8), pairs=pairs, factors=generator.normal(size=(28, 2)))
    made = np.array(in_whole_multiples(noise).parameters["factors"])
    for first, second in made:
        ratio = Fraction(first) / Fraction(second)
        assert max(abs(ratio.numerator), ratio.denominator) <= MOST_MULTIPLE
    given = np.array(noise.parameters["factors"])
    assert np.array_equal(np.sign(made), np.sign(given))
    # Typical ratios come out to the square of 1/4096, and what is missing is paid for with own noise.
    assert np.median(np.abs(made / given - 1).max(axis=1)) < 2.0**-20
    assert np.array(in_whole_multiples(noise).parameters["own"]).max() < 1 + 1e-4


def test_ratios_of_small_whole_numbers_are_left_as_they_are():
    factors = [(1.5, -1.0), (0.3, 0.3), (0.0, 2.0), (3.0, -4.5)]
    noise = sv.noise.designed(LAW, own=[1.0, 0.5, 2.0], pairs=[(0, 1), (1, 2), (0, 2)], factors=factors[:3])
    assert in_whole_multiples(noise).parameters == noise.parameters
    assert in_whole_multiples(sv.noise.gopa(LAW, pairwise_std=0.3)).name == "gopa"
    independent = sv.noise.independent(LAW)
    assert in_whole_multiples(independent) is independent


def test_a_pair_too_weak_to_be_drawn_becomes_own_noise():
    noise = sv.noise.designed(LAW, own=[1.0, 0.5], pairs=[(0, 1)], factors=[(3e-6, -1.234567e-6)])
    made = in_whole_multiples(noise)
    assert made.parameters["pairs"] == []
    assert np.linalg.eigvalsh(covariance(made, 2) - covariance(noise, 2))[0] >= 0.0


def test_schedules_and_laws_stay():
    noise = sv.noise.designed(LAW, own=[1.0, 0.5], pairs=[(0, 1)], factors=[(0.7, -0.31)]).scaled([1.0, 2.0])
    made = in_whole_multiples(noise)
    assert made.law == noise.law
    assert made.factors(2).tolist() == [1.0, 2.0]


def test_an_agent_without_noise_of_its_own_is_refused():
    noise = sv.noise.designed(LAW, own=[1.0, 0.0], pairs=[(0, 1)], factors=[(1.0, -1.0)])
    with pytest.raises(sv.IncompatibleChoice, match="agent 1 has no noise of its own"):
        in_whole_multiples(noise)


def test_the_multiples_of_a_map_are_its_factors():
    agents, sources = np.array([0, 1, 0, 1]), np.array([0, 0, 0, 1])
    found = multiples(agents, sources, np.array([1.5, -1.0, 1.5, 0.3]), 3)
    assert found.sizes.tolist() == [0.5, 0.3, 0.0]
    assert dict(zip(zip(found.agents, found.sources, strict=True), found.whole, strict=True)) == {
        (0, 0): 3, (1, 0): -2, (1, 1): 1,
    }  # fmt: skip
    # Two multiples of one source at one agent, and two agents whose factors are no fractions of small numbers.
    assert multiples(agents, sources, np.array([1.5, -1.0, 1.4, 0.3]), 3) is None
    assert multiples(agents[:2], sources[:2], np.array([1.0, np.sqrt(2.0)]), 3) is None
