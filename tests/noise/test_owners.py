"""Who knows a source: any number of agents, a relay, or a generator; tables that say something else are refused."""

import numpy as np
import pytest

import sottovoce as sv
from accounting.stacked_maps import table_noise
from sottovoce.noise import GENERATOR, RELAY, bind, joined_owners, known_sources, shared_sources

LINKS = sv.topologies.ring(4).active_links()
EVERYBODY = np.ones((4, 1))


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ([[0, 1, 2, 4]], "the agents are 0 to 3"),
        ([[-3, -1]], "the agents are 0 to 3"),
        ([[0, 1, 1, 2, 3]], "named once"),
        ([[GENERATOR, 1]], "alone"),
        ([[RELAY, 1]], "filled up"),
        ([[0, GENERATOR]], "alone"),
        ([[0, 1, 2]], "agent 3 add source 0"),
    ],
)
def test_owners_that_cannot_be_are_refused(owners, said):
    with pytest.raises(sv.ConfigError, match=said):
        bind(table_noise(EVERYBODY, owners), LINKS)


@pytest.mark.parametrize("owners", [np.zeros(4, dtype=int), np.zeros((1, 1), dtype=int), np.zeros((1, 2))])
def test_a_table_of_another_shape_or_kind_is_refused(owners):
    noise = table_noise(EVERYBODY, [[0, 1, 2, 3]])
    with pytest.raises(sv.ConfigError, match="whole numbers"):
        bind(noise._replace(spread=lambda links: noise.spread(links)._replace(owners=owners)), LINKS)


@pytest.mark.parametrize("owners", [[0, 1, 2, 3], [3, 1, 0, 2, -1], [GENERATOR], [RELAY]])
def test_owners_of_any_number_are_taken(owners):
    assert bind(table_noise(EVERYBODY, [owners]), LINKS).num_sources == 1


def test_who_knows_and_who_shares():
    owners = joined_owners([np.array([[0, -1], [1, 2]]), np.array([[1, 2, 3, -1], [GENERATOR, -1, -1, -1]])])
    assert owners.shape == (4, 4)
    assert shared_sources(owners).tolist() == [False, True, True, False]
    assert known_sources(owners, np.arange(4) == 3).tolist() == [False, False, True, False]
    assert known_sources(owners, np.arange(4) == 0).tolist() == [True, False, False, False]


def test_random_links_refuse_them_too():
    noise = table_noise(EVERYBODY, [[0, 1]])
    problem = sv.problems.mean_estimation(np.zeros((4, 1, 2)), radius=1.0)
    with pytest.raises(sv.ConfigError, match="add source"):
        sv.simulate(problem, sv.topologies.ring(4).with_dropout(0.5), sv.algorithms.atc(step_size=0.1), noise, rounds=2)
