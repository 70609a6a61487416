"""The trade-off of Laplace rounds: contract values at delta = 0, partial knowledge, several agents, several runs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.accounting import pure
from sottovoce.accounting.mechanisms import laplace
from sottovoce.accounting.proofs.laplace_tradeoff import LaplaceTradeoff
from sottovoce.accounting.tradeoff import GaussianTradeoff, PureTradeoff, worst_of
from sottovoce.errors import ConfigError

some_values = st.lists(st.floats(1e-3, 2.0), min_size=1, max_size=12)
DELTAS = (1e-9, 1e-5, 1e-2, 0.2)


def sums(values, length=40):
    return np.cumsum(np.pad(np.sort(values)[::-1], (0, length - len(values))))


def spelled_out(tradeoff):
    return np.repeat(tradeoff.values, tradeoff.counts)


def test_delta_zero_and_mu_are_those_of_the_pure_tradeoff():
    made, before = LaplaceTradeoff.of_rounds([0.01] * 1000), PureTradeoff(10.0)
    assert made.pure_epsilon == made.epsilon(0.0) == pytest.approx(10.0, rel=1e-12)
    assert made.mu == pytest.approx(before.mu, rel=1e-12)
    assert made.delta(10.0) == 0.0
    for delta in DELTAS:
        assert made.epsilon(delta) < before.epsilon(delta) / 2
    assert made.epsilon(1e-5) == pytest.approx(1.1957, abs=1e-4)
    assert (made.values, made.counts) == ((0.01,), (1000,))


def test_scaling_and_repeating_are_those_of_the_rounds():
    made = LaplaceTradeoff.of_rounds([0.3, 0.1, 0.3])
    assert made.scaled(2.0) == LaplaceTradeoff.of_rounds([0.15, 0.05, 0.15])
    thrice = made.repeated(3)
    assert thrice.counts == (6, 3)
    assert thrice.epsilon(1e-4) == laplace.epsilon([0.3] * 6 + [0.1] * 3, 1e-4)
    assert thrice.pure_epsilon == pytest.approx(2.1)
    assert made.epsilon(1e-4) < thrice.epsilon(1e-4) < 3 * made.epsilon(1e-4)
    for wrong in (0.0, -1.0, math.inf):
        with pytest.raises(ConfigError, match="factor"):
            made.scaled(wrong)
    with pytest.raises(ConfigError, match="times"):
        made.repeated(0)


@settings(deadline=None)
@given(some_values, st.floats(0.01, 1.0), st.data())
def test_a_total_with_caps_majorises_everything_within_them(caps, share, data):
    total = share * sum(caps)
    made = LaplaceTradeoff.of_total(total, caps)
    assert made.pure_epsilon == total
    inside = np.array([cap * data.draw(st.floats(0.0, 1.0)) for cap in caps])
    inside *= min(1.0, total / max(inside.sum(), 1e-300))
    assert (sums(spelled_out(made)) >= sums(inside) - 1e-12).all()
    assert sums(spelled_out(made))[-1] == pytest.approx(total)
    assert (sums(spelled_out(made)) <= sums(caps) + 1e-12).all()
    delta = data.draw(st.sampled_from(DELTAS))
    assert made.epsilon(delta) >= laplace.epsilon(inside, delta) / 1.003 - 1e-9


def test_a_total_alone_is_one_round_which_is_less_than_randomized_response():
    made = LaplaceTradeoff.of_total(3.0)
    assert (made.values, made.counts) == ((3.0,), (1,))
    assert made.epsilon(0.1) == pytest.approx(3.0 + 2 * math.log(0.9))
    assert made.epsilon(0.1) < pure.epsilon(3.0, 0.1)
    assert made.delta(1.0) == pytest.approx(-math.expm1(-1.0))
    infinite = LaplaceTradeoff.of_total(math.inf, [1.0, 2.0])
    assert infinite.epsilon(0.5) == infinite.pure_epsilon == infinite.mu == math.inf
    assert infinite.delta(7.0) == 1.0


def test_budgets_chosen_on_the_way_stay_within_the_total():
    """A budget of 2 in caps of 0.5: whether it is spent early or late depends on what was seen. 400,000 simulated runs."""
    random, n = np.random.default_rng(11), 400_000
    loss, left = np.zeros(n), np.full(n, 2.0)
    for _ in range(8):
        change = np.minimum(np.where(loss > 0, 0.5, 0.15), left)
        left = left - change
        noise = random.laplace(size=n)
        loss += np.abs(noise + change) - np.abs(noise)
    made = LaplaceTradeoff.of_total(2.0, [0.5] * 8)
    epsilon = made.epsilon(0.05)
    reached = -np.expm1(np.minimum(epsilon - loss, 0.0))
    assert 0.02 < reached.mean() < reached.mean() + 5 * reached.std() / math.sqrt(n) < 0.05
    assert (made.values, made.counts) == ((0.5,), (4,))


@settings(deadline=None)
@given(some_values, some_values)
def test_order_is_that_of_the_sums_of_the_largest(first, second):
    one, other = LaplaceTradeoff.of_rounds(first), LaplaceTradeoff.of_rounds(second)
    assert one.order.covers(one.order)
    difference = sums(first) - sums(second)
    if (difference >= 1e-9).all():
        assert one.order.covers(other.order)
    if (difference < -1e-9).any():
        assert not one.order.covers(other.order)
    if one.order.covers(other.order):
        for delta in DELTAS:
            assert one.epsilon(delta) >= other.epsilon(delta) / 1.003 - 1e-9


@settings(deadline=None)
@given(st.lists(some_values, min_size=1, max_size=4))
def test_the_worst_of_several_holds_for_each_and_keeps_the_largest_pure_epsilon(vectors):
    each = [LaplaceTradeoff.of_rounds(vector) for vector in vectors]
    worst = worst_of(each)
    assert worst.pure_epsilon == max(one.pure_epsilon for one in each)
    for one in each:
        for delta in (1e-6, 0.05):
            assert worst.epsilon(delta) >= one.epsilon(delta) / 1.003 - 1e-9


def test_agents_without_a_common_order():
    """One large round against many small ones: at delta = 1e-6 the first gives away more, at delta = 0 the second."""
    large, small = LaplaceTradeoff.of_rounds([2.0]), LaplaceTradeoff.of_rounds([0.02] * 150)
    assert large.epsilon(1e-6) > small.epsilon(1e-6)
    assert large.pure_epsilon < small.pure_epsilon
    assert not large.order.covers(small.order)
    assert not small.order.covers(large.order)
    both = worst_of([large, small])
    assert both.pure_epsilon == pytest.approx(3.0)
    assert both.epsilon(1e-6) == large.epsilon(1e-6)
    assert both.epsilon(0.0) == small.epsilon(0.0)
    assert not large.order.covers(GaussianTradeoff(0.0).order)
    assert not GaussianTradeoff(math.inf).order.covers(large.order)
    assert worst_of([small, small.repeated(2), small]) == small.repeated(2)
    assert worst_of([small, LaplaceTradeoff.of_total(math.inf)]).epsilon(0.1) == math.inf
