"""Optimal composition of pure mechanisms: enumeration, binomial sums, and mechanisms that are not randomized response."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sottovoce.accounting import pure
from sottovoce.accounting import randomized_response as rr
from sottovoce.accounting.mechanisms import laplace, pure_composition
from sottovoce.errors import ConfigError


def enumerated(values, epsilon):
    """Delta of independent randomized responses, over all 2^k outcomes."""
    signs = np.array(list(itertools.product([1, -1], repeat=len(values))))
    masses = np.prod(1 / (1 + np.exp(-signs * np.asarray(values))), axis=1)
    return float(masses @ -np.expm1(np.minimum(epsilon - signs @ np.asarray(values), 0.0)))


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 4.0), min_size=1, max_size=9), st.floats(0.0, 0.99))
def test_unequal_rounds_are_never_below_an_enumeration_and_close_to_it(values, share):
    epsilon = share * sum(values)
    exact = enumerated(values, epsilon)
    assert pure_composition.delta(values, epsilon) >= exact - 1e-15
    # Where delta hardly falls, epsilon is hardly determined: nearness is that of rounds of little more.
    more = np.multiply(values, 1.01)
    assert pure_composition.delta(values, epsilon) <= enumerated(more, max(0.0, epsilon - 0.005 * sum(values)))
    if exact > 1e-9:
        assert pure_composition.epsilon(values, exact) >= epsilon * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize(("v", "rounds"), [(0.01, 1000), (1.0, 5), (0.3, 50), (5.0, 3), (1e-3, 20_000)])
def test_equal_rounds_are_the_binomial_sum(v, rounds):
    k = np.arange(rounds + 1)
    losses, masses = (2 * k - rounds) * v, binom.pmf(k, rounds, 1 / (1 + math.exp(-v)))
    for share in (0.0, 0.2, 0.7):
        epsilon = share * v * math.sqrt(rounds)
        exact = float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
        found = pure_composition.delta([v], epsilon, counts=[rounds])
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-7)
        assert pure_composition.epsilon([v], exact, counts=[rounds]) == pytest.approx(epsilon, rel=1e-6, abs=1e-7)


def test_more_than_a_grid_holds_is_still_close():
    """A million rounds are coarsened; the binomial sum by another package is 91.8160."""
    found = pure_composition.epsilon([0.01], 1e-5, counts=[10**6])
    p, q = rr.probabilities(0.01)
    exact = rr.epsilon_of_reports(p, q, reports=10**5, delta=1e-5)
    assert exact <= pure_composition.epsilon([0.01], 1e-5, counts=[10**5]) * (1 + 1e-9) <= 1.001 * exact
    assert 91.816 <= found <= 1.001 * 91.816


def test_rounds_chosen_by_earlier_answers_stay_below():
    """Three rounds of three answers, whose laws in both worlds are chosen by the answers before; all 27 paths are added up."""
    random, epsilon0 = np.random.default_rng(3), 0.7
    closest = 0.0
    for _ in range(200):
        paths = [(1.0, 1.0)]
        for _ in range(3):
            step = []
            for p, q in paths:
                rare = random.uniform(0.7, 1.0) / (1 + math.exp(epsilon0))
                split = random.uniform()
                low = np.array([rare * split, rare * (1 - split), 1 - rare])
                high = np.array([*(low[:2] * math.exp(epsilon0)), 1 - rare * math.exp(epsilon0)])
                assert np.abs(np.log(high / low)).max() <= epsilon0 * (1 + 1e-12)
                one, other = (high, low) if random.uniform() < 0.5 else (low, high)
                step += [(p * a, q * b) for a, b in zip(one, other, strict=True)]
            paths = step
        for epsilon in (0.0, 0.5, 1.2, 1.9):
            reached = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in paths)
            bound = pure_composition.delta([epsilon0] * 3, epsilon)
            assert reached <= bound
            closest = max(closest, reached / bound)
    assert closest > 0.9


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 2.0), min_size=1, max_size=12), st.floats(1e-9, 0.3))
def test_between_laplace_rounds_and_the_sum(values, delta):
    found = pure_composition.epsilon(values, delta)
    assert laplace.epsilon(values, delta) <= found * 1.003 + 1e-9
    assert found <= pure.epsilon(math.fsum(values), delta) * (1 + 1e-12)
    assert pure_composition.epsilon(values, 0.0) == pytest.approx(math.fsum(values), rel=1e-15)


def test_more_unequal_rounds_are_not_always_worse():
    """So values are rounded up, and not exchanged for unequal ones as Laplace rounds are."""
    assert enumerated([1.0, 1.0], 1.9) > enumerated([1.9, 0.1], 1.9)
    assert enumerated([1.0, 1.0], 0.0) < enumerated([1.9, 0.1], 0.0)


def test_extreme_and_malformed_numbers():
    assert pure_composition.epsilon([math.inf, 1.0], 0.1) == math.inf
    assert pure_composition.epsilon([], 0.1) == pure_composition.delta([0.0], 0.0) == 0.0
    assert pure_composition.epsilon([800.0, 900.0], 1e-6) == pytest.approx(1700.0, rel=1e-3)
    assert pure_composition.epsilon([1e-8] * 100, 1e-5) == 0.0
    with pytest.raises(ConfigError, match="must be"):
        pure_composition.epsilon([-1.0], 0.1)


@pytest.mark.parametrize(("p", "q"), [(0.75, 0.25), (0.9, 0.4), (0.3, 0.3), (0.2, 0.6), (1.0, 0.5), (0.4, 0.0)])
@pytest.mark.parametrize("reports", [1, 2, 5])
def test_several_reports_are_the_enumeration_over_both_orders(p, q, reports):
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        reached = []
        for a, b in ((p, q), (q, p)):
            paths = itertools.product([0, 1], repeat=reports)
            both = (math.prod(a if one else 1 - a for one in path) for path in paths)
            paths = itertools.product([0, 1], repeat=reports)
            other = (math.prod(b if one else 1 - b for one in path) for path in paths)
            reached.append(sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(both, other, strict=True)))
        found = rr.delta_of_reports(p, q, reports=reports, epsilon=epsilon)
        assert max(reached) - 1e-15 <= found <= max(reached) + 1e-12


def test_both_orders_count():
    """p = 0.99, q = 0.5, three reports: a truth of 0 is betrayed by a single 0, a truth of 1 by none."""
    zero_world = sum(max(0.0, 0.5**3 - math.exp(3.0) * 0.99**k * 0.01 ** (3 - k)) * math.comb(3, k) for k in range(4))
    assert rr.delta_of_reports(0.99, 0.5, reports=3, epsilon=3.0) == pytest.approx(zero_world, rel=1e-9)
    assert zero_world > 0.4


def test_symmetric_reports_are_the_optimal_composition():
    for epsilon0, reports, delta in ((0.01, 1000, 1e-5), (1.0, 6, 1e-2), (0.2, 40, 1e-9)):
        p, q = rr.probabilities(epsilon0)
        found = rr.epsilon_of_reports(p, q, reports=reports, delta=delta)
        assert found == pytest.approx(pure_composition.epsilon([epsilon0], delta, counts=[reports]), rel=1e-6)
        assert found < pure.epsilon(epsilon0 * reports, delta)
        assert rr.delta_of_reports(p, q, reports=reports, epsilon=found) <= delta
        assert rr.delta_of_reports(p, q, reports=reports, epsilon=0.99 * found) > delta


def test_reports_at_the_ends():
    assert rr.epsilon_of_reports(0.75, 0.25, reports=4, delta=0.0) == pytest.approx(4 * math.log(3))
    assert rr.epsilon_of_reports(0.75, 0.25, reports=1, delta=1e-3) == pytest.approx(pure.epsilon(math.log(3), 1e-3))
    assert rr.epsilon_of_reports(0.5, 0.5, reports=9, delta=0.1) == 0.0
    assert rr.epsilon_of_reports(0.5 + 1e-9, 0.5, reports=9, delta=0.1) == 0.0
    assert rr.epsilon_of_reports(1.0, 0.5, reports=2, delta=0.1) == math.inf
    assert rr.epsilon_of_reports(1.0, 0.99, reports=2, delta=0.1) < 0.1  # the impossible answer is rare enough
    assert rr.delta_of_reports(1.0, 0.0, reports=2, epsilon=5.0) == 1.0
    with pytest.raises(ConfigError, match="reports"):
        rr.delta_of_reports(0.5, 0.4, reports=0, epsilon=1.0)
