"""What a model that is meant for release gives away, settled before anything is drawn.

A simulation may rest on what nobody would promise to strangers; a release may not:

    records are dealt out evenly by their places, never by their labels: a label would decide where other records are
    classes are declared, never found in the labels
    no promise about losses is used: what is proven in whole numbers needs none

Nobody but the owner sees a message, so the observer is whoever gets the model. Where a file gives the noise by an epsilon, that epsilon holds for
them, with all that whole numbers cost.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.accounting import Guarantee, gaussian
from sottovoce.deployment.agent import check_deployable
from sottovoce.deployment.privacy import Cost, Deployed, choose_fraction_bits, deployed_guarantee, gradient_arithmetic
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import LawSection
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.problem import ClassificationProblem, DirichletPartition, IidPartition, LabelPartition
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import sensitivities, size, stated_delta
from sottovoce.noise import Noise
from sottovoce.problems import Sensitivity
from sottovoce.rounding import shown, upwards

DEALT = (
    "Records are dealt out evenly and at random, not by their labels as [problem] partition says: by labels, one label would decide where other "
    "records are, and no released guarantee may rest on that."
)
ONCE = "One model is trained: [experiment] repeats does not apply."
LARGE_DELTA = "delta is not below 1 / records: a method that gives away one record whole, drawn at random, would meet such a promise too."
_DIGITS = 7  # a calibrated size has no more, as in calibrations of simulated runs
_FINE = 30  # fraction bits for a first guess with noise of size one
_SLACK = 1e-6  # relative, by which calibrated noise is larger than it has to be
_CLOSE = 1e-4  # an epsilon that is smaller by this share of it is met well enough
_MOST_TRIES = 20
_WHO: Any = {
    "collude": "nobody",
    "relay_trusted": True,
    "released_to": "public",
}  # one machine, and a model that leaves it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """A training that is ready to begin, and what its model gives away.

    Attributes:
        config: of the training, without what does not apply to a release.
        experiment: made of it, with the noise that will be drawn.
        run: its public parts.
        fraction_bits: f of the lattice 2^-f.
        agents: what the model gives away of each agent's records.
        notes: what is done otherwise than the file says, and what whole numbers cost.
    """

    config: Config
    experiment: Experiment
    run: PublicRun
    fraction_bits: int
    agents: tuple[Deployed, ...]
    notes: tuple[str, ...]

    @property
    def guarantee(self) -> Guarantee:
        """For whoever gets the model, about the agent of whose records it tells most."""
        delta, privacy = stated_delta(self.experiment), self.experiment.privacy
        worst = max((one.guarantee for one in self.agents), key=lambda found: found.epsilon(delta))
        premises = () if privacy is None or worst.validity == "infinite" else privacy.premises
        return replace(worst, observer="final model", assumptions=(*worst.assumptions, *premises))

    @property
    def cost(self) -> Cost:
        """A record is at one agent, so the whole data set pays what the worst of them does."""
        return worst_of([one.cost for one in self.agents])

    def cost_at(self, delta: float) -> Cost:
        """The cost as one pair (epsilon, delta)."""
        return worst_of([one.cost_at(delta) for one in self.agents])


def worst_of(costs: list[Cost]) -> Cost:
    """What covers each of several costs of one kind; infinite where one of them is, or where kinds differ."""
    if len({cost.kind for cost in costs}) != 1 or costs[0].kind == "infinite":
        return Cost.infinite()
    return Cost(
        kind=costs[0].kind,
        value=max(cost.value for cost in costs),
        total_variation=max(cost.total_variation for cost in costs),
        at_delta=max(cost.at_delta for cost in costs),
    )


def prepare_release(config: Config) -> Release:
    """Make the parts of a training, and prove what its model will give away.

    Raises:
        BudgetExhausted: more than the budget in [privacy].
        ConfigError: something that decides privacy is not said.
        IncompatibleChoice: the parts cannot be carried out in whole numbers, or not as promised.
        UnsupportedClaim: nothing is proved for it.
    """
    asked, notes = _for_release(config)
    experiment = build(asked)
    check_deployable(public_run(experiment), relay_trusted=True)
    experiment, f, found = _calibrated(experiment, config)
    ready = Release(
        config=asked, experiment=experiment, run=public_run(experiment), fraction_bits=f, agents=found,
        notes=(*notes, *_of_numbers(found), *_of_delta(experiment)),
    )  # fmt: skip
    _refuse_own_budget(config, ready)
    return ready


def public_run(experiment: Experiment) -> PublicRun:
    """The public parts of an experiment."""
    return PublicRun(
        topology=experiment.topology,
        algorithm=experiment.algorithm,
        noise=experiment.noise,
        rounds=experiment.rounds,
        batch_size=experiment.batch_size,
        initial_model=experiment.problem.initial_model,
    )


def _for_release(config: Config) -> tuple[Config, list[str]]:
    """The configuration as a release takes it, and what that leaves out."""
    problem, notes, changes = config.problem, list[str](), dict[str, Any]()
    changes["privacy"] = _protection(config)
    if isinstance(problem, ClassificationProblem) and problem.classes is None and problem.declared_classes is None:
        raise ConfigError(
            "[problem] classes: how many there are would be read off the labels, which a release must not. Write classes, or declare labels."
        )
    if isinstance(problem.partition, DirichletPartition | LabelPartition):
        dealt = IidPartition(kind="iid", min_partition_size=problem.partition.min_partition_size)
        changes["problem"] = problem.model_copy(update={"partition": dealt})
        notes.append(DEALT)
    if config.experiment.repeats > 1:
        notes.append(ONCE)
    changes["experiment"] = config.experiment.model_copy(update={"repeats": 1, "record": None})
    if isinstance(config.noise, LawSection) and config.noise.epsilon is not None:
        # Of size one until it is calibrated for whoever gets the model, which is not whom a simulation calibrates for.
        unit = {"epsilon": None, "delta": None, config.noise.size_key: 1.0}
        changes["noise"] = config.noise.model_copy(update=unit)
    return config.model_copy(update=changes), notes


def _protection(config: Config) -> PrivacySection:
    """What is protected, from whoever gets the model."""
    privacy, noise = config.privacy, config.noise
    if privacy is None:
        raise ConfigError(
            "nothing is said about privacy, so that no model may be released. Add a section [privacy] with unit, clip, clip_norm and delta."
        )
    if privacy.adjacency != "replace":
        raise UnsupportedClaim(
            f'[privacy] adjacency = "{privacy.adjacency}": in whole numbers nothing is proved for records that are added or removed. Use "replace".'
        )
    if privacy.participation != "every-round":
        raise IncompatibleChoice(
            "[privacy] participation promises that a record enters some rounds only, and training uses every record in every round, or draws among "
            "all. Remove participation."
        )
    delta = privacy.delta if privacy.delta is not None or not isinstance(noise, LawSection) else noise.delta
    return privacy.model_copy(update={"observers": ["final_model"], "losses": None, "budget": None, "delta": delta})


def _calibrated(experiment: Experiment, config: Config) -> tuple[Experiment, int, tuple[Deployed, ...]]:
    """The experiment with the noise that meets the file's epsilon for whoever gets the model, or with the file's noise; and what it gives away."""
    section = config.noise
    if not isinstance(section, LawSection) or section.epsilon is None:
        f = _resolution(experiment)
        return experiment, f, _accounted(experiment, f)
    delta = section.delta if section.delta is not None else stated_delta(experiment)
    found, factor = _accounted(experiment, _FINE), 1.0
    for _ in range(_MOST_TRIES):
        _refuse_infinite(found, section.epsilon)
        factor *= _missing(found, section.epsilon, delta)
        tried = replace(experiment, noise=_of_few_digits(experiment.noise, factor))
        f = _resolution(tried)
        found = _accounted(tried, f)
        reached = max(one.guarantee.epsilon(delta) for one in found) / section.epsilon
        if 1.0 - _CLOSE <= reached <= 1.0:
            return tried, f, found
    raise UnsupportedClaim(
        f"[noise] epsilon = {section.epsilon:g} at delta = {delta:g}: whole numbers cost more than larger noise gives back. Write std, the size of "
        f"the noise, in place of epsilon."
    )


def _missing(found: tuple[Deployed, ...], epsilon: float, delta: float) -> float:
    """By how much noise has to grow, about: mu and pure epsilons fall as it grows, and a composed epsilon nearly so."""
    cost = worst_of([one.cost for one in found])
    if cost.kind == "gaussian":
        return (1.0 + _SLACK) * cost.value / gaussian.mu(epsilon, delta)
    return (1.0 + _SLACK) * max(one.guarantee.epsilon(delta) for one in found) / epsilon


def _refuse_infinite(found: tuple[Deployed, ...], epsilon: float) -> None:
    reasons = [one.guarantee.reason for one in found if one.cost.kind == "infinite"]
    if reasons:
        raise UnsupportedClaim(
            f"[noise] epsilon = {epsilon:g}: no size of this noise gives whoever gets the model a finite epsilon. {reasons[0]}"
        )


def _of_few_digits(noise: Noise, factor: float) -> Noise:
    """The noise times a factor, its size rounded up so that it can be copied without loss."""
    law = noise.law
    assert law is not None  # a section with an epsilon has a law
    return noise.scaled(upwards(size(law) * factor, _DIGITS) / size(law))


def _changes(experiment: Experiment) -> list[Sensitivity]:
    """[K] what the protected unit can change at every agent, with what that holds for."""
    privacy, clipped = experiment.privacy, experiment.algorithm.clipped_update
    assert privacy is not None  # checked by `_protection`
    found = sensitivities(experiment)
    norm = "l2" if clipped is None else clipped.clip.norm
    # What is clipped as a whole is bounded whatever the data are, so that its bound is a plain number.
    return [
        one if isinstance(one, Sensitivity)
        else Sensitivity(one, unit=privacy.unit, adjacency=privacy.adjacency, norm=norm, compares="any two models")
        for one in found
    ]  # fmt: skip


def _resolution(experiment: Experiment) -> int:
    """Fraction bits with which rounding costs little at every agent: it costs most where records move least."""
    changes = _changes(experiment)
    agent = min(range(len(changes)), key=lambda k: float(changes[k]))
    arithmetic = gradient_arithmetic(experiment.problem, batch_size=experiment.batch_size, agent=agent)
    return choose_fraction_bits(
        public_run(experiment), agent=agent, sensitivity=changes[agent], arithmetic=arithmetic, **_WHO
    )


def _accounted(experiment: Experiment, fraction_bits: int) -> tuple[Deployed, ...]:
    """What the model gives away of every agent's records."""
    run, privacy = public_run(experiment), experiment.privacy
    assert privacy is not None  # checked by `_protection`
    return tuple(
        deployed_guarantee(
            run,
            agent=agent,
            sensitivity=change,
            arithmetic=gradient_arithmetic(experiment.problem, batch_size=run.batch_size, agent=agent),
            fraction_bits=fraction_bits,
            losses=None,
            unit=privacy.unit,
            adjacency=privacy.adjacency,
            **_WHO,
        )
        for agent, change in enumerate(_changes(experiment))
    )


def _of_numbers(found: tuple[Deployed, ...]) -> tuple[str, ...]:
    """What whole numbers cost where they cost most."""
    return max(found, key=lambda one: one.rounding).notes


def _of_delta(experiment: Experiment) -> tuple[str, ...]:
    return (LARGE_DELTA,) if stated_delta(experiment) * float(sum(experiment.problem.sizes)) >= 1 else ()


def _refuse_own_budget(config: Config, ready: Release) -> None:
    """Refuse a model that tells its receivers more than the file allows anybody to learn."""
    budget = None if config.privacy is None else config.privacy.budget
    if budget is None:
        return
    delta = stated_delta(ready.experiment)
    needed = ready.guarantee.epsilon(delta)
    if needed > budget.epsilon:
        told = "an infinite epsilon" if math.isinf(needed) else f"epsilon = {shown(needed, 6)} at delta = {delta:g}"
        raise BudgetExhausted(
            f"whoever gets the model would have {told}; [privacy] budget allows {budget.epsilon:g}. Use more noise or fewer rounds, or a larger "
            f"budget. Nothing was trained."
        )
