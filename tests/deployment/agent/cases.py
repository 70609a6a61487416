"""Runs that parties play in tests: every algorithm and every scheme of the registries, all kinds of links, batches and samples."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import sottovoce as sv
from deployment.agent.recursion import Rehearsal, Table
from sottovoce.clipping import Clip
from sottovoce.deployment.agent import Wiring, deviation_bound, play
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicRun, in_whole_multiples

AGENTS, DIMENSION = 5, 3
LATTICE = Lattice(24)
LAW = sv.noise.Gaussian(std=0.1)
GRAPH = sv.topologies.from_edges(AGENTS, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)], weights="metropolis")
LINKS = {
    "static": GRAPH,
    "listed": GRAPH.with_schedule([GRAPH, sv.topologies.complete(AGENTS), sv.topologies.ring(AGENTS)]),
    "dropout": GRAPH.with_dropout(0.4),
    "random pair": GRAPH.with_random_pair(),
}
FEDERATION = sv.topologies.federation(AGENTS, weights="records", records=[8, 9, 10, 11, 12])


def problem(agents: int = AGENTS, seed: int = 0):
    """Linear regression, with records of different numbers."""
    generator = np.random.default_rng(seed)
    features = [generator.normal(size=(8 + k, DIMENSION)) for k in range(agents)]
    targets = [x @ np.ones(DIMENSION) + generator.normal(size=len(x)) for x in features]
    return sv.problems.linear_regression(features, targets, ridge=0.1)


PROBLEM = problem()


def peers(links: sv.topologies.Topology) -> dict[str, Any]:
    """Algorithms for links between agents."""
    gap = GRAPH.spectral_gap
    return {
        "consensus": sv.algorithms.consensus(step_size=0.05),
        "cta": sv.algorithms.cta(step_size=lambda t: 0.1 / t),
        "atc": sv.algorithms.atc(step_size=0.05),
        "dgd": sv.algorithms.dgd(step_size=0.3, gradient_rounds=5, box=1.0),
        "fedavg": sv.algorithms.fedavg(step_size=0.02, local_steps=3, server_step_size=0.9),
        "gossip": sv.algorithms.gossip(),
        "gossip, accelerated": sv.algorithms.gossip(acceleration=gap),
        "muffliato": sv.algorithms.muffliato(step_size=0.05, gossip_steps=3, acceleration=gap),
        "three_matrix": sv.algorithms.three_matrix(step_size=0.05, first=links, middle=links, last=links),
    }


FEDERATED = {
    "fedavg": sv.algorithms.fedavg(step_size=0.05, local_steps=2),
    "fedavg, gradients": sv.algorithms.fedavg(step_size=0.05, exchange="gradient", server_step_size=0.7),
    "fedavg, a coin each": sv.algorithms.fedavg(step_size=0.05, participation=0.6),
    "fedavg, two agents": sv.algorithms.fedavg(step_size=0.05, agents_per_round=2, exchange="gradient"),
    "fedavg, clipped": sv.algorithms.fedavg(
        step_size=0.05, local_steps=2, update_clip=Clip(0.1, "l2"), participation=0.6
    ),
    "inexact_admm": sv.algorithms.inexact_admm(penalty=10.0),
    "inexact_admm, own": sv.algorithms.inexact_admm(penalty=10.0, linearise_at="own"),
    "atc": sv.algorithms.atc(step_size=0.05),
}
# Unequal factors on every link, and of agents 1 and 3, who are not linked; fractions of small whole numbers, and others.
DESIGNED = sv.noise.designed(
    LAW,
    own=[0.7, 1.0, 0.55, 1.3, 0.9],
    pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (1, 3)],
    factors=[(1.5, -1.0), (0.913, -0.4471), (2.0, -3.0), (-1.17, 0.55), (0.8, 0.31), (0.25, -0.25), (0.6, -0.377)],
)
SCHEMES = {
    "none": sv.noise.none(),
    "independent": sv.noise.independent(LAW),
    "independent, Laplace": sv.noise.independent(sv.noise.Laplace(std=0.1)),
    "independent, no self-noise": sv.noise.independent(LAW, self_noise=False),
    "independent, per edge": sv.noise.independent(LAW, per_edge=True),
    "independent, per edge, no self-noise": sv.noise.independent(LAW, per_edge=True, self_noise=False),
    "independent, schedule": sv.noise.independent(LAW).scaled(lambda t: 1 / t),
    "graph_homomorphic": sv.noise.graph_homomorphic(LAW),
    "local_graph_homomorphic": sv.noise.local_graph_homomorphic(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=0.37),
    "designed": in_whole_multiples(DESIGNED),
    "central": sv.noise.central(LAW),
    "gradient": sv.noise.gradient(LAW),
}


def public_run(topology, algorithm, noise, *, rounds: int = 8, batch_size: int | None = None) -> PublicRun:
    """The public parts of a run that starts away from zero."""
    return PublicRun(
        topology=topology,
        algorithm=algorithm,
        noise=noise,
        rounds=rounds,
        batch_size=batch_size,
        initial_model=np.linspace(-0.3, 0.3, DIMENSION),
    )


def every_run(*, batch_sizes=(None,), links=tuple(LINKS), rounds: int = 8) -> Iterator[tuple[str, PublicRun]]:
    """(what it is, run) for all combinations, also those that are refused."""
    for size in batch_sizes:
        for kind in links:
            for name, algorithm in peers(LINKS[kind]).items():
                for scheme, noise in SCHEMES.items():
                    yield (
                        f"{name} / {scheme} / {kind} / batch {size}",
                        public_run(LINKS[kind], algorithm, noise, rounds=rounds, batch_size=size),
                    )
        for name, algorithm in FEDERATED.items():
            for scheme, noise in SCHEMES.items():
                yield (
                    f"{name} / {scheme} / federation / batch {size}",
                    public_run(FEDERATION, algorithm, noise, rounds=rounds, batch_size=size),
                )


def played(run: PublicRun, table: Table, **options) -> np.ndarray:
    """[K, d] the models of a run that parties play on the numbers of a table."""
    return play(run, LATTICE, PROBLEM, lambda agent: Rehearsal(table, agent), table, relay_trusted=True, **options)


def bound_of(run: PublicRun, coin: Any, *, rehearsed: bool = False) -> float | None:
    """The bound on units between parties and recursion, or a simulation that is rehearsed; None where none is derived."""
    constants, ridge = PROBLEM.constants, 2 * PROBLEM.ridge
    ends = (constants.record_smoothness, ridge)
    if run.batch_size is None:
        ends = (float(constants.local_smoothness.max()), float(constants.local_strong_convexity.min()))
    wiring = Wiring(run, LATTICE, coin, relay_trusted=True)
    if run.algorithm.clipped_update is not None:
        return None
    return deviation_bound(wiring, smoothness=ends[0], strong_convexity=ends[1], rehearsed=rehearsed).units
