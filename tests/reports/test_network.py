import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.quiver import Quiver

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.reports import network


def agents(figure):
    return next(part for part in figure.axes[0].collections if isinstance(part, PathCollection))


def segments(figure):
    (lines,) = [part for part in figure.axes[0].collections if isinstance(part, LineCollection)]
    return lines.get_segments()


@pytest.mark.parametrize(
    "topology",
    [
        sv.topologies.ring(7),
        sv.topologies.complete(2),
        sv.topologies.star(9),
        sv.topologies.geometric(30, 0.35, seed=1),
    ],
    ids=lambda topology: topology.name,
)
def test_every_agent_and_every_pair_is_drawn_once(topology):
    figure = network(topology)
    places = np.asarray(agents(figure).get_offsets())
    assert places.shape == (topology.num_agents, 2)
    assert len(np.unique(places.round(3), axis=0)) == topology.num_agents
    assert len(segments(figure)) == len(topology.links) / 2
    np.testing.assert_allclose(segments(figure), places[topology.pairs])
    assert [text.get_text() for text in figure.axes[0].texts] == [str(k) for k in range(topology.num_agents)]


def test_places_of_the_topology_are_used_unless_others_are_given():
    topology = sv.topologies.geometric(30, 0.35, seed=1)
    np.testing.assert_allclose(agents(network(topology)).get_offsets(), topology.positions)
    other = np.random.default_rng(0).random((30, 2))
    np.testing.assert_allclose(agents(network(topology, positions=other)).get_offsets(), other)


def test_a_spring_layout_is_the_same_every_time():
    topology = sv.topologies.erdos_renyi(25, 0.3, seed=2)
    np.testing.assert_array_equal(agents(network(topology)).get_offsets(), agents(network(topology)).get_offsets())


def test_one_way_links_are_arrows_from_sender_to_receiver():
    A = 0.5 * np.eye(5) + 0.5 * np.roll(np.eye(5), 1, axis=1)
    topology = sv.topologies.from_matrix(A)
    figure = network(topology)
    (arrows,) = [part for part in figure.axes[0].collections if isinstance(part, Quiver)]
    places = np.asarray(agents(figure).get_offsets())
    senders, receivers = topology.links.T
    assert arrows.N == len(topology.links) == 5
    tails, along = np.asarray(arrows.get_offsets()), np.stack([arrows.U, arrows.V], axis=1)
    np.testing.assert_allclose(tails, places[senders])
    full = places[receivers] - places[senders]
    part = (along * full).sum(axis=1) / (full**2).sum(axis=1)
    assert ((part > 0.5) & (part < 1)).all()  # ends at the rim, not in the middle
    np.testing.assert_allclose(along, part[:, None] * full, atol=1e-9)


def test_a_federation_is_drawn_through_its_relay_and_not_as_a_complete_graph():
    figure = network(sv.topologies.federation(12))
    assert len(segments(figure)) == 12
    assert "relay" in [text.get_text() for text in figure.axes[0].texts]


def test_more_neighbours_make_a_mildly_larger_circle():
    sizes = agents(network(sv.topologies.star(9))).get_sizes()
    assert 1 < sizes.max() / sizes.min() <= 2


def test_colours_are_the_given_values_with_a_named_bar():
    values = np.linspace(-1, 1, 7)
    figure = network(sv.topologies.ring(7), colours=values, colour_label="variance")
    np.testing.assert_array_equal(agents(figure).get_array(), values)
    assert figure.axes[1].get_ylabel() == "variance"


def test_what_cannot_be_drawn_is_refused():
    ring = sv.topologies.ring(7)
    with pytest.raises(ConfigError, match="501 agents"):
        network(sv.topologies.ring(501))
    with pytest.raises(ConfigError, match="colours has shape"):
        network(ring, colours=np.ones(6))
    with pytest.raises(ConfigError, match="at agent 3"):
        network(ring, colours=[0, 1, 2, np.nan, 4, 5, 6])
    with pytest.raises(ConfigError, match="positions has shape"):
        network(ring, positions=np.ones((7, 3)))
    with pytest.raises(ConfigError, match="one per agent"):
        network(ring, labels=["a"])
