"""What cannot be carried out among parties, each with its reason; everything else goes on to `Wiring`."""

from importlib.util import find_spec

import numpy as np

from sottovoce.deployment.agent.perturbation import perturbation
from sottovoce.deployment.terms import PublicRun, bind_among_parties, refuse_unlike_rounds
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import centroid, check_hand_over, check_together, exchange_topologies
from sottovoce.noise import L2Laplace
from sottovoce.topologies import Listed, Static


def check_deployable(run: PublicRun, *, relay_trusted: bool) -> None:
    """Refuse a run that parties cannot carry out.

    Args:
        run: its public parts.
        relay_trusted: whether all parties let the relay read what they send.

    Raises:
        ConfigError: a starting point that is none.
        IncompatibleChoice: the parts do not go together, or not among parties.
    """
    model = np.asarray(run.initial_model)
    if model.ndim != 1 or model.size == 0 or model.dtype.kind != "f" or not np.isfinite(model).all():
        raise ConfigError(
            f"initial_model has shape {model.shape} and type {model.dtype}; needed is one vector of finite real numbers. Give e.g. np.zeros(d)."
        )
    _refuse_walk_and_masked_sums(run)
    _refuse_law(run)
    refuse_unlike_rounds(run.noise)
    check_together(run.topology, run.algorithm, run.noise, rounds=run.rounds)
    check_hand_over(run.algorithm, run.noise, run.topology, run.rounds)
    _refuse_links(run)
    _refuse_sources(run)
    if run.noise.needs_relay and not relay_trusted:
        raise IncompatibleChoice(
            f"'{run.noise.name}' noise is added by the relay, to which the parties then send everything in clear, and they have not agreed to trust "
            f"it: an untrusted relay reads everything. Agree on a trusted relay, or use noise that agents add themselves, such as "
            f"sv.noise.independent(law)."
        )
    if "local_optimizer" in run.algorithm.parameters and find_spec("jax") is None:
        raise IncompatibleChoice(
            "local_optimizer makes its steps with JAX, which is not installed here. Install JAX, or leave local_optimizer out."
        )


def _refuse_walk_and_masked_sums(run: PublicRun) -> None:
    algorithm = run.algorithm
    if algorithm.walks:
        raise IncompatibleChoice(
            f"'{algorithm.name}' hands one token from agent to agent. What is proven of it hides where the token is, and among parties the traffic "
            f"shows that to everybody who can count packets; whoever holds the token last also decides whether it comes back at all. Use gossip "
            f"or atc."
        )
    if algorithm.aggregation is not None:
        raise IncompatibleChoice(
            "aggregation by GOPA needs a board that everybody reads and a beacon that draws the graph after all have registered; agents and relay "
            "alone cannot carry it out. Run it with sottovoce.deployment.gopa_parties, or leave aggregation out."
        )


def _refuse_law(run: PublicRun) -> None:
    if isinstance(run.noise.law, L2Laplace):
        raise IncompatibleChoice(
            "L2Laplace noise depends on all coordinates of a message together, and no sampler draws it in whole numbers with a proven law. Use "
            "sv.noise.Gaussian(std=...), whose sensitivity is in l2 too, or sv.noise.Laplace(std=...)."
        )


def _refuse_sources(run: PublicRun) -> None:
    """Refuse noise that keys of single parties and of pairs cannot make in whole numbers, on links that are not drawn."""
    weighing = centroid(run.algorithm, run.topology).receivers
    for used, perron in zip(exchange_topologies(run.algorithm, run.topology), weighing, strict=True):
        for one in used.listed() if isinstance(used.schedule, Static | Listed) else ():
            links = one.active_links()._replace(perron=perron)
            perturbation(run.noise, bind_among_parties(run.noise, links), links)


def _refuse_links(run: PublicRun) -> None:
    topologies = exchange_topologies(run.algorithm, run.topology)
    if len({used.relay for used in (run.topology, *topologies)}) > 1:
        raise IncompatibleChoice(
            f"some exchanges of '{run.algorithm.name}' go through a relay and others over links between agents. Use one kind for all of them."
        )
    drawn = not all(isinstance(used.schedule, Static | Listed) for used in topologies)
    if run.noise.name == "designed" and drawn:
        raise IncompatibleChoice(
            "designed noise is added in every round, by everybody, and here links come and go by a coin. Use a fixed or listed topology, or "
            "sv.noise.gopa(law, pairwise_std=...)."
        )
    if "receivers" in run.noise.promises and drawn:
        raise IncompatibleChoice(
            f"'{run.noise.name}' pairs the neighbours that will really send; where links come and go by a coin a receiver can be left with one "
            f"neighbour, whose message would then be in clear. Use a fixed or listed topology, or sv.noise.independent(law)."
        )
