"""The Gram matrix of a view: two routes against matrices stacked by hand, and where it is infinite."""

import math

import numpy as np
import pytest
from scipy import sparse

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting.linear_view import choice
from sottovoce.accounting.linear_view.choice import gram
from sottovoce.accounting.linear_view.innovations import filtered_gram
from sottovoce.accounting.linear_view.stacked import stacked_gram
from sottovoce.linear import SystemRound, bound_rounds, network_round, observed_round
from sottovoce.observers import view

LAW = sv.noise.Gaussian(std=0.7)


def random_system(rng, states, agents, sources, rows):
    shapes = [(states, states), (states, agents), (states, sources), (rows, states), (rows, agents), (rows, sources)]
    return SystemRound(*(sparse.csr_array(rng.normal(size=shape) / math.sqrt(states)) for shape in shapes))


def by_hand(systems, scales, agent):
    """Phi and Psi of all observations, every input followed through the rounds; Q by a pseudo-inverse."""
    T, n, q = len(systems), systems[0].F.shape[0], systems[0].N.shape[1]
    x, rows = np.zeros((n, T + T * q)), []
    for t, system in enumerate(systems):
        F, G, N, H, D, M = (part.toarray() for part in system)
        noise = slice(T + t * q, T + (t + 1) * q)
        y, new = H @ x, F @ x
        y[:, t] += D[:, agent]
        new[:, t] += G[:, agent]
        y[:, noise] += scales[t] * M
        new[:, noise] += scales[t] * N
        rows.append(y)
        x = new
    stacked = np.vstack(rows)
    phi, psi = stacked[:, :T], stacked[:, T:]
    return phi.T @ np.linalg.pinv(psi @ psi.T, rcond=1e-13) @ phi


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alike", [True, False])
def test_both_routes_give_the_matrix_stacked_by_hand(seed, alike):
    rng = np.random.default_rng(seed)
    shape = (4, 3, 5, 2)  # more sources than observations: the covariance is regular
    systems = [random_system(rng, *shape)] * 5 if alike else [random_system(rng, *shape) for _ in range(5)]
    scales = np.full(5, 0.8) if alike else rng.uniform(0.5, 2.0, 5)
    one, other = filtered_gram(systems, scales, np.arange(3)), stacked_gram(systems, scales, np.arange(3))
    assert other is not None
    for p in range(3):
        expected = by_hand(systems, scales, p)
        np.testing.assert_allclose(one.values[p], expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(other.values[p], expected, rtol=1e-8, atol=1e-10)
    assert not one.clear_round.any()
    chosen = gram(systems, scales, [2, 0])
    np.testing.assert_allclose(chosen.values[0], by_hand(systems, scales, 2), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(chosen.values[1], by_hand(systems, scales, 0), rtol=1e-8, atol=1e-10)


def test_the_stacked_route_leaves_singular_views_to_the_filter():
    rng = np.random.default_rng(0)
    system = random_system(rng, 3, 2, 4, 2)
    twice = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))  # a row that is the sum of two others
    H, D, M = (sparse.csr_array(twice @ part) for part in (system.H, system.D, system.M))
    redundant = system._replace(H=H, D=D, M=M)
    scales = np.ones(4)
    assert stacked_gram([redundant] * 4, scales, np.array([0])) is None
    found = gram([redundant] * 4, scales, [0])
    assert found.clear_round[0] == 0
    np.testing.assert_allclose(found.values[0], by_hand([system] * 4, scales, 0), rtol=1e-7, atol=1e-9)


def test_a_gradient_beside_the_noise_is_in_clear_from_its_round_on():
    # One state that keeps gradients, read through noise; the third observation is read without.
    one, zero = sparse.csr_array([[1.0]]), sparse.csr_array([[0.0]])
    noisy = SystemRound(one, one, zero, one, zero, one)
    clear = noisy._replace(M=zero)
    found = gram([noisy, noisy, clear, noisy], np.ones(4), [0])
    assert found.clear_round[0] == 3
    assert gram([noisy] * 4, np.ones(4), [0]).clear_round[0] == 0
    assert gram([noisy] * 4, np.array([1.0, 1.0, 1.0, 0.0]), [0]).clear_round[0] == 4
    assert gram([noisy] * 4, np.array([0.0, 1.0, 1.0, 1.0]), [0]).clear_round[0] == 0  # round 1 shows no gradient yet


def test_noise_used_twice_is_eliminated():
    # y_1 = g_1 + z, y_2 = 2 z carried over in the state: both together show g_1.
    one, zero = sparse.csr_array([[1.0]]), sparse.csr_array([[0.0]])
    first = SystemRound(zero, zero, one, zero, one, one)
    second = SystemRound(zero, zero, zero, 2.0 * one, zero, zero)
    assert gram([first], np.ones(1), [0]).values[0, 0, 0] == pytest.approx(1.0)
    assert gram([first, second], np.ones(2), [0]).clear_round[0] == 2


@pytest.mark.parametrize("size", [1e-60, 1e-8, 1e8, 1e60])
@pytest.mark.parametrize("scheme", ["self", "clean", "homomorphic"])
def test_only_the_ratio_of_noise_and_gradient_matters(size, scheme):
    noise = {
        "self": sv.noise.independent(LAW),
        "clean": sv.noise.independent(LAW, self_noise=False),
        "homomorphic": sv.noise.graph_homomorphic(LAW),
    }[scheme]
    graph, algorithm, observer = sv.topologies.ring(6), sv.algorithms.atc(step_size=0.4), sv.observers.curious_agent(5)
    arguments = {"rounds": 5, "agent": 2}
    expected = sv.account(graph, algorithm, noise, observer, sensitivity=1.0, **arguments)
    found = sv.account(graph, algorithm, noise.scaled(size), observer, sensitivity=size, **arguments)
    assert found.linear_mu == pytest.approx(expected.linear_mu, rel=1e-9)
    assert found.mu == pytest.approx(expected.mu, rel=1e-9)


def left_stochastic(seed, K=4):
    A = np.random.default_rng(seed).uniform(0.2, 1.0, (K, K))
    return A / A.sum(axis=0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("scheme", ["homomorphic", "local"])
def test_what_cancels_in_floating_point_is_no_noise(scheme, rounds, seed):
    # With weights that are no binary fractions, noise that cancels leaves 1e-17 behind, which must not count as noise.
    A = left_stochastic(seed)
    make = {"homomorphic": sv.noise.graph_homomorphic, "local": sv.noise.local_graph_homomorphic}[scheme]
    algorithm = sv.algorithms.atc(step_size=0.3)
    found = sv.account(
        sv.topologies.from_matrix(A), algorithm, make(LAW), sv.observers.final_model(), rounds=rounds, sensitivity=1.0, agent=1
    )  # fmt: skip
    assert found.linear_mu == math.inf
    assert brute.mu([brute.atc(A, 0.3, 0.7)] * rounds, scheme, brute.Watcher(final=True), 1) == math.inf


@pytest.mark.parametrize("seed", range(4))
def test_what_cancels_over_two_exchanges_is_no_noise(seed):
    first, last = left_stochastic(seed), left_stochastic(seed + 100)
    algorithm = sv.algorithms.three_matrix(
        step_size=0.3, first=sv.topologies.from_matrix(first), last=sv.topologies.from_matrix(last)
    )
    for scheme, noise in (
        ("homomorphic", sv.noise.graph_homomorphic(LAW)),
        ("local", sv.noise.local_graph_homomorphic(LAW)),
    ):
        observer = sv.observers.final_model()
        found = sv.account(
            sv.topologies.from_matrix(first), algorithm, noise, observer, rounds=2, sensitivity=1.0, agent=1
        )
        rounds = [brute.Round(first=first, last=last, step=0.3, scale=0.7)] * 2
        assert brute.mu(rounds, scheme, brute.Watcher(final=True), 1) == math.inf
        assert found.linear_mu == math.inf


def whole_network(kind, noise, observer, rounds=4):
    topology, algorithm = sv.topologies.ring(5), getattr(sv.algorithms, kind)(step_size=0.4)
    bound = bound_rounds(topology, algorithm, noise, rounds)
    network = network_round(bound.distinct[0])
    systems = [
        observed_round(network, view(observer, topology), last=t == rounds - 1, centroid=bound.centroid.weights)
        for t in range(rounds)
    ]
    return filtered_gram(systems, bound.scales, np.array([2]))


@pytest.mark.parametrize(
    ("kind", "self_noise", "observer", "adaptive", "public"),
    [
        ("atc", True, sv.observers.eavesdropper(), True, True),
        ("atc", False, sv.observers.eavesdropper(), True, False),
        ("cta", True, sv.observers.eavesdropper(), True, False),
        ("consensus", True, sv.observers.eavesdropper(), True, False),
        ("atc", True, sv.observers.curious_agent(0), False, False),
        ("atc", True, sv.observers.links([(2, 3)]), False, False),
        ("atc", True, sv.observers.coalition([0, 1, 3, 4]), True, True),
        ("atc", True, sv.observers.coalition([1, 3]), True, True),  # every broadcast reaches a member
    ],
)
def test_states_are_known_where_all_is_read(kind, self_noise, observer, adaptive, public):
    # Adaptive: every state follows from what was read, and for all but agent 2 it is the same in both worlds. Public: for agent 2 too.
    found = whole_network(kind, sv.noise.independent(LAW, self_noise=self_noise), observer)
    assert bool(found.adaptive[0]) == adaptive
    assert bool(found.public[0]) == public


def test_what_passes_unread_and_without_noise_makes_other_agents_states_unknown():
    # Nothing is uncertain to agent 4 when no noise is added, but agent 2's gradient is in its neighbours' models.
    topology, algorithm = sv.topologies.path(5), sv.algorithms.atc(step_size=0.4)
    bound = bound_rounds(topology, algorithm, sv.noise.none(), 1)
    seen = view(sv.observers.curious_agent(4), topology)
    system = observed_round(network_round(bound.distinct[0]), seen, last=True, centroid=bound.centroid.weights)
    found = filtered_gram([system], bound.scales, np.array([2]))
    assert found.clear_round[0] == 0
    assert not found.values.any()
    assert not found.adaptive[0]


def test_hidden_own_noise_leaves_states_unknown():
    found = whole_network("atc", sv.noise.independent(LAW, per_edge=True), sv.observers.eavesdropper())
    assert not found.adaptive[0]


def test_who_reads_nothing_learns_nothing():
    system = random_system(np.random.default_rng(0), 3, 2, 4, 0)
    found = gram([system] * 3, np.ones(3), [0, 1])
    assert found.values.shape == (2, 3, 3)
    assert not found.values.any()
    assert not found.clear_round.any()


def test_more_matrices_than_fit_are_refused(monkeypatch):
    system = random_system(np.random.default_rng(0), 3, 2, 4, 2)
    monkeypatch.setattr(choice, "LARGEST_RESULT", 10)
    with pytest.raises(sv.ConfigError, match="fewer rounds"):
        gram([system] * 3, np.ones(3), [0, 1])


@pytest.mark.parametrize("observer", [sv.observers.links([(7, 8)]), sv.observers.curious_agent(12)], ids=str)
def test_a_large_network_seen_through_few_links(observer):
    # Here the cheaper route is the stacked one; brute force agrees.
    graph, algorithm = sv.topologies.ring(30), sv.algorithms.cta(step_size=0.4)
    found = sv.account(
        graph, algorithm, sv.noise.independent(LAW), observer, rounds=6, sensitivity=1.0, agent=7
    )  # fmt: skip
    watcher = brute.Watcher(members=observer.members, links=observer.links)
    truth = brute.mu([brute.cta(graph.matrix, 0.4, 0.7)] * 6, "self", watcher, 7)
    assert found.linear_mu == pytest.approx(truth, rel=1e-7, abs=1e-15)
