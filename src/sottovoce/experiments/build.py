"""From names to things: the only place that looks up what a configuration names, and refuses what does not go together."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sottovoce.accounting.documents import showkatbakhsh_schedule
from sottovoce.accounting.participation import Participation, cyclic
from sottovoce.algorithms import ALGORITHMS, Algorithm
from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import noise_sections, privacy_sections, sections
from sottovoce.experiments.experiment import Budget, Privacy, Test
from sottovoce.experiments.experiment import Experiment as Experiment
from sottovoce.experiments.privacy import calibrated
from sottovoce.experiments.privacy_sections import asked, observer_named
from sottovoce.experiments.sections import Config
from sottovoce.noise import LAWS, SCHEMES, Gaussian, Law, Noise, bind, independent
from sottovoce.observers import Observer, final_model, view
from sottovoce.problems import (
    LOADERS,
    PROBLEMS,
    ConvexSmooth,
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
    _refuse_unequal_models(config.algorithm, topology)
    privacy = None if config.privacy is None else _privacy(config, config.privacy, problem)
    for observer in () if privacy is None else privacy.observers:
        view(observer, topology)  # refuses one that this topology does not have
    if not config.topology.random_pair:  # its rounds never use all links; the engine checks each of them
        bind(noise, topology.active_links())
    experiment = Experiment(
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
        privacy=privacy,
        test=test,
    )
    return _calibrated(experiment, config.noise)


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
    match section:
        case sections.InexactAdmmAlgorithm():
            return make(penalty=section.penalty, linearise_at=section.linearise_at)
        case sections.FedavgAlgorithm():
            return make(
                step_size=section.step_size,
                local_steps=section.local_steps,
                server_step_size=section.server_step_size,
                exchange=section.exchange,
            )
        case sections.DgdAlgorithm():
            return make(step_size=section.step_size, gradient_rounds=section.gradient_rounds, box=section.box)
        case _:
            return make(step_size=section.step_size)


def _refuse_unequal_models(section: sections.Algorithm, topology: Topology) -> None:
    """Refuse, without a relay, what is only right when all agents receive the same average."""
    gradients = isinstance(section, sections.FedavgAlgorithm) and section.exchange == "gradient"
    if topology.relay or not (gradients or isinstance(section, sections.InexactAdmmAlgorithm)):
        return
    what = 'exchange = "gradient"' if gradients else f'kind = "{section.kind}"'
    raise IncompatibleChoice(
        f'[algorithm] {what} needs agents that all receive the same average; "{topology.name}" has no relay. Use topology.kind = '
        f'"federation", or kind = "fedavg" with exchange = "model".'
    )


def _noise(config: Config, problem: Problem) -> Noise:
    section = config.noise
    if isinstance(section, noise_sections.PrescribedNoise):
        return _prescribed(config, section, problem)
    make: Callable[..., Noise] = SCHEMES[section.kind]
    if isinstance(section, noise_sections.NoNoise):
        return make()
    make_law: Callable[..., Law] = LAWS[section.law]
    size = (
        section.scale if section.law == "l2_laplace" else section.std
    ) or 1.0  # of the unit law until it is calibrated
    law = make_law(scale=size) if section.law == "l2_laplace" else make_law(std=size)
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


def _calibrated(experiment: Experiment, section: noise_sections.Noise) -> Experiment:
    """The experiment with the noise that its file gives by an epsilon; any other one is unchanged."""
    if not isinstance(section, noise_sections.LawSection) or section.epsilon is None:
        return experiment
    assert experiment.privacy is not None  # `sections` refuses an epsilon without observers
    delta = experiment.privacy.delta if section.delta is None else section.delta
    first = experiment.privacy.observers[0]
    noise = calibrated(experiment, first, epsilon=section.epsilon, delta=0.0 if delta is None else delta)
    return replace(experiment, noise=noise)


def _privacy(config: Config, section: sections.PrivacySection, problem: Problem) -> Privacy:
    noise, budget = config.noise, section.budget
    delta = section.delta
    if delta is None and isinstance(noise, noise_sections.LawSection):
        delta = noise.delta
    # 2C bounds what data do to a gradient; the ridge is no data, but its gradient moves with the model.
    ridge = 0.0 if isinstance(config.problem, sections.MeanProblem) else config.problem.ridge
    return Privacy(
        unit=section.unit,
        adjacency=section.adjacency,
        delta=delta,
        observers=tuple(asked([observer_named(name) for name in section.observers or ()])),
        losses=_losses(section, problem),
        participation=_participation(section),
        same_model=True if section.unit == "agent" and ridge > 0 else None,
        budget=None
        if budget is None
        else Budget(
            epsilon=budget.epsilon,
            observer=_watched(budget.observer, section.observers or ()),
            until_spent=budget.until_spent,
        ),
        premises=_premises(config, section),
    )


def _losses(section: sections.PrivacySection, problem: Problem) -> ConvexSmooth | None:
    if isinstance(section.losses, privacy_sections.PromiseSection):
        return ConvexSmooth(section.losses.beta, section.losses.nu)
    if section.losses == "problem" and problem.losses is None:
        raise UnsupportedClaim(
            f"[privacy] losses: '{problem.kind}' with gradients clipped in {section.clip_norm} can promise nothing about its losses. "
            f"Remove losses, clip in l2, or make the promise yourself: losses = {{ beta = .., nu = .. }}."
        )
    return problem.losses if section.losses == "problem" else None


def _participation(section: sections.PrivacySection) -> Participation:
    given = section.participation
    return cyclic(given.times, given.gap) if isinstance(given, privacy_sections.CyclicSection) else given


def _premises(config: Config, section: sections.PrivacySection) -> tuple[str, ...]:
    """What guarantees rest on beyond the account itself: what is public, and where promises come from."""
    made, problem, batch_size = [], config.problem, config.algorithm.batch_size
    if isinstance(config.topology, sections.FederationTopology) and config.topology.weights == "records":
        made.append("every agent's number of records is public: it sets the agent's weight")
    elif section.unit == "record" and batch_size is None:
        made.append("every agent's number of records is public: it enters the sensitivity")
    if section.unit == "record" and batch_size is not None and section.participation == "every-round":
        made.append("any record may be drawn in any round, so the value is an upper bound")
    if section.participation != "every-round":
        made.append("the protected record takes part in no other rounds than promised (promised, not checked)")
    from_features = section.losses == "problem" and not isinstance(problem, sections.MeanProblem)
    if from_features and not problem.unit_norm:
        made.append(
            "as far as the promise is used: beta was computed from the features at hand and must hold for every record that could stand in their place (unit_norm = true "
            "makes it so)"
        )
    return tuple(made)


def _watched(name: str, listed: Sequence[str]) -> Observer:
    """The budget's observer; whoever reads messages may also get a model that somebody listed is given."""
    observer = observer_named(name)
    released = any(observer_named(one).final_model for one in listed)
    return observer + final_model() if released and observer.sees_messages and not observer.final_model else observer
