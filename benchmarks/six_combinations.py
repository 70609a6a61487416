"""What six parties play in `six_processes.py`: algorithms, noise schemes, links and batches, and which of their combinations.

Everything here is public: parties build it for themselves, without JAX and without anybody's records.

    every algorithm with every kind of links, every scheme with every kind of links, both with and without batches

is in the covering set, as far as parties do not refuse it. Every algorithm with every scheme is in the set `every`; the whole product is played
in one process by tests/deployment/agent/test_simulation.py.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

import sottovoce as sv
from sottovoce.clipping import Clip
from sottovoce.deployment.agent import check_deployable
from sottovoce.deployment.identity import Roster
from sottovoce.deployment.terms import Agreement, Declared, Member, Protection, PublicRun, agreement_of
from sottovoce.errors import IncompatibleChoice

AGENTS, DIMENSION, FRACTION_BITS, SEED = 6, 4, 24, 3
RECORDS = tuple(8 + agent for agent in range(AGENTS))
RIDGE, CLIP, BATCH = 0.1, 1.5, 4
NAMES, RELAY = tuple(f"party-{agent}" for agent in range(AGENTS)), "relay"
TIME_LIMIT = 120  # seconds without progress, on a machine that may be busy
LAW = sv.noise.Gaussian(std=0.1)
GRAPH = sv.topologies.from_edges(
    AGENTS, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 2), (3, 5)], weights="metropolis"
)
LINKS = {
    "static": GRAPH,
    "listed": GRAPH.with_schedule([GRAPH, sv.topologies.complete(AGENTS), sv.topologies.ring(AGENTS)]),
    "dropout": GRAPH.with_dropout(0.4),
    "random pair": GRAPH.with_random_pair(),
    "federation": sv.topologies.federation(AGENTS, weights="records", records=RECORDS),
}
FEDERATED = {
    "fedavg": sv.algorithms.fedavg(step_size=0.05, local_steps=2),
    "fedavg, gradients": sv.algorithms.fedavg(step_size=0.05, exchange="gradient", server_step_size=0.7),
    "fedavg, a coin each": sv.algorithms.fedavg(step_size=0.05, local_steps=2, participation=0.6),
    "fedavg, two agents": sv.algorithms.fedavg(step_size=0.05, agents_per_round=2, exchange="gradient"),
    "fedavg, clipped": sv.algorithms.fedavg(step_size=0.05, local_steps=2, update_clip=Clip(0.02, "l2")),
    "inexact_admm": sv.algorithms.inexact_admm(penalty=10.0),
    "inexact_admm, own": sv.algorithms.inexact_admm(penalty=10.0, linearise_at="own"),
    "atc": sv.algorithms.atc(step_size=0.05),
}
SCHEMES = {
    "none": sv.noise.none(),
    "independent": sv.noise.independent(LAW),
    "Laplace": sv.noise.independent(sv.noise.Laplace(std=0.1)),
    "no self-noise": sv.noise.independent(LAW, self_noise=False),
    "per edge": sv.noise.independent(LAW, per_edge=True),
    "per edge, no self-noise": sv.noise.independent(LAW, per_edge=True, self_noise=False),
    "schedule": sv.noise.independent(LAW).scaled(lambda t: 1 / t),
    "graph_homomorphic": sv.noise.graph_homomorphic(LAW),
    "local_graph_homomorphic": sv.noise.local_graph_homomorphic(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=0.37),
    "central": sv.noise.central(LAW),
    "gradient": sv.noise.gradient(LAW),
}


def peers(links: sv.topologies.Topology) -> dict[str, Any]:
    """Algorithms for links between agents."""
    gap = GRAPH.spectral_gap
    return {
        "consensus": sv.algorithms.consensus(step_size=0.05),
        "cta": sv.algorithms.cta(step_size=lambda t: 0.1 / t),
        "atc": sv.algorithms.atc(step_size=0.05),
        "dgd": sv.algorithms.dgd(step_size=0.3, gradient_rounds=10, box=1.0),
        "fedavg": sv.algorithms.fedavg(step_size=0.02, local_steps=3, server_step_size=0.9),
        "gossip": sv.algorithms.gossip(),
        "gossip, accelerated": sv.algorithms.gossip(acceleration=gap),
        "muffliato": sv.algorithms.muffliato(step_size=0.05, gossip_steps=3, acceleration=gap),
        "three_matrix": sv.algorithms.three_matrix(step_size=0.05, first=links, middle=links, last=links),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One run, by the names of its parts."""

    algorithm: str
    scheme: str
    links: str
    batch: int | None
    network: bool = False

    @property
    def name(self) -> str:
        """By which parties are told to play it."""
        loss = "network" if self.network else "linear"
        return f"{self.algorithm} / {self.scheme} / {self.links} / {self.batch or 'all records'} / {loss}"

    @property
    def parties(self) -> tuple[str, ...]:
        """Who takes part."""
        return (*NAMES, RELAY) if self.links == "federation" else NAMES

    def public_run(self) -> PublicRun:
        """What all parties know of it, from a starting point that is nowhere special."""
        topology = LINKS[self.links]
        algorithm = (FEDERATED if topology.relay else peers(topology))[self.algorithm]
        quick = self.batch is None and len(algorithm.exchanges) == 1 and not self.network
        dimension = network_dimension() if self.network else DIMENSION
        return PublicRun(
            topology=topology,
            algorithm=algorithm,
            noise=SCHEMES[self.scheme],
            rounds=60 if quick else 20,
            batch_size=self.batch,
            initial_model=np.random.default_rng(SEED).normal(scale=0.3, size=dimension),
        )

    def deployable(self) -> bool:
        """Whether parties can play it and the simulation too."""
        run = self.public_run()
        try:
            check_deployable(run, relay_trusted=True)
        except IncompatibleChoice:
            return False
        return True

    def agreement(self, roster: Roster) -> Agreement:
        """What the parties agree on; the relay is trusted, since the numbers of a rehearsal are known to everybody anyway."""
        members = [
            Member(name=name, role=roster[name].role, key=roster[name].identity_key.hex()) for name in self.parties
        ]
        declared = Declared(
            run=self.name, fraction_bits=FRACTION_BITS, collude="all", relay="trusted", releases="own", lost_neighbour="wait", minimum_agents=0, exclude_after=0,
            time_limit=TIME_LIMIT,
        )  # fmt: skip
        whole = self.algorithm == "fedavg, clipped"
        protection = Protection(
            unit="record",  # the one of every party's ledger; a clip of whole updates protects records too
            adjacency="replace",
            delta=1e-5,
            clip=0.02 if whole else CLIP,
            clip_norm="l2",
            clips="update" if whole else "records",
            batch_size=self.batch,
            records_per_person=None,
            losses=None,
            records=() if whole else RECORDS,
            sensitivity=(0.04,) * AGENTS if whole else tuple(2 * CLIP / (self.batch or count) for count in RECORDS),
            norm="l2",
            same_model=not whole,
        )
        return agreement_of(
            self.public_run(),
            declared=declared,
            members=members,
            protection=protection,
            problem={"kind": "classification" if self.network else "linear_regression"},
        )


def records(agent: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of length at most one, and targets, of one agent; some gradients are longer than the clip."""
    generator = np.random.default_rng([SEED, agent])
    features = generator.normal(size=(RECORDS[agent], DIMENSION))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    return features, features @ np.arange(1.0, DIMENSION + 1) + generator.normal(size=RECORDS[agent])


def problem_of(data: Iterable[tuple[np.ndarray, np.ndarray]], *, network: bool) -> Any:
    """The problem of one agent's records, or of all agents'."""
    features, targets = zip(*data, strict=True)
    if not network:
        return sv.problems.linear_regression(features, targets, ridge=RIDGE).with_clipping(CLIP, "l2")
    labels = [(each > 0).astype(int) for each in targets]
    return sv.problems.classification(features, labels, model="mlp", hidden=3, classes=2).with_clipping(CLIP, "l2")


def network_dimension() -> int:
    """Parameters of the network, whose layers have 3 and 2 units."""
    return (DIMENSION + 1) * 3 + (3 + 1) * 2


def candidates() -> list[Combination]:
    """All linear combinations that are not refused."""
    found = []
    for links, batch in product(LINKS, (None, BATCH)):
        algorithms = FEDERATED if links == "federation" else peers(LINKS[links])
        for algorithm, scheme in product(algorithms, SCHEMES):
            one = Combination(algorithm=algorithm, scheme=scheme, links=links, batch=batch)
            if one.deployable():
                found.append(one)
    return found


def covering(chosen: list[Combination], *, every: bool) -> list[Combination]:
    """The fewest, greedily, that have every pair of parts of the given ones; pairs of algorithm and scheme only if asked."""
    parts = ("algorithm", "scheme", "links", "batch")
    asked = [pair for pair in combinations(parts, 2) if every or pair != ("algorithm", "scheme")]

    def pairs(one: Combination) -> set[tuple[Any, ...]]:
        return {(*pair, *(getattr(one, part) for part in pair), one.links == "federation") for pair in asked}

    having = {one: pairs(one) for one in chosen}
    missing = set().union(*having.values())
    found: list[Combination] = []
    while missing:
        # Of those that bring equally many pairs one whose parts were used least, so that the set is as mixed as it can be.
        used = Counter(part for one in found for part in (one.algorithm, one.scheme))
        best = max(chosen, key=lambda one: (len(having[one] & missing), -used[one.algorithm] - used[one.scheme]))
        found.append(best)
        missing -= having[best]
    return sorted(found, key=lambda one: (list(LINKS).index(one.links), one.algorithm, one.scheme))


def networks() -> list[Combination]:
    """A few runs of a network, of which nothing but the size of the differences is known."""
    chosen = [
        ("atc", "independent", "static", None),
        ("three_matrix", "graph_homomorphic", "static", None),
        ("consensus", "gopa", "dropout", BATCH),
        ("fedavg", "Laplace", "federation", BATCH),
        ("inexact_admm", "independent", "federation", None),
    ]
    return [
        Combination(algorithm=algorithm, scheme=scheme, links=links, batch=batch, network=True)
        for algorithm, scheme, links, batch in chosen
    ]
