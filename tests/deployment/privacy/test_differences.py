"""What the proof rests on, transcript by transcript: given the same words, the messages of two worlds are never farther apart than was charged for.

The agent's own functions run in two worlds, with gradients that an adversary chooses and words of others that it chooses too, on a lattice of few units. In the second
world the noise is the one that gives the same words. For every course of events, with w the price of a message,

    Gaussian   sum w ||d(m)||^2  <=  mu^2          Laplace   sum w ||d(m)||  <=  epsilon .
"""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.deployment.agent import Wiring, prepare, relay_prepare, relay_start, start, take
from sottovoce.deployment.integers import Lattice, ring, signed
from sottovoce.deployment.privacy import GradientArithmetic
from sottovoce.deployment.privacy.accounted import Accounted
from sottovoce.deployment.terms import PublicCoin, PublicRun
from sottovoce.problems import Sensitivity

K, D, BITS, ROUNDS = 4, 2, 2, 4
LATTICE = Lattice(BITS)
STD = 3 * LATTICE.unit
RING, STAR = sv.topologies.ring(K), sv.topologies.star(K)
GRAPHS = {"ring": RING, "star": STAR, "listed": RING.with_schedule([RING.matrix, np.eye(K), STAR.matrix])}

ALGORITHMS = {
    "atc": sv.algorithms.atc(step_size=0.7),
    "falling": sv.algorithms.atc(step_size=lambda t: 1.0 / t),
    "cta": sv.algorithms.cta(step_size=0.7),
    "consensus": sv.algorithms.consensus(step_size=0.7),
    "dgd": sv.algorithms.dgd(step_size=0.7, gradient_rounds=ROUNDS, box=5.0),
    "gossip": sv.algorithms.gossip(),
    "accelerated": sv.algorithms.gossip(acceleration=0.3),
    "muffliato": sv.algorithms.muffliato(step_size=0.7, gossip_steps=2, acceleration=0.3),
    "three": sv.algorithms.three_matrix(step_size=0.7, first=RING, middle=RING, last=RING),
}
SCHEMES = {
    "self": lambda law: sv.noise.independent(law),
    "clean": lambda law: sv.noise.independent(law, self_noise=False),
    "homomorphic": lambda law: sv.noise.graph_homomorphic(law),
    "per-edge": lambda law: sv.noise.independent(law, per_edge=True),
    "pairs": lambda law: sv.noise.gopa(law, pairwise_std=2 * law.std),
}


class Chosen:
    """Data of one world: any gradient within the bound; at record level one that is wild but for a small difference."""

    records = 3

    def __init__(self, world, generator, size, norm, wild):
        self.world, self.size, self.norm, self.wild = world, size, norm, wild
        self.seed = int(generator.integers(2**31))

    def gradient(self, model, batch):
        shift = self.size * self._direction(model, b"shift")
        if not self.wild:
            return shift
        return 9.0 * self._direction(model, b"wild", world=0) + shift

    def _direction(self, model, use, world=None):
        """A vector of norm one, or nearly, that follows from every bit of the model."""
        world = self.world if world is None else world
        words = hashlib.sha256(
            use + bytes([world]) + self.seed.to_bytes(4, "big") + np.asarray(model).tobytes()
        ).digest()
        found = np.random.default_rng(list(words)).normal(size=D)
        if use == b"shift" and words[0] < 128:  # straight apart
            found = np.full(D, 1.0 - 2.0 * world)
        return found / (np.linalg.norm(found) if self.norm == "l2" else np.abs(found).sum())


class Sources:
    """The sources of one world."""

    def __init__(self, drawn):
        self.drawn = drawn

    def source(self, position, source, scale):
        return self.drawn[source]

    def shared(self, position, source, other, scale):
        return self.drawn[source]


class TwoWorlds:
    """One agent in two worlds that read the same words."""

    def __init__(self, run, generator, *, size, norm, wild, digest=bytes(32), relay_trusted=False):
        self.wiring = Wiring(run, LATTICE, PublicCoin(digest), relay_trusted=relay_trusted)
        self.generator = generator
        seed = generator.integers(2**31)
        self.owns = [Chosen(world, np.random.default_rng(seed), size, norm, wild) for world in (0, 1)]
        self.states = [start(run, LATTICE)] * 2
        self.held = [None, None]

    def exchange(self, position, agent=0):
        """The difference of the agent's messages, before noise, in units."""
        part, generator = self.wiring.part(agent, position), self.generator
        first = self.wiring.run.at(position)[1] == 0
        carried = [None, None] if first else self.held
        nothing = {source.number: np.zeros(D, dtype=np.int64) for source in part.sources}
        plain = [self._prepared(w, agent, position, nothing, carried) for w in (0, 1)]
        # The own copy of a message without noise is the message; in a federation there is none.
        change = (
            signed(plain[0].words[K]) - signed(plain[1].words[K])
            if self.wiring.federated
            else plain[0].held.own - plain[1].held.own
        )
        drawn = {number: generator.integers(-12, 13, size=D) for number in nothing}
        other = dict(drawn)
        for column, source in enumerate(part.sources):
            alone, seen = source.other == -1, part.on_links[:, column].any()
            if alone and seen:
                other[source.number] = drawn[source.number] + change
        made = [self._prepared(w, agent, position, noise, carried) for w, noise in ((0, drawn), (1, other))]
        for receiver in part.receivers:
            assert (made[0].words[receiver] == made[1].words[receiver]).all()
        words = {k: ring(generator.integers(-30, 31, size=D)) for k in part.senders}
        for w in (0, 1):
            self.held[w] = made[w].held
            self.states[w] = take(self.wiring, agent, self.owns[w], made[w].state, position, made[w].held, words)
        return change if part.receivers else np.zeros(D, dtype=np.int64)

    def _prepared(self, world, agent, position, drawn, carried):
        return prepare(
            self.wiring, agent, self.owns[world], self.states[world], position, Sources(drawn), carried[world]
        )


def accounted(run, law, size, unit):
    compares = "any two models" if unit == "agent" else "same model"
    sensitivity = Sensitivity(2 * size, unit=unit, adjacency="replace", norm=law.norm, compares=compares)
    return Accounted(
        run=run, lattice=LATTICE, observer=sv.observers.coalition(range(1, K)), agent=0, sensitivity=sensitivity,
        arithmetic=GradientArithmetic(terms=1, added=0.0),
    )  # fmt: skip


def claimed(account):
    """mu^2 or epsilon, and the prices [T, m] with which differences in real numbers count."""
    value = float(account.evidence.sent.values[0]) * account.computed * (1 + account.charge)
    return (value if account.evidence.asked.pure else value**2), account.protection.price[:, :, 0]


def spent(worlds, run, prices, pure):
    total = 0.0
    for position in range(run.end):
        change = worlds.exchange(position) * LATTICE.unit
        round_, exchange = run.at(position)
        size = np.abs(change).sum() if pure else (change**2).sum()
        total += float(prices[round_ - 1, exchange] * size) if size else 0.0
    return total


def cases():
    """(graph, algorithm, scheme, law): the ring with a Gaussian law is quick to try, the rest is slow."""
    for graph in GRAPHS:
        for algorithm in ALGORITHMS:
            for scheme in SCHEMES:
                for kind in (sv.noise.Gaussian, sv.noise.Laplace):
                    quick = graph == "ring" and kind is sv.noise.Gaussian
                    # Three matrices bring weights of their own.
                    if graph == "ring" or (algorithm != "three" and kind is sv.noise.Gaussian):
                        marks = () if quick else pytest.mark.slow
                        yield pytest.param(
                            graph,
                            algorithm,
                            scheme,
                            kind,
                            marks=marks,
                            id=f"{graph}-{algorithm}-{scheme}-{kind.__name__}",
                        )


@pytest.mark.parametrize(("graph", "algorithm", "scheme", "kind"), list(cases()))
def test_no_course_of_events_costs_more_than_is_claimed(graph, algorithm, scheme, kind):
    topology = GRAPHS[graph]
    law = kind(std=STD)
    noise, size = SCHEMES[scheme](law), 0.26
    run = PublicRun(
        topology=topology,
        algorithm=ALGORITHMS[algorithm],
        noise=noise,
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    account = accounted(run, law, size, "agent")
    claim, prices = claimed(account)
    assert math.isfinite(claim)
    generator = np.random.default_rng(7)
    largest = 0.0
    for _ in range(6):
        worlds = TwoWorlds(run, generator, size=size, norm=law.norm, wild=False)
        largest = max(largest, spent(worlds, run, prices, account.evidence.asked.pure))
    assert largest <= claim * (1 + 1e-9)
    assert largest > 0.02 * claim


PUBLIC_POINTS = {
    "atc": (RING, ALGORITHMS["atc"]),
    "cta": (RING, ALGORITHMS["cta"]),
    "dgd": (RING, ALGORITHMS["dgd"]),
    "muffliato": (RING, sv.algorithms.muffliato(step_size=0.7, gossip_steps=2)),
    "fedavg": (RING, sv.algorithms.fedavg(step_size=0.7)),
}


@pytest.mark.parametrize("name", PUBLIC_POINTS)
@pytest.mark.parametrize("scheme", ["self", "pairs"])
def test_a_record_costs_no_more_than_is_claimed_however_wild_its_agents_gradients_are(name, scheme):
    """Gradients that jump with the last bit of the model: points that differ at all would show."""
    topology, algorithm = PUBLIC_POINTS[name]
    law, size = sv.noise.Gaussian(std=STD), 0.05
    run = PublicRun(
        topology=topology,
        algorithm=algorithm,
        noise=SCHEMES[scheme](law),
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    account = accounted(run, law, size, "record")
    claim, prices = claimed(account)
    generator = np.random.default_rng(8)
    for _ in range(8):
        worlds = TwoWorlds(run, generator, size=size, norm="l2", wild=True)
        assert spent(worlds, run, prices, pure=False) <= claim * (1 + 1e-9)


def test_where_points_differ_wild_gradients_exceed_what_a_record_may_cost():
    """The power of the test above: consensus with self-noise takes gradients at states that are not public."""
    law, size = sv.noise.Gaussian(std=STD), 0.05
    run = PublicRun(
        topology=RING,
        algorithm=ALGORITHMS["consensus"],
        noise=SCHEMES["self"](law),
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    as_if = accounted(run, law, size, "agent")  # any two models, which is not true of these gradients
    claim, prices = claimed(as_if)
    generator = np.random.default_rng(8)
    found = [
        spent(TwoWorlds(run, generator, size=size, norm="l2", wild=True), run, prices, pure=False) for _ in range(20)
    ]
    assert max(found) > 5 * claim


@pytest.mark.parametrize("scheme", ["self", "clean", "homomorphic", "per-edge"])
@pytest.mark.parametrize("algorithm", ["atc", "falling", "cta", "consensus"])
@pytest.mark.parametrize("links", ["dropout", "pairs"])
def test_links_that_come_and_go_cost_no_more_than_is_claimed(links, algorithm, scheme):
    """The public coin decides who is silent; differences and roundings pile up until the agent is heard."""
    topology = RING.with_dropout(0.5) if links == "dropout" else RING.with_random_pair()
    law, size = sv.noise.Gaussian(std=STD), 0.26
    noise = SCHEMES[scheme](law)
    run = PublicRun(
        topology=topology,
        algorithm=ALGORITHMS[algorithm],
        noise=noise,
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    account = accounted(run, law, size, "agent")
    claim = float(account.evidence.sent.values[0]) * account.computed * (1 + account.charge)
    generator, largest = np.random.default_rng(9), 0.0
    for _ in range(6):
        worlds = TwoWorlds(run, generator, size=size, norm="l2", wild=False, digest=generator.bytes(32))
        total = 0.0
        for position in range(run.end):
            heard = len(worlds.wiring.receivers(0, position))
            change = worlds.exchange(position) * LATTICE.unit
            total += (heard if scheme == "per-edge" else min(heard, 1)) * float((change**2).sum()) / STD**2
        largest = max(largest, total)
    assert 0 < largest <= claim**2


FEDERATED = {
    "fedavg": sv.algorithms.fedavg(step_size=0.7),
    "server step": sv.algorithms.fedavg(step_size=0.7, server_step_size=0.4),
    "gradients": sv.algorithms.fedavg(step_size=0.7, exchange="gradient"),
    "local steps": sv.algorithms.fedavg(step_size=0.3, local_steps=3),
    "admm": sv.algorithms.inexact_admm(penalty=1.3),
    "own admm": sv.algorithms.inexact_admm(penalty=1.3, linearise_at="own"),
    "clipped": sv.algorithms.fedavg(step_size=0.7, local_steps=2, update_clip=sv.clipping.Clip(0.26, "l2")),
}


@pytest.mark.parametrize("name", FEDERATED)
def test_words_to_a_relay_cost_no_more_than_is_claimed(name):
    law, size = sv.noise.Gaussian(std=STD), 0.26
    run = PublicRun(
        topology=sv.topologies.federation(K), algorithm=FEDERATED[name], noise=sv.noise.independent(law), rounds=ROUNDS, batch_size=None,
        initial_model=np.zeros(D),
    )  # fmt: skip
    account = replace(
        accounted(run, law, size, "agent"), observer=sv.observers.server() + sv.observers.coalition(range(1, K))
    )
    claim, prices = claimed(account)
    generator, found = np.random.default_rng(10), []
    for _ in range(8):
        worlds = TwoWorlds(run, generator, size=size, norm="l2", wild=False)
        found.append(spent(worlds, run, prices, pure=False))
    assert 0.05 * claim < max(found) <= claim


SAMPLED = {
    "sample": sv.algorithms.fedavg(step_size=0.7, participation=0.6),
    "sampled gradients": sv.algorithms.fedavg(step_size=0.7, participation=0.6, exchange="gradient"),
    "fixed sample": sv.algorithms.fedavg(step_size=0.7, agents_per_round=2),
}


@pytest.mark.parametrize("name", [*sorted(set(FEDERATED) - {"own admm"}), *SAMPLED])
def test_averages_of_a_trusted_relay_cost_no_more_than_is_claimed(name):
    """Its noise is given so that both worlds see the same averages; what differs is the average before it."""
    algorithm, law, size = (FEDERATED | SAMPLED)[name], sv.noise.Gaussian(std=STD), 0.26
    run = PublicRun(
        topology=sv.topologies.federation(K),
        algorithm=algorithm,
        noise=sv.noise.central(law),
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    account = accounted(run, law, size, "agent")
    claim = float(account.evidence.sent.values[0]) * account.computed * (1 + account.charge)
    generator, largest = np.random.default_rng(11), 0.0
    for _ in range(8):
        largest = max(largest, _averages(run, generator, size))
    assert 0 < largest <= claim**2


def _averages(run, generator, size):
    worlds = TwoWorlds(run, generator, size=size, norm="l2", wild=False, digest=generator.bytes(32), relay_trusted=True)
    wiring, total = worlds.wiring, 0.0
    states = [relay_start(wiring)] * 2
    for position in range(run.end):
        round_, _ = run.at(position)
        takes = wiring.takes_part(0, round_)
        made = [worlds._prepared(w, 0, position, {}, [None, None]) for w in (0, 1)]
        others = {k: ring(generator.integers(-30, 31, size=D)) for k in range(1, K) if wiring.takes_part(k, round_)}
        heard = [{**others, **({0: one.words[K]} if takes else {})} for one in made]
        zero, drawn = np.zeros(D, dtype=np.int64), generator.integers(-12, 13, size=D)
        plain = [signed(relay_prepare(wiring, states[w], position, heard[w], Every(zero)).words[0]) for w in (0, 1)]
        noise = (drawn, drawn + plain[0] - plain[1])
        sent = [relay_prepare(wiring, states[w], position, heard[w], Every(noise[w])) for w in (0, 1)]
        assert (sent[0].words[0] == sent[1].words[0]).all()
        states = [one.state for one in sent]
        for w in (0, 1):
            worlds.states[w] = take(
                wiring, 0, worlds.owns[w], made[w].state, position, made[w].held, {K: sent[w].words[0]}
            )
        total += float((((plain[0] - plain[1]) * LATTICE.unit) ** 2).sum()) / STD**2
    return total


class Every:
    """One number for every source."""

    def __init__(self, drawn):
        self.drawn = drawn

    def source(self, position, source, scale):
        return self.drawn
