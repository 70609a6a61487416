"""What a question to the accountant must satisfy; everything else is refused here, before anything is computed."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from sottovoce.accounting.question.checked import Adjacency, Unit
from sottovoce.accounting.question.participation import Participation, Poisson
from sottovoce.algorithms import Algorithm, FixedAgents, check_sampling
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import check_gradients, check_relay, parts
from sottovoce.noise import Gaussian, Noise
from sottovoce.numbers import chosen, whole
from sottovoce.observers import Observer
from sottovoce.problems import ConvexSmooth, Sensitivity
from sottovoce.resources import refuse_too_large, refuse_too_many_rounds
from sottovoce.topologies import Topology

AGENT_ROUND_BYTES = 50.0  # what every agent has spent after every round, and what it is computed from: measured


def check_parts(topology: object, algorithm: object, noise: object, *, rounds: int) -> None:
    """Refuse things of another kind, a number of rounds that is none, and rounds times agents that do not fit into memory."""
    parts.check_parts(topology=topology, algorithm=algorithm, noise=noise)
    whole("rounds", rounds)
    refuse_too_many_rounds(rounds)
    if isinstance(topology, Topology) and isinstance(algorithm, Algorithm) and not algorithm.walks:
        refuse_too_large(
            f"an account of {rounds:,} rounds and {topology.num_agents:,} agents",
            AGENT_ROUND_BYTES * rounds * topology.num_agents,
            "Lower rounds or agents.",
        )


def check_together(topology: Topology, algorithm: Algorithm, noise: Noise, *, rounds: int) -> None:
    """Refuse an algorithm and a noise that do not work on this topology."""
    check_relay(algorithm, noise, topology)
    check_gradients(algorithm, noise, rounds)
    check_sampling(algorithm.sampling, topology.num_agents)


def check_words(
    unit: Unit, adjacency: Adjacency, losses: ConvexSmooth | None, same_model: bool | None, algorithm: Algorithm
) -> None:
    """Refuse units, adjacencies and promises that say nothing, or nothing about this algorithm."""
    chosen("unit", unit, get_args(Unit))
    chosen("adjacency", adjacency, get_args(Adjacency))
    if losses is not None and not isinstance(losses, ConvexSmooth):
        raise ConfigError(f"losses = {losses!r}; promise sv.accounting.ConvexSmooth(beta, nu), or None.")
    if same_model is not None and not isinstance(same_model, bool | np.bool_):
        raise ConfigError(f"same_model = {same_model!r}; it must be True, False or None.")
    if unit == "record" and same_model is not None and not same_model:
        raise ConfigError(
            "unit='record' with same_model=False: a record's sensitivity is known at the same model only. Leave same_model out."
        )
    if same_model is not None and not same_model and losses is not None and losses.nu > 0:
        raise ConfigError(
            f"same_model=False says that any two gradients differ by at most the sensitivity, and losses with nu = {losses.nu:g} say that they "
            f"move apart with the models, without end. Both cannot be true. Leave same_model out: the sensitivity is then read as that at "
            f"the same model; or promise nu = 0."
        )
    if isinstance(algorithm.sampling, FixedAgents) and (unit, adjacency) == ("agent", "add-remove"):
        raise UnsupportedClaim(
            "a fixed number of agents takes part in every round, so where one agent is removed another one is drawn, and more than its own "
            "update changes. Use adjacency='replace', or participation=q, by coins."
        )


def compares_same_model(
    sensitivity: object,
    noise: Noise,
    *,
    unit: Unit,
    adjacency: Adjacency,
    losses: ConvexSmooth | None,
    same_model: bool | None,
) -> bool:
    """Whether the sensitivity compares gradients at the same model only; words that were checked, and the marks of a `Sensitivity`, decide.

    A record's does. An agent's does where the losses are promised to be strongly convex, since such gradients move apart with the models.

    Raises:
        ConfigError: a sensitivity that was computed for another question.
    """
    parts = sensitivity if isinstance(sensitivity, list | tuple) else [sensitivity]
    marked = [one for one in parts if isinstance(one, Sensitivity)]
    for one in marked:
        _check_marks(one, noise, unit=unit, adjacency=adjacency, same_model=same_model)
    if same_model is not None:
        return bool(same_model)
    at_same = any(one.compares == "same model" for one in marked)
    return unit == "record" or at_same or (losses is not None and losses.nu > 0)


def _check_marks(one: Sensitivity, noise: Noise, *, unit: Unit, adjacency: Adjacency, same_model: bool | None) -> None:
    for name, given, own in (("unit", unit, one.unit), ("adjacency", adjacency, one.adjacency)):
        if given != own:
            raise ConfigError(
                f"{name} = {given!r}, but the sensitivity {float(one):g} was computed for {name} = {own!r}. Ask the problem for the other, "
                f"problem.sensitivity({name}={given!r}, ...), or account for {name}={own!r}."
            )
    if one.compares == "same model" and same_model is not None and not same_model:
        raise ConfigError(
            f"same_model=False, but the sensitivity {float(one):g} compares gradients at the same model only (one record, or a ridge added after "
            f"clipping, whose gradients move apart with the models). Leave same_model out."
        )
    if noise.law is not None and (noise.law.norm, one.norm) == ("l1", "l2"):
        raise ConfigError(
            f"the law {type(noise.law).__name__} needs a sensitivity in l1, and {float(one):g} was computed in l2. Ask the problem for "
            f"problem.sensitivity(norm='l1', ...), or use the law Gaussian or L2Laplace."
        )


def check_participation(
    algorithm: Algorithm,
    noise: Noise,
    sensitivity: np.ndarray,
    *,
    unit: Unit,
    adjacency: Adjacency,
    participation: Participation,
) -> None:
    """Refuse a participation that does not apply, or lacks what its account needs."""
    if algorithm.walks and participation != "every-round":
        raise ConfigError(
            f"participation = {participation!r}: on a walk an agent takes part when it holds the token. Leave it out; limit the contributions "
            f"of sv.algorithms.random_walk instead."
        )
    if unit == "agent" and participation != "every-round":
        raise ConfigError(
            f"participation = {participation!r} speaks of single records; an agent's data enter every round. Use unit='record'."
        )
    if isinstance(participation, Poisson) and adjacency == "replace":
        least = float(sensitivity.max()) / 2.0
        if participation.record_norm is None or participation.record_norm < least * (1 - 1e-9):
            raise ConfigError(
                f"Poisson sampling with adjacency='replace' needs the largest norm of ONE record's part, at least half the sensitivity "
                f"({least:g}); given record_norm = {participation.record_norm}. Use sv.accounting.poisson(rate, record_norm=C / B)."
            )
    if isinstance(participation, Poisson) and not isinstance(noise.law, Gaussian):
        raise UnsupportedClaim(
            "Poisson sampling is accounted for Gaussian noise only. Use a Gaussian law, or another participation."
        )


def check_observers(observers: object) -> None:
    """Refuse anything but observers."""
    listed = isinstance(observers, Sequence) and not isinstance(observers, str)
    if not listed or not all(isinstance(one, Observer) for one in observers):  # type: ignore[attr-defined]
        raise ConfigError(
            f"observer = {observers!r}; give one of sv.observers, such as sv.observers.eavesdropper(), or a list of them."
        )


def check_colluding(observer: Observer, algorithm: Algorithm, num_agents: int) -> None:
    """Refuse agents that nobody knows where it matters which they are, and a coalition that leaves nobody.

    Raises:
        UnsupportedClaim: a share of unknown agents without masked averages.
        ConfigError: the observer has all agents.
    """
    if observer.colluding == 0:
        return
    if algorithm.aggregation is None:
        raise UnsupportedClaim(
            f"{observer}: which agents belong to it is not said, and that is accounted under masked averages only. Name them, as in "
            f"sv.observers.server() + sv.observers.coalition([...]), or use fedavg with aggregation=sv.algorithms.Gopa(...)."
        )
    if observer.corrupted(num_agents) >= num_agents:
        raise ConfigError(f"{observer}: with {num_agents} agents nobody is left whose data it could learn.")
