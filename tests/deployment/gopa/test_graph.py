"""The graph of pairs: the same for everybody, k picks each, uniform."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce.deployment.gopa import k_out_edges
from sottovoce.deployment.gopa.graph import _ranked_picks, _rejection_picks, neighbours
from sottovoce.errors import ConfigError


def beacon(number):
    return hashlib.sha256(str(number).encode()).digest()


@settings(max_examples=200)
@given(st.integers(2, 40), st.data())
def test_pairs_are_distinct_ordered_and_at_least_k_at_every_party(num_parties, data):
    out_degree = data.draw(st.integers(1, num_parties - 1))
    edges = k_out_edges(beacon(data.draw(st.integers(0, 10**6))), num_parties=num_parties, out_degree=out_degree)
    assert (edges[:, 0] < edges[:, 1]).all()
    assert edges.min() >= 0
    assert edges.max() < num_parties
    assert [tuple(edge) for edge in edges.tolist()] == sorted({tuple(edge) for edge in edges.tolist()})
    assert np.bincount(edges.ravel(), minlength=num_parties).min() >= out_degree
    assert len(edges) <= num_parties * out_degree


def test_everybody_draws_the_same_graph_and_another_beacon_gives_another():
    first = k_out_edges(beacon(1), num_parties=50, out_degree=4)
    np.testing.assert_array_equal(first, k_out_edges(beacon(1), num_parties=50, out_degree=4))
    assert not np.array_equal(first, k_out_edges(beacon(2), num_parties=50, out_degree=4))


def test_all_picks_make_the_complete_graph():
    assert len(k_out_edges(beacon(0), num_parties=9, out_degree=8)) == 36


@pytest.mark.parametrize("pick", [_rejection_picks, _ranked_picks])
def test_both_ways_of_picking_give_every_set_of_others_equally_often(pick):
    # 3 of 6 others: 20 sets; 14000 rows from 2000 graphs of 7 parties.
    rows = np.concatenate([pick(beacon(number), 7, 3) for number in range(2000)])
    codes = (2 ** np.sort(rows, axis=1)).sum(axis=1)
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 20
    assert stats.chisquare(counts).pvalue > 1e-4
    # Power: one set drawn a third too often would be noticed.
    counts[0] = counts[0] * 4 // 3
    assert stats.chisquare(counts).pvalue < 1e-4


@pytest.mark.parametrize(("num_parties", "out_degree"), [(400, 5), (60, 40)])
def test_number_of_pairs_matches_its_expectation_and_not_that_of_one_pick_more(num_parties, out_degree):
    # A pair is missing when neither picks the other: probability (1 - k/(n-1))^2.
    def expected(k):
        return num_parties * (num_parties - 1) / 2 * (1 - (1 - k / (num_parties - 1)) ** 2)

    sizes = [len(k_out_edges(beacon(number), num_parties=num_parties, out_degree=out_degree)) for number in range(100)]
    standard_error = np.std(sizes, ddof=1) / 10
    assert abs(np.mean(sizes) - expected(out_degree)) < 4 * standard_error
    assert abs(np.mean(sizes) - expected(out_degree + 1)) > 10 * standard_error


def test_neighbours_are_symmetric():
    edges = k_out_edges(beacon(3), num_parties=30, out_degree=3)
    lists = neighbours(edges, 30)
    assert all(u in lists[v] for u in range(30) for v in lists[u])
    assert sum(map(len, lists)) == 2 * len(edges)


@pytest.mark.parametrize(("num_parties", "out_degree"), [(1, 1), (5, 5), (5, 0), (0, 1)])
def test_impossible_graphs_are_refused(num_parties, out_degree):
    with pytest.raises(ConfigError, match="k-out"):
        k_out_edges(beacon(0), num_parties=num_parties, out_degree=out_degree)


def test_beacons_of_another_length_are_refused():
    with pytest.raises(ConfigError, match="32"):
        k_out_edges(b"short", num_parties=5, out_degree=2)
