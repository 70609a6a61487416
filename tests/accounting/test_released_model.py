"""The linear view of the final model alone, against the Gram matrices of the whole network."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.linear_view.largest_mu import gram_view, linear_view
from sottovoce.accounting.linear_view.released_model import ReleasedView
from sottovoce.linear import bound_rounds, exchange_topologies
from sottovoce.observers import view

LAW = sv.noise.Gaussian(std=2.0)
UNEVEN = sv.topologies.from_matrix([[0.5, 0.2, 0.0], [0.5, 0.5, 0.3], [0.0, 0.3, 0.7]])
SCHEMES = {
    "independent": sv.noise.independent(LAW),
    "no self-noise": sv.noise.independent(LAW, self_noise=False),
    "per edge": sv.noise.independent(LAW, per_edge=True),
    "schedule": sv.noise.independent(LAW).scaled([1.0, 3.0, 0.5, 0.0, 2.0]),
    "gopa": sv.noise.gopa(LAW, pairwise_std=3.0),
    "in gradients": sv.noise.gradient(LAW),
}
ALGORITHMS = {
    "atc": sv.algorithms.atc(step_size=0.3),
    "cta": sv.algorithms.cta(step_size=lambda t: 0.5 / t),
    "consensus": sv.algorithms.consensus(step_size=0.1),
    "three matrix": sv.algorithms.three_matrix(step_size=0.2, first=sv.topologies.ring(4), last=sv.topologies.complete(4)),
}  # fmt: skip


def views(topology, algorithm, noise, rounds, patterns):
    bound = bound_rounds(topology, algorithm, noise, rounds)
    seen = view(sv.observers.final_model(), *exchange_topologies(algorithm, topology))
    agents = np.arange(topology.num_agents)
    return linear_view(bound, seen, agents, patterns), gram_view(bound, seen, agents, patterns)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("when", ["every round", "once"])
def test_one_row_gives_what_the_whole_network_gives(name, scheme, when):
    topology = sv.topologies.ring(4) if name == "three matrix" or scheme == "gopa" else UNEVEN
    patterns = np.ones((1, 5), dtype=bool) if when == "every round" else np.eye(5, dtype=bool)
    found, whole = views(topology, ALGORITHMS[name], SCHEMES[scheme], 5, patterns)
    assert isinstance(found, ReleasedView)
    for position in range(topology.num_agents):
        expected, value = whole.value(position, 0.7), found.value(position, 0.7)
        assert value.mu == pytest.approx(expected.mu, rel=1e-7)
        assert value.clear_round == expected.clear_round
    assert (found.cheap_upper(np.ones(topology.num_agents)) > 0).all()


@pytest.mark.parametrize("rounds", [1, 40, 400])
def test_noise_that_cancels_in_the_centroid_leaves_nothing_hidden_however_long_the_run(rounds):
    topology = sv.topologies.erdos_renyi(30, 0.2, seed=1)
    patterns = np.ones((1, rounds), dtype=bool)
    bound = bound_rounds(topology, ALGORITHMS["atc"], sv.noise.graph_homomorphic(LAW), rounds)
    seen = view(sv.observers.final_model(), topology)
    found = linear_view(bound, seen, np.arange(30), patterns)
    assert np.isinf(found.largest).all()
    # Power: a thousandth of the noise that does not cancel is seen as noise.
    leaking = bound_rounds(topology, ALGORITHMS["atc"], sv.noise.independent(sv.noise.Gaussian(std=1e-3)), rounds)
    assert np.isfinite(linear_view(leaking, seen, np.arange(30), patterns).largest).all()


def test_who_also_reads_a_message_is_answered_by_the_whole_network():
    both = sv.observers.final_model() + sv.observers.links([(0, 1)])
    bound = bound_rounds(UNEVEN, ALGORITHMS["atc"], SCHEMES["independent"], 3)
    found = linear_view(bound, view(both, UNEVEN), np.arange(3), np.ones((1, 3), dtype=bool))
    assert not isinstance(found, ReleasedView)


def test_agents_alike_are_computed_once_and_agents_that_differ_are_not_taken_for_alike():
    """A reader of all links of independent noise per edge: agent by agent against each agent alone."""
    topology = sv.topologies.erdos_renyi(9, 0.5, seed=4)
    noise = sv.noise.independent(LAW, per_edge=True)
    algorithm, patterns = sv.algorithms.atc(step_size=0.4), np.ones((1, 4), dtype=bool)
    bound = bound_rounds(topology, algorithm, noise, 4)
    seen = view(sv.observers.eavesdropper(), topology)
    whole = gram_view(bound, seen, np.arange(9), patterns)
    for agent in range(9):
        alone = gram_view(bound, seen, np.array([agent]), patterns)
        assert np.array_equal(whole.gram.values[agent], alone.gram.values[0])
    assert len({whole.gram.values[agent].tobytes() for agent in range(9)}) > 2
