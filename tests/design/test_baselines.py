"""What designs are held against: the published columns, and the definitions by other routes."""

import networkx as nx
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.design.baselines import best_pairwise_ratio, central_bound, equal_privacy, one_step_rule, own_noise
from sottovoce.design.pairs import pair_noise

GRAPHS = {
    "ring": sv.topologies.ring(20),
    "grid": sv.topologies.grid(4, 5),
    "random": sv.topologies.erdos_renyi(20, 0.3, seed=0),
    "geometric": sv.topologies.geometric(30, 0.35, seed=0),
    "star": sv.topologies.star(20),
    "karate": sv.topologies.from_networkx(nx.Graph(nx.karate_club_graph().edges())),
}


def steady_price(topology, contraction):
    """A (sum_j c^2j A^j (I / K) A'^j) A' from the linear equation P = I / K + c^2 A P A'."""
    a = np.asarray(topology.matrix)
    K = len(a)
    total = np.linalg.solve(np.eye(K * K) - contraction**2 * np.kron(a, a), (np.eye(K) / K).ravel()).reshape(K, K)
    return a @ total @ a.T


def price(G, s):
    return float((G * s).sum())


# best ratio of pairwise noise, one-step rule, central bound: c = 0.99, then 0.95
@pytest.mark.parametrize(
    ("name", "slow_mixing", "fast_mixing"),
    [
        ("ring", (2.968, 1.97, 32.9), (2.029, 1.82, 59.8)),
        ("grid", (2.847, 2.17, 25), (1.577, 1.89, 39)),
        ("random", (2.865, 2.29, 23), (1.378, 1.85, 32)),
        ("geometric", (1.654, 2.71, 40), (1.007, 2.19, 69)),
        ("star", (1.107, 1.02, 76), (1.013, 1.01, 191)),
        ("karate", (1.033, 1.37, 73), (1.000, 1.22, 177)),
    ],
)
def test_the_published_columns(name, slow_mixing, fast_mixing):
    topology = GRAPHS[name]
    for contraction, (pairwise, one_step, central) in ((0.99, slow_mixing), (0.95, fast_mixing)):
        G = steady_price(topology, contraction)
        own = np.trace(G)
        assert own / price(G, best_pairwise_ratio(G, 1.0, topology.pairs).covariance) == pytest.approx(
            pairwise, abs=6e-4
        )
        assert own / price(G, one_step_rule(topology.matrix, 1.0)) == pytest.approx(one_step, abs=6e-3)
        assert own / central_bound(G, 1.0, topology.perron) == pytest.approx(central, rel=0.02)


def test_small_networks_have_their_published_ratios():
    for topology, expected, ratio in (
        (sv.topologies.ring(6), 0.60281519, 1.47826),
        (sv.topologies.path(4), 1.12602766, 1.63687),
        (sv.topologies.star(5), 1.53777709, 1.13173),
    ):
        G = steady_price(topology, 0.9)
        found = best_pairwise_ratio(G, 1.0, topology.pairs)
        assert price(G, found.covariance) == pytest.approx(expected, rel=1e-8)
        assert found.ratio == pytest.approx(ratio, abs=1e-4)


@pytest.mark.parametrize(("name", "expected"), [("ring", 1.766), ("grid", 1.808), ("random", 1.798)])
def test_any_one_colluder_leaves_pairwise_noise_the_published_gain(name, expected):
    topology = GRAPHS[name]
    G = steady_price(topology, 0.99)
    coalitions = [((k,), 1.0) for k in range(20)]
    found = best_pairwise_ratio(G, 1.0, topology.pairs, coalitions=coalitions)
    # the published value of the grid is that of a coarser search, 0.5 % below the best ratio, so less is not accepted
    assert -6e-4 < np.trace(G) / price(G, found.covariance) - expected < 0.005 * expected
    designed = pair_noise(G, 1.0, topology.pairs, coalitions=coalitions).covariance
    assert price(G, designed) <= price(G, found.covariance) * (1 + 1e-9)


def test_all_are_scaled_to_the_same_privacy_for_unequal_targets():
    topology, kappa = GRAPHS["random"], np.linspace(0.5, 2.0, 20)
    G = steady_price(topology, 0.95)
    found = [best_pairwise_ratio(G, kappa, topology.pairs).covariance, one_step_rule(topology.matrix, kappa)]
    made = pair_noise(G, kappa, topology.pairs).covariance
    for s in (*found, own_noise(kappa, 20), made, equal_privacy(np.eye(20), kappa)):
        assert (np.diag(np.linalg.inv(s)) / kappa).max() == pytest.approx(1.0, rel=1e-10)
        assert central_bound(G, kappa, topology.perron) <= price(G, made) * (1 + 1e-9) <= price(G, s) * (1 + 2e-9)


def test_the_central_bound_is_reached_where_messages_are_averaged_at_once():
    topology = sv.topologies.complete(10)
    G = steady_price(topology, 0.9)
    assert price(G, best_pairwise_ratio(G, 1.0, topology.pairs).covariance) == pytest.approx(
        central_bound(G, 1.0, topology.perron), rel=1e-6
    )
    assert central_bound(np.diag([1.0, 0.0]), 1.0, [0.5, 0.5]) == 0.0
