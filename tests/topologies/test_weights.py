"""Weight rules: exact small cases by hand, and what every rule promises on any graph."""

import importlib

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sottovoce import topologies
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.topologies import weights as rules


@st.composite
def connected_edges(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """A random tree with some more edges."""
    n = draw(st.integers(2, 9))
    edges = {(draw(st.integers(0, k - 1)), k) for k in range(1, n)}
    pairs = [(i, j) for j in range(n) for i in range(j)]
    edges |= set(draw(st.lists(st.sampled_from(pairs), max_size=10)))
    return n, sorted(edges)


def test_metropolis_weights_of_a_path_of_three_by_hand():
    expected = [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]]
    np.testing.assert_allclose(topologies.path(3).matrix, expected, atol=1e-15)


def test_metropolis_weights_of_a_star_of_four_by_hand():
    q = 1 / 4
    expected = [[q, q, q, q], [q, 3 * q, 0, 0], [q, 0, 3 * q, 0], [q, 0, 0, 3 * q]]
    np.testing.assert_allclose(topologies.star(4).matrix, expected, atol=1e-15)


def test_laplacian_weights_of_a_path_of_three_by_hand():
    # Eigenvalues of the Laplacian are 0, 1, 3, so the factor is 2/9.
    expected = np.array([[7, 2, 0], [2, 5, 2], [0, 2, 7]]) / 9
    np.testing.assert_allclose(topologies.path(3, weights="laplacian").matrix, expected, atol=1e-14)


def test_uniform_weights_of_a_path_of_three_by_hand():
    topology = topologies.path(3, weights="uniform")
    expected = [[1 / 2, 1 / 3, 0], [1 / 2, 1 / 3, 1 / 2], [0, 1 / 3, 1 / 2]]
    np.testing.assert_allclose(topology.matrix, expected, atol=1e-15)
    np.testing.assert_allclose(topology.perron, [2 / 7, 3 / 7, 2 / 7], atol=1e-15)
    assert not topology.is_doubly_stochastic
    assert topology.is_reversible


@pytest.mark.parametrize("rule", sorted(rules.RULES))
@given(graph=connected_edges())
@settings(max_examples=40, deadline=None)
def test_columns_sum_to_one_and_self_weights_are_positive_for_every_rule(rule, graph):
    topology = topologies.from_edges(*graph, weights=rule)
    np.testing.assert_allclose(topology.matrix.sum(axis=0), 1.0, atol=1e-14)
    assert (topology.matrix >= 0).all()
    assert (topology.self_weights > 0).all()
    assert topology.is_reversible


@pytest.mark.parametrize("rule", ["metropolis", "laplacian"])
@given(graph=connected_edges())
@settings(max_examples=40, deadline=None)
def test_metropolis_and_laplacian_weights_are_symmetric_with_uniform_perron_vector(rule, graph):
    topology = topologies.from_edges(*graph, weights=rule)
    np.testing.assert_allclose(topology.matrix, topology.matrix.T, atol=1e-15)
    assert topology.is_doubly_stochastic
    np.testing.assert_array_equal(topology.perron, np.full(topology.num_agents, 1 / topology.num_agents))


@given(graph=connected_edges())
@settings(max_examples=40, deadline=None)
def test_perron_vector_of_uniform_weights_is_proportional_to_degree_plus_one(graph):
    topology = topologies.from_edges(*graph, weights="uniform")
    degrees = np.array([len(topology.neighbours(k)) for k in range(topology.num_agents)])
    np.testing.assert_allclose(topology.perron, (degrees + 1) / (degrees + 1).sum(), rtol=1e-12)


def adjacency_of(topology):
    adjacency = topology.weights.copy()
    adjacency.setdiag(0.0)
    adjacency.eliminate_zeros()
    adjacency.data[:] = 1.0
    return adjacency


def test_iterative_and_dense_largest_laplacian_eigenvalue_agree():
    adjacency = adjacency_of(topologies.k_out(300, 3))
    dense = rules.largest_laplacian_eigenvalue(adjacency)
    np.testing.assert_allclose(rules.largest_laplacian_eigenvalue(adjacency, dense_limit=0), dense, rtol=1e-9)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (topologies.path(5000), 2 + 2 * np.cos(np.pi / 5000)),
        (topologies.ring(5000), 4.0),
        (topologies.ring(5001), 2 + 2 * np.cos(np.pi / 5001)),
        (topologies.grid(40, 50), 4 + 2 * np.cos(np.pi / 40) + 2 * np.cos(np.pi / 50)),
        (topologies.star(2000), 2000.0),
    ],
)
def test_largest_laplacian_eigenvalue_is_the_closed_form_where_eigenvalues_crowd(topology, expected):
    np.testing.assert_allclose(rules.largest_laplacian_eigenvalue(adjacency_of(topology)), expected, rtol=1e-9)


def test_crowded_eigenvalues_of_a_graph_too_large_to_factorise_are_refused(monkeypatch):
    monkeypatch.setattr(rules, "FACTORISABLE_LINKS", 1000)
    with pytest.raises(ConfigError, match=r"5000 agents and 10000 links.*Use weights='metropolis'"):
        topologies.ring(5000, weights="laplacian")


def test_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'hastings'.*'metropolis', 'laplacian', 'uniform'"):
        topologies.ring(4, weights="hastings")


@pytest.mark.parametrize("rule", ["metropolis", "laplacian"])
def test_symmetric_rules_refuse_a_directed_graph_and_name_the_link(rule):
    with pytest.raises(IncompatibleChoice, match=r"0 -> 1 has no opposite.*weights='uniform'"):
        topologies.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=rule)


@pytest.mark.parametrize("seed", range(20))
def test_few_agents_are_told_connected_or_not_as_many_are(seed, monkeypatch):
    """Small networks do without SciPy's graph routines, which take long to load; both ways say the same, word for word."""
    links = np.random.default_rng(seed).random((12, 12)) < 0.2
    module = importlib.import_module("sottovoce.topologies.left_stochastic")  # the function has the same name
    said = []
    for few in (0, 512):
        monkeypatch.setattr(module, "FEW_AGENTS", few)
        try:
            module.require_connected(sparse.csc_array(links.astype(float)), "Add links.")
            said.append("")
        except ConfigError as error:
            said.append(str(error))
    assert said[0] == said[1]
    assert bool(said[0]) != nx.is_strongly_connected(nx.DiGraph(links))
