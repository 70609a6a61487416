"""Noise of given strengths: its covariance, its owners, and what it refuses."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.noise import GENERATOR, bind, designed, gopa, own_copy_is_the_message, received_map

LAW = sv.noise.Gaussian(std=2.0)
PAIRS, FACTORS, OWN = [(0, 1), (2, 1), (0, 3)], [(0.5, -2.0), (1.0, 0.25), (3.0, 0.0)], [1.0, 0.5, 0.0, 2.0]


def covariance(noise, topology):
    """Of what agents add, at scale one: own copies show it."""
    bound = bind(noise, topology.active_links())
    kept = np.zeros((topology.num_agents, bound.num_sources))
    np.add.at(kept, (bound.self_index, bound.self_source), bound.self_value)
    return kept @ kept.T


def written_out(own, pairs, factors):
    total = np.diag(np.square(own))
    for (i, j), (a, b) in zip(pairs, factors, strict=True):
        column = np.zeros(len(own))
        column[i], column[j] = a, b
        total += np.outer(column, column)
    return total


def test_own_and_pair_noise_have_the_covariance_of_their_factors():
    topology = sv.topologies.ring(4)
    noise = designed(LAW, own=OWN, pairs=PAIRS, factors=FACTORS)
    np.testing.assert_allclose(covariance(noise, topology), written_out(OWN, PAIRS, FACTORS), rtol=1e-15)
    assert own_copy_is_the_message(bind(noise, topology.active_links()), topology.active_links())


def test_a_generator_has_the_covariance_of_its_factor_and_no_agent_owns_a_source():
    topology, joint = sv.topologies.ring(4), np.tril(np.arange(1.0, 17.0).reshape(4, 4))
    bound = bind(designed(LAW, joint=joint), topology.active_links())
    np.testing.assert_allclose(covariance(designed(LAW, joint=joint), topology), joint @ joint.T, rtol=1e-15)
    assert (bound.owners[:, 0] == GENERATOR).all()
    assert bound.of_generator.all()


def test_gopa_is_designed_noise_with_opposite_factors():
    topology = sv.topologies.erdos_renyi(7, 0.5, seed=2)
    links = topology.active_links()
    ratio, pairs = 1.7, [(int(i), int(j)) for i, j in topology.links if i < j]
    same = designed(LAW, own=np.ones(7), pairs=pairs, factors=[(ratio, -ratio)] * len(pairs))
    one, other = (received_map(bind(each, links), links) for each in (same, gopa(LAW, pairwise_std=ratio * LAW.std)))
    np.testing.assert_allclose((one @ one.T).toarray(), (other @ other.T).toarray(), rtol=1e-14, atol=1e-15)


def test_simulated_errors_are_those_of_the_exact_theory():
    topology, problem = sv.topologies.ring(4), sv.problems.mean_estimation(np.zeros((4, 1, 30)), radius=1.0)
    algorithm = sv.algorithms.atc(step_size=0.2)
    noise = designed(LAW, own=OWN, pairs=PAIRS, factors=FACTORS)
    expected = sv.expected_msd(problem, topology, algorithm, noise, rounds=8)["msd_average"]
    run = sv.simulate(problem, topology, algorithm, noise, rounds=8, repeats=400, seed=3, progress=False)
    found = run.metrics["msd_average"]
    error = found.std(axis=0) / np.sqrt(400)
    assert (np.abs(found.mean(axis=0) - expected) < 4.5 * error).all()
    wrong = designed(LAW, own=OWN, pairs=PAIRS, factors=[(a, -b) for a, b in FACTORS])  # one sign of every pair turned
    other = sv.expected_msd(problem, topology, algorithm, wrong, rounds=8)["msd_average"]
    assert (np.abs(found.mean(axis=0) - other) > 4.5 * error).any()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "exactly one"),
        ({"own": [1.0, 1.0], "joint": np.eye(2)}, "exactly one"),
        ({"own": [1.0, np.inf]}, "finite"),
        ({"own": [[1.0]]}, "1 dimension"),
        ({"own": [1.0, 1.0], "pairs": [(0, 1)]}, "two of them"),
        ({"own": [1.0, 1.0], "pairs": [(0, 2)], "factors": [(1, 1)]}, "agent 2"),
        ({"own": [1.0, 1.0], "pairs": [(0, 0)], "factors": [(1, 1)]}, "itself"),
        ({"own": [1.0, 1.0], "pairs": [(0, 1), (1, 0)], "factors": [(1, 1)] * 2}, "twice"),
        ({"own": [1.0, 1.0], "pairs": [(0, -1)], "factors": [(1, 1)]}, "numbered from 0"),
        ({"joint": np.ones((2, 3))}, "square"),
        ({"joint": np.eye(2), "pairs": [(0, 1)], "factors": [(1, 1)]}, "leave"),
        ({"own": ["a"]}, "finite"),
    ],
)
def test_numbers_that_make_no_scheme_are_refused(given, complaint):
    with pytest.raises(sv.ConfigError, match=complaint):
        designed(LAW, **given)


def test_other_laws_other_networks_and_random_links_are_refused():
    with pytest.raises(sv.IncompatibleChoice, match="Gaussian"):
        designed(sv.noise.Laplace(std=1.0), own=[1.0])
    noise = designed(LAW, own=OWN, pairs=PAIRS, factors=FACTORS)
    with pytest.raises(sv.IncompatibleChoice, match="4 agents"):
        bind(noise, sv.topologies.ring(5).active_links())
    problem = sv.problems.mean_estimation(np.zeros((4, 1, 2)), radius=1.0)
    dropped = sv.topologies.ring(4).with_dropout(0.5)
    with pytest.raises(sv.IncompatibleChoice, match="at random"):
        sv.simulate(problem, dropped, sv.algorithms.atc(step_size=0.1), noise, rounds=2, progress=False)
