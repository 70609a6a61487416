"""Gossip averaging with noise injected once: the exact loss of every pair, by brute force, by many digits and by simulation."""

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce import topologies
from sottovoce.accounting import gossip
from sottovoce.accounting.gossip.rank import PRIMES, Messages, as_fraction, exact_ranks, rank_modulo
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim

UNIT = {"std": 1.0, "sensitivity": 1.0}
DIRECTED = topologies.from_matrix(  # a ring of one-way links with a chord; columns sum to one
    [
        [0.5, 0.0, 0.0, 0.0, 0.7],
        [0.5, 0.4, 0.0, 0.0, 0.0],
        [0.0, 0.6, 0.5, 0.2, 0.0],
        [0.0, 0.0, 0.5, 0.5, 0.0],
        [0.0, 0.0, 0.0, 0.3, 0.3],
    ]
)


def projected(vectors, attacker):
    """[K] lengths of the projections by a pseudo-inverse, the attacker's column deleted."""
    B = np.delete(np.asarray(vectors), attacker, axis=1)
    B = B / np.linalg.norm(B, axis=1, keepdims=True).clip(1e-300)
    lengths = np.sqrt(np.clip(np.diag(np.linalg.pinv(B, rcond=1e-10) @ B), 0, None))
    return np.insert(lengths, attacker, np.nan)


def brute(topology, rounds, polynomials=None):
    """[K, K] by definition: the rows of the maps x(0) -> x_w(t) that every agent sees."""
    M = topology.weights.toarray().T  # x(t+1) = M x(t)
    maps = [np.linalg.matrix_power(M, t) for t in range(rounds)] if polynomials is None else polynomials(M, rounds)
    seen = [[P[w] for P in maps for w in topology.neighbours(v)] for v in range(topology.num_agents)]
    return np.column_stack([projected(rows, v) for v, rows in enumerate(seen)])


def differs(first, second):
    assert (np.isnan(first) == np.isnan(second)).all()
    return np.nanmax(np.abs(first - second))


SMALL = {
    "ring": topologies.ring(7),
    "grid": topologies.grid(3, 4),
    "star": topologies.star(6),
    "complete": topologies.complete(5),
    "hypercube": topologies.hypercube(4),
    "erdos-renyi": topologies.erdos_renyi(12, 0.3, seed=2),
    "laplacian": topologies.erdos_renyi(12, 0.3, seed=2, weights="laplacian"),
    "uniform, not symmetric": topologies.grid(3, 4, weights="uniform"),
    "directed": DIRECTED,
}


def test_path_of_three_is_fully_exposed_after_two_rounds():
    """R10, by hand: agent 0 hears x_1 and (x_0 + x_1 + x_2) / 3 and knows x_0, so it has x_2 with its noise alone."""
    loss = gossip.pairwise(topologies.path(3), rounds=2, attackers=[0], **UNIT)
    assert loss.upper[2, 0] ** 2 == loss.resolved[2, 0] ** 2 == 1.0
    without_own = np.array([[0, 1, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert (np.linalg.pinv(without_own) @ without_own)[2, 2] == pytest.approx(0.5)  # its own noise forgotten


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize("name", SMALL)
def test_every_pair_equals_the_pseudo_inverse(name, rounds):
    loss = gossip.pairwise(SMALL[name], rounds=rounds, **UNIT)
    assert differs(loss.upper, brute(SMALL[name], rounds)) < 1e-9
    assert loss.gap < 1e-9
    assert not loss.undecided.any()


def test_weights_transposed_the_wrong_way_are_another_number():
    wrong = topologies.from_matrix(topologies.grid(3, 4, weights="uniform").weights.toarray())
    transposed = np.column_stack(
        [
            projected([np.linalg.matrix_power(wrong.weights.toarray(), t)[w] for t in range(2) for w in wrong.neighbours(v)], v)
            for v in range(12)
        ]
    )  # fmt: skip
    assert differs(gossip.pairwise_mu(wrong, rounds=2, **UNIT), transposed) > 1e-3


def accelerated(gamma):
    def maps(M, rounds):
        found = [np.eye(len(M)), M]
        while len(found) < rounds:
            found.append(gamma * M @ found[-1] + (1 - gamma) * found[-2])
        return found[:rounds]

    return maps


@pytest.mark.parametrize("rounds", [2, 3, 5])
@pytest.mark.parametrize("name", ["ring", "grid", "erdos-renyi", "directed"])
def test_accelerated_gossip_leaks_what_plain_gossip_leaks_round_for_round(name, rounds):
    topology = SMALL[name]
    assert (
        differs(brute(topology, rounds, accelerated(1.4)), gossip.pairwise_mu(topology, rounds=rounds, **UNIT)) < 1e-8
    )


FULL = {
    "ring-8": topologies.ring(8),
    "path-8": topologies.path(8),
    "grid-4x4": topologies.grid(4, 4),
    "erdos-renyi-30": topologies.erdos_renyi(30, 0.25, seed=1),
    "florentine": topologies.from_networkx(nx.florentine_families_graph()),
}


@pytest.mark.parametrize("name", FULL)
def test_within_as_many_rounds_as_agents_everybody_is_exposed_to_everybody(name):
    """Every agent, not only one: rank K - 1 is the local value for all."""
    K = FULL[name].num_agents
    loss = gossip.pairwise(FULL[name], rounds=K, std=2.0, sensitivity=3.0)
    assert np.nanmin(loss.upper) == np.nanmax(loss.upper) == loss.local == 1.5
    assert loss.gap == 0.0


def test_hypercube_of_16_stops_at_13_of_15_directions():
    loss = gossip.pairwise(topologies.hypercube(4), rounds=40, **UNIT)
    assert np.nansum(loss.resolved**2, axis=0) == pytest.approx(np.full(16, 13.0), abs=1e-9)
    assert loss.gap < 1e-10  # exact ranks close the bracket, though directions were left out
    farther = [u for u in range(16) if u.bit_count() == 2]
    assert loss.upper[farther, 0] ** 2 == pytest.approx(np.full(6, 2 / 3), abs=1e-9)  # 13 = 4 + 6 (2/3) + 4 + 1


def test_many_digits_agree_with_floating_point():
    for topology, rounds in ((topologies.grid(4, 5), 6), (topologies.hypercube(4), 8), (DIRECTED, 3)):
        many = gossip.pairwise_extended(topology, rounds=rounds, attackers=[1, 3], digits=60, **UNIT)
        loss = gossip.pairwise(topology, rounds=rounds, attackers=[1, 3], **UNIT)
        assert differs(many, loss.upper) < 1e-9
        assert (many >= loss.resolved - 1e-15)[~np.isnan(many)].all()
        assert (many <= loss.upper + 1e-15)[~np.isnan(many)].all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["erdos-renyi", "geometric"])
def test_many_digits_agree_at_200_agents(kind):
    make = {
        "erdos-renyi": lambda: topologies.erdos_renyi(200, 0.04, seed=1),
        "geometric": lambda: topologies.geometric(200, 0.16, seed=6),
    }
    topology = make[kind]()
    for attackers, rounds in (([0, 17, 150], 4), ([3], 8)):
        many = gossip.pairwise_extended(topology, rounds=rounds, attackers=attackers, digits=60, **UNIT)
        loss = gossip.pairwise(topology, rounds=rounds, attackers=attackers, **UNIT)
        inside = ~np.isnan(many)
        assert (many <= loss.upper + 1e-15)[inside].all()
        assert (many >= loss.resolved - 1e-15)[inside].all()
        assert np.abs(many**2 - loss.upper**2)[inside].max() < max(1e-9, loss.gap)


def test_a_direction_too_small_to_settle_counts_as_seen():
    """Agent 0 hears 1, which hears 2 and 3 alike but for 1e-9: the exact answer is full exposure, one difference in the ninth digit."""
    eps = 1e-9
    W = np.array(
        [
            [0.5, 0.25, 0, 0],
            [0.5, 0.25, 0.25, 0.25],
            [0, 0.25, 0.75, 0],
            [0, 0.25, 0, 0.75 - eps],
        ]
    )
    W[1, 3] += eps
    loss = gossip.pairwise(topologies.from_matrix(W), rounds=3, attackers=[0], **UNIT)
    assert loss.undecided.all()
    assert loss.upper[1:, 0] == pytest.approx(1.0)
    assert loss.resolved[2, 0] ** 2 == pytest.approx(0.5)  # the settled part: x_2 + x_3
    assert loss.gap == pytest.approx(0.5)
    many = gossip.pairwise_extended(topologies.from_matrix(W), rounds=3, attackers=[0], digits=60, **UNIT)
    assert many[1:, 0] == pytest.approx(1.0)
    W[1, 3], W[3, 3] = 0.25, 0.75  # exactly alike: exact arithmetic closes the bracket
    loss = gossip.pairwise(topologies.from_matrix(W), rounds=3, attackers=[0], **UNIT)
    assert not loss.undecided.any()
    assert loss.upper[2, 0] ** 2 == pytest.approx(0.5)


def test_few_digits_refuse_what_they_cannot_settle():
    with pytest.raises(UnsupportedClaim, match="twice the digits"):
        gossip.pairwise_extended(topologies.path(40), rounds=39, attackers=[0], digits=20, **UNIT)


def log_ratios(std, *, samples, seed):
    """Log-likelihood ratios of agent 0's view on a hypercube when the value of agent 3, two links away, changes by 1, the noise of the run being `std`."""
    topology, v, u, rounds = topologies.hypercube(4), 0, 3, 3
    M, rng = topology.weights.toarray().T, np.random.default_rng(seed)
    rows = np.array([np.linalg.matrix_power(M, t)[w] for t in range(rounds) for w in topology.neighbours(v)])
    B = np.delete(rows, v, axis=1)
    views = (
        std * rng.standard_normal((samples, B.shape[1])) @ B.T + B[:, u - 1]
    )  # the changed world; values known and removed
    precision = np.linalg.pinv(B @ B.T, rcond=1e-10)  # the attacker believes in noise of std 1
    direction = precision @ B[:, u - 1]
    return views @ direction - B[:, u - 1] @ direction / 2, gossip.pairwise_mu(topology, rounds=rounds, **UNIT)[u, v]


def test_simulated_privacy_loss_has_the_law_of_this_mu_and_of_no_other():
    """The loss of a Gaussian pair is N(mu^2 / 2, mu^2). 20000 samples tell 2/3 and 3/2 of the std apart."""
    losses, mu = log_ratios(1.0, samples=20_000, seed=5)
    assert 0.1 < mu < 0.99
    assert stats.kstest(losses, "norm", (mu**2 / 2, mu)).pvalue > 1e-4
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(log_ratios(wrong, samples=20_000, seed=5)[0], "norm", (mu**2 / 2, mu)).pvalue < 1e-4
        assert stats.kstest(losses, "norm", ((wrong * mu) ** 2 / 2, wrong * mu)).pvalue < 1e-4


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rounds=st.integers(1, 5))
def test_relabelling_rounds_distance_and_local_value(seed, rounds):
    rng = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(9, seed=seed)
    graph.add_edges_from([(int(a), int(b)) for a, b in rng.integers(9, size=(4, 2)) if a != b])
    topology, order = topologies.from_networkx(graph), rng.permutation(9)
    table = gossip.pairwise_mu(topology, rounds=rounds, **UNIT)
    moved = topologies.from_matrix(topology.weights.toarray()[np.ix_(order, order)])
    off = ~np.eye(9, dtype=bool)
    assert differs(gossip.pairwise_mu(moved, rounds=rounds, **UNIT), table[np.ix_(order, order)]) < 1e-7
    assert (gossip.pairwise_mu(topology, rounds=rounds + 1, **UNIT) >= table - 1e-7)[off].all()
    distance = nx.floyd_warshall_numpy(topologies_graph(topology))
    assert (table[distance > rounds] == 0).all()
    assert (table[distance == 1] == 1).all()
    assert (table[off & (distance <= rounds)] > 0).all()
    assert (table[off] <= 1).all()


def topologies_graph(topology):
    graph = nx.empty_graph(topology.num_agents)
    graph.add_edges_from(topology.links.tolist())
    return graph


def test_loss_scales_with_sensitivity_over_std():
    topology = topologies.grid(3, 4)
    unit = gossip.pairwise_mu(topology, rounds=3, **UNIT)
    assert differs(gossip.pairwise_mu(topology, rounds=3, std=4.0, sensitivity=3.0), 0.75 * unit) < 1e-12


def test_workers_and_a_choice_of_attackers_change_nothing_and_progress_counts():
    topology, calls = topologies.erdos_renyi(40, 0.15, seed=3), []
    whole = gossip.pairwise(topology, rounds=4, workers=1, **UNIT)
    several = gossip.pairwise(topology, rounds=4, workers=3, progress=lambda *done: calls.append(done), **UNIT)
    np.testing.assert_array_equal(whole.upper, several.upper)
    np.testing.assert_array_equal(whole.resolved, several.resolved)
    assert calls == [(i, 40) for i in range(1, 41)]
    some = gossip.pairwise(topology, rounds=4, attackers=[7, 2], **UNIT)
    np.testing.assert_array_equal(some.upper, whole.upper[:, [7, 2]])


def test_a_path_of_equal_matrices_is_fixed_gossip():
    for topology in (topologies.erdos_renyi(12, 0.3, seed=2), DIRECTED, topologies.hypercube(3)):
        path = gossip.pairwise_of_path(topology.num_agents, [topology.weights] * 4, **UNIT)
        assert differs(path.upper, gossip.pairwise_mu(topology, rounds=4, **UNIT)) < 1e-9
        assert path.gap < 1e-9


def test_changing_matrices_equal_the_pseudo_inverse_of_their_products():
    first, second = topologies.ring(6).weights.toarray(), topologies.grid(2, 3, weights="uniform").weights.toarray()
    steps, K = [first, second, second, first], 6
    loss, product, seen = gossip.pairwise_of_path(K, steps, **UNIT), np.eye(K), [[] for _ in range(K)]
    for A in steps:
        for w, v in zip(*np.nonzero(A), strict=True):
            if w != v:
                seen[v].append(product[w])
        product = A.T @ product
    assert differs(loss.upper, np.column_stack([projected(rows, v) for v, rows in enumerate(seen)])) < 1e-9


def test_randomised_gossip_equals_the_pseudo_inverse_of_what_each_agent_met():
    topology, K = topologies.erdos_renyi(9, 0.4, seed=1), 9
    pairs = gossip.random_activations(topology, 30, seed=4)
    loss, state, seen = gossip.pairwise_of_path(K, pairs, **UNIT), np.eye(K), [[] for _ in range(K)]
    for i, j in pairs:
        seen[i].append(state[j].copy())
        seen[j].append(state[i].copy())
        state[[i, j]] = state[[i, j]].mean(axis=0)
    met = [projected(rows, v) if rows else np.where(np.arange(K) == v, np.nan, 0) for v, rows in enumerate(seen)]
    assert differs(loss.upper, np.column_stack(met)) < 1e-8
    assert loss.gap < 1e-8


def test_an_agent_that_meets_the_same_partner_twice_in_a_row_learns_nothing_new():
    """By hand: after averaging, both hold the mean of values that agent 0 has already seen."""
    once = gossip.pairwise_of_path(3, [(1, 2), (0, 1)], attackers=[0], **UNIT)
    twice = gossip.pairwise_of_path(3, [(1, 2), (0, 1), (0, 1)], attackers=[0], **UNIT)
    assert once.upper[1:, 0] ** 2 == pytest.approx([0.5, 0.5], abs=1e-12)  # it saw (x_1 + x_2) / 2
    assert twice.upper[1:, 0] ** 2 == pytest.approx([0.5, 0.5], abs=1e-12)
    assert not twice.undecided.any()
    assert gossip.pairwise_of_path(3, [(1, 2)], attackers=[0], **UNIT).upper[1:, 0].tolist() == [0.0, 0.0]


def test_random_activations_are_links_drawn_evenly_and_by_seed():
    topology = topologies.ring(5)
    drawn = gossip.random_activations(topology, 5000, seed=1)
    assert drawn == gossip.random_activations(topology, 5000, seed=1)
    assert drawn != gossip.random_activations(topology, 5000, seed=2)
    counts = [drawn.count(tuple(pair)) for pair in topology.with_random_pair().pairs.tolist()]
    assert sum(counts) == 5000
    assert stats.chisquare(counts).pvalue > 1e-4


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(0, 50), prime=st.sampled_from(PRIMES))
def test_rank_modulo_finds_the_rank_of_products(seed, rank, prime):
    rng = np.random.default_rng(seed)
    matrix = (
        rng.integers(prime, size=(70, rank)).astype(object) @ rng.integers(prime, size=(rank, 75)).astype(object)
    ) % prime
    assert rank_modulo(np.asarray(matrix, dtype=float).reshape(70, 75), prime) == rank


@pytest.mark.parametrize("prime", PRIMES)
def test_the_moduli_are_primes_whose_products_stay_exact(prime):
    assert all(prime % factor for factor in range(2, math.isqrt(prime) + 1))
    assert 64 * (prime / 2) ** 2 < 2**53


def test_exact_ranks_of_the_hypercube_stop_at_14_of_16():
    topology = topologies.hypercube(4)
    messages = [(t, w) for t in range(12) for w in topology.neighbours(0).tolist()]
    request = Messages(*np.array([(0, 0), *messages]).T)
    assert exact_ranks([topology.weights.tocsr()] * 12, 16, [request]).tolist() == [14]  # 13 and its own


def test_weights_are_read_as_the_fractions_they_stand_for():
    assert as_fraction(1 / 3) == Fraction(1, 3)
    assert as_fraction(1 / 13) == Fraction(1, 13)
    assert as_fraction(math.pi / 10) == Fraction(math.pi / 10)  # no simple fraction: the stored number itself


def test_describe_speaks_json():
    shown = gossip.pairwise(topologies.ring(8), rounds=8, std=2.0, sensitivity=1.0).describe()
    assert shown["fully_exposed"] == 1.0
    assert shown["largest_mu"] == shown["local_mu"] == 0.5
    assert shown["mean_squared_mu"] == 0.25
    assert shown["undecided_attackers"] == 0


BAD = [
    {"rounds": 0}, {"rounds": True}, {"rounds": 2.5}, {"std": 0.0}, {"std": math.nan}, {"std": math.inf}, {"std": True},
    {"sensitivity": -1.0}, {"sensitivity": math.nan}, {"attackers": []}, {"attackers": [8]}, {"attackers": [1, 1]},
    {"attackers": [-1]}, {"workers": 0},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_malformed_numbers_are_refused(bad):
    with pytest.raises(ConfigError):
        gossip.pairwise(topologies.ring(8), **({"rounds": 2} | UNIT | bad))


def test_losses_are_proportional_to_the_sensitivity_and_stated_per_unit_of_it():
    per_unit = gossip.pairwise_mu(topologies.ring(8), rounds=2, std=1.0)
    twice = gossip.pairwise_mu(topologies.ring(8), rounds=2, std=1.0, sensitivity=2.0)
    np.testing.assert_allclose(twice, 2 * per_unit, rtol=1e-12)
    with pytest.raises(TypeError, match="sensitivity"):
        gossip.pairwise(topologies.ring(8), rounds=2, std=1.0)


def test_changing_and_served_networks_are_refused_with_the_way_out():
    for topology in (
        topologies.ring(5).with_dropout(0.1),
        topologies.ring(5).with_random_pair(),
        topologies.federation(5),
    ):
        with pytest.raises(IncompatibleChoice, match="pairwise_of_path"):
            gossip.pairwise(topology, rounds=2, **UNIT)
        with pytest.raises(ConfigError, match="fixed weights"):
            gossip.pairwise_extended(topology, rounds=2, attackers=[0], **UNIT)


@pytest.mark.parametrize("steps", [[], [(0, 0)], [(0, 5)], [(0, 1, 2)], [np.eye(3)], [np.ones((5, 5))]], ids=str)
def test_malformed_paths_are_refused(steps):
    with pytest.raises(ConfigError):
        gossip.pairwise_of_path(5, steps, **UNIT)
