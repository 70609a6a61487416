"""Schemes: what the bound map does, by hand on small graphs and over random ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.noise import (
    Noise,
    NoiseMap,
    bind,
    broadcast_map,
    cancels_at_receivers,
    cancels_in_centroid,
    centroid_residual,
    own_copy_is_the_message,
    received_map,
)

LAW = sv.noise.Gaussian(std=1.0)


def random_left_stochastic(num_agents: int, seed: int) -> np.ndarray:
    """A dense-support, non-symmetric matrix with columns summing to one and a positive diagonal."""
    generator = np.random.default_rng(seed)
    matrix = generator.random((num_agents, num_agents)) * (generator.random((num_agents, num_agents)) < 0.6)
    matrix += np.roll(np.eye(num_agents), 1, axis=0) * 0.3 + np.eye(num_agents) * 0.2
    return matrix / matrix.sum(axis=0)


def dense_maps(noise, links):
    """(link map [E, S], self map [K, S]) written out."""
    noise_map = bind(noise, links)
    carried = np.zeros((len(links.senders), noise_map.num_sources))
    np.add.at(carried, (noise_map.link_index, noise_map.link_source), noise_map.link_value)
    kept = np.zeros((len(links.perron), noise_map.num_sources))
    np.add.at(kept, (noise_map.self_index, noise_map.self_source), noise_map.self_value)
    return carried, kept


def test_broadcast_sends_one_source_everywhere_and_keeps_it_only_with_self_noise():
    links = sv.topologies.path(3).active_links()
    for self_noise in (True, False):
        carried, kept = dense_maps(sv.noise.independent(LAW, self_noise=self_noise), links)
        np.testing.assert_array_equal(carried, np.eye(3)[links.senders])
        np.testing.assert_array_equal(kept, np.eye(3) * self_noise)


def test_per_edge_gives_every_link_and_every_own_copy_a_source_of_its_own():
    links = sv.topologies.path(3).active_links()
    carried, kept = dense_maps(sv.noise.independent(LAW, per_edge=True), links)
    np.testing.assert_array_equal(np.concatenate([carried, kept]), np.eye(4 + 3))
    without, _ = dense_maps(sv.noise.independent(LAW, per_edge=True, self_noise=False), links)
    np.testing.assert_array_equal(without, np.eye(4))


def test_graph_homomorphic_own_factor_on_a_path_by_hand():
    # path 0-1-2 with Metropolis weights: a_00 = 2/3, a_11 = 1/3, so the own factors are -1/2, -2, -1/2.
    _, kept = dense_maps(sv.noise.graph_homomorphic(LAW), sv.topologies.path(3).active_links())
    np.testing.assert_allclose(np.diag(kept), [-0.5, -2.0, -0.5])


@given(st.integers(3, 12), st.integers(0, 10_000))
def test_graph_homomorphic_cancels_in_centroid_for_any_left_stochastic_matrix(num_agents, seed):
    links = sv.topologies.from_matrix(random_left_stochastic(num_agents, seed)).active_links()
    noise_map = bind(sv.noise.graph_homomorphic(LAW), links)
    assert centroid_residual(noise_map, links) < 1e-12
    assert cancels_in_centroid(noise_map, links)
    assert not cancels_at_receivers(noise_map, links)


def test_printed_equation_44_does_not_cancel_for_a_non_symmetric_matrix():
    """Rizk et al. 2023, eq. 44 prints the off-diagonal factor a_pm / a_mp; it must fail where ours passes."""
    generator = np.random.default_rng(0)
    matrix = generator.random((6, 6)) + 0.1
    links = sv.topologies.from_matrix(matrix / matrix.sum(axis=0)).active_links()
    a = sv.topologies.from_matrix(matrix / matrix.sum(axis=0)).matrix

    def printed(active):
        ours = bind(sv.noise.graph_homomorphic(LAW), active)
        factor = a[active.senders, active.receivers] / a[active.receivers, active.senders]
        return ours._replace(link_value=factor)

    ours = bind(sv.noise.graph_homomorphic(LAW), links)
    assert centroid_residual(ours, links) < 1e-12
    assert centroid_residual(printed(links), links) > 1e-2
    with pytest.raises(sv.IncompatibleChoice, match="must cancel in the centroid"):
        bind(Noise("printed", LAW, printed, promises=("centroid",)), links)


def test_printed_equation_44_cancels_for_a_symmetric_matrix():
    topology = sv.topologies.erdos_renyi(8, 0.6, seed=1)
    links, a = topology.active_links(), topology.matrix
    ours = bind(sv.noise.graph_homomorphic(LAW), links)
    printed = ours._replace(link_value=a[links.senders, links.receivers] / a[links.receivers, links.senders])
    assert centroid_residual(printed, links) < 1e-12


def test_graph_homomorphic_is_refused_without_self_loops_and_names_the_agent():
    star = np.zeros((4, 4))
    star[0, 1:] = 1.0
    star[1:, 0] = 1 / 3
    links = sv.topologies.from_matrix(star).active_links()
    with pytest.raises(sv.IncompatibleChoice, match="agent 0 has 0"):
        bind(sv.noise.graph_homomorphic(LAW), links)


@given(st.integers(0, 10_000))
def test_graph_homomorphic_still_cancels_when_a_tenth_of_the_links_is_dropped(seed):
    topology = sv.topologies.erdos_renyi(20, 0.4, seed=3)
    kept = np.random.default_rng(seed).random(topology.num_pairs) >= 0.1
    links = topology.dropped(kept)
    noise_map = bind(sv.noise.graph_homomorphic(LAW), links)
    assert centroid_residual(noise_map, links) < 1e-12
    # The map of the full graph does not cancel on the active one: binding to the active links is what does it.
    if not kept.all():
        assert centroid_residual(bind(sv.noise.graph_homomorphic(LAW), topology.active_links()), links) > 1e-6


def test_local_graph_homomorphic_pairs_by_hand():
    # Receiver 0 of a complete graph of 5 hears 1, 2, 3, 4: N+ = {1, 3}, N- = {2, 4}, weights 1/5.
    links = sv.topologies.complete(5).active_links()
    noise_map = bind(sv.noise.local_graph_homomorphic(LAW), links)
    mine = [
        s
        for s in range(noise_map.num_sources)
        if (links.receivers[noise_map.link_index[noise_map.link_source == s]] == 0).all()
    ]
    assert sorted(map(tuple, noise_map.owners[mine])) == [(1, 2), (1, 4), (3, 2), (3, 4)]
    carried, kept = dense_maps(sv.noise.local_graph_homomorphic(LAW), links)
    from_1 = carried[np.flatnonzero((links.senders == 1) & (links.receivers == 0))[0]]
    np.testing.assert_allclose(from_1[mine], [5.0, 5.0, 0.0, 0.0])
    assert kept.size == 0 or not kept.any()


@given(st.integers(0, 10_000))
def test_local_graph_homomorphic_cancels_at_every_receiver_although_links_carry_noise(seed):
    generator = np.random.default_rng(seed)
    matrix = generator.random((7, 7)) + 0.05
    links = sv.topologies.from_matrix(matrix / matrix.sum(axis=0)).active_links()
    noise_map = bind(sv.noise.local_graph_homomorphic(LAW), links)
    assert cancels_at_receivers(noise_map, links)
    carried, _ = dense_maps(sv.noise.local_graph_homomorphic(LAW), links)
    assert (np.abs(carried).sum(axis=1) > 0).all()


def test_local_graph_homomorphic_is_refused_where_a_receiver_has_one_neighbour():
    with pytest.raises(sv.IncompatibleChoice, match="agent 0 has 1"):
        bind(sv.noise.local_graph_homomorphic(LAW), sv.topologies.path(4).active_links())


def test_none_has_no_sources_and_claims_no_cancellation():
    links = sv.topologies.ring(4).active_links()
    noise_map = bind(sv.noise.none(), links)
    assert noise_map.num_sources == 0
    assert not cancels_at_receivers(noise_map, links)
    assert not cancels_in_centroid(noise_map, links)


def test_properties_follow_the_map_and_not_the_name():
    def spread(links):
        return broadcast_map(links, -(1 - links.self_weights) / links.self_weights)

    links = sv.topologies.ring(5).active_links()
    named_differently = Noise("anything", LAW, spread)
    assert cancels_in_centroid(bind(named_differently, links), links)
    assert not cancels_in_centroid(bind(sv.noise.independent(LAW), links), links)


def test_own_copy_is_the_message_only_for_broadcast_with_self_noise():
    links = sv.topologies.ring(5).active_links()
    expected = [
        (sv.noise.independent(LAW), True),
        (sv.noise.independent(LAW, self_noise=False), False),
        (sv.noise.independent(LAW, per_edge=True), False),
        (sv.noise.graph_homomorphic(LAW), False),
        (sv.noise.local_graph_homomorphic(LAW), False),
        (sv.noise.none(), True),
    ]
    for noise, answer in expected:
        assert own_copy_is_the_message(bind(noise, links), links) is answer, noise.name


def test_received_map_is_the_weighted_sum_of_what_arrives():
    links = sv.topologies.from_matrix(random_left_stochastic(5, 2)).active_links()
    noise = sv.noise.independent(LAW, per_edge=True)
    carried, kept = dense_maps(noise, links)
    expected = np.zeros((5, carried.shape[1]))
    for e, (k, weight) in enumerate(zip(links.receivers, links.weights, strict=True)):
        expected[k] += weight * carried[e]
    expected += links.self_weights[:, None] * kept
    np.testing.assert_allclose(received_map(bind(noise, links), links).toarray(), expected)


def test_an_agent_that_sends_nothing_adds_nothing_to_its_own_copy():
    topology = sv.topologies.path(3)
    links = topology.dropped(np.array([True, False]))  # pair (1, 2) is silent, so agent 2 sends nothing
    for per_edge in (True, False):
        _, kept = dense_maps(sv.noise.independent(LAW, per_edge=per_edge), links)
        assert not kept[2].any()
        assert kept[0].any()


def test_pair_owned_sources_name_both_owners():
    noise_map = bind(sv.noise.local_graph_homomorphic(LAW), sv.topologies.ring(4).active_links())
    assert isinstance(noise_map, NoiseMap)
    assert (noise_map.owners >= 0).all()
    assert (noise_map.owners[:, 0] != noise_map.owners[:, 1]).all()


def test_the_standard_deviation_of_a_scheme_is_that_of_its_law():
    assert sv.noise.independent(sv.noise.Laplace(std=0.3)).scaled(2.0).std == pytest.approx(0.6, rel=1e-15)
    assert sv.noise.gopa(sv.noise.Gaussian(std=0.3), pairwise_std=1.0).std == 0.3
    assert sv.noise.none().std == 0.0
    with pytest.raises(sv.ConfigError, match="depends on the number d of coordinates"):
        sv.noise.independent(sv.noise.L2Laplace(scale=1.0)).std  # noqa: B018
