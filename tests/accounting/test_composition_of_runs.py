"""Whole runs of a federation, through sv.account, against accountants that compose round by round."""

import math

import dp_accounting
import pytest
from dp_accounting import pld
from prv_accountant.dpsgd import DPSGDAccountant

import sottovoce as sv

STEP, CLIP, DELTA = 0.5, 1.5, 1e-6
FEDERATION = sv.topologies.federation(4)
FEDAVG = sv.algorithms.fedavg(step_size=STEP)


def run(noise_multiplier, rounds, **more):
    """One agent's message changes by STEP times the sensitivity; the noise is that times the multiplier."""
    options = {"sensitivity": 2 * CLIP, "rounds": rounds} | more
    noise = sv.noise.independent(sv.noise.Gaussian(std=noise_multiplier * STEP * options["sensitivity"]))
    return sv.account(FEDERATION, FEDAVG, noise, sv.observers.server(), **options)


def check_against_convolved_losses(total, rounds):
    """The losses of one round on a grid, convolved T times: pessimistic, by less than 3e-5 in epsilon here.

    Finer is not better: on a grid of 1e-5 rounding gives the package's table a mass of 1 + 4.7e-8 per round at total 3, which
    puts epsilon 2e-4 too high after 10,000 rounds.
    """
    noise_multiplier = math.sqrt(rounds) / total
    one_round = pld.privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, value_discretization_interval=3e-5
    )
    composed = one_round.self_compose(rounds)
    found = run(noise_multiplier, rounds)
    assert found.validity == "exact"
    assert found.epsilon(DELTA) == pytest.approx(composed.get_epsilon_for_delta(DELTA), abs=1e-4)
    # Power: one round more or less in a hundred would be seen.
    for wrong in (0.99 * total, 1.01 * total):
        assert abs(sv.accounting.gaussian.epsilon(wrong, DELTA) - found.epsilon(DELTA)) > 1e-3


@pytest.mark.parametrize(
    ("total", "rounds"), [(0.2, 1), (0.2, 10), (0.2, 1000), (1.0, 1000), (0.2, 10_000), (1.0, 10_000)]
)
def test_a_run_of_gaussian_rounds_is_the_convolution_of_their_losses(total, rounds):
    check_against_convolved_losses(total, rounds)


@pytest.mark.slow
@pytest.mark.parametrize(("total", "rounds"), [(1.0, 1), (1.0, 10), (3.0, 1), (3.0, 10), (3.0, 1000), (3.0, 10_000)])
def test_a_quieter_run_of_gaussian_rounds_is_the_convolution_of_their_losses(total, rounds):
    check_against_convolved_losses(total, rounds)


def check_against_the_accountant(total, rounds):
    """This accountant adds up Gaussian rounds before it makes a table, so its grid of 1e-5 costs no accuracy."""
    noise_multiplier = math.sqrt(rounds) / total
    relation = (
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )  # the convention in which one round has mu = 1 / sigma
    accountant = pld.PLDAccountant(relation, value_discretization_interval=1e-5)
    accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier), rounds)
    assert run(noise_multiplier, rounds).epsilon(DELTA) == pytest.approx(accountant.get_epsilon(DELTA), abs=1e-4)


@pytest.mark.parametrize("rounds", [1, 10, 1000, 10_000])
def test_a_run_of_gaussian_rounds_is_that_of_dp_accounting(rounds):
    check_against_the_accountant(0.2, rounds)


@pytest.mark.slow
@pytest.mark.parametrize(("total", "rounds"), [(1.0, 1), (1.0, 10), (1.0, 1000), (1.0, 10_000), (3.0, 10_000)])
def test_a_quieter_run_of_gaussian_rounds_is_that_of_dp_accounting(total, rounds):
    check_against_the_accountant(total, rounds)


SAMPLED = [  # q, sigma, rounds, delta: training runs for which several accountants have been compared
    (0.1, 5.0, 2000, 1e-6),
    (0.01, 1.0, 1000, 1e-5),
    (0.01, 1.0, 10_000, 1e-5),
    (256 / 60000, 1.1, 14_100, 1e-5),
    (0.001, 0.7, 100_000, 1e-6),
]


def check_sampled(rate, noise_multiplier, rounds, delta):
    """prv-accountant's estimate between its two bounds, which are 0.02 apart; its own error is far smaller."""
    found = run(
        noise_multiplier, rounds, sensitivity=CLIP, unit="record", adjacency="add-remove",
        participation=sv.accounting.poisson(rate),
    )  # fmt: skip
    accountant = DPSGDAccountant(noise_multiplier, rate, rounds, eps_error=0.01, delta_error=delta / 1000)
    _, middle, _ = accountant.compute_epsilon(delta, rounds)
    assert found.epsilon(delta) == pytest.approx(middle, abs=1e-3)
    assert found.scaled(1.005).epsilon(delta) < middle - 1e-3  # half a percent more noise would be seen


@pytest.mark.parametrize(("rate", "noise_multiplier", "rounds", "delta"), SAMPLED[:1])
def test_a_run_on_sampled_records_is_that_of_prv_accountant(rate, noise_multiplier, rounds, delta):
    check_sampled(rate, noise_multiplier, rounds, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise_multiplier", "rounds", "delta"), SAMPLED[1:])
def test_a_longer_run_on_sampled_records_is_that_of_prv_accountant(rate, noise_multiplier, rounds, delta):
    check_sampled(rate, noise_multiplier, rounds, delta)
