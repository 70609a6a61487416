"""From names to things: the parts that a configuration names, made by its tables, and refused where they do not go together."""

from collections.abc import Sequence
from dataclasses import replace

from sottovoce.accounting import Participation, cyclic
from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import LawSection, NoiseSection, PrescribedNoise
from sottovoce.experiments.config.privacy import CyclicSection, PrivacySection, PromiseSection, asked
from sottovoce.experiments.config.problem import ClassificationProblem, Records, Test
from sottovoce.experiments.config.topology import FederationTopology
from sottovoce.experiments.data import records_of_agents
from sottovoce.experiments.experiment import Budget, Experiment, Privacy
from sottovoce.experiments.privacy import calibrated
from sottovoce.linear import check_together
from sottovoce.noise import Noise, bind
from sottovoce.observers import Observer, final_model, observer_named, view
from sottovoce.problems import ConvexSmooth, Problem
from sottovoce.resources import refuse_too_many_rounds


def build(config: Config) -> Experiment:
    """Make the parts that a configuration names.

    Raises:
        ConfigError: if one part cannot be made from its values.
        IncompatibleChoice: if the parts are valid but not together.
    """
    settings = config.experiment
    refuse_too_many_rounds(settings.rounds)
    records, test = records_of_agents(config.problem, config.topology.num_agents, settings.seed)
    sizes = [len(part) for part in records[0]]
    problem = _problem(config, records, test)
    topology = config.topology.topology(seed=settings.seed, sizes=sizes)
    noise = _noise(config, problem)
    privacy = None if config.privacy is None else _privacy(config, config.privacy, problem)
    for observer in () if privacy is None else privacy.observers:
        view(observer, topology)  # refuses one that this topology does not have
    algorithm = config.algorithm.algorithm(topology, config.privacy)
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


def _problem(config: Config, records: Records, test: Test) -> Problem:
    privacy = config.privacy
    if config.problem.kind == "classification":
        _refuse_promise(config)
    problem = config.problem.problem(records, test, seed=config.experiment.seed)
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
    change = problem.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=algorithm.batch_size)
    return section.levels(algorithm, rounds=config.experiment.rounds, sensitivity=change)


def _calibrated(experiment: Experiment, section: NoiseSection) -> Experiment:
    """The experiment with the noise that its file gives by an epsilon; any other one is unchanged."""
    if not isinstance(section, LawSection) or section.epsilon is None:
        return experiment
    assert experiment.privacy is not None  # `sections` refuses an epsilon without observers
    delta = experiment.privacy.delta if section.delta is None else section.delta
    first = experiment.privacy.observers[0]
    noise = calibrated(experiment, first, epsilon=section.epsilon, delta=0.0 if delta is None else delta)
    return replace(experiment, noise=noise)


def _privacy(config: Config, section: PrivacySection, problem: Problem) -> Privacy:
    noise, budget = config.noise, section.budget
    delta = section.delta
    if delta is None and isinstance(noise, LawSection):
        delta = noise.delta
    # 2C bounds what data do to a gradient; the ridge is no data, but its gradient moves with the model.
    return Privacy(
        unit=section.unit,
        adjacency=section.adjacency,
        delta=delta,
        observers=tuple(asked([observer_named(name) for name in section.observers or ()])),
        losses=_losses(section, problem),
        participation=_participation(section),
        same_model=True
        if section.unit == "agent" and config.problem.ridge > 0 and section.clips == "records"
        else None,
        budget=None
        if budget is None
        else Budget(
            epsilon=budget.epsilon,
            observer=_watched(budget.observer, section.observers or ()),
            until_spent=budget.until_spent,
        ),
        premises=_premises(config, section),
    )


def _losses(section: PrivacySection, problem: Problem) -> ConvexSmooth | None:
    if isinstance(section.losses, PromiseSection):
        return ConvexSmooth(section.losses.beta, section.losses.nu)
    if section.losses == "problem" and problem.losses is None:
        raise UnsupportedClaim(
            f"[privacy] losses: '{problem.kind}' with gradients clipped in {section.clip_norm} can promise nothing about its losses. "
            f"Remove losses, clip in l2, or make the promise yourself: losses = {{ beta = .., nu = .. }}."
        )
    return problem.losses if section.losses == "problem" else None


def _participation(section: PrivacySection) -> Participation:
    given = section.participation
    return cyclic(given.times, given.gap) if isinstance(given, CyclicSection) else given


def _premises(config: Config, section: PrivacySection) -> tuple[str, ...]:
    """What guarantees rest on beyond the account itself: what is public, and where promises come from."""
    problem = config.problem
    made = _premises_about_records(config, section)
    if section.participation != "every-round":
        made.append("the protected record takes part in no other rounds than promised (promised, not checked)")
    if isinstance(problem, ClassificationProblem) and problem.classes is None:
        made.append("the number of classes is public: it was taken from the labels")
    if section.losses == "problem" and problem.kind != "mean_estimation" and not problem.unit_norm:
        made.append(
            "as far as the promise is used: beta was computed from the features at hand and must hold for every record "
            "that could stand in their place (unit_norm = true makes it so)"
        )
    return tuple(made)


def _premises_about_records(config: Config, section: PrivacySection) -> list[str]:
    """What is public of the agents' numbers of records, and how often one of them is used."""
    made, batches = [], config.algorithm.batch_size is not None
    one_record = section.unit == "record" and section.clips == "records"
    if isinstance(config.topology, FederationTopology) and config.topology.weights == "records":
        made.append("every agent's number of records is public: it sets the agent's weight")
    elif one_record and not batches:
        made.append("every agent's number of records is public: it enters the sensitivity")
    if one_record and batches and section.participation == "every-round":
        made.append("any record may be drawn in any round, so the value is an upper bound")
    return made


def _watched(name: str, listed: Sequence[str]) -> Observer:
    """The budget's observer; whoever reads messages may also get a model that somebody listed is given."""
    observer = observer_named(name)
    released = any(observer_named(one).final_model for one in listed)
    return observer + final_model() if released and observer.sees_messages and not observer.final_model else observer
