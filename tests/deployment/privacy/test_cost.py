import math

import pytest

from sottovoce.accounting import gaussian, pure
from sottovoce.deployment.privacy import Cost, together
from sottovoce.errors import ConfigError


def test_gaussian_costs_add_up_by_squares_and_pay_total_variation_from_delta():
    both = together([Cost.gaussian(0.3, 1e-12), Cost.gaussian(0.4, 2e-12)])
    assert both == Cost.gaussian(0.5, 3e-12)
    epsilon = both.epsilon(1e-5)
    assert gaussian.epsilon(0.5, 1e-5) < epsilon < gaussian.epsilon(0.5, 1e-5) * (1 + 1e-4)
    assert gaussian.delta(0.5, epsilon) + (1 + math.exp(epsilon)) * 3e-12 <= 1e-5
    assert both.epsilon(0.0) == math.inf


def test_pure_costs_add_up_and_have_no_finite_epsilon_at_a_delta_below_the_total_variation():
    both = together([Cost.pure(0.5), Cost.pure(1.0, 1e-9)])
    assert both == Cost.pure(1.5, 1e-9)
    assert both.epsilon(0.0) == math.inf
    least = (1 + math.exp(1.5)) * 1e-9
    assert both.epsilon(0.99 * least) == math.inf
    assert both.epsilon(1.01 * least) <= 1.5
    epsilon = both.epsilon(1e-3)
    assert pure.epsilon(1.5, 1e-3) <= epsilon < 1.5
    assert both.delta(epsilon) <= 1e-3 * (1 + 1e-9)
    assert Cost.pure(1.5).epsilon(0.0) == 1.5


def test_total_variation_so_large_that_a_smaller_epsilon_is_cheaper():
    cost = Cost.pure(3.0, 0.3)  # more than 1 / (1 + e^3)
    assert cost.epsilon(0.5) == math.inf
    assert cost.delta(3.0) == 1.0


def test_an_infinite_run_makes_every_sum_infinite():
    assert together([Cost.gaussian(0.1), Cost.infinite()]).epsilon(0.5) == math.inf
    assert together([Cost.at(1.0, 0.6), Cost.at(1.0, 0.6)]).kind == "infinite"


def test_kinds_add_up_only_as_pairs_with_fixed_shares_of_delta():
    costs = [Cost.gaussian(0.4), Cost.pure(0.2)]
    with pytest.raises(ConfigError, match="fixed"):
        together(costs)
    both = together([cost.fixed(1e-6) for cost in costs])
    assert both.at_delta == 2e-6
    assert both.value == pytest.approx(gaussian.epsilon(0.4, 1e-6) + pure.epsilon(0.2, 1e-6))
    assert both.epsilon(1e-6) == math.inf


@pytest.mark.parametrize("cost", [Cost.gaussian(0.4, 1e-20), Cost.pure(0.1), Cost.at(1.0, 1e-6), Cost.infinite()])
def test_costs_are_read_as_they_were_written(cost):
    assert Cost.parse(cost.describe()) == cost


@pytest.mark.parametrize(
    "numbers",
    [
        {"kind": "gaussian", "value": -1.0},
        {"kind": "gaussian", "value": math.inf},
        {"kind": "gaussian", "value": math.nan},
        {"kind": "pure", "value": 1.0, "at_delta": 1e-6},
        {"kind": "epsilon-delta", "value": 1.0, "total_variation": 1e-9},
        {"kind": "infinite", "value": 1.0},
        {"kind": "renyi", "value": 1.0},
    ],
)
def test_numbers_that_say_nothing_are_refused(numbers):
    with pytest.raises(ConfigError):
        Cost(**numbers)
