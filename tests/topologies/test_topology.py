"""Topology: links and their ids, the Perron vector, the spectral gap, drop-outs and schedules."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sottovoce import topologies
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.topologies import spectrum

DIRECTED = np.array([[0.5, 0.2, 0.0], [0.0, 0.8, 0.4], [0.5, 0.0, 0.6]])


def dense(links):
    """[K, K] matrix of one round."""
    matrix = np.diag(links.self_weights)
    matrix[links.senders, links.receivers] += links.weights
    return matrix


@st.composite
def directed_weights(draw: st.DrawFn) -> np.ndarray:
    """Left-stochastic and strongly connected: a directed cycle and random further links."""
    n, generator = draw(st.integers(2, 8)), np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = generator.random((n, n)) * (generator.random((n, n)) < 0.4)
    matrix[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    return matrix / matrix.sum(axis=0)


@st.composite
def reversible_topologies(draw: st.DrawFn) -> topologies.Topology:
    """A_lk = F_lk / q_k for a symmetric positive flow F on a connected graph."""
    n, generator = draw(st.integers(2, 8)), np.random.default_rng(draw(st.integers(0, 2**32)))
    upper = np.triu(generator.random((n, n)) * (generator.random((n, n)) < 0.5))
    upper[np.arange(n - 1), np.arange(1, n)] += 0.1
    flow = upper + upper.T
    return topologies.from_matrix(flow / flow.sum(axis=0))


def test_links_are_ordered_by_receiver_and_then_sender():
    topology = topologies.from_matrix(DIRECTED)
    assert topology.links.tolist() == [[2, 0], [0, 1], [1, 2]]
    np.testing.assert_array_equal(topology.link_weights, [0.5, 0.2, 0.4])
    np.testing.assert_array_equal(topology.self_weights, [0.5, 0.8, 0.6])
    assert topology.neighbours(2).tolist() == [1]
    assert topologies.star(4).neighbours(0).tolist() == [1, 2, 3]


def test_both_directions_of_a_pair_share_an_id_and_one_way_links_have_their_own():
    topology = topologies.from_matrix([[0.5, 0.5, 0.0], [0.25, 0.5, 0.5], [0.25, 0.0, 0.5]])
    assert topology.links.tolist() == [[1, 0], [2, 0], [0, 1], [1, 2]]
    assert topology.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert topology.link_pairs.tolist() == [0, 1, 0, 2]
    assert topology.num_pairs == 3


def test_active_links_of_a_static_topology_rebuild_its_matrix():
    topology = topologies.from_matrix(DIRECTED)
    np.testing.assert_array_equal(dense(topology.active_links()), DIRECTED)
    assert topology.listed() == (topology,)


def test_cached_arrays_cannot_be_written_to():
    topology = topologies.ring(5)
    for array in (topology.links, topology.link_weights, topology.self_weights, topology.perron, topology.link_pairs):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_topologies_survive_pickling():
    topology = topologies.geometric(20, 0.6).with_dropout(0.2)
    again = pickle.loads(pickle.dumps(topology))
    np.testing.assert_array_equal(again.matrix, topology.matrix)
    assert again.schedule == topology.schedule


def test_dense_matrix_is_refused_above_the_limit():
    with pytest.raises(ConfigError, match=r"5001 agents.*topology.weights"):
        _ = topologies.ring(5001).matrix


def test_neighbours_of_nobody_are_refused():
    with pytest.raises(ConfigError, match="agents are 0 to 3"):
        topologies.ring(4).neighbours(4)


@given(matrix=directed_weights())
@settings(max_examples=80, deadline=None)
def test_perron_vector_is_kept_positive_and_normalised_for_any_directed_weights(matrix):
    q = topologies.from_matrix(matrix).perron
    np.testing.assert_allclose(matrix @ q, q, atol=1e-13)
    assert (q > 0).all()
    assert abs(q.sum() - 1.0) < 1e-13


@given(matrix=directed_weights(), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_relabelling_agents_permutes_the_perron_vector_and_keeps_the_gap(matrix, seed):
    order = np.random.default_rng(seed).permutation(len(matrix))
    before, after = topologies.from_matrix(matrix), topologies.from_matrix(matrix[np.ix_(order, order)])
    np.testing.assert_allclose(after.perron, before.perron[order], rtol=1e-9)
    np.testing.assert_allclose(after.spectral_gap, before.spectral_gap, atol=1e-6)


def sparse_directed(n):
    generator = np.random.default_rng(4)
    matrix = sparse.random_array((n, n), density=6 / n, rng=generator) + sparse.eye_array(n)
    matrix = matrix + sparse.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    return sparse.csc_array(matrix / matrix.sum(axis=0))


def test_iterative_and_exact_perron_vectors_of_directed_weights_agree():
    weights = sparse_directed(400)
    exact, iterative = spectrum.perron_vector(weights), spectrum.perron_vector(weights, exact_limit=0)
    np.testing.assert_allclose(iterative, exact, rtol=1e-9)
    assert not spectrum.rows_sum_to_one(weights)


def test_perron_vector_of_a_long_one_sided_path_follows_from_ratios():
    # Birth and death with ratio 1.2: q_(k+1) = 1.2 q_k over 3000 agents, beyond any direct product of floats.
    n, up, down = 3000, 0.24, 0.2
    main = np.full(n, 1 - up - down)
    main[0], main[-1] = 1 - up, 1 - down
    matrix = sparse.diags_array([np.full(n - 1, up), main, np.full(n - 1, down)], offsets=[-1, 0, 1])
    q = topologies.from_matrix(matrix).perron
    np.testing.assert_allclose(q[1:] / q[:-1], 1.2, rtol=1e-9)


def test_centroid_weights_below_the_float_range_are_refused():
    n = 3000
    main = np.full(n, 0.5)
    main[0], main[-1] = 0.6, 0.9
    matrix = sparse.diags_array([np.full(n - 1, 0.4), main, np.full(n - 1, 0.1)], offsets=[-1, 0, 1])
    with pytest.raises(ConfigError, match="agent 0 is too small for float64"):
        _ = topologies.from_matrix(matrix).perron


@pytest.mark.parametrize("n", [3, 4, 9, 50])
def test_spectral_gap_of_a_ring_is_the_closed_form(n):
    # Circulant with weights 1/3: eigenvalues (1 + 2 cos(2 pi j / n)) / 3.
    moduli = np.sort(np.abs((1 + 2 * np.cos(2 * np.pi * np.arange(n) / n)) / 3))
    assert topologies.ring(n).spectral_gap == pytest.approx(1 - moduli[-2], abs=1e-12)


@pytest.mark.parametrize("n", [2, 10, 1200])
def test_spectral_gap_of_a_complete_graph_and_of_a_federation_is_one(n):
    assert topologies.complete(n).spectral_gap == pytest.approx(1.0, abs=1e-12)
    assert topologies.federation(n).spectral_gap == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("weights", ["metropolis", "uniform"])
def test_iterative_and_dense_spectral_gaps_of_a_graph_agree(weights):
    topology = topologies.k_out(300, 3, weights=weights)
    gap = spectrum.spectral_gap([topology.weights], lambda: topology.perron, dense_limit=0)
    assert gap == pytest.approx(topology.spectral_gap, abs=1e-9)


def test_iterative_and_dense_spectral_gaps_of_directed_and_listed_weights_agree():
    weights = sparse_directed(300)
    topology = topologies.from_matrix(weights)
    gap = spectrum.spectral_gap([topology.weights], lambda: topology.perron, dense_limit=0)
    assert gap == pytest.approx(topology.spectral_gap, abs=1e-9)
    listed = topologies.ring(300).with_schedule([topologies.k_out(300, 2), topologies.k_out(300, 3, seed=1)])
    gap = spectrum.spectral_gap(listed.schedule.matrices, lambda: listed.perron, dense_limit=0)
    assert gap == pytest.approx(listed.spectral_gap, abs=1e-9)


def test_spectral_gap_of_periodic_weights_is_zero_at_any_size():
    for n in (2, 3, 5000):
        cycle = sparse.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
        assert topologies.from_matrix(cycle).spectral_gap == 0.0
    assert topologies.from_matrix([[1.0]]).spectral_gap == 1.0


def test_spectral_gap_too_small_for_iteration_is_refused(monkeypatch):
    monkeypatch.setattr(spectrum, "affordable_restarts", lambda num_links: 2)
    with pytest.raises(ConfigError, match="too small to be resolved"):
        _ = topologies.ring(20_000).spectral_gap


@given(topology=reversible_topologies(), seed=st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_drop_outs_of_reversible_weights_keep_column_sums_and_perron_vector(topology, seed):
    assert topology.is_reversible
    kept = np.random.default_rng(seed).random(topology.num_pairs) < 0.5
    links = topology.dropped(kept)
    matrix = dense(links)
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, atol=1e-14)
    np.testing.assert_allclose(matrix @ topology.perron, topology.perron, atol=1e-14)
    np.testing.assert_array_equal(links.weights > 0, kept[topology.link_pairs])
    np.testing.assert_array_equal(links.senders, topology.links[:, 0])


def test_one_dropped_pair_of_a_path_by_hand():
    matrix = dense(topologies.path(3).dropped(np.array([True, False])))
    np.testing.assert_allclose(matrix, np.array([[2, 1, 0], [1, 2, 0], [0, 0, 3]]) / 3, atol=1e-15)


def test_directed_weights_would_move_their_perron_vector_under_drop_outs():
    # Why drop-outs are refused below: returning weights by hand changes q.
    matrix = np.array([[0.5, 0.3, 0.1], [0.3, 0.5, 0.4], [0.2, 0.2, 0.5]])
    topology = topologies.from_matrix(matrix)
    matrix[0, 0] += matrix[1, 0]
    matrix[1, 1] += matrix[0, 1]
    matrix[0, 1] = matrix[1, 0] = 0.0
    assert np.abs(matrix @ topology.perron - topology.perron).max() > 1e-3
    assert not topology.is_reversible
    with pytest.raises(IncompatibleChoice, match=r"for the pair \(\d, \d\) q_m a_lm = .*metropolis"):
        topology.with_dropout(0.1)
    with pytest.raises(IncompatibleChoice, match="reversible"):
        topology.dropped(np.array([False, True, True]))


def test_drop_outs_of_one_way_links_are_refused_by_name():
    with pytest.raises(IncompatibleChoice, match=r"the link 2 -> 0 has no opposite"):
        topologies.from_matrix(DIRECTED).with_dropout(0.1)


@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan"), "half", True])
def test_drop_out_probability_outside_its_range_is_refused(probability):
    with pytest.raises(ConfigError, match="dropout probability"):
        topologies.ring(4).with_dropout(probability)


@pytest.mark.parametrize("kept", [np.ones(3, dtype=bool), np.ones(4), [1, 0, 1, 0]])
def test_kept_pairs_must_be_one_boolean_per_pair(kept):
    with pytest.raises(ConfigError, match="one boolean for each of the 4 pairs"):
        topologies.ring(4).dropped(kept)


def test_dropout_keeps_weights_links_and_positions():
    base = topologies.geometric(20, 0.6)
    topology = base.with_dropout(0.25)
    assert topology.schedule == topologies.Dropout(0.25)
    np.testing.assert_array_equal(topology.links, base.links)
    np.testing.assert_array_equal(topology.matrix, base.matrix)
    assert topology.positions is base.positions
    assert base.schedule == topologies.Static()


def test_random_pair_rounds_average_one_pair_and_their_mean_is_the_weights():
    topology = topologies.path(4, weights="uniform").with_random_pair()
    rounds = [dense(topology.paired(pair)) for pair in range(topology.num_pairs)]
    np.testing.assert_array_equal(rounds[1], [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(np.mean(rounds, axis=0), topology.matrix, atol=1e-15)
    np.testing.assert_array_equal(topology.perron, np.full(4, 0.25))


def test_random_pair_needs_links_both_ways():
    with pytest.raises(IncompatibleChoice, match="2 -> 0 has no opposite"):
        topologies.from_matrix(DIRECTED).with_random_pair()
    with pytest.raises(IncompatibleChoice, match="there is no pair"):
        topologies.from_matrix([[1.0]]).with_random_pair()
    with pytest.raises(IncompatibleChoice, match="with_random_pair"):
        topologies.ring(4).paired(0)
    with pytest.raises(ConfigError, match="pairs are 0 to 3"):
        topologies.ring(4).with_random_pair().paired(4)


FIRST = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
SECOND = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]])


def test_listed_rounds_share_link_ids_over_the_union_of_links():
    topology = topologies.complete(3).with_schedule([FIRST, sparse.csr_array(SECOND)])
    assert topology.links.tolist() == [[1, 0], [0, 1], [2, 1], [1, 2]]
    rounds = topology.listed()
    for entry, expected in zip(rounds, [FIRST, SECOND], strict=True):
        assert entry.links is topology.links
        np.testing.assert_array_equal(dense(entry.active_links()), expected)
        np.testing.assert_array_equal(entry.active_links().perron, np.full(3, 1 / 3))
        np.testing.assert_array_equal(entry.link_pairs, topology.link_pairs)
    assert rounds[0].link_weights.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert topology.is_doubly_stochastic


def test_listed_schedule_of_topologies_keeps_their_matrices():
    topology = topologies.ring(5).with_schedule([topologies.ring(5), topologies.star(5)])
    assert [entry.num_agents for entry in topology.listed()] == [5, 5]
    np.testing.assert_array_equal(topology.listed()[1].matrix, topologies.star(5).matrix)
    np.testing.assert_array_equal(topology.matrix, (topologies.ring(5).matrix + topologies.star(5).matrix) / 2)


def test_spectral_gap_of_a_listed_schedule_is_the_rate_per_round():
    moduli = np.sort(np.abs(np.linalg.eigvals(FIRST @ SECOND)))
    gap = topologies.ring(3).with_schedule([FIRST, SECOND]).spectral_gap
    assert gap == pytest.approx(1 - np.sqrt(moduli[-2]), abs=1e-12)
    assert topologies.ring(6).with_schedule([topologies.ring(6)] * 3).spectral_gap == pytest.approx(
        topologies.ring(6).spectral_gap
    )


def test_listed_schedule_with_a_common_non_uniform_perron_vector_has_a_centroid():
    base = topologies.path(4, weights="uniform")
    lazy = 0.5 * np.eye(4) + 0.5 * base.matrix
    np.testing.assert_allclose(base.with_schedule([base, lazy]).perron, base.perron, rtol=1e-12)


def test_listed_schedule_without_a_common_perron_vector_has_no_centroid():
    topology = topologies.ring(4).with_schedule([topologies.ring(4), topologies.path(4, weights="uniform")])
    with pytest.raises(
        IncompatibleChoice, match=r"no common Perron vector.*centroid is not defined.*doubly stochastic"
    ):
        _ = topology.perron
    with pytest.raises(IncompatibleChoice, match="no common Perron vector"):
        topology.listed()[0].active_links()


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([], "schedule is empty"),
        ([FIRST, np.eye(4)], "matrix 1 of the schedule is for 4 agents; this topology has 3"),
        ([FIRST, 0.9 * SECOND], "matrix 1 of the schedule has a column that does not sum to one"),
        ([FIRST, np.eye(3)], r"agent 2 cannot be reached from agent 0.*union must be connected"),
    ],
)
def test_malformed_listed_schedules_are_refused(matrices, message):
    with pytest.raises(ConfigError, match=message):
        topologies.ring(3).with_schedule(matrices)


SCHEDULED = {
    "dropout": topologies.ring(3).with_dropout(0.1),
    "random_pair": topologies.ring(3).with_random_pair(),
    "listed": topologies.ring(3).with_schedule([FIRST, SECOND]),
}


@pytest.mark.parametrize("kind", sorted(SCHEDULED))
def test_a_topology_has_one_schedule(kind):
    for change in (
        lambda t: t.with_dropout(0.1),
        lambda t: t.with_random_pair(),
        lambda t: t.with_schedule([FIRST, SECOND]),
        lambda t: topologies.ring(3).with_schedule([t]),
    ):
        with pytest.raises(IncompatibleChoice, match=f"{kind} schedule already"):
            change(SCHEDULED[kind])


def test_federations_take_no_schedule():
    with pytest.raises(IncompatibleChoice, match="federation"):
        topologies.federation(3).with_dropout(0.1)


def test_mean_weights_are_never_handed_out_as_a_round():
    with pytest.raises(IncompatibleChoice, match=r"listed\(\)"):
        SCHEDULED["listed"].active_links()
    with pytest.raises(IncompatibleChoice, match=r"paired\(pair\)"):
        SCHEDULED["random_pair"].active_links()
    for kind in ("dropout", "random_pair"):
        with pytest.raises(IncompatibleChoice, match="random and cannot be listed"):
            SCHEDULED[kind].listed()


@pytest.mark.parametrize(
    "topology", [*SCHEDULED.values(), topologies.ring(4), topologies.ring(2000), topologies.federation(3)]
)
def test_description_is_json_and_names_what_it_is(topology):
    description = json.loads(json.dumps(topology.describe()))
    assert description["num_agents"] == topology.num_agents
    assert description["num_links"] == len(topology.links)
    assert (description["spectral_gap"] is None) == (topology.num_agents > 1000)
    assert f"{topology.num_agents} agents" in repr(topology)


def test_walks_of_neighbouring_large_seeds_differ():
    topology = topologies.complete(9).with_walk()
    paths = [
        topologies.walk_paths(topology, 30, seed=seed, repeats=1) for seed in (2**64 - 1, 2**64 - 2, 2**63, 2**63 + 1)
    ]
    assert len({path.tobytes() for path in paths}) == 4
