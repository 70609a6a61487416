"""One fit: the noise that meets epsilon for the observer, the run with that noise, and what is proven of it.

Agents run ATC with independent noise on every message and on their own copy, through a relay that holds no data: the scheme whose
guarantees need no promise about the losses, and in which all agents end with the same model. What the linear models can promise is given to
the accountant where it proves less: with columns scaled to [-1, 1] and a constant 1, a record x of d columns has ||x||^2 <= d + 1 whatever it
says, so the largest curvature beta of its loss is public.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting import Guarantee, Question, account, calibrate
from sottovoce.algorithms import ALGORITHMS, Algorithm
from sottovoce.errors import ConfigError
from sottovoce.noise import SCHEMES, Gaussian, Noise
from sottovoce.numbers import chosen
from sottovoce.problems import ConvexSmooth, Problem
from sottovoce.simulation import simulate
from sottovoce.sklearn.demands import Demands
from sottovoce.sklearn.statement import FitGuarantee, stated
from sottovoce.topologies import TOPOLOGIES, Topology
from sottovoce.wording import brief_value

Floats = NDArray[np.float64]
NETWORKS = ("federation", "complete", "ring", "path", "star")
METHODS = ("atc", "cta", "consensus", "fedavg")
NOISES = ("independent", "central")
_SLACK = 1e-9  # relative: so much more noise than the target needs, so that rounding never ends above it


class Choices(NamedTuple):
    """How agents learn, which decides the accuracy; epsilon is met whatever is chosen."""

    topology: Any
    algorithm: str
    noise: str
    step_size: float


class Known(NamedTuple):
    """What is known of a fit's losses and records without looking at the records."""

    losses: ConvexSmooth | None  # what holds for every record within the bounds
    premises: tuple[str, ...]  # what guarantees rest on beyond the account


class Trained(NamedTuple):
    """What a fit leaves."""

    model: Floats  # [d] the centroid of the agents' models
    guarantees: list[FitGuarantee]
    noise: Noise


def train(problem: Problem, demands: Demands, choices: Choices, known: Known) -> Trained:
    """Let the agents learn with the noise that meets the demands.

    Args:
        problem: the agents' records, not yet clipped.
        demands: what decides privacy.
        choices: how the agents learn.
        known: without looking at the records.

    Raises:
        IncompatibleChoice: an observer that this topology does not have.
        UnsupportedClaim: nothing is proved for an observer.
    """
    clipped = problem.with_clipping(demands.clip, "l2")
    topology, algorithm = _topology(choices.topology, problem.num_agents), _algorithm(choices)
    question = _question(clipped, demands, choices.step_size, known.losses)
    scheme = SCHEMES[chosen("noise", choices.noise, NOISES)](Gaussian(std=1.0))
    first = demands.observers[0]
    noise = calibrate(
        topology, algorithm, scheme, first, epsilon=demands.epsilon, delta=demands.delta, question=question
    ).scaled(1.0 + _SLACK)
    found: list[Guarantee] = account(topology, algorithm, noise, demands.observers, question=question)
    run = simulate(
        clipped, topology, algorithm, noise, rounds=demands.rounds, seed=demands.seed, record=["disagreement"], progress=False
    )  # fmt: skip
    assert run.common is not None  # only runs of an older version, read from a folder, have none
    premises = (*known.premises, *_premises(clipped, demands))
    return Trained(
        model=np.asarray(run.common[0], dtype=np.float64),
        guarantees=[
            stated(one, delta=demands.delta, seed=demands.seed, premises=premises, sees_model=observer.final_model)
            for one, observer in zip(found, demands.observers, strict=True)
        ],
        noise=noise,
    )


def _algorithm(choices: Choices) -> Algorithm:
    return ALGORITHMS[chosen("algorithm", choices.algorithm, METHODS)](step_size=choices.step_size)


def _topology(given: Any, agents: int) -> Topology:
    if isinstance(given, Topology):
        if given.num_agents != agents:
            raise ConfigError(
                f"topology '{given.name}' has {given.num_agents} agents, but the records have {agents} owners. Give one of {agents}, or "
                f"its name."
            )
        return given
    if not isinstance(given, str) or given not in NETWORKS:
        raise ConfigError(
            f"topology = {brief_value(given)}; choose one of {', '.join(map(repr, NETWORKS))}, or give a topology of sv.topologies."
        )
    return TOPOLOGIES[given](agents)


def _question(clipped: Problem, demands: Demands, step: float, losses: ConvexSmooth | None) -> Question:
    sensitivity = [
        clipped.sensitivity(unit=demands.unit, adjacency=demands.adjacency, norm="l2", agent=agent)
        for agent in range(clipped.num_agents)
    ]
    short = losses is not None and step <= 2.0 / losses.beta  # longer steps make the promise useless
    return Question(
        rounds=demands.rounds,
        sensitivity=sensitivity,
        unit=demands.unit,
        adjacency=demands.adjacency,
        losses=losses if short else None,
    )


def _premises(clipped: Problem, demands: Demands) -> tuple[str, ...]:
    made = [f"the number of agents, {clipped.num_agents}, and the columns with their bounds are public"]
    if demands.unit != "agent":
        made.append("every agent's number of records is public: it enters the sensitivity")
    if demands.unit == "record":
        made.append("a record is one row: several rows about one person are not protected together")
    return tuple(made)
