"""From names to things: the only place that looks up what a configuration names, and refuses what does not go together."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.accounting.documents import showkatbakhsh_schedule
from sottovoce.algorithms import ALGORITHMS, Algorithm
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments import noise_sections, sections
from sottovoce.experiments.sections import Config
from sottovoce.noise import LAWS, SCHEMES, Gaussian, Law, Noise, bind, independent
from sottovoce.problems import (
    LOADERS,
    PROBLEMS,
    Problem,
    add_feature_noise,
    add_intercept,
    load,
    load_points,
    partition,
    public_bounds,
    scale_features,
    split,
    synthetic_clicks,
    synthetic_regression,
    truncated_gaussian,
    unit_norm,
)
from sottovoce.topologies import TOPOLOGIES, Topology

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
            "noise": self.noise.describe(self.rounds),
            "rounds": self.rounds,
            "repeats": self.repeats,
            "seed": self.seed,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "unit": self.unit,
            "data_digest": _digest(self.problem, self.test),
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
        record=None if settings.record is None else tuple(settings.record),
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
    features, targets = _made(section, num_agents, seed) or _dealt_out(section, num_agents, seed)
    if not isinstance(section, sections.MeanProblem) and section.feature_noise is not None:
        features = add_feature_noise(features, std=section.feature_noise, seed=seed)
    if section.unit_norm:
        features = [unit_norm(part) for part in features]
    if not isinstance(section, sections.MeanProblem) and section.intercept:
        features = [add_intercept(part, keep_norm=section.unit_norm) for part in features]
    fraction = section.test_fraction if isinstance(section, sections.LogisticProblem) else 0.0
    if fraction == 0:
        return (features, targets), None
    return split(features, targets, test_fraction=fraction, seed=seed)


def _made(section: sections.Problem, num_agents: int, seed: int) -> Records | None:
    """Synthetic records made for each agent; None when the data are one set to be dealt out."""
    if isinstance(section, sections.LogisticProblem) or section.samples is None or section.dimension is None:
        return None
    samples, dimension = section.samples, section.dimension
    if section.data == "truncated_gaussian" and isinstance(section, sections.MeanProblem):
        points = truncated_gaussian(
            num_agents=num_agents, samples=samples, dimension=dimension, radius=section.radius, seed=seed
        )
        return list(points), [np.zeros(samples)] * num_agents
    made = synthetic_regression(num_agents=num_agents, samples=samples, dimension=dimension, seed=seed)
    return list(made.features), list(made.targets)


def _dealt_out(section: sections.Problem, num_agents: int, seed: int) -> Records:
    features, targets = _whole(section, seed)
    if section.bounds is not None:
        features = scale_features(features, section.bounds)
    elif section.data in LOADERS:  # scaling by the data themselves would leak them: these bounds are known beforehand
        features = scale_features(features, public_bounds(section.data))
    options = {"kind": "iid"} if section.partition is None else section.partition.model_dump()
    return partition(features, targets, num_agents=num_agents, seed=seed, **options)


def _whole(section: sections.Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One data set, not yet split: features [N, d] and targets [N]."""
    if isinstance(section, sections.LogisticProblem) and section.records is not None:
        return synthetic_clicks(num_records=section.records, seed=seed)
    if isinstance(section, sections.MeanProblem):
        points, labels = load_points(section.data, target=section.target)
        return points, np.zeros(len(points)) if labels is None else labels
    return load(section.data, target=section.target)


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
    if isinstance(section, noise_sections.PrescribedNoise):
        return _prescribed(config, section, problem)
    make: Callable[..., Noise] = SCHEMES[section.kind]
    if isinstance(section, noise_sections.NoNoise):
        return make()
    make_law: Callable[..., Law] = LAWS[section.law]
    law = make_law(scale=section.scale) if section.law == "l2_laplace" else make_law(std=section.std)
    if isinstance(section, noise_sections.IndependentNoise):
        return make(law, per_edge=section.per_edge, self_noise=section.self_noise)
    if isinstance(section, noise_sections.GopaNoise):
        return make(law, pairwise_std=section.pairwise_std)
    return make(law)


def _prescribed(config: Config, section: noise_sections.PrescribedNoise, problem: Problem) -> Noise:
    """The message of round t + 1 carries the noise of gradient round t; the first one is public, the last ones repeat."""
    algorithm = config.algorithm
    if not isinstance(algorithm, sections.DgdAlgorithm):
        raise IncompatibleChoice(
            f'noise "showkatbakhsh" is prescribed for the two-stage method; the algorithm is "{algorithm.kind}". Use kind = "dgd".'
        )
    if config.privacy is not None and config.privacy.unit != "record":
        raise IncompatibleChoice(
            f'noise "showkatbakhsh" is computed for one record; [privacy] unit is "{config.privacy.unit}". Use unit = "record".'
        )
    levels = showkatbakhsh_schedule(
        epsilon=section.document_epsilon,
        delta=section.document_delta,
        gradient_rounds=algorithm.gradient_rounds,
        step_size=algorithm.step_size,
        sensitivity=problem.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=algorithm.batch_size),
    )
    factors = np.zeros(max(config.experiment.rounds, len(levels) + 1))
    factors[1 : len(levels) + 1] = levels
    return independent(Gaussian(std=1.0)).scaled(factors.tolist())


def _digest(problem: Problem, test: Test) -> str:
    """A fingerprint of the records, so that a run is not continued on other data."""
    digest = hashlib.sha256()
    for array in (*problem.arrays.values(), *(test or ())):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
