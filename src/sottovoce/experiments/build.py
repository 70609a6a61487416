"""From names to things: the only place that looks up what a configuration names, and refuses what does not go together."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sottovoce.accounting.documents import showkatbakhsh_schedule
from sottovoce.accounting.question.participation import Participation, cyclic
from sottovoce.algorithms import ALGORITHMS, Algorithm, Gopa
from sottovoce.clipping import Clip
from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.config import config as sections
from sottovoce.experiments.config import noise as noise_sections
from sottovoce.experiments.config import privacy as privacy_sections
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.privacy import asked, observer_named
from sottovoce.experiments.data import Records, records_of_agents
from sottovoce.experiments.experiment import Budget, Privacy, Test
from sottovoce.experiments.experiment import Experiment as Experiment
from sottovoce.experiments.privacy import calibrated
from sottovoce.linear import check_together
from sottovoce.noise import LAWS, SCHEMES, Gaussian, Law, Noise, bind, independent
from sottovoce.observers import Observer, final_model, view
from sottovoce.problems import PROBLEMS, ConvexSmooth, Problem, classification
from sottovoce.resources import refuse_too_many_rounds
from sottovoce.topologies import TOPOLOGIES, Topology


def build(config: Config) -> Experiment:
    """Make the parts that a configuration names.

    Raises:
        ConfigError: if one part cannot be made from its values.
        IncompatibleChoice: if the parts are valid but not together.
    """
    settings = config.experiment
    refuse_too_many_rounds(settings.rounds)
    records, test = records_of_agents(config.problem, _num_agents(config.topology), settings.seed)
    sizes = [len(part) for part in records[0]]
    problem = _problem(config, records, test)
    topology, noise = _topology(config.topology, settings.seed, sizes), _noise(config, problem)
    privacy = None if config.privacy is None else _privacy(config, config.privacy, problem)
    for observer in () if privacy is None else privacy.observers:
        view(observer, topology)  # refuses one that this topology does not have
    algorithm = _algorithm(config, topology)
    batch_size = config.algorithm.batch_size
    check_together(topology, algorithm, noise, rounds=settings.rounds, problem=problem, batch_size=batch_size)
    if not config.topology.random_pair:  # its rounds never use all links; the engine checks each of them
        bind(noise, topology.active_links())
    experiment = Experiment(
        problem=problem,
        topology=topology,
        algorithm=algorithm,
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
        case _:  # Erdős-Rényi, geometric and k-out graphs are drawn from a seed.
            density = {"erdos_renyi": "probability", "geometric": "radius", "k_out": "k"}[section.kind]
            seed = experiment_seed if section.seed is None else section.seed
            topology = make(section.agents, getattr(section, density), seed=seed, weights=section.weights)
    if section.dropout is not None:
        return topology.with_dropout(section.dropout)
    if section.walk:
        return topology.with_walk()
    return topology.with_random_pair() if section.random_pair else topology


def _problem(config: Config, records: Records, test: Test) -> Problem:
    section, privacy = config.problem, config.privacy
    problem: Problem
    match section:
        case sections.MeanProblem():
            problem = PROBLEMS[section.kind](records[0], radius=section.radius)
        case sections.ClassificationProblem():
            _refuse_promise(config)
            labels = records[1] if test is None else [*records[1], test[1]]
            problem = classification(
                *records,
                model=section.model,
                hidden=section.hidden,
                classes=section.classes or int(max(part.max() for part in labels)) + 1,
                seed=config.experiment.seed if section.seed is None else section.seed,
                ridge=section.ridge,
            )
        case _:
            problem = PROBLEMS[section.kind](*records, ridge=section.ridge)
    if privacy is None or privacy.clips == "update":
        return problem
    return problem.with_clipping(privacy.clip, privacy.clip_norm)


def _refuse_promise(config: Config) -> None:
    """Refuse a promise of convex, smooth losses, which clipped gradients of a classifier do not keep."""
    if config.privacy is not None and config.privacy.losses is not None:
        raise UnsupportedClaim(
            '[privacy] losses: a promise of convex, smooth losses does not hold for kind = "classification": networks are not convex, and '
            "clipped gradients of several classes belong to no known convex loss. Remove losses."
        )


def _algorithm(config: Config, topology: Topology) -> Algorithm:
    section, privacy = config.algorithm, config.privacy
    make: Callable[..., Algorithm] = ALGORITHMS[section.kind]
    match section:
        case sections.InexactAdmmAlgorithm(penalty=penalty, penalty_growth=growth):
            scheduled = penalty if growth == 1 else lambda round_: penalty * growth ** (round_ - 1)
            return make(penalty=scheduled, linearise_at=section.linearise_at)
        case sections.FedavgAlgorithm():
            return make(
                step_size=section.step_size,
                local_steps=section.local_steps,
                server_step_size=section.server_step_size,
                exchange=section.exchange,
                participation=section.participation,
                agents_per_round=section.agents_per_round,
                update_clip=Clip(privacy.clip, privacy.clip_norm)
                if privacy is not None and privacy.clips == "update"
                else None,
                aggregation=_aggregation(section),
            )
        case sections.GossipAlgorithm():
            return make(acceleration=topology.spectral_gap if section.accelerated else None)
        case sections.MuffliatoAlgorithm():
            gap = topology.spectral_gap if section.accelerated else None
            return make(step_size=section.step_size, gossip_steps=section.gossip_steps, acceleration=gap)
        case sections.RandomWalkAlgorithm():
            return make(step_size=section.step_size, contributions=section.contributions)
        case sections.DgdAlgorithm():
            return make(step_size=section.step_size, gradient_rounds=section.gradient_rounds, box=section.box)
        case _:
            return make(step_size=section.step_size)


def _aggregation(section: sections.FedavgAlgorithm) -> Gopa | None:
    if section.aggregation == "open":
        return None
    assert section.partners is not None  # `sections` refuses masks without partners
    return Gopa(
        partners=section.partners,
        pairwise_ratio=math.inf if section.pairwise_ratio is None else section.pairwise_ratio,
        silence=section.silence or 0.0,
        minimum_agents=section.minimum_agents,
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
        same_model=True if section.unit == "agent" and ridge > 0 and section.clips == "records" else None,
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
    elif section.unit == "record" and section.clips == "records" and batch_size is None:
        made.append("every agent's number of records is public: it enters the sensitivity")
    if (
        section.unit == "record"
        and section.clips == "records"
        and batch_size is not None
        and section.participation == "every-round"
    ):
        made.append("any record may be drawn in any round, so the value is an upper bound")
    if section.participation != "every-round":
        made.append("the protected record takes part in no other rounds than promised (promised, not checked)")
    if isinstance(problem, sections.ClassificationProblem) and problem.classes is None:
        made.append("the number of classes is public: it was taken from the labels")
    from_features = section.losses == "problem" and not isinstance(problem, sections.MeanProblem)
    if from_features and not problem.unit_norm:
        made.append(
            "as far as the promise is used: beta was computed from the features at hand and must hold for every record "
            "that could stand in their place (unit_norm = true makes it so)"
        )
    return tuple(made)


def _watched(name: str, listed: Sequence[str]) -> Observer:
    """The budget's observer; whoever reads messages may also get a model that somebody listed is given."""
    observer = observer_named(name)
    released = any(observer_named(one).final_model for one in listed)
    return observer + final_model() if released and observer.sees_messages and not observer.final_model else observer
