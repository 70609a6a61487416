"""The Muffliato formulas against the exact loss: the sum over messages is too small, the mean holds."""

import math

import numpy as np
import pytest

from sottovoce import topologies
from sottovoce.accounting import documents, gossip
from sottovoce.errors import ConfigError, IncompatibleChoice

TWO = {"order": 2.0, "std": 1.0, "sensitivity": 1.0}  # order 2: epsilon is mu^2, the local value is 1


def formula(topology, agent, attacker, rounds, **options):
    return documents.cyffers_muffliato_epsilon(
        topology, agent=agent, attacker=attacker, rounds=rounds, **(TWO | options)
    )


def exact(topology, agent, attacker, rounds):
    return gossip.pairwise(topology, rounds=rounds, std=1.0, sensitivity=1.0, attackers=[attacker]).upper[agent, 0] ** 2


def test_path_of_three_has_a_third_where_one_is_true():
    """R10, by hand: (W e_1)_2^2 / ||W e_1||^2 = (1/9) / (3/9)."""
    stated = formula(topologies.path(3), 2, 0, 2)
    assert stated.value == pytest.approx(1 / 3, rel=1e-12)
    assert exact(topologies.path(3), 2, 0, 2) == 1.0
    assert not stated.upper_bound
    assert "does not hold" in str(stated)


def test_far_end_of_a_path_of_eight_has_a_thirteenth_where_one_is_true():
    stated = formula(topologies.path(8), 7, 0, 20)
    assert stated.value == pytest.approx(0.078, abs=5e-4)  # by hand from the powers of W, to two digits
    assert exact(topologies.path(8), 7, 0, 20) == 1.0
    assert not stated.upper_bound


def test_sum_equals_the_definition_by_powers():
    topology, v, T = topologies.grid(3, 3), 0, 4
    W = topology.weights.toarray()
    powers = [np.linalg.matrix_power(W, t) for t in range(T)]
    for u in range(1, 9):
        total = sum(P[u, w] ** 2 / (P[w] @ P[w]) for P in powers for w in topology.neighbours(v))
        assert formula(topology, u, v, T).value == pytest.approx(min(total, 1.0), rel=1e-12)


def test_what_is_marked_as_holding_is_never_below_the_exact_loss_and_the_rest_sometimes_is():
    topology, below = topologies.grid(3, 4), 0
    for rounds in (1, 2, 3, 5):
        truth = gossip.pairwise_mu(topology, rounds=rounds, std=1.0, sensitivity=1.0) ** 2
        for u, v in ((11, 0), (5, 0), (1, 0), (3, 8), (6, 1)):
            stated = formula(topology, u, v, rounds)
            below += stated.value < truth[u, v] - 1e-6
            assert not stated.upper_bound or stated.value >= truth[u, v] - 1e-9
    assert below >= 5


@pytest.mark.parametrize("rounds", [1, 2, 4, 9])
def test_mean_bound_holds_for_the_exact_loss(rounds):
    for topology in (topologies.grid(3, 4), topologies.hypercube(4), topologies.erdos_renyi(20, 0.2, seed=3)):
        truth = gossip.pairwise_mu(topology, rounds=rounds, std=1.0, sensitivity=1.0) ** 2
        for v in range(topology.num_agents):
            stated = documents.cyffers_muffliato_mean_epsilon(topology, attacker=v, rounds=rounds, **TWO)
            assert stated.upper_bound
            assert np.nansum(truth[:, v]) / topology.num_agents <= stated.value + 1e-9


def test_mean_bound_is_attained_in_one_round():
    topology = topologies.ring(10)
    stated = documents.cyffers_muffliato_mean_epsilon(topology, attacker=4, rounds=1, **TWO)
    truth = gossip.pairwise_mu(topology, rounds=1, std=1.0, sensitivity=1.0)[:, 4]
    assert stated.value == pytest.approx(0.2) == pytest.approx(np.nansum(truth**2) / 10)


def test_epsilon_scales_with_order_and_signal_to_noise():
    one = formula(topologies.path(3), 2, 0, 2).value
    assert formula(topologies.path(3), 2, 0, 2, order=3.0, std=2.0, sensitivity=5.0).value == pytest.approx(
        one * 1.5 * 6.25
    )


@pytest.mark.parametrize(
    "bad", [{"order": 1.0}, {"order": math.inf}, {"std": 0.0}, {"std": True}, {"sensitivity": math.nan}]
)
def test_malformed_numbers_are_refused(bad):
    with pytest.raises(ConfigError):
        formula(topologies.path(3), 2, 0, 2, **bad)
    with pytest.raises(ConfigError):
        documents.cyffers_muffliato_mean_epsilon(topologies.path(3), attacker=0, rounds=2, **(TWO | bad))


def test_wrong_agents_and_rounds_are_refused():
    for agent, attacker, rounds in ((0, 0, 2), (3, 0, 2), (1, -1, 2), (1, 0, 0)):
        with pytest.raises(ConfigError):
            formula(topologies.path(3), agent, attacker, rounds)


def test_weights_that_are_not_symmetric_or_not_fixed_are_refused():
    for topology in (topologies.star(4, weights="uniform"), topologies.ring(5).with_dropout(0.1)):
        with pytest.raises(IncompatibleChoice, match="symmetric"):
            formula(topology, 2, 0, 2)
