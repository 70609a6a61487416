import math

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from sottovoce.accounting import gaussian
from sottovoce.deployment.ledger import total_epsilon
from sottovoce.deployment.privacy import Cost

DELTA = 1e-5


def loss_distribution(cost):
    """What a run of this cost gives away at worst, by an accountant that is not ours, on a grid of 1e-4."""
    if cost.kind == "gaussian":
        return privacy_loss_distribution.from_gaussian_mechanism(1.0 / cost.value)
    if cost.kind == "pure":
        return privacy_loss_distribution.from_randomized_response(2.0 / (1.0 + math.exp(cost.value)), 2)
    pair = common.DifferentialPrivacyParameters(cost.value, cost.at_delta)
    return privacy_loss_distribution.from_privacy_parameters(pair)


def exact_epsilon(costs):
    composed = loss_distribution(costs[0])
    for cost in costs[1:]:
        composed = composed.compose(loss_distribution(cost))
    return composed.get_epsilon_for_delta(DELTA)


MIXTURES = [
    [Cost.gaussian(0.5), Cost.gaussian(0.7)],
    [Cost.pure(0.5), Cost.pure(0.25)],
    [Cost.gaussian(0.5), Cost.pure(0.5)],
    [Cost.gaussian(0.4), Cost.pure(0.1), Cost.gaussian(0.3), Cost.pure(0.2)],
    [Cost.at(0.5, 4e-6), Cost.gaussian(0.5)],
    [Cost.at(0.5, 4e-6), Cost.at(0.25, 3e-6)],
    [Cost.at(0.5, 4e-6), Cost.pure(0.5), Cost.gaussian(0.5)],
    [Cost.at(0.3, 2e-6), Cost.pure(0.5)],
    [Cost.pure(0.5), Cost.gaussian(0.5)],
    [Cost.pure(0.4), Cost.pure(0.3), Cost.at(0.3, 2e-6), Cost.gaussian(0.05)],
    [Cost.gaussian(0.5), Cost.at(0.5, 4e-6), Cost.pure(0.5)],
    [Cost.gaussian(0.01), *[Cost.pure(0.05)] * 12],
]


@pytest.mark.parametrize("costs", MIXTURES)
def test_the_ledger_never_states_less_than_the_exact_composition(costs):
    exact = exact_epsilon(costs)
    assert exact > 0.1
    assert exact * (1 - 1e-3) <= total_epsilon(costs, DELTA) <= 2.2 * exact


def test_gaussian_runs_add_up_by_squares_exactly():
    stated = total_epsilon([Cost.gaussian(0.3), Cost.gaussian(0.4)], DELTA)
    assert stated == pytest.approx(gaussian.epsilon(0.5, DELTA), rel=1e-12)


def test_total_variations_add_up_over_runs():
    several = [Cost.gaussian(0.1, 4e-7)] * 4
    assert total_epsilon(several, DELTA) == pytest.approx(Cost.gaussian(0.2, 1.6e-6).epsilon(DELTA), rel=1e-12)
    assert total_epsilon(several, DELTA) > 1.04 * gaussian.epsilon(0.2, DELTA)
    mixed = [Cost.pure(0.1, 4e-7), Cost.pure(0.0, 4e-7), *several]
    assert total_epsilon(mixed, DELTA) > 0.1 + Cost.gaussian(0.2, 2.4e-6).epsilon(DELTA)


def test_a_total_variation_is_paid_with_the_epsilon_of_all_kinds():
    """The other runs' epsilon multiplies it: delta(mu, e) + (1 + e^(e + c)) t <= delta must hold for what is stated."""
    costs = [Cost.pure(2.0, 1e-9), Cost.at(0.5, 1e-6), Cost.gaussian(0.5, 1e-9)]
    stated = total_epsilon(costs, DELTA)
    used = 1e-6 + gaussian.delta(0.5, stated - 2.5) + (1.0 + math.exp(stated)) * 2e-9
    assert 0.9 * DELTA < used <= DELTA


def test_what_delta_cannot_pay_for_is_infinite():
    assert total_epsilon([Cost.gaussian(0.1, 1e-5)], DELTA) == math.inf
    assert total_epsilon([Cost.gaussian(0.1), Cost.pure(0.1, 1e-5)], DELTA) == math.inf
    assert total_epsilon([Cost.at(0.1, 6e-6), Cost.at(0.1, 6e-6)], DELTA) == math.inf
    assert total_epsilon([Cost.at(0.1, 2e-5), Cost.gaussian(0.1)], DELTA) == math.inf
    assert total_epsilon([Cost.pure(1000.0), Cost.gaussian(0.1, 1e-300)], DELTA) == math.inf


def test_infinite_stays_infinite():
    assert total_epsilon([Cost.infinite()], DELTA) == math.inf
    assert total_epsilon([Cost.gaussian(0.1), Cost.infinite(), Cost.pure(0.1)], DELTA) == math.inf


def test_no_run_costs_nothing():
    assert total_epsilon([], DELTA) == 0.0
    assert total_epsilon([Cost.pure(0.0), Cost.gaussian(0.0)], DELTA) == 0.0


SOME_COST = st.one_of(
    st.builds(Cost.gaussian, st.floats(0, 3), st.sampled_from((0.0, 1e-12, 1e-8))),
    st.builds(Cost.pure, st.floats(0, 3), st.sampled_from((0.0, 1e-12, 1e-8))),
    st.builds(Cost.at, st.floats(0, 3), st.sampled_from((0.0, 1e-7, 1e-6))),
)


@settings(max_examples=60, deadline=None)
@given(costs=st.lists(SOME_COST, min_size=1, max_size=6), more=SOME_COST)
def test_one_run_more_never_costs_less(costs, more):
    before, after = total_epsilon(costs, DELTA), total_epsilon([*costs, more], DELTA)
    assert after >= before * (1 - 1e-9) - 1e-12
    assert after >= more.epsilon(DELTA) * (1 - 1e-9) - 1e-12


def reached_delta(budget, share, *, pure_run):
    """The delta at epsilon = budget of a plan: a Gaussian run, then, by its privacy loss, a pure run or all that is left in Gaussian noise.

    For every loss the plan takes the choice that gives away more; both choices were within the budget by the rule under test.

    Args:
        budget: epsilon.
        share: of the largest mu that the first run takes.
        pure_run: first mu -> the epsilon of the pure run that the rule still lets begin.
    """
    largest = gaussian.mu(budget, DELTA)
    first = share * largest
    rest, epsilon = math.sqrt(largest**2 - first**2), pure_run(first)
    z = np.linspace(-12.0, 12.0, 200_001)
    left = budget - first**2 / 2 - first * z  # of epsilon, after the loss of the first run
    gauss = ndtr(rest / 2 - left / rest) - np.exp(left) * ndtr(-rest / 2 - left / rest)
    odds = np.exp(epsilon)
    response = (odds * np.maximum(0, -np.expm1(left - epsilon)) + np.maximum(0, -np.expm1(left + epsilon))) / (1 + odds)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return float(np.sum(np.maximum(gauss, response) * density) * (z[1] - z[0]))


@pytest.mark.parametrize(("budget", "share"), [(2.0, 0.3), (2.0, 0.9), (8.0, 0.3), (8.0, 0.7)])
def test_no_plan_that_looks_at_the_last_run_exceeds_the_budget(budget, share):
    def by_the_ledger(first):
        return brentq(lambda more: total_epsilon([Cost.gaussian(first), Cost.pure(more)], DELTA) - budget, 1e-9, budget)

    def traded(first):
        return budget - gaussian.epsilon(first, DELTA)

    assert reached_delta(budget, share, pure_run=by_the_ledger) <= DELTA * (1 + 1e-6)
    # Epsilons that add up in any order are right for plans made beforehand, and this plan breaks them.
    assert reached_delta(budget, share, pure_run=traded) > 1.05 * DELTA
