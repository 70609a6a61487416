"""From names to things: the parts that a configuration names, made by its tables, and refused where they do not go together.

`assembled` is the one way to them: `build` gives it the records of all agents, `public_parts` blank ones, so that a simulation and a run among
parties cannot differ in anything but their records.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import LawSection, NoiseSection, PrescribedNoise
from sottovoce.experiments.data import AgentData, records_of_agents
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import calibrated
from sottovoce.experiments.protection import protection
from sottovoce.linear import check_together
from sottovoce.noise import Noise, bind_turns
from sottovoce.observers import coalitions, view
from sottovoce.problems import Problem
from sottovoce.resources import refuse_too_many_rounds
from sottovoce.topologies import Topology


def build(config: Config) -> Experiment:
    """Make the parts that a configuration names.

    Raises:
        ConfigError: if one part cannot be made from its values.
        IncompatibleChoice: if the parts are valid but not together.
    """
    data = records_of_agents(config.problem, config.topology.num_agents, config.experiment.seed)
    return assembled(config, data, problem_of(config, data), sizes=[len(part) for part in data.records[0]])


def assembled(
    config: Config, data: AgentData, problem: Problem, *, sizes: Sequence[int], topology: Topology | None = None
) -> Experiment:
    """Make the parts around the records.

    Args:
        config: what the file says.
        data: records, and what is known of them.
        problem: of these records.
        sizes: records of every agent.
        topology: the network, where it is known already; None: the one that the file says.

    Raises:
        ConfigError: if one part cannot be made from its values.
        IncompatibleChoice: if the parts are valid but not together.
    """
    settings = config.experiment
    refuse_too_many_rounds(settings.rounds)
    if topology is None:
        topology = config.topology.topology(seed=settings.seed, sizes=sizes)
    noise = _noise(config, problem)
    privacy = protection(config, problem)
    for observer in () if privacy is None else privacy.observers:
        view(coalitions(observer, topology.num_agents)[0], topology)  # refuses one that this topology does not have
    algorithm = config.algorithm.algorithm(topology, config.privacy)
    batch_size = config.algorithm.batch_size
    check_together(
        topology, algorithm, noise, rounds=settings.rounds, problem=problem, batch_size=batch_size, remembers=True
    )
    batch = config.algorithm.turns
    if batch is not None:
        batch.check(problem.sizes)
    if not config.topology.random_pair:  # its rounds never use all links; the engine checks each of them
        bind_turns(noise, topology.active_links())
    experiment = Experiment(
        problem=problem,
        topology=topology,
        algorithm=algorithm,
        noise=noise,
        batch_size=batch_size,
        batch=batch,
        privacy=privacy,
        test=data.test,
        schema=data.schema,
        agents=data.names,
        preparation=data.preparation,
        **settings.model_dump(exclude={"name"}),
    )
    return _calibrated(experiment, config.noise)


def problem_of(config: Config, data: AgentData, *, sizes: Sequence[int] | None = None, whole: bool = True) -> Problem:
    """The problem of these records, with what is said about persons and clipping.

    Args:
        config: what the file says.
        data: the records.
        sizes: numbers of records to be taken in place of those at hand, which are blank; None: those at hand.
        whole: whether these are the records of all agents, so that a class that none of them has is a mistake.

    Raises:
        ConfigError: records that make no such problem.
    """
    privacy, most = config.privacy, config.problem.records_per_person
    if config.problem.kind == "classification":
        _refuse_promise(config)
    problem: Any = config.problem.problem(data.records, data.test, seed=config.experiment.seed, whole=whole)
    if sizes is not None:
        problem = replace(problem, sizes=np.array(sizes, dtype=np.int64))
    if most is not None:
        problem = problem.with_persons(most, data.persons)
    if privacy is None or privacy.clips == "update":
        return cast(Problem, problem)
    if privacy.clips == "gradient":
        return cast(Problem, problem.with_gradient_clipping(privacy.clip, privacy.clip_norm))
    return cast(Problem, problem.with_clipping(privacy.clip, privacy.clip_norm))


def _refuse_promise(config: Config) -> None:
    """Refuse a promise of convex, smooth losses, which clipped gradients of a classifier do not keep."""
    if config.privacy is not None and config.privacy.losses is not None:
        raise UnsupportedClaim(
            '[privacy] losses: a promise of convex, smooth losses does not hold for kind = "classification": networks are not convex, and '
            "clipped gradients of several classes belong to no known convex loss. Remove losses."
        )


def _noise(config: Config, problem: Problem) -> Noise:
    """The noise that the file names; what a document prescribes depends on its algorithm and its records too."""
    section, algorithm = config.noise, config.algorithm
    if not isinstance(section, PrescribedNoise):
        return section.noise()
    if algorithm.kind != "dgd":
        raise IncompatibleChoice(
            f'noise "showkatbakhsh" is prescribed for the two-stage method; the algorithm is "{algorithm.kind}". Use kind = "dgd".'
        )
    if config.privacy is not None and config.privacy.unit != "record":
        raise IncompatibleChoice(
            f'noise "showkatbakhsh" is computed for one record; [privacy] unit is "{config.privacy.unit}". Use unit = "record".'
        )
    change = problem.sensitivity(
        unit="record", adjacency="replace", norm="l2", batch_size=algorithm.batch_size, batch=algorithm.turns
    )
    return section.levels(algorithm, rounds=config.experiment.rounds, sensitivity=change)


def _calibrated(experiment: Experiment, section: NoiseSection) -> Experiment:
    """The experiment with the noise that its file gives by an epsilon; any other one is unchanged."""
    if not isinstance(section, LawSection) or section.epsilon is None:
        return experiment
    assert experiment.privacy is not None  # a file that gives an epsilon without observers is refused
    delta = experiment.privacy.delta if section.delta is None else section.delta
    first = experiment.privacy.observers[0]
    noise = calibrated(experiment, first, epsilon=section.epsilon, delta=0.0 if delta is None else delta)
    return replace(experiment, noise=noise)
