"""Reference numbers, each by the accountant and by brute force over the whole network.

The golden values were computed beforehand by at least two routes (closed form, pseudo-inverse of the whole network, a filter in
square-root and in covariance form, or 40-digit arithmetic); the comment at each says which. DECOR's come from its authors' code.
"""

import math

import numpy as np
import pytest
from scipy import sparse

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting import gaussian
from sottovoce.accounting.linear_view.choice import gram
from sottovoce.linear import SystemRound

STEP, STD, T, P = 0.4, 0.7, 7, 2
RING = sv.topologies.ring(6)
A = (np.eye(6) + np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)) / 3
ATC = sv.algorithms.atc(step_size=STEP)
LAW = sv.noise.Gaussian(std=STD)
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "edge": sv.noise.independent(LAW, per_edge=True),
    "edge-clean": sv.noise.independent(LAW, per_edge=True, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
    "local": sv.noise.local_graph_homomorphic(LAW),
}
ROUNDS = [brute.atc(A, STEP, STD)] * T
SMOOTH = sv.accounting.ConvexSmooth(beta=1.0)


def base(scheme, observer, **more):
    return sv.account(RING, ATC, NOISE[scheme], observer, rounds=T, sensitivity=1.0, agent=P, **more)


def test_the_ring_has_the_weights_of_the_reference():
    np.testing.assert_allclose(RING.matrix, A, atol=1e-15)


# Exact Gaussian trade-off: root of log delta, and bisection in 40 digits.
@pytest.mark.parametrize(
    ("mu", "delta", "expected"),
    [(1.0, 1e-5, 4.3771780956812245), (0.5, 1e-6, 2.254084650219741), (3.0, 1e-5, 16.675494402828164)],
)
def test_epsilon_of_mu(mu, delta, expected):
    assert gaussian.epsilon(mu, delta) == pytest.approx(expected, rel=1e-12)


# All links: closed form, pseudo-inverse, two filters.
@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("self", 1.5118578920369092), ("clean", 2.121399518629882), ("homomorphic", 6.7612340378281335)],
)
def test_a_reader_of_all_links(scheme, expected):
    found = base(scheme, sv.observers.eavesdropper())
    assert found.mu == pytest.approx(expected, rel=1e-12)
    assert found.linear_mu == pytest.approx(expected, rel=1e-12)
    assert found.validity == "exact"
    assert found.linear_validity == "adaptive"
    assert brute.mu(ROUNDS, scheme, brute.Watcher(everything=True), P) == pytest.approx(expected, rel=1e-12)


def test_hidden_own_noise_helps_in_the_linear_view_only():
    # Scalar Kalman filter, pseudo-inverse, two filters; the guarantee gives the hidden noise away (closed form with two copies).
    found = base("edge", sv.observers.eavesdropper())
    assert found.linear_mu == pytest.approx(2.5492327010355447, rel=1e-12)
    assert found.linear_validity == "exogenous-gradients"
    assert found.mu == pytest.approx(2.121399518629882 * math.sqrt(2.0), rel=1e-12)
    assert found.mu == pytest.approx(3.00011, abs=5e-6)
    assert found.validity == "sent-messages"
    watcher = brute.Watcher(everything=True)
    assert brute.mu(ROUNDS, "edge", watcher, P) == pytest.approx(found.linear_mu, rel=1e-12)
    assert brute.mu(ROUNDS, "edge-clean", watcher, P) == pytest.approx(found.mu, rel=1e-12)


# One curious agent: pseudo-inverse and two filters, exogenous gradients.
@pytest.mark.parametrize(
    ("scheme", "agent", "expected", "sent"),
    [
        ("homomorphic", 5, 1.0760509574983665, 6.7612340378281335),
        ("self", 5, 0.37132878826850824, 1.5118578920369092),
        ("homomorphic", 3, 5.870806971039878, 6.7612340378281335),
    ],
)
def test_a_curious_agent(scheme, agent, expected, sent):
    found = base(scheme, sv.observers.curious_agent(agent))
    assert found.linear_mu == pytest.approx(expected, rel=1e-9)
    assert found.linear_validity == "exogenous-gradients"
    assert found.mu == pytest.approx(sent, rel=1e-12)
    assert found.validity == "sent-messages"
    assert brute.mu(ROUNDS, scheme, brute.Watcher(members=(agent,)), P) == pytest.approx(expected, rel=1e-12)


def test_gradients_that_turn_reveal_more_than_aligned_ones():
    # A curious neighbour under broadcast noise: aligned < one-dimensional < any dimension < the two cheap bounds.
    Q = brute.leak(brute.stack(ROUNDS, "self", brute.Watcher(members=(3,))), P).gram
    assert Q.min() == pytest.approx(-0.016168360174973348, rel=1e-9)
    assert math.sqrt(Q.sum()) == pytest.approx(1.3456005713550125, rel=1e-10)
    assert math.sqrt(brute.signs(Q)) == pytest.approx(1.4623318156791174, rel=1e-10)
    assert math.sqrt(brute.semidefinite(Q)) == pytest.approx(1.46235195860868, rel=1e-8)
    assert math.sqrt(T * np.linalg.eigvalsh(Q)[-1]) == pytest.approx(1.5118578920369092, rel=1e-9)
    assert math.sqrt(np.abs(Q).sum()) == pytest.approx(1.512992356368884, rel=1e-10)
    found = base("self", sv.observers.curious_agent(3))
    assert found.linear_mu == pytest.approx(1.46235195860868, rel=1e-6)
    assert found.linear_mu >= 1.4623519565952563 * (
        1 - 1e-12
    )  # the primal value: a bound may not fall below what is attained
    assert found.linear_gap < 1e-5


DECOR = {"std": 17.827099282407094, "pairwise": 188.0}


def decor(step, **kwargs):
    law = sv.noise.Gaussian(std=step * DECOR["std"])
    noise = sv.noise.gopa(law, pairwise_std=step * DECOR["pairwise"])
    return sv.account(sv.topologies.ring(16), sv.algorithms.atc(step_size=step), noise, **kwargs)


def test_decor_as_published():
    # Allouah et al. 2024, the authors' code: ring of 16, clipping 1 (so gradients differ by 2), RDP epsilon / alpha of one round.
    published = 0.0004656256603611915
    one = decor(0.05, observer=sv.observers.eavesdropper(), rounds=1, sensitivity=2.0)
    assert one.mu**2 / 2 == pytest.approx(published, rel=1e-12)
    # The same by eigenvalues, T = 3500; epsilon exact, where the authors' conversion gives 10.2928.
    run = decor(0.05, observer=sv.observers.eavesdropper(), rounds=3500, sensitivity=2.0)
    assert run.mu == pytest.approx(1.8053752027011714, rel=1e-12)
    assert run.linear_mu == pytest.approx(1.8053752027011714, rel=1e-12)
    assert run.epsilon(1e-5) == pytest.approx(8.818929660654819, rel=1e-10)
    assert any("follow the protocol" in line for line in run.assumptions)


# Filter against the inverse on the honest subgraph.
@pytest.mark.parametrize(("colluding", "expected"), [(None, 0.0152582), (1, 0.0179301), (8, 0.0156139)])
def test_decor_with_a_colluding_agent(colluding, expected):
    observer = sv.observers.eavesdropper()
    if colluding is not None:
        observer = observer + sv.observers.curious_agent(colluding)
    found = decor(1.0, observer=observer, rounds=1, sensitivity=1.0, agent=0)
    assert found.mu == pytest.approx(expected, abs=5e-8)
    laplacian = 2 * np.eye(16) - np.roll(np.eye(16), 1, axis=0) - np.roll(np.eye(16), -1, axis=0)
    honest = np.array([k for k in range(16) if k != colluding])
    inner = laplacian[np.ix_(honest, honest)]
    inner -= np.diag(inner.sum(axis=1))  # links to the colluding agent hide nothing
    covariance = DECOR["std"] ** 2 * np.eye(len(honest)) + DECOR["pairwise"] ** 2 * inner
    by_hand = math.sqrt(np.linalg.inv(covariance)[0, 0])
    assert found.mu == pytest.approx(by_hand, rel=1e-9)
    assert found.linear_mu == pytest.approx(by_hand, rel=1e-9)
    weights = sv.topologies.ring(16).matrix
    watcher = brute.Watcher(everything=True, members=() if colluding is None else (colluding,))
    rounds = [brute.atc(weights, 1.0, DECOR["std"])]
    whole = brute.mu(rounds, "gopa", watcher, 0, ratio=DECOR["pairwise"] / DECOR["std"])
    assert found.mu == pytest.approx(whole, rel=1e-9)


def test_gopa_on_a_complete_graph():
    # Closed form and filter; the limit of much pairwise noise is 1 / sqrt(16).
    noise = sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=5.0)
    graph, algorithm = sv.topologies.complete(16), sv.algorithms.atc(step_size=1.0)
    found = sv.account(graph, algorithm, noise, sv.observers.eavesdropper(), rounds=1, sensitivity=1.0)
    assert found.mu == pytest.approx(0.25463288325922784, rel=1e-12)
    covariance = np.eye(16) + 25.0 * (16 * np.eye(16) - np.ones((16, 16)))
    assert math.sqrt(np.linalg.inv(covariance)[0, 0]) == pytest.approx(found.mu, rel=1e-12)


@pytest.mark.parametrize(("known", "expected"), [(True, 1.0), (False, 0.5)])
def test_gossip_on_a_path_reveals_more_than_the_sum_of_its_messages(known, expected):
    # By hand and by pseudo-inverse: agent 0 reads x_1 before and after one averaging; the sum of the messages' own leaks is 1/3.
    W = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3.0
    hidden = [1, 2] if known else [0, 1, 2]
    eye, nothing = np.eye(3), np.zeros((3, 3))
    first = [nothing, eye, eye[:, hidden], nothing[1:2], eye[1:2], eye[1:2, hidden]]
    second = [W, nothing, nothing[:, hidden], W[1:2], nothing[1:2], nothing[1:2, hidden]]
    systems = [SystemRound(*(sparse.csr_array(part) for part in parts)) for parts in (first, second)]
    found = gram(systems, np.ones(2), [2])
    assert found.clear_round[0] == 0
    assert found.values[0, 0, 0] == pytest.approx(expected, rel=1e-12)
    rows, change = np.stack([eye[1], W[1]]), np.array([0.0, W[1, 2]])
    psi = rows[:, hidden]
    assert change @ np.linalg.pinv(psi @ psi.T) @ change == pytest.approx(expected, rel=1e-12)
    assert expected > sum((row[2] / np.linalg.norm(row)) ** 2 for row in rows) == pytest.approx(1 / 3)


def test_local_graph_homomorphic_noise_hides_nothing_from_the_receiver():
    found = base("local", sv.observers.curious_agent(3))
    assert found.linear_mu == math.inf == found.mu
    assert brute.mu(ROUNDS, "local", brute.Watcher(members=(3,)), P) == math.inf


def test_local_graph_homomorphic_noise_against_one_tapped_link():
    # Closed form, pseudo-inverse, two filters; exogenous gradients.
    found = base("local", sv.observers.links([(2, 3)]))
    assert found.linear_mu == pytest.approx(0.9738198231292547, rel=1e-12)
    assert found.mu == math.inf
    assert brute.mu(ROUNDS, "local", brute.Watcher(links=((2, 3),)), P) == pytest.approx(0.9738198231292547, rel=1e-12)


# Formula and log-density ratio of transcripts: gradients within 1 in l1 (so they differ by 2), scale 10, 25 rounds.
@pytest.mark.parametrize(("share", "expected"), [(1.0, 2.0), (0.0, 2.94), (-2.0, 26.0)])
def test_laplace_noise_read_on_all_links(share, expected):
    law = sv.noise.Laplace(std=10.0 * math.sqrt(2.0))
    noise = {
        1.0: sv.noise.independent(law),
        0.0: sv.noise.independent(law, self_noise=False),
        -2.0: sv.noise.graph_homomorphic(law),
    }[share]
    found = sv.account(RING, ATC, noise, sv.observers.eavesdropper(), rounds=25, sensitivity=2.0, agent=P)
    assert found.pure_epsilon == pytest.approx(expected, rel=1e-9)
    assert found.epsilon(0.0) == pytest.approx(expected, rel=1e-9)
    assert found.linear_mu is None
    assert log_ratio(share, rounds=25, scale=10.0) == pytest.approx(expected, rel=1e-9)
    assert log_ratio(share, rounds=25, scale=10.0, far=False) < 0.9 * expected  # a transcript that reveals less


def log_ratio(share, *, rounds, scale, far=True):
    """Log-density ratio of one transcript of the agent's messages: gradients +1 in one world, -1 in the other."""
    rng, total, states = np.random.default_rng(3), 0.0, np.zeros(2)
    for _ in range(rounds):
        sent = states - STEP * np.array([1.0, -1.0])
        message = sent.min() - 1.0 if far else rng.laplace(sent.mean(), scale)
        total += (np.abs(message - sent[1]) - np.abs(message - sent[0])) / scale
        others = rng.normal()  # what the neighbours' messages add, the same in both worlds
        states = (sent + share * (message - sent)) / 3 + others
    return total


# A record that takes part three times, four rounds apart, and once: scalar Gram matrix, and pseudo-inverse of the whole network.
@pytest.mark.parametrize(
    ("scheme", "thrice", "once"),
    [
        ("homomorphic", 4.276179870598791, 1.979486637221574),
        ("self", 0.9897433186107871, 0.5714285714285715),
        ("clean", 1.0584120119785463, 0.6060915267302536),
    ],
)
def test_a_record_that_takes_part_now_and_then(scheme, thrice, once):
    rounds = [brute.atc(A, STEP, STD)] * 12
    Q = brute.leak(brute.stack(rounds, scheme, brute.Watcher(everything=True)), P).gram
    placed = {
        "thrice": (sv.accounting.cyclic(3, 4), [np.array([s, s + 4, s + 8]) for s in range(4)], thrice),
        "once": ("once", [np.array([s]) for s in range(12)], once),
    }
    for participation, patterns, expected in placed.values():
        found = sv.account(
            RING, ATC, NOISE[scheme], sv.observers.eavesdropper(), rounds=12, sensitivity=1.0, agent=P, unit="record",
            participation=participation, losses=None if scheme == "self" else SMOOTH,
        )  # fmt: skip
        assert found.mu == pytest.approx(expected, rel=1e-12)
        assert found.linear_mu == pytest.approx(expected, rel=1e-12)
        worst = max(Q[np.ix_(pattern, pattern)].sum() for pattern in patterns)
        assert math.sqrt(worst) == pytest.approx(expected, rel=1e-9)


def test_federated_averaging():
    # Closed form, filter and pseudo-inverse for the final average; closed form for the server.
    graph, noise = sv.topologies.federation(8), NOISE["self"]
    last = sv.account(graph, ATC, noise, sv.observers.final_model(), rounds=10, sensitivity=1.0)
    assert last.linear_mu == pytest.approx(0.63887656499994, rel=1e-10)
    server = sv.account(graph, ATC, noise, sv.observers.server(), rounds=10, sensitivity=1.0)
    assert server.mu == pytest.approx(1.807015805810503, rel=1e-12)
    assert server.linear_mu == pytest.approx(1.807015805810503, rel=1e-12)
    rounds = [brute.atc(np.full((8, 8), 1 / 8), STEP, STD)] * 10
    assert brute.mu(rounds, "self", brute.Watcher(final=True), 0) == pytest.approx(last.linear_mu, rel=1e-10)
    assert brute.mu(rounds, "self", brute.Watcher(relay=True, uplinks=True), 0) == pytest.approx(server.mu, rel=1e-10)
    assert STEP * math.sqrt(10 / 8) / STD == pytest.approx(
        last.linear_mu, rel=1e-10
    )  # ten averages of eight noises each
    assert last.mu == pytest.approx(
        last.linear_mu, rel=1e-10
    )  # for adaptive gradients too: averages determine every state


def test_random_walk_on_a_hypercube():
    # Direct sum, and spectrum plus harmonic number: the leak of a contribution seen t hops later, weighed by 1 / t.
    W = sv.topologies.hypercube(3).matrix
    power, direct = np.eye(8), 0.0
    for t in range(1, 1001):
        power = power @ W
        direct += power[0, 1] / t
    values, vectors = np.linalg.eigh(W)
    small = vectors[:, :-1] @ np.diag(-np.log1p(-values[:-1])) @ vectors[:, :-1].T
    spectral = np.sum(1.0 / np.arange(1, 1001)) / 8 + small[0, 1]
    assert direct == pytest.approx(1.0730103936523088, rel=1e-12)
    assert spectral == pytest.approx(1.0730103936523068, rel=1e-12)


# The quadratic programme against a curious agent, by an independent solver; to three digits as tabulated.
@pytest.mark.parametrize(
    ("scheme", "agent", "expected", "sent"),
    [
        ("self", 5, 0.3745, 1.5118578920369092),
        ("clean", 5, 0.5011, 2.121399518629882),
        ("homomorphic", 5, 1.0814, 6.7612340378281335),
        ("self", 4, 0.6432, 1.5118578920369092),
        ("self", 3, 1.5118578920369092, 1.5118578920369092),
    ],
)
def test_absorption_of_convex_losses(scheme, agent, expected, sent):
    found = base(scheme, sv.observers.curious_agent(agent), losses=SMOOTH)
    assert found.mu == pytest.approx(expected, abs=1e-3)
    linear = brute.mu(ROUNDS, scheme, brute.Watcher(members=(agent,)), P)
    assert linear <= found.mu * (1 + 1e-9)
    assert found.mu <= sent * (1 + 1e-9)
    assert found.validity == ("absorption" if agent != 3 else "sent-messages")
