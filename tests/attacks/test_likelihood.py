"""The matched filter, against stacked matrices and against messages of runs played agent by agent.

The player below uses the algorithms' own functions and the noise maps link by link; no linear system is formed. In every statistical test
5000 runs per world give the distance of the scores to about 1.3 % (one standard error: 0.02 for the means, 1 % for the spread, at mu = 3),
so that 5 % accepts the truth and rejects noise that is a fifth stronger.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.attacks.likelihood import matched_filter, worst_changes
from sottovoce.linear import exchange_topologies
from sottovoce.noise import RELAY, known_sources
from sottovoce.observers import view

LAW = sv.noise.Gaussian(std=0.7)
RING, HUB = sv.topologies.ring(6), sv.topologies.federation(5)
VICTIM, ROUNDS, RUNS, DIMENSION = 2, 5, 5000, 2
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "edge": sv.noise.independent(LAW, per_edge=True),
    "edge-clean": sv.noise.independent(LAW, per_edge=True, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
    "local": sv.noise.local_graph_homomorphic(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=1.4),
    "gradient": sv.noise.gradient(LAW),
}
WHO = {
    "everything": sv.observers.eavesdropper(),
    "distance 1": sv.observers.curious_agent(3),
    "distance 2": sv.observers.curious_agent(4),
    "distance 3": sv.observers.curious_agent(5),
    "coalition": sv.observers.coalition([0, 4]),
    "final model": sv.observers.final_model(),
    "tap": sv.observers.links([(2, 3)]),
    "agent and model": sv.observers.curious_agent(5) + sv.observers.final_model(),
}
FINITE = [
    (scheme, who)
    for scheme in NOISE
    for who in WHO
    if not (scheme == "local" and who != "tap") and not (scheme == "homomorphic" and "model" in who)
]
PLAYED = [("atc", *case) for case in FINITE]
PLAYED += [
    (kind, *case) for kind in ("cta", "consensus") for case in FINITE if case[0] in ("self", "homomorphic", "gopa")
]
KINDS = {kind: getattr(sv.algorithms, kind)(step_size=0.4) for kind in ("atc", "cta", "consensus")}


class Played(NamedTuple):
    """What an observer recorded of many runs."""

    messages: tuple  # per exchange [runs, T, E_o, d]
    broadcast: tuple  # per exchange [runs, T, d]
    sources: tuple  # per exchange [runs, T, S_o, d]
    final_model: np.ndarray  # [runs, d]


def play(topology, algorithm, noise, observer, gradients, *, runs, seed, start=0.0, scale=1.0):
    """Runs with the given gradients [T, K, d], every source drawn and every link's message formed."""
    rng, (T, K, d) = np.random.default_rng(seed), gradients.shape
    seen = view(observer, *exchange_topologies(algorithm, topology))
    states = [algorithm.init(np.full((runs, d), start)) for _ in range(K)]
    log = {"messages": [], "broadcast": [], "sources": [], "inner": []}
    factors = noise.factors(T)
    for t in range(1, T + 1):
        links = topology.listed()[(t - 1) % len(topology.listed())].active_links()
        std = 0.0 if noise.law is None else scale * noise.law.std * factors[t - 1] * algorithm.sends_fresh(t)
        inner = std * rng.standard_normal((K, runs, d)) * noise.in_gradients
        slopes = [lambda w, step=0, g=gradients[t - 1, k] + inner[k]: g + 0.0 * w for k in range(K)]
        (exchange,), noise_map = algorithm.exchanges, noise.spread(links)
        z = std * rng.standard_normal((noise_map.num_sources, runs, d))
        sent = [exchange.message(states[k], slopes[k], t) for k in range(K)]
        on_link = np.stack([sent[k] for k in links.senders])
        for link, source, value in zip(noise_map.link_index, noise_map.link_source, noise_map.link_value, strict=True):
            on_link[link] += value * z[source]
        own, uplinks = np.stack(sent), np.stack(sent)
        for k, source, value in zip(noise_map.self_index, noise_map.self_source, noise_map.self_value, strict=True):
            own[k] += value * z[source]
            uplinks[k] += value * z[source] * (noise_map.owners[source, 0] != RELAY)  # a relay's noise comes later
        combined = links.self_weights[:, None, None] * own
        for link, (receiver, weight) in enumerate(zip(links.receivers, links.weights, strict=True)):
            combined[receiver] += weight * on_link[link]
        relay = noise_map.owners[:, 0] == RELAY
        knows = known_sources(noise_map.owners, seen.members) | (relay & seen.every_message)
        used = (links.weights > 0)[seen.links[0], None, None]
        read = uplinks if topology.relay and seen.every_message else on_link[seen.links[0]] * used
        log["messages"].append(read)
        log["broadcast"].append(combined[0])
        log["sources"].append(z[knows])
        log["inner"].append(inner[seen.members])
        states = [exchange.update(states[k], combined[k], slopes[k], t) for k in range(K)]
    made = {name: np.moveaxis(np.stack(parts), -2, 0) for name, parts in log.items()}
    final = np.einsum("k,krd->rd", topology.perron, np.stack([algorithm.model(state) for state in states]))
    hears = seen.broadcast and not seen.every_message
    inside = (made["inner"],) if noise.in_gradients else ()
    return Played(
        (made["messages"],), (made["broadcast"],) if hears else (), (made["sources"], *inside), final * seen.final_model
    )


def scores(matched, axes, played):
    return matched.score(
        axes, messages=played.messages, broadcast=played.broadcast, sources=played.sources, final_model=played.final_model
    )  # fmt: skip


def measured(topology, algorithm, noise, observer, *, agent, rounds=ROUNDS, runs=RUNS, scale=1.0, to=3.0):
    """The filter for changes of which mu is `to`, and the distance of the scores of two worlds, which it has not seen."""
    size = to / matched_filter(topology, algorithm, noise, observer, rounds=rounds, sensitivity=1.0, agent=agent).mu
    columns = np.ones((rounds, 1))
    matched = matched_filter(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=size, agent=agent, direction=columns
    )
    axes = np.array([[0.6, -0.8]])
    rng = np.random.default_rng(5)
    first = rng.standard_normal((rounds, topology.num_agents, DIMENSION))  # everybody else's gradients, known
    second = first.copy()
    second[:, agent] += size * axes[0]
    found = [
        scores(matched, axes, play(topology, algorithm, noise, observer, g, runs=runs, seed=seed, start=0.3, scale=scale))
        - matched.centre(first, np.full(DIMENSION, 0.3), axes)
        for seed, g in enumerate((first, second))
    ]  # fmt: skip
    return matched, found


def distance(found):
    return (found[1].mean() - found[0].mean()) / math.sqrt((found[0].var(ddof=1) + found[1].var(ddof=1)) / 2)


@pytest.mark.parametrize(("kind", "scheme", "who"), PLAYED)
def test_the_score_is_as_far_apart_in_played_runs_as_computed(kind, scheme, who):
    matched, found = measured(RING, KINDS[kind], NOISE[scheme], WHO[who], agent=VICTIM)
    mu = matched.mu
    assert 0 < mu <= 3.0 + 1e-6
    assert abs(distance(found) / mu - 1.0) < 0.05 * 3.0 / mu  # the error of the difference is 0.02 whatever mu
    assert abs(found[0].mean()) < 5 * mu / math.sqrt(RUNS)  # centred: nothing of the other agents is left
    assert abs(found[1].mean() - mu**2) < 5 * mu / math.sqrt(RUNS)


@pytest.mark.parametrize(
    ("who", "scheme"),
    [
        (sv.observers.server(), "self"),
        (sv.observers.server(), "gopa"),
        (sv.observers.server(), "gradient"),
        (sv.observers.curious_agent(0), "self"),
        (sv.observers.curious_agent(0), "gopa"),
        (sv.observers.curious_agent(0), "central"),
        (sv.observers.final_model(), "self"),
        (sv.observers.final_model(), "central"),
    ],
)
def test_the_score_is_as_far_apart_on_a_federation(who, scheme):
    noise = sv.noise.central(LAW) if scheme == "central" else NOISE[scheme]
    matched, found = measured(HUB, sv.algorithms.fedavg(step_size=0.4), noise, who, agent=VICTIM)
    assert abs(distance(found) / matched.mu - 1.0) < 0.05
    assert abs(found[0].mean()) < 5 * matched.mu / math.sqrt(RUNS)


@pytest.mark.parametrize("scheme", ["self", "homomorphic", "gopa"])
def test_stronger_noise_than_assumed_is_noticed(scheme):
    matched, found = measured(RING, KINDS["atc"], NOISE[scheme], WHO["distance 2"], agent=VICTIM, scale=1.2)
    assert distance(found) / matched.mu < 0.95
    assert distance(found) / matched.mu == pytest.approx(1 / 1.2, rel=0.05)


def test_the_score_is_a_log_likelihood_ratio():
    # Where the score has mean -+mu^2/2 and variance mu^2, P(score > 0) is Phi(mu/2): the error of the best test.
    matched, found = measured(RING, KINDS["atc"], NOISE["clean"], WHO["distance 1"], agent=VICTIM)
    wrong = [np.mean(found[0] > matched.mu**2 / 2), np.mean(found[1] < matched.mu**2 / 2)]
    expected = 0.5 * math.erfc(matched.mu / 2 / math.sqrt(2))
    np.testing.assert_allclose(wrong, expected, atol=5 * math.sqrt(expected / RUNS))


def test_a_direction_of_several_columns_adds_up_over_its_axes():
    # The neighbour's worst direction is not aligned: in six dimensions it is played as it stands.
    arguments = (RING, KINDS["atc"], NOISE["self"], WHO["distance 1"])
    matched = matched_filter(*arguments, rounds=7, sensitivity=2.0, agent=VICTIM)
    r = matched.direction.shape[1]
    axes = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0][:r]
    still = np.zeros((7, 6, 6))
    moved = still.copy()
    moved[:, VICTIM] = 2.0 * matched.direction @ axes
    found = [scores(matched, axes, play(*arguments, g, runs=RUNS, seed=seed)) for seed, g in enumerate((still, moved))]
    assert matched.mu == pytest.approx(2 * 1.46235, abs=4e-5)
    assert abs(distance(found) / matched.mu - 1.0) < 0.05


def test_links_that_come_and_go_are_weighed_round_by_round():
    one, other = np.eye(4), np.eye(4)
    one[:2, :2] = one[2:, 2:] = 0.5
    other[1:3, 1:3] = 0.5
    other[[0, 0, 3, 3], [0, 3, 0, 3]] = 0.5
    graph = sv.topologies.from_matrix((one + other) / 2).with_schedule([one, other])
    who = sv.observers.curious_agent(3)
    matched, found = measured(graph, KINDS["atc"], NOISE["clean"], who, agent=1, rounds=6)
    assert abs(distance(found) / matched.mu - 1.0) < 0.05
    into = graph.links[graph.links[:, 1] == 3]
    idle = [(t, e) for t in range(6) for e, (j, _) in enumerate(into) if (one, other)[t % 2][j, 3] == 0]
    assert idle
    assert not any(matched.messages[0][t, e].any() for t, e in idle)


# Exact: the same weights from matrices stacked by hand.


def watcher(observer):
    return brute.Watcher(
        everything=observer.all_links, members=observer.members, links=observer.links, final=observer.final_model
    )


@pytest.mark.parametrize(("kind", "scheme", "who"), [case for case in PLAYED if case[1] != "gradient"])
def test_mean_and_variance_of_the_score_are_those_of_stacked_matrices(kind, scheme, who):
    rounds = [getattr(brute, kind)(RING.matrix, 0.4, 0.7)] * ROUNDS
    stacked = brute.stack(rounds, scheme, watcher(WHO[who]), ratio=2.0)
    c = np.random.default_rng(3).uniform(-1, 1, ROUNDS)
    matched = matched_filter(
        RING, KINDS[kind], NOISE[scheme], WHO[who], rounds=ROUNDS, sensitivity=1.7, agent=VICTIM, direction=c
    )
    W = np.concatenate([matched.messages[0].reshape(ROUNDS, -1), np.zeros((ROUNDS, 0))], axis=1).ravel()
    if WHO[who].final_model:
        W = np.append(W, matched.final_model)
    W = W[_by_hand_order(WHO[who])]
    expected = 1.7**2 * c @ brute.leak(stacked, VICTIM).gram @ c
    assert matched.mu**2 == pytest.approx(expected, rel=1e-7)
    assert np.sum((W @ stacked.noise) ** 2) == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(
        np.einsum("a,atk->tk", W, stacked.gradients), matched.gradients[..., 0], atol=1e-7 * expected
    )
    assert 1.7 * matched.gradients[:, VICTIM, 0] @ c == pytest.approx(expected, rel=1e-7)


def _by_hand_order(observer):
    """Where the rows of the stacked matrices, ordered by receiver and then sender, stand among ours."""
    pairs = [(j, k) for k in range(6) for j in range(6) if j != k and RING.matrix[j, k] > 0]
    mask = view(observer, RING).links[0]
    ours = [tuple(link) for link in RING.links[mask]]
    theirs = [pair for pair in pairs if pair in ours]
    order = [t * len(ours) + ours.index(pair) for t in range(ROUNDS) for pair in theirs]
    return [*order, len(order)] if observer.final_model else order


@pytest.mark.parametrize("scheme", ["self", "homomorphic", "gopa"])
def test_no_other_weights_are_better(scheme):
    rounds = [brute.atc(RING.matrix, 0.4, 0.7)] * ROUNDS
    stacked = brute.stack(rounds, scheme, watcher(WHO["distance 2"]), ratio=2.0)
    matched = matched_filter(
        RING, KINDS["atc"], NOISE[scheme], WHO["distance 2"], rounds=ROUNDS, sensitivity=1.0, agent=VICTIM, direction=np.ones(ROUNDS)
    )  # fmt: skip
    W, shift = matched.messages[0][..., 0].ravel(), stacked.gradients[:, :, VICTIM].sum(axis=1)

    def power(weights):
        return (weights @ shift) ** 2 / np.sum((weights @ stacked.noise) ** 2)

    assert power(W) == pytest.approx(matched.mu**2, rel=1e-9)
    rng = np.random.default_rng(0)
    assert all(power(W + 0.1 * np.abs(W).max() * rng.standard_normal(len(W))) < power(W) for _ in range(200))


@pytest.mark.parametrize("scheme", ["self", "clean", "edge", "homomorphic", "gopa", "gradient"])
@pytest.mark.parametrize("who", ["everything", "distance 1", "distance 3", "coalition", "tap"])
def test_the_worst_direction_reaches_the_accountants_linear_value(scheme, who):
    found = sv.account(RING, KINDS["atc"], NOISE[scheme], WHO[who], rounds=7, sensitivity=1.3, agent=VICTIM)
    matched = matched_filter(RING, KINDS["atc"], NOISE[scheme], WHO[who], rounds=7, sensitivity=1.3, agent=VICTIM)
    assert matched.mu == pytest.approx(found.linear_mu or found.mu, rel=1e-5)
    np.testing.assert_allclose(np.linalg.norm(matched.direction, axis=1), 1.0)


def test_a_neighbour_has_a_worst_direction_that_is_not_aligned():
    # Ring of 6, weights 1/3, step 0.4, std 0.7, T = 7: 1.34560 aligned, 1.46233 over signs, 1.46235 over vectors (reference values R7).
    arguments = (RING, KINDS["atc"], NOISE["self"], WHO["distance 1"])
    options = {"rounds": 7, "sensitivity": 1.0, "agent": VICTIM}
    assert matched_filter(*arguments, **options, direction=np.ones(7)).mu == pytest.approx(1.34560, abs=1e-5)
    assert matched_filter(*arguments, **options).mu == pytest.approx(1.46235, abs=2e-5)
    signs = max((matched_filter(*arguments, **options, direction=np.array(c)).mu for c in _signs(7)), default=0.0)
    assert signs == pytest.approx(1.46233, abs=1e-5)


def _signs(rounds):
    return [[1.0 - 2.0 * ((code >> t) & 1) for t in range(rounds)] for code in range(2 ** (rounds - 1))]


@pytest.mark.parametrize("seed", range(5))
def test_worst_changes_reach_the_semidefinite_bound(seed):
    root = np.random.default_rng(seed).standard_normal((9, 9))
    Q = root @ root.T
    v = worst_changes(Q, 6)
    assert np.sum(v * (Q @ v)) == pytest.approx(brute.semidefinite(Q), rel=1e-6)
    one = worst_changes(Q, 1)
    assert np.sum(one * (Q @ one)) <= brute.signs(Q) * (1 + 1e-12)


# In clear.


@pytest.mark.parametrize(
    ("kind", "scheme", "who", "first"),
    [
        ("atc", "local", "distance 1", 1),
        ("atc", "local", "distance 2", 2),
        ("cta", "local", "distance 3", 4),
        ("atc", "homomorphic", "final model", 5),
        ("consensus", "homomorphic", "final model", 5),
        ("atc", "local", "everything", 1),
    ],
)
def test_a_change_in_clear_is_read_exactly(kind, scheme, who, first):
    options = {"rounds": ROUNDS, "sensitivity": 0.6, "agent": VICTIM}
    matched = matched_filter(RING, KINDS[kind], NOISE[scheme], WHO[who], **options)
    assert matched.mu == math.inf
    assert matched.clear_round == first
    axes = np.array([[0.0, 1.0]])
    gradients = np.random.default_rng(0).standard_normal((ROUNDS, 6, 2))
    changed = gradients.copy()
    changed[:, VICTIM] += 0.6 * matched.direction * axes
    for seed, (g, expected) in enumerate(((gradients, 0.0), (changed, 0.6))):
        read = scores(matched, axes, play(RING, KINDS[kind], NOISE[scheme], WHO[who], g, runs=20, seed=seed))
        np.testing.assert_allclose(read - matched.centre(gradients, np.zeros(2), axes), expected, atol=1e-9)


def test_a_server_takes_its_own_noise_out_of_later_uplinks():
    arguments = (HUB, sv.algorithms.fedavg(step_size=0.4), sv.noise.central(LAW), sv.observers.server())
    late = np.eye(4)[3]  # only the last gradient changes
    matched = matched_filter(*arguments, rounds=4, sensitivity=0.6, agent=VICTIM, direction=late)
    assert (matched.mu, matched.clear_round) == (math.inf, 4)
    axes, gradients = np.array([[0.0, 1.0]]), np.random.default_rng(0).standard_normal((4, 5, 2))
    read = scores(matched, axes, play(*arguments, gradients, runs=20, seed=0))
    np.testing.assert_allclose(read, matched.centre(gradients, np.zeros(2), axes), atol=1e-9)
    assert np.ptp(read) < 1e-9


def test_without_noise_everything_is_in_clear():
    matched = matched_filter(
        RING, KINDS["atc"], sv.noise.none(), WHO["distance 3"], rounds=4, sensitivity=1.0, agent=VICTIM
    )
    assert (matched.mu, matched.clear_round) == (math.inf, 3)
    at_hub = matched_filter(
        HUB, sv.algorithms.fedavg(step_size=0.4), sv.noise.central(LAW), sv.observers.server(), rounds=3, sensitivity=1.0, agent=0
    )  # fmt: skip
    assert (at_hub.mu, at_hub.clear_round) == (math.inf, 1)


def test_a_change_that_never_arrives_has_no_score():
    matched = matched_filter(RING, KINDS["atc"], NOISE["self"], WHO["distance 3"], rounds=2, sensitivity=1.0, agent=VICTIM)  # fmt: skip
    assert matched.mu == 0.0
    assert not matched.messages[0].any()


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"noise": sv.noise.independent(sv.noise.Laplace(std=1.0))}, sv.IncompatibleChoice, "Gaussian"),
        ({"sensitivity": 0.0}, sv.ConfigError, "sensitivity"),
        ({"sensitivity": True}, sv.ConfigError, "sensitivity"),
        ({"agent": 3}, sv.ConfigError, "outside the observer"),
        ({"agent": 9}, sv.ConfigError, "0 to 5"),
        ({"rounds": 0}, sv.ConfigError, "rounds"),
        ({"direction": np.ones(4)}, sv.ConfigError, "direction"),
        ({"direction": 2 * np.ones(5)}, sv.ConfigError, "norm at most 1"),
        ({"direction": np.zeros(5)}, sv.ConfigError, "not all zero"),
        (
            {"algorithm": sv.algorithms.dgd(step_size=0.4, gradient_rounds=3, box=1.0)},
            sv.IncompatibleChoice,
            "projects",
        ),
        ({"topology": RING.with_dropout(0.1)}, sv.UnsupportedClaim, "random"),
    ],
)
def test_questions_without_an_answer_are_refused(change, error, match):
    asked = {"topology": RING, "algorithm": KINDS["atc"], "noise": NOISE["self"], "observer": WHO["distance 1"]}
    asked |= {"rounds": 5, "sensitivity": 1.0, "agent": VICTIM} | change
    positional = [asked.pop(name) for name in ("topology", "algorithm", "noise", "observer")]
    with pytest.raises(error, match=match):
        matched_filter(*positional, **asked)


def test_axes_must_fit_the_directions():
    matched = matched_filter(RING, KINDS["atc"], NOISE["self"], WHO["distance 1"], rounds=7, sensitivity=1.0, agent=VICTIM)  # fmt: skip
    assert matched.direction.shape[1] > 1
    with pytest.raises(sv.ConfigError, match="orthonormal"):
        matched.score(np.array([[1.0, 0.0]]), messages=(np.zeros((7, 2, 2)),), sources=(np.zeros((7, 1, 2)),))


@pytest.mark.parametrize("missing", ["messages", "sources", "final model"])
def test_a_view_that_lacks_something_is_not_scored(missing):
    matched = matched_filter(
        RING, KINDS["atc"], NOISE["self"], WHO["agent and model"], rounds=3, sensitivity=1.0, agent=VICTIM, direction=np.ones(3)
    )  # fmt: skip
    given = {"messages": (np.zeros((3, 2, 2)),), "sources": (np.zeros((3, 1, 2)),), "final_model": np.zeros(2)}
    assert matched.score(np.array([[1.0, 0.0]]), **given) == 0.0
    less = {"messages": {"messages": (np.zeros((3, 1, 2)),)}, "sources": {"sources": ()}, "final model": {"final_model": None}}  # fmt: skip
    with pytest.raises(sv.ConfigError, match=missing):
        matched.score(np.array([[1.0, 0.0]]), **given | less[missing])
