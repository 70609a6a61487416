"""Graph factories: the right edges, the right random laws, and refusals that name the agent."""

import json

import networkx as nx
import numpy as np
import pytest
from scipy import sparse, stats

from sottovoce import topologies
from sottovoce.errors import ConfigError, IncompatibleChoice


def pairs(topology):
    return {tuple(pair) for pair in topology.pairs.tolist()}


def test_small_graphs_have_the_edges_of_their_definition():
    assert pairs(topologies.ring(2)) == {(0, 1)}
    assert pairs(topologies.ring(4)) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert pairs(topologies.path(4)) == {(0, 1), (1, 2), (2, 3)}
    assert pairs(topologies.star(4)) == {(0, 1), (0, 2), (0, 3)}
    assert pairs(topologies.complete(3)) == {(0, 1), (0, 2), (1, 2)}
    assert pairs(topologies.grid(2, 3)) == {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    assert pairs(topologies.hypercube(2)) == {(0, 1), (0, 2), (1, 3), (2, 3)}


@pytest.mark.parametrize(
    ("topology", "graph"),
    [
        (topologies.ring(7), nx.cycle_graph(7)),
        (topologies.grid(3, 4), nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4), ordering="sorted")),
        (topologies.hypercube(4), nx.convert_node_labels_to_integers(nx.hypercube_graph(4), ordering="sorted")),
        (topologies.star(6), nx.star_graph(5)),
    ],
)
def test_graphs_agree_with_networkx(topology, graph):
    assert pairs(topology) == {tuple(sorted(edge)) for edge in graph.edges}
    np.testing.assert_array_equal(topologies.from_networkx(graph).matrix, topology.matrix)


def edge_count_p_value(assumed):
    n, draws = 60, 100
    count = sum(topologies.erdos_renyi(n, 0.2, seed=seed).num_pairs for seed in range(draws))
    return stats.binomtest(count, draws * n * (n - 1) // 2, assumed).pvalue


def test_erdos_renyi_edge_count_has_the_stated_probability_and_not_another():
    # 177 000 pairs: a probability off by 1.3 in either direction is some 60 standard deviations away.
    assert edge_count_p_value(0.2) > 1e-4
    assert edge_count_p_value(0.2 * 1.3) < 1e-9
    assert edge_count_p_value(0.2 / 1.3) < 1e-9


def test_erdos_renyi_links_every_pair_equally_often():
    # 1000 graphs on 10 agents; chi-square over the 45 pairs. Connectedness at p = 0.7 is all but certain.
    n, p, draws = 10, 0.7, 1000
    counts = np.zeros((n, n))
    for seed in range(draws):
        counts[tuple(topologies.erdos_renyi(n, p, seed=seed).pairs.T)] += 1
    observed = counts[np.triu_indices(n, 1)]
    statistic = ((observed - draws * p) ** 2 / (draws * p * (1 - p))).sum()
    assert 1e-4 < stats.chi2.sf(statistic, len(observed)) < 1 - 1e-4


def test_erdos_renyi_with_probability_one_is_complete():
    np.testing.assert_array_equal(topologies.erdos_renyi(30, 1.0).links, topologies.complete(30).links)


def test_erdos_renyi_pairs_are_valid_in_a_large_sparse_graph():
    topology = topologies.erdos_renyi(100_000, 2e-4)
    low, high = topology.pairs.T
    assert (low < high).all()
    assert high.max() < 100_000
    expected = 100_000 * 99_999 / 2 * 2e-4
    assert abs(topology.num_pairs - expected) < 5 * np.sqrt(expected)


def test_geometric_links_exactly_the_agents_within_the_radius():
    topology = topologies.geometric(60, 0.3, seed=3)
    distances = np.linalg.norm(topology.positions[:, None] - topology.positions[None], axis=2)
    np.testing.assert_array_equal(topology.matrix > 0, distances <= 0.3)
    assert topologies.ring(3).positions is None


def test_k_out_degrees_are_at_least_k_and_choices_are_uniform():
    n, k, draws = 8, 3, 800
    linked = np.zeros((n, n))
    for seed in range(draws):
        topology = topologies.k_out(n, k, seed=seed)
        adjacency = (topology.matrix > 0) & ~np.eye(n, dtype=bool)
        assert (adjacency.sum(axis=0) >= k).all()
        linked += adjacency
    # A pair is linked unless neither picked the other; each of the 28 pairs within 5 standard deviations.
    p = 1 - (1 - k / (n - 1)) ** 2
    observed = linked[np.triu_indices(n, 1)] / draws
    assert (np.abs(observed - p) < 5 * np.sqrt(p * (1 - p) / draws)).all()


def test_k_out_with_all_others_is_complete():
    np.testing.assert_array_equal(topologies.k_out(9, 8).links, topologies.complete(9).links)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: topologies.erdos_renyi(40, 0.3, seed=seed),
        lambda seed: topologies.geometric(40, 0.5, seed=seed),
        lambda seed: topologies.k_out(40, 3, seed=seed),
    ],
)
def test_random_graphs_repeat_with_their_seed_and_change_with_it(make):
    np.testing.assert_array_equal(make(1).links, make(1).links)
    assert pairs(make(1)) != pairs(make(2))


def test_from_networkx_numbers_nodes_in_sorted_order_else_in_insertion_order():
    assert pairs(topologies.from_networkx(nx.Graph([("c", "a"), ("a", "b")]))) == {(0, 2), (0, 1)}
    assert pairs(topologies.from_networkx(nx.Graph([("x", 1), (1, (2,))]))) == {(0, 1), (1, 2)}


def test_from_networkx_keeps_the_names_of_the_nodes():
    towns = topologies.from_networkx(nx.Graph([("Zürich", "Bern"), ("Bern", "Basel")]))
    assert towns.names == ("Basel", "Bern", "Zürich")
    assert json.loads(json.dumps(towns.describe()))["agents"] == ["Basel", "Bern", "Zürich"]
    assert towns.with_dropout(0.1).names == towns.names
    places = topologies.from_networkx(nx.grid_2d_graph(2, 2))
    assert places.names == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert "agents" not in places.describe()  # no plain words
    assert topologies.from_networkx(nx.cycle_graph(4)).names is None
    assert topologies.from_networkx(nx.Graph([(1, 2), (2, 3)])).names == (1, 2, 3)


def test_a_clean_graph_has_simple_edges_and_one_part_and_says_what_was_left_out():
    messy = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "c"), ("x", "y")])
    messy.add_node("alone")
    for wrong in (messy, nx.Graph([("a", "b"), ("x", "y")]), nx.Graph([("a", "b"), ("b", "b")])):
        with pytest.raises(ConfigError, match="Or take clean=True"):
            topologies.from_networkx(wrong)
    topology = topologies.from_networkx(messy, clean=True)
    assert topology.names == ("a", "b", "c")
    assert pairs(topology) == {(0, 1), (1, 2)}
    assert topology.notes == (
        "1 edge from a node to itself dropped",
        "2 parallel edges merged",
        "3 nodes of 6 left out, beside the largest part that is connected: 'alone', 'x', 'y'",
    )
    assert topology.describe()["notes"] == list(topology.notes)
    assert messy.number_of_nodes() == 6, "the graph that was given stays as it is"


def test_a_graph_that_is_clean_already_is_left_as_it_is():
    graph = nx.erdos_renyi_graph(12, 0.5, seed=1)
    plain, clean = topologies.from_networkx(graph), topologies.from_networkx(graph, clean=True)
    np.testing.assert_array_equal(plain.matrix, clean.matrix)
    assert clean.notes == ()
    assert "notes" not in clean.describe()


def test_a_clean_directed_graph_keeps_its_directions_and_the_part_in_which_everybody_reaches_everybody():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 3), (4, 4)])
    topology = topologies.from_networkx(graph, weights="uniform", clean=True)
    assert topology.names is None
    assert set(map(tuple, topology.links.tolist())) == {(0, 1), (1, 2), (2, 0)}
    assert topology.notes[-1] == (
        "2 nodes of 5 left out, beside the largest part in which everybody reaches everybody: 3, 4"
    )


def test_of_equal_parts_that_of_the_first_node_is_kept():
    assert topologies.from_networkx(nx.Graph([("c", "d"), ("b", "a")]), clean=True).names == ("a", "b")


def test_from_networkx_directed_edges_point_from_sender_to_receiver():
    topology = topologies.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights="uniform")
    expected = [[1 / 2, 1 / 2, 1 / 3], [0, 1 / 2, 1 / 3], [1 / 2, 0, 1 / 3]]
    np.testing.assert_allclose(topology.matrix, expected)


def test_from_matrix_takes_dense_and_sparse_and_leaves_its_input_alone():
    given = np.array([[0.5, 0.25], [0.5, 0.75]])
    for form in (given, given.tolist(), sparse.csr_array(given), sparse.coo_matrix(given)):
        np.testing.assert_array_equal(topologies.from_matrix(form).matrix, given)
    assert topologies.from_matrix([[1.0]]).num_agents == 1


def test_federation_gives_everyone_the_same_average():
    plain = topologies.federation(4)
    np.testing.assert_array_equal(plain.matrix, np.full((4, 4), 0.25))
    weighted = topologies.federation(3, weights="records", records=[1, 2, 5])
    np.testing.assert_allclose(weighted.matrix, np.outer([1 / 8, 2 / 8, 5 / 8], np.ones(3)))
    np.testing.assert_allclose(weighted.perron, [1 / 8, 2 / 8, 5 / 8])
    assert plain.relay
    assert weighted.relay
    assert not topologies.star(4).relay


def test_registry_holds_every_named_factory():
    assert set(topologies.TOPOLOGIES) == {
        "ring", "path", "grid", "complete", "star", "hypercube", "erdos_renyi", "geometric", "k_out", "federation",
    }  # fmt: skip
    assert all(getattr(topologies, name) is factory for name, factory in topologies.TOPOLOGIES.items())


REFUSED = [
    (lambda: topologies.ring(1), "n = 1; it must be a whole number of at least 2"),
    (lambda: topologies.ring(2.5), "n = 2.5; it must be a whole number"),
    (lambda: topologies.ring(True), "n = True; it must be a whole number"),
    (lambda: topologies.path(0), "n = 0; it must be a whole number of at least 2"),
    (lambda: topologies.grid(1, 1), "one agent"),
    (lambda: topologies.hypercube(40), "limit is 24"),
    (lambda: topologies.erdos_renyi(5, 1.2), r"p = 1.2; it must be a number in \[0, 1\]"),
    (lambda: topologies.erdos_renyi(5, -0.1), r"p = -0.1; it must be a number in \[0, 1\]"),
    (lambda: topologies.erdos_renyi(5, float("nan")), "p = nan; it must be a number in"),
    (lambda: topologies.erdos_renyi(5, 0.0), r"agent 1 cannot be reached from agent 0.*another seed or a larger p"),
    (lambda: topologies.geometric(5, 0.0), r"radius = 0.0; it must be a number in \(0, inf\)"),
    (lambda: topologies.geometric(50, 0.01), r"cannot be reached from agent 0.*another seed or a larger radius"),
    (lambda: topologies.k_out(200, 1), r"cannot be reached from agent 0.*another seed or a larger k"),
    (lambda: topologies.k_out(4, 4), "k=4 others were asked for, but each of n=4 agents has only 3"),
    (lambda: topologies.k_out(4, 2, seed=-1), "seed = -1; it must be a whole number of at least 0"),
    (lambda: topologies.from_edges(3, [(0, 1), (1, 3)]), r"edge \(1, 3\) names an agent outside 0 to 2"),
    (lambda: topologies.from_edges(3, [(0, 1), (-1, 2)]), r"edge \(-1, 2\) names an agent outside"),
    (lambda: topologies.from_edges(3, [(0, 1), (2, 2)]), r"edge \(2, 2\) links an agent to itself"),
    (lambda: topologies.from_edges(3, [(0, 1), (1, 2), (1, 0)]), r"edge \(0, 1\) is given more than once"),
    (lambda: topologies.from_edges(3, [(0, 1)]), "agent 2 cannot be reached from agent 0"),
    (lambda: topologies.from_edges(3, []), "non-empty list of pairs"),
    (lambda: topologies.from_edges(3, [(0.5, 1.0)]), "pairs of agent numbers"),
    (lambda: topologies.from_networkx(nx.Graph([(0, 0), (0, 1)])), "links an agent to itself"),
    (lambda: topologies.from_networkx(nx.MultiGraph([(0, 1), (0, 1)])), "more than once"),
    (lambda: topologies.from_networkx(nx.empty_graph(1)), "1 nodes"),
    (lambda: topologies.from_networkx(nx.empty_graph(3)), "agent 1 cannot be reached"),
    (lambda: topologies.from_matrix(np.ones((2, 3))), r"shape \(2, 3\); it must be square"),
    (lambda: topologies.from_matrix(np.ones(3)), r"shape \(3,\); it must be square"),
    (lambda: topologies.from_matrix("weights"), "not a matrix of numbers"),
    (lambda: topologies.from_matrix([[0.5, 0.4], [0.5, 0.5]]), "receiver 1 gives sum to 0.9"),
    (lambda: topologies.from_matrix([[0.5, 1.5], [0.5, -0.5]]), "sender 1 the weight -0.5 at receiver 1"),
    (lambda: topologies.from_matrix([[0.5, np.nan], [0.5, 1.0]]), "sender 0 the weight nan at receiver 1"),
    (lambda: topologies.from_matrix([[0.5, np.inf], [0.5, 1.0]]), "sender 0 the weight inf at receiver 1"),
    (lambda: topologies.from_matrix(np.eye(3)), "agent 1 cannot be reached from agent 0"),
    (lambda: topologies.from_matrix([[1.0, 0.5], [0.0, 0.5]]), "agent 1 cannot reach agent 0"),
    (lambda: topologies.federation(5001), "limit is 5000"),
    (lambda: topologies.federation(3, weights="records"), "needs the record counts"),
    (lambda: topologies.federation(3, weights="records", records=[1, 2]), r"shape \(2,\)"),
    (lambda: topologies.federation(3, weights="records", records=[1, 0, 2]), "agent 1 has 0 records"),
    (lambda: topologies.federation(3, weights="records", records=["a", "b", "c"]), "not numbers"),
    (lambda: topologies.federation(3, weights="metropolis"), "Use 'uniform' or 'records'"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_malformed_input_is_refused_by_name(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_record_counts_without_record_weights_are_refused():
    with pytest.raises(IncompatibleChoice, match="weights='records'"):
        topologies.federation(2, records=[1, 2])


def nbytes(topology):
    weights = topology.weights
    arrays = [weights.data, weights.indices, weights.indptr, topology.links, topology.link_weights]
    return sum(array.nbytes for array in [*arrays, topology.self_weights, topology.link_pairs, topology.perron])


@pytest.mark.slow
def test_a_million_agents_on_a_ring_fit_in_a_fraction_of_a_gigabyte():
    topology = topologies.ring(1_000_000)
    assert len(topology.links) == 2_000_000
    np.testing.assert_allclose(topology.weights @ topology.perron, topology.perron, rtol=1e-12)
    assert nbytes(topology) < 0.2e9


@pytest.mark.slow
def test_a_million_agents_with_ten_links_each_fit_in_half_a_gigabyte():
    topology = topologies.k_out(1_000_000, 5)
    assert 9_990_000 < len(topology.links) <= 10_000_000
    np.testing.assert_allclose(topology.weights @ topology.perron, topology.perron, rtol=1e-12)
    assert nbytes(topology) < 0.6e9
