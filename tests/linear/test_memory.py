"""Noise of earlier rounds that enters again: its factors, where it may be used, and the linear round with it."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import bound_rounds, check_together, network_round

RING = sv.topologies.ring(4)
ATC = sv.algorithms.atc(step_size=0.3)
GAUSSIAN = sv.noise.Gaussian(std=0.5)
PLAIN = sv.noise.independent(GAUSSIAN)
MEMORY = np.array([[[0.5], [-0.2]]])


def test_factors_are_read_for_every_round_and_agent():
    noise = PLAIN._replace(memory=np.arange(24.0).reshape(3, 2, 4))
    assert np.array_equal(noise.remembered(3, 4), np.arange(24.0).reshape(3, 2, 4))
    assert np.array_equal(noise.remembered(2, 4), np.arange(24.0).reshape(3, 2, 4)[:2])
    assert PLAIN._replace(memory=MEMORY).remembered(5, 4).shape == (5, 2, 4)
    assert PLAIN.remembered(5, 4).shape == (5, 0, 4)
    assert np.array_equal(noise.scaled(2.0).memory, noise.memory)
    assert np.array_equal(noise.scaled([1.0, 2.0, 3.0]).memory, noise.memory)


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        (np.zeros((1, 2)), "shape"),
        ([[[0.5]]], "is a list"),
        (np.zeros((1, 0, 1)), "at least one lag"),
        (np.zeros((1, 1, 3)), "4 agents"),
        (np.full((1, 1, 1), np.nan), "not finite"),
        (np.zeros((2, 1, 1)), "rows for 2 rounds"),
        (np.zeros((1, 1, 1), dtype=complex), "real numbers"),
    ],
)
def test_malformed_factors_are_refused(memory, said):
    with pytest.raises(ConfigError, match=said):
        check_together(RING, ATC, PLAIN._replace(memory=memory), rounds=3, remembers=True)


def test_memory_is_written_down():
    described = PLAIN._replace(memory=MEMORY).describe(3)
    assert described["memory"] == MEMORY.tolist()
    assert "memory" not in PLAIN.describe(3)


@pytest.mark.parametrize(
    ("topology", "algorithm", "noise", "said"),
    [
        (RING, ATC, sv.noise.independent(GAUSSIAN, self_noise=False), "goes on from what it sent"),
        (RING, ATC, sv.noise.independent(GAUSSIAN, per_edge=True), "goes on from what it sent"),
        (RING, ATC, sv.noise.graph_homomorphic(GAUSSIAN), "goes on from what it sent"),
        (RING, ATC, sv.noise.gradient(GAUSSIAN), "added to gradients"),
        (RING.with_dropout(0.2), ATC, PLAIN, "links that change"),
        (RING.with_schedule([RING.matrix]), ATC, PLAIN, "links that change"),
        (sv.topologies.federation(4), sv.algorithms.fedavg(step_size=0.3, local_steps=1), PLAIN, "relay"),
    ],
)
def test_memory_is_for_peers_who_go_on_from_what_they_sent(topology, algorithm, noise, said):
    check_together(topology, algorithm, noise, rounds=3, remembers=True)
    with pytest.raises(IncompatibleChoice, match=said):
        check_together(topology, algorithm, noise._replace(memory=MEMORY), rounds=3, remembers=True)


def test_a_round_without_fresh_noise_is_refused():
    noise = PLAIN._replace(memory=MEMORY).scaled([1.0, 0.0, 1.0])
    with pytest.raises(ConfigError, match="no fresh noise in round 2"):
        check_together(RING, ATC, noise, rounds=3, remembers=True)
    with pytest.raises(ConfigError, match="no sources"):
        check_together(RING, ATC, sv.noise.none()._replace(memory=MEMORY), rounds=3, remembers=True)


def test_who_does_not_follow_memory_refuses_it():
    with pytest.raises(IncompatibleChoice, match="noise of earlier rounds again"):
        check_together(RING, ATC, PLAIN._replace(memory=MEMORY), rounds=3)
    with pytest.raises(IncompatibleChoice, match="noise of earlier rounds again"):
        sv.accounting.pairwise_linear_mu(RING, ATC, PLAIN._replace(memory=MEMORY), rounds=3, sensitivity=1.0)


@pytest.mark.parametrize("lags", [1, 2, 3])
def test_the_linear_round_carries_what_was_added(lags):
    """Four rounds of random gradients and sources, by hand and through the matrices of the rounds."""
    draw = np.random.default_rng(0)
    m, rounds, K = draw.normal(size=(4, lags, 4)), 4, 4
    noise = sv.noise.gopa(GAUSSIAN, pairwise_std=0.4)._replace(memory=m)
    bound = bound_rounds(RING, ATC, noise, rounds)
    x, w, past = np.zeros((1 + lags) * K), np.zeros(K), [np.zeros(K) for _ in range(lags)]
    for t in range(rounds):
        network = network_round(bound.at(t))
        exchange = bound.at(t).exchanges[0].noise
        g, z = draw.normal(size=K), draw.normal(size=exchange.num_sources)
        column = np.concatenate([x, g, z])
        fresh = np.zeros(K)
        np.add.at(fresh, exchange.self_index, exchange.self_value * z[exchange.self_source])
        added = fresh - sum(m[t, j] * past[j] for j in range(lags))
        sent = w - 0.3 * g + added
        links = bound.at(t).exchanges[0].links
        assert network.links[0] @ column == pytest.approx(sent[links.senders], abs=1e-12)
        assert network.own[0] @ column == pytest.approx(sent, abs=1e-12)
        w, past = RING.matrix.T @ sent, [added, *past[:-1]]
        assert network.model @ column == pytest.approx(w, abs=1e-12)
        x = network.state @ column
        assert x == pytest.approx(np.concatenate([w, *past]), abs=1e-12)
