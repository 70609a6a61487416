"""Noise of a generator: everybody knows the sum that it adds, nobody a source of it."""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting.brute_force import largest, leak
from accounting.stacked_maps import generated_noise, stacked, table_noise
from sottovoce.accounting.linear_view.largest_mu import gram_view
from sottovoce.accounting.linear_view.pairwise import pairwise_linear_mu
from sottovoce.linear import bound_rounds
from sottovoce.noise import GENERATOR, Noise, NoiseMap
from sottovoce.observers import view

ROUNDS, STEP, STD = 4, 0.3, 0.8
TOPOLOGY = sv.topologies.erdos_renyi(6, 0.5, seed=0)
ATC = sv.algorithms.atc(step_size=STEP)


def factor(seed: int = 1) -> np.ndarray:
    """Some K x K factor, far from diagonal."""
    return np.random.default_rng(seed).standard_normal((6, 6)) + 1.5 * np.eye(6)


def by_hand(L: np.ndarray, agent: int, **who) -> float:
    found = leak(stacked(TOPOLOGY.matrix, STEP, [STD * L] * ROUNDS, **who), agent)
    return math.inf if found.infinite else math.sqrt(largest(found.gram))


def account(noise: Noise, observer, **others):
    return sv.account(TOPOLOGY, ATC, noise, observer, rounds=ROUNDS, sensitivity=1.0, **others)


def gram_of(noise: Noise, members, agent: int) -> np.ndarray:
    """Q of one agent, before anything is maximised."""
    run = bound_rounds(TOPOLOGY, ATC, noise, ROUNDS)
    seen = view(sv.observers.coalition(members), TOPOLOGY)
    found = gram_view(run, seen, np.array([agent]), np.ones((1, ROUNDS), dtype=bool))
    assert found is not None
    return found.gram.values[0]


COALITIONS = [(3,), (0,), (1, 4), (2, 5), (0, 2, 4), (1, 3, 5)]


@pytest.mark.parametrize("final", [False, True])
def test_reader_of_everything_has_the_diagonal_of_the_precision(final):
    L = factor()
    observer = sv.observers.eavesdropper()
    if final:
        observer = observer + sv.observers.final_model()
    for agent in range(6):
        found = account(generated_noise(L, std=STD), observer, agent=agent)
        price = np.linalg.inv(STD**2 * L @ L.T)[agent, agent]
        assert found.mu == pytest.approx(STEP * math.sqrt(ROUNDS * price), rel=1e-10)
        assert found.mu == pytest.approx(by_hand(L, agent, everything=True, final=final), rel=1e-10)
        assert found.validity == "exact"


@pytest.mark.parametrize("members", COALITIONS)
def test_every_coalition_that_reads_everything_has_the_eavesdroppers_value(members):
    L = factor()
    noise, agent = generated_noise(L, std=STD), next(k for k in range(6) if k not in members)
    alone = account(noise, sv.observers.eavesdropper(), agent=agent)
    joined = account(noise, sv.observers.eavesdropper() + sv.observers.coalition(members), agent=agent)
    assert joined.mu == pytest.approx(alone.mu, rel=1e-10)
    assert joined.mu == pytest.approx(by_hand(L, agent, everything=True, members=members, told=True), rel=1e-10)


@pytest.mark.parametrize("members", COALITIONS)
def test_linear_view_of_a_coalition_knows_what_its_members_were_told(members):
    L = factor()
    noise = generated_noise(L, std=STD)
    for agent in set(range(6)) - set(members):
        found = account(noise, sv.observers.coalition(members), agent=agent)
        exact = by_hand(L, agent, members=members, told=True)
        assert found.linear_mu == pytest.approx(exact, rel=1e-6)  # two solvers, where the worst changes turn round
        np.testing.assert_allclose(
            gram_of(noise, members, agent),
            leak(stacked(TOPOLOGY.matrix, STEP, [STD * L] * ROUNDS, members=members, told=True), agent).gram,
            rtol=1e-10, atol=1e-12,
        )  # fmt: skip
        assert exact <= found.mu * (1 + 1e-12)
        assert found.mu == pytest.approx(account(noise, sv.observers.eavesdropper(), agent=agent).mu, rel=1e-10)
        without = by_hand(L, agent, members=members)
        assert without <= exact * (1 + 1e-9)
        if (
            len(members) == 1
        ):  # nobody else sends it its own messages back: what it was told is news, and another number
            assert without < exact * (1 - 1e-4)


def test_sources_that_members_know_are_another_scheme():
    # The same covariance written with sources of one agent each gives members sources, and the last agent's messages away.
    L = np.linalg.cholesky(factor() @ factor().T)
    owned = table_noise(L, [list(range(s, 6)) for s in range(6)], std=STD)
    apart = account(owned, sv.observers.eavesdropper(), agent=2)
    joint = account(generated_noise(L, std=STD), sv.observers.eavesdropper(), agent=2)
    assert apart.mu == pytest.approx(joint.mu, rel=1e-10)
    assert math.isinf(account(owned, sv.observers.curious_agent(5), agent=2).mu)
    assert account(generated_noise(L, std=STD), sv.observers.curious_agent(5), agent=2).mu == pytest.approx(
        joint.mu, rel=1e-10
    )


def test_own_and_generated_noise_together():
    rng = np.random.default_rng(3)
    both = np.hstack([np.diag(rng.uniform(0.5, 1.5, 6)), rng.standard_normal((6, 4))])
    noise = table_noise(both, [[k] for k in range(6)] + [[GENERATOR]] * 4, std=STD)
    members = (1, 4)
    known = np.isin(np.arange(10), members)
    for agent in (0, 3):
        found = account(noise, sv.observers.coalition(members), agent=agent)
        seen = stacked(TOPOLOGY.matrix, STEP, [STD * both] * ROUNDS, known=[known] * ROUNDS, members=members, told=True)
        exact = math.sqrt(largest(leak(seen, agent).gram))
        assert found.linear_mu == pytest.approx(exact, rel=1e-6)
        np.testing.assert_allclose(gram_of(noise, members, agent), leak(seen, agent).gram, rtol=1e-10, atol=1e-12)
        rest = STD**2 * (both[:, ~known] @ both[:, ~known].T)
        assert found.mu == pytest.approx(STEP * math.sqrt(ROUNDS * np.linalg.inv(rest)[agent, agent]), rel=1e-10)


@pytest.mark.parametrize("members", [(3,), (1, 4), (0, 2, 5)])
def test_noise_with_memory_of_a_generator(members):
    L = factor()
    memory = np.random.default_rng(4).uniform(-0.6, 0.6, size=(ROUNDS, 2, 6))
    noise = generated_noise(L, std=STD)._replace(memory=memory)
    for agent in set(range(6)) - set(members):
        seen = stacked(TOPOLOGY.matrix, STEP, [STD * L] * ROUNDS, members=members, told=True, memory=memory)
        np.testing.assert_allclose(gram_of(noise, members, agent), leak(seen, agent).gram, rtol=1e-9, atol=1e-12)
        found = account(noise, sv.observers.coalition(members), agent=agent)
        assert found.mu == pytest.approx(account(noise, sv.observers.eavesdropper(), agent=agent).mu, rel=1e-10)
        assert any("generator" in one for one in found.assumptions)
        everything = stacked(
            TOPOLOGY.matrix, STEP, [STD * L] * ROUNDS, members=members, told=True, memory=memory, everything=True
        )
        assert math.sqrt(largest(leak(everything, agent).gram)) <= found.mu * (1 + 1e-6)


def test_pairwise_table_is_that_of_curious_agents():
    L = factor()
    table = pairwise_linear_mu(TOPOLOGY, ATC, generated_noise(L, std=STD), rounds=ROUNDS, sensitivity=1.0)
    for p, v in ((0, 3), (5, 1), (2, 4)):
        assert table[p, v] == pytest.approx(by_hand(L, p, members=(v,), told=True), rel=1e-6)


def test_noise_that_members_determine_hides_nothing():
    # n_0 = n_3: agent 3 was told what agent 0 adds.
    L = factor()
    L[0] = L[3]
    found = account(generated_noise(L, std=STD), sv.observers.curious_agent(3), agent=0)
    assert math.isinf(found.mu)


def test_the_generator_is_named_among_the_assumptions():
    found = account(generated_noise(factor(), std=STD), sv.observers.coalition([1, 2]), agent=0)
    (said,) = [one for one in found.assumptions if "generator" in one]
    assert "trusted" in said
    assert "from the generator nothing is hidden" in said
    assert "agents outside the observer follow the protocol" in found.assumptions
    plain = account(sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper())
    assert not any("generator" in one for one in plain.assumptions)


def test_promises_and_records_are_accounted_as_for_other_noise():
    asked = (generated_noise(factor(), std=STD), sv.observers.curious_agent(1))
    plain = account(*asked, agent=0, unit="record")
    promised = account(*asked, agent=0, unit="record", losses=sv.accounting.ConvexSmooth(1.0))
    assert plain.validity == "sent-messages"
    assert promised.validity == "absorption"
    assert promised.linear_mu * (1 - 1e-9) <= promised.mu < plain.mu


def test_final_model_alone_and_federations():
    L = factor()
    federation = sv.topologies.federation(6)
    noise, q = generated_noise(L, std=STD), np.full(6, 1 / 6)
    fedavg = sv.algorithms.fedavg(step_size=STEP)
    released = sv.account(
        federation, fedavg, noise, sv.observers.final_model(), rounds=ROUNDS, sensitivity=1.0, agent=0
    )
    spread = STD**2 * (q @ L @ L.T @ q)
    assert released.mu == pytest.approx(STEP / 6 * math.sqrt(ROUNDS / spread), rel=1e-10)
    server = sv.account(federation, fedavg, noise, sv.observers.server(), rounds=ROUNDS, sensitivity=1.0, agent=0)
    curious = sv.account(
        federation, fedavg, noise, sv.observers.curious_agent(2), rounds=ROUNDS, sensitivity=1.0, agent=0
    )
    # What agent 2 was told predicts a part of the average's noise.
    S = STD**2 * L @ L.T
    left = q @ S @ q - (q @ S[:, 2]) ** 2 / S[2, 2]
    assert curious.linear_mu == pytest.approx(STEP / 6 * math.sqrt(ROUNDS / left), rel=1e-9)
    assert curious.linear_mu <= curious.mu <= server.mu * (1 + 1e-12)


@pytest.mark.parametrize(
    ("topology", "algorithm", "word"),
    [
        (TOPOLOGY.with_dropout(0.2), ATC, "random"),
        (TOPOLOGY.with_random_pair(), ATC, "random"),
        (sv.topologies.federation(6), sv.algorithms.fedavg(step_size=0.1, participation=0.5), "sample"),
    ],
)
def test_refused_where_nothing_is_proved(topology, algorithm, word):
    noise = generated_noise(factor())
    with pytest.raises(sv.IncompatibleChoice, match=word):
        sv.account(topology, algorithm, noise, sv.observers.final_model(), rounds=2, sensitivity=1.0)


def test_other_laws_and_other_own_copies_are_refused():
    with pytest.raises(sv.IncompatibleChoice, match="Laplace"):
        account(generated_noise(factor(), law=sv.noise.Laplace(std=1.0)), sv.observers.eavesdropper())
    noise = generated_noise(factor())

    def without_own(links) -> NoiseMap:
        bound = noise.spread(links)
        return bound._replace(self_value=0.5 * bound.self_value)

    with pytest.raises(sv.IncompatibleChoice, match="own copies"):
        account(noise._replace(spread=without_own), sv.observers.eavesdropper())
