"""From names to things: the only place that looks up what a configuration names, and refuses what does not go together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.accounting.documents import showkatbakhsh_schedule
from sottovoce.algorithms import ALGORITHMS, Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments import sections
from sottovoce.experiments.sections import Config
from sottovoce.noise import LAWS, SCHEMES, Gaussian, Law, Noise, bind, independent
from sottovoce.problems import (
    BREAST_CANCER_BOUNDS,
    PROBLEMS,
    Problem,
    load,
    partition,
    scale_features,
    synthetic_regression,
)
from sottovoce.topologies import TOPOLOGIES, Topology

# Scaling by the data themselves would leak them, so data sets come with bounds known beforehand.
_PUBLIC_BOUNDS = {"breast_cancer": BREAST_CANCER_BOUNDS}

Records = tuple[list[np.ndarray], list[np.ndarray]]  # features [n_k, d] and targets [n_k] of each agent
Test = tuple[np.ndarray, np.ndarray] | None  # features [n, d] and targets [n] kept away from learning


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Everything that a simulation needs, made and checked."""

    problem: Problem
    topology: Topology
    algorithm: Algorithm
    noise: Noise
    rounds: int
    repeats: int
    seed: int
    dtype: str
    chunk: int | None
    record: tuple[str, ...] | None
    batch_size: int | None
    unit: str | None  # what is protected; None: nothing was said
    test: Test

    def describe(self) -> dict[str, Any]:
        """What will be run, as plain values for JSON."""
        return {
            "problem": self.problem.describe(),
            "topology": self.topology.describe(),
            "algorithm": self.algorithm.describe(),
            "noise": self.noise.describe(),
            "rounds": self.rounds,
            "repeats": self.repeats,
            "seed": self.seed,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "unit": self.unit,
            "test_records": 0 if self.test is None else len(self.test[1]),
        }


def build(config: Config) -> Experiment:
    """Make the parts that a configuration names.

    Raises:
        ConfigError: if one part cannot be made from its values.
        IncompatibleChoice: if the parts are valid but not together.
    """
    settings = config.experiment
    records, test = _records(config)
    sizes = [len(part) for part in records[0]]
    problem = _problem(config, records)
    topology, noise = _topology(config.topology, settings.seed, sizes), _noise(config, problem)
    if not config.topology.random_pair:  # its rounds never use all links; the engine checks each of them
        bind(noise, topology.active_links())
    return Experiment(
        problem=problem,
        topology=topology,
        algorithm=_algorithm(config.algorithm),
        noise=noise,
        rounds=settings.rounds,
        repeats=settings.repeats,
        seed=settings.seed,
        dtype=settings.dtype,
        chunk=settings.chunk,
        record=settings.record,
        batch_size=config.algorithm.batch_size,
        unit=None if config.privacy is None else config.privacy.unit,
        test=test,
    )


def _num_agents(section: sections.Topology) -> int:
    match section:
        case sections.GridTopology(rows=rows, columns=columns):
            return rows * columns
        case sections.HypercubeTopology(dimension=dimension):
            return int(2**dimension)
        case _:
            return section.agents


def _topology(section: sections.Topology, experiment_seed: int, sizes: list[int]) -> Topology:
    make = TOPOLOGIES[section.kind]
    match section:
        case sections.FixedTopology():
            topology = make(section.agents, weights=section.weights)
        case sections.GridTopology():
            topology = make(section.rows, section.columns, weights=section.weights)
        case sections.HypercubeTopology():
            topology = make(section.dimension, weights=section.weights)
        case sections.FederationTopology():
            topology = make(section.agents, section.weights, records=sizes if section.weights == "records" else None)
        case sections.ErdosRenyiTopology() | sections.GeometricTopology() | sections.KOutTopology():
            density = {"erdos_renyi": "probability", "geometric": "radius", "k_out": "k"}[section.kind]
            seed = experiment_seed if section.seed is None else section.seed
            topology = make(section.agents, getattr(section, density), seed=seed, weights=section.weights)
    if section.dropout is not None:
        return topology.with_dropout(section.dropout)
    return topology.with_random_pair() if section.random_pair else topology


def _records(config: Config) -> tuple[Records, Test]:
    """The records that agents learn from, and those that they do not."""
    section, seed, num_agents = config.problem, config.experiment.seed, _num_agents(config.topology)
    if isinstance(section, sections.MadeOrLoaded) and section.samples is not None and section.dimension is not None:
        made = synthetic_regression(
            num_agents=num_agents, samples=section.samples, dimension=section.dimension, seed=seed
        )
        return (list(made.features), list(made.targets)), None
    features, targets = load(section.data)
    if section.data in _PUBLIC_BOUNDS:
        features = scale_features(features, _PUBLIC_BOUNDS[section.data])
    if isinstance(section.partition, sections.DirichletPartition):
        alpha = section.partition.alpha
        records = partition(features, targets, num_agents=num_agents, kind="dirichlet", alpha=alpha, seed=seed)
    else:
        records = partition(features, targets, num_agents=num_agents, kind="iid", seed=seed)
    fraction = section.test_fraction if isinstance(section, sections.LogisticProblem) else 0.0
    return _split_off_test(records, fraction, seed)


def _split_off_test(records: Records, fraction: float, seed: int) -> tuple[Records, Test]:
    """Keep this fraction of every agent's records (rounded down, chosen at random) away from learning."""
    if fraction == 0:
        return records, None
    generator = np.random.default_rng([seed, 0x7E57])
    orders = [generator.permutation(len(part)) for part in records[0]]
    held = [int(fraction * len(order)) for order in orders]
    if not any(held):
        raise ConfigError(
            f"test_fraction = {fraction:g} of so few records leaves no record to test on; use a larger fraction, or 0."
        )
    cut = list(zip(*records, orders, held, strict=True))
    learn = [x[order[n:]] for x, _, order, n in cut], [y[order[n:]] for _, y, order, n in cut]
    test = (
        np.concatenate([x[order[:n]] for x, _, order, n in cut]),
        np.concatenate([y[order[:n]] for _, y, order, n in cut]),
    )
    return learn, test


def _problem(config: Config, records: Records) -> Problem:
    section, privacy = config.problem, config.privacy
    make = PROBLEMS[section.kind]
    match section:
        case sections.MeanProblem():
            problem = make(records[0], radius=section.radius)
        case _:
            problem = make(*records, ridge=section.ridge)
    return problem if privacy is None else problem.with_clipping(privacy.clip, privacy.clip_norm)


def _algorithm(section: sections.Algorithm) -> Algorithm:
    make: Callable[..., Algorithm] = ALGORITHMS[section.kind]
    if isinstance(section, sections.DgdAlgorithm):
        return make(step_size=section.step_size, gradient_rounds=section.gradient_rounds, box=section.box)
    return make(step_size=section.step_size)


def _noise(config: Config, problem: Problem) -> Noise:
    section = config.noise
    if isinstance(section, sections.PrescribedNoise):
        return _prescribed(config, section, problem)
    make: Callable[..., Noise] = SCHEMES[section.kind]
    if isinstance(section, sections.NoNoise):
        return make()
    make_law: Callable[..., Law] = LAWS[section.law]
    law = make_law(scale=section.scale) if section.law == "l2_laplace" else make_law(std=section.std)
    if isinstance(section, sections.IndependentNoise):
        return make(law, per_edge=section.per_edge, self_noise=section.self_noise)
    return make(law)


def _prescribed(config: Config, section: sections.PrescribedNoise, problem: Problem) -> Noise:
    """The message of round t + 1 carries the noise of gradient round t; the first one is public, the last ones repeat."""
    algorithm = config.algorithm
    if not isinstance(algorithm, sections.DgdAlgorithm):
        raise IncompatibleChoice(
            f'noise "showkatbakhsh" is prescribed for the two-stage method; the algorithm is "{algorithm.kind}". Use kind = "dgd".'
        )
    levels = showkatbakhsh_schedule(
        epsilon=section.document_epsilon,
        delta=section.document_delta,
        gradient_rounds=algorithm.gradient_rounds,
        step_size=algorithm.step_size,
        sensitivity=problem.sensitivity(unit="record", adjacency="replace", norm="l2"),
    )
    factors = np.zeros(max(config.experiment.rounds, len(levels) + 1))
    factors[1 : len(levels) + 1] = section.multiplier * levels
    return independent(Gaussian(std=1.0)).scaled(factors.tolist())
