"""The table of all pairs against single accounts, and against a pseudo-inverse of a network written out by hand."""

import itertools

import networkx as nx
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.linear_view import largest_mu, pairwise
from sottovoce.accounting.linear_view.pairwise import pairwise_linear_mu
from sottovoce.accounting.linear_view.worst_direction import WorstDirection

LAW = sv.noise.Gaussian(std=0.7)
BROADCAST = sv.noise.independent(LAW, self_noise=True)
ATC = sv.algorithms.atc(step_size=0.4)
DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])

CASES = {
    "ring, ATC": (sv.topologies.ring(6), ATC, BROADCAST),
    "random graph, ATC, clean own copy": (
        sv.topologies.erdos_renyi(7, 0.5, seed=3),
        ATC,
        sv.noise.independent(LAW, self_noise=False),
    ),
    "grid, CTA, graph-homomorphic": (
        sv.topologies.grid(2, 3),
        sv.algorithms.cta(step_size=0.2),
        sv.noise.graph_homomorphic(LAW),
    ),
    "path, consensus, per edge": (
        sv.topologies.path(5),
        sv.algorithms.consensus(step_size=0.2),
        sv.noise.independent(LAW, per_edge=True),
    ),
    # Its centre receives every message, so the view splits into agents.
    "star, ATC": (sv.topologies.star(5), ATC, sv.noise.independent(LAW, self_noise=False)),
    "directed, ATC": (sv.topologies.from_networkx(DIRECTED, weights="uniform"), ATC, BROADCAST),
    "federation, ATC": (sv.topologies.federation(4), ATC, BROADCAST),
    "ring, pairwise noise": (sv.topologies.ring(5), ATC, sv.noise.gopa(LAW, pairwise_std=2.0)),
    "ring, local graph-homomorphic": (sv.topologies.ring(6), ATC, sv.noise.local_graph_homomorphic(LAW)),
    "ring, no noise": (sv.topologies.ring(5), ATC, sv.noise.none()),
}


@pytest.mark.parametrize("name", CASES)
def test_every_entry_is_the_linear_mu_of_a_single_account(name):
    topology, algorithm, noise = CASES[name]
    K = topology.num_agents
    sensitivity = np.linspace(0.5, 2.0, K)
    table = pairwise_linear_mu(topology, algorithm, noise, rounds=5, sensitivity=sensitivity)
    assert table.shape == (K, K)
    assert np.isnan(np.diag(table)).all()
    for p, v in itertools.permutations(range(K), 2):
        single = sv.account(
            topology, algorithm, noise, sv.observers.curious_agent(v), rounds=5, sensitivity=sensitivity, agent=p
        )
        # Both are proven to a relative gap of 1e-6 in mu^2, by different batches.
        assert table[p, v] == pytest.approx(single.linear_mu, rel=1e-6, abs=1e-12), (p, v)


def test_the_cases_show_finite_infinite_and_zero_entries():
    tables = {
        name: pairwise_linear_mu(*case, rounds=2, sensitivity=1.0)
        for name, case in CASES.items()
        if name in ("ring, local graph-homomorphic", "ring, ATC")
    }
    local, broadcast = tables["ring, local graph-homomorphic"], tables["ring, ATC"]
    # An agent at distance k is in clear from round k on, and unheard before.
    assert np.isinf(local[0, [1, 2, 4, 5]]).all()
    assert local[0, 3] == 0
    assert (broadcast[0, [1, 2, 4, 5]] > 0).all()
    assert np.isfinite(broadcast[0, 1:]).all()
    assert broadcast[0, 3] == 0


def gram_by_hand(A, *, step, std, own_share, rounds, agent, observer):
    """Q of agent p for observer v: all messages as rows over all gradients and sources, and a pseudo-inverse.

    ATC, broadcast noise: v reads psi_l + z_l of its neighbours, and knows its own z; l's own copy is psi_l + own_share z_l.
    """
    K = len(A)
    models = np.zeros((K, rounds, 2, K))  # coefficients of the gradients [., 0, :] and the sources [., 1, :]
    read = []
    for t in range(rounds):
        before = models.copy()
        before[np.arange(K), t, 0, np.arange(K)] -= step
        sent, kept = before.copy(), before.copy()
        sent[np.arange(K), t, 1, np.arange(K)] += std
        kept[np.arange(K), t, 1, np.arange(K)] += own_share * std
        read += [sent[sender] for sender in range(K) if sender != observer and A[sender, observer] > 0]
        off = A - np.diag(np.diag(A))
        models = np.einsum("lk,ltsj->ktsj", off, sent) + np.diag(A)[:, None, None, None] * kept
    stacked = np.array(read)
    shift = stacked[:, :, 0, agent]
    noise = np.delete(stacked[:, :, 1, :], observer, axis=2).reshape(len(stacked), -1)
    whitened = np.linalg.pinv(noise) @ shift
    return whitened.T @ whitened


def attained(Q, *, sweeps=3000):
    """A value of unit vectors, climbed to from a fixed start: V <- rows of Q V at length one."""
    V = np.random.default_rng(7).standard_normal((len(Q), len(Q)))
    for _ in range(sweeps):
        V /= np.linalg.norm(V, axis=1, keepdims=True)
        V = Q @ V + 1e-12 * V
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    return float(np.sum(Q * (V @ V.T)))


@pytest.mark.parametrize("own_share", [1.0, 0.0])
def test_entries_agree_with_a_pseudo_inverse_and_climbing(own_share):
    topology = sv.topologies.erdos_renyi(6, 0.5, seed=1)
    noise = sv.noise.independent(LAW, self_noise=own_share == 1.0)
    table = pairwise_linear_mu(topology, ATC, noise, rounds=6, sensitivity=1.0)
    for p, v in itertools.permutations(range(6), 2):
        Q = gram_by_hand(topology.matrix, step=0.4, std=0.7, own_share=own_share, rounds=6, agent=p, observer=v)
        assert table[p, v] == pytest.approx(np.sqrt(attained(Q)), rel=2e-6), (p, v)


def test_entries_bound_every_sign_pattern_and_are_not_the_aligned_value():
    """Ring of 6, weights 1/3, T = 7, neighbour: equal changes are not the worst here."""
    table = pairwise_linear_mu(sv.topologies.ring(6), ATC, BROADCAST, rounds=7, sensitivity=1.0)
    Q = gram_by_hand(sv.topologies.ring(6).matrix, step=0.4, std=0.7, own_share=1.0, rounds=7, agent=2, observer=3)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=7)))
    best_sign = np.sqrt(np.einsum("as,st,at->a", signs, Q, signs).max())
    assert np.sqrt(Q.sum()) * 1.05 < best_sign <= table[2, 3] < np.sqrt(np.abs(Q).sum())


def test_the_upper_bound_is_stated_and_not_the_attained_value(monkeypatch):
    def far_apart(gram):
        count = len(gram)
        return WorstDirection(np.full(count, 1.0), np.full(count, 4.0), np.zeros(count, dtype=bool))

    monkeypatch.setattr(pairwise, "worst_direction", far_apart)
    table = pairwise_linear_mu(sv.topologies.ring(4), ATC, BROADCAST, rounds=2, sensitivity=3.0)
    assert np.array_equal(table[~np.eye(4, dtype=bool)], np.full(12, 6.0))


def test_renaming_agents_renames_rows_and_columns():
    graph = nx.gnp_random_graph(7, 0.5, seed=4)
    order = np.random.default_rng(0).permutation(7)
    renamed = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    first, second = (
        pairwise_linear_mu(sv.topologies.from_networkx(one), ATC, BROADCAST, rounds=4, sensitivity=1.0)
        for one in (graph, renamed)
    )
    np.testing.assert_allclose(second[np.ix_(order, order)], first, rtol=1e-6)


def test_progress_counts_every_observer_once():
    told = []
    pairwise_linear_mu(
        sv.topologies.ring(5), ATC, BROADCAST, rounds=2, sensitivity=1.0, progress=lambda *said: told.append(said)
    )
    assert told == [(done, 5) for done in range(1, 6)]


@pytest.mark.parametrize(
    "sensitivity", [0.0, -1.0, np.nan, np.inf, True, "1", [1.0, 1.0], [[1.0] * 5], [1.0, 1.0, 1.0, 1.0, np.nan]]
)
def test_wrong_sensitivities_are_refused(sensitivity):
    with pytest.raises(sv.ConfigError, match="sensitivity"):
        pairwise_linear_mu(sv.topologies.ring(5), ATC, BROADCAST, rounds=2, sensitivity=sensitivity)


@pytest.mark.parametrize("rounds", [0, -1, 2.0, True])
def test_wrong_rounds_are_refused(rounds):
    with pytest.raises(sv.ConfigError, match="rounds"):
        pairwise_linear_mu(sv.topologies.ring(5), ATC, BROADCAST, rounds=rounds, sensitivity=1.0)


@pytest.mark.parametrize(
    ("topology", "algorithm", "noise", "match"),
    [
        (sv.topologies.ring(5), ATC, sv.noise.independent(sv.noise.Laplace(std=1.0)), "Laplace"),
        (sv.topologies.ring(5), sv.algorithms.dgd(step_size=0.1, gradient_rounds=2, box=1.0), BROADCAST, "project"),
        (sv.topologies.ring(5).with_dropout(0.5), ATC, BROADCAST, "random"),
    ],
)
def test_views_without_a_linear_mu_are_refused(topology, algorithm, noise, match):
    with pytest.raises(sv.UnsupportedClaim, match=match):
        pairwise_linear_mu(topology, algorithm, noise, rounds=2, sensitivity=1.0)


def test_a_view_that_is_too_long_is_refused_before_any_other_is_computed(monkeypatch):
    monkeypatch.setattr(largest_mu, "LARGEST_WORK", 1.0)
    told = []
    with pytest.raises(sv.UnsupportedClaim, match="fewer rounds"):
        pairwise_linear_mu(
            sv.topologies.ring(5), ATC, BROADCAST, rounds=2, sensitivity=1.0, progress=lambda *said: told.append(said)
        )
    assert told == []
