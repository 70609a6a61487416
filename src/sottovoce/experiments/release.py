"""What a model that is meant for release gives away, settled before anything is drawn.

A simulation may rest on what nobody would promise to strangers; a release may not:

    records are dealt out evenly by their places, never by their labels: a label would decide where other records are
    classes are declared, never found in the labels
    how many numbers a record has is said by the file's form, never found as the largest index in any record
    no promise about losses is used: what is proven in whole numbers needs none

Nobody but the owner sees a message, so the observer is whoever gets the model. Where a file gives the noise by an epsilon, that epsilon holds for
them, with all that whole numbers cost.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sottovoce.accounting import Guarantee
from sottovoce.deployment.agent import check_deployable
from sottovoce.deployment.privacy import Cost, Deployed
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.config.algorithm import FedavgAlgorithm
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import LawSection
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.problem import (
    ClassificationProblem,
    DirichletPartition,
    IidPartition,
    LabelPartition,
    ProblemTable,
)
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import stated_delta
from sottovoce.experiments.whole_numbers import (
    Watchers,
    calibrated_for,
    chosen_fraction_bits,
    deployed_guarantees,
    public_run,
)
from sottovoce.problems import ARRAY_FILES, LIBSVM_FILES, files_of
from sottovoce.rounding import shown
from sottovoce.wording import brief

DEALT = (
    "Records are dealt out evenly and at random, not by their labels as [problem] partition says: by labels, one label would decide where other "
    "records are, and no released guarantee may rest on that."
)
CENTRAL = (
    "On one machine the relay is the owner's own: noise.kind=central adds one source to every average in place of one per agent, and needs less for "
    "the same epsilon."
)
ONCE = "One model is trained: [experiment] repeats does not apply."
LARGE_DELTA = "delta is not below 1 / records: a method that gives away one record whole, drawn at random, would meet such a promise too."
# One machine, and a model that leaves it.
_WHO = Watchers(collude="nobody", relay_trusted=True, released_to="public")


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
    def releasable(self) -> bool:
        """Whether anything is hidden from whoever gets the model, at the delta that is stated."""
        return math.isfinite(self.guarantee.epsilon(stated_delta(self.experiment)))

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
        notes=(*notes, *_of_noise(experiment), *_of_numbers(found), *_of_delta(experiment)),
    )  # fmt: skip
    _refuse_own_budget(config, ready)
    return ready


def _for_release(config: Config) -> tuple[Config, list[str]]:
    """The configuration as a release takes it, and what that leaves out."""
    problem, notes, changes = config.problem, list[str](), dict[str, Any]()
    changes["privacy"] = _protection(config)
    if isinstance(problem, ClassificationProblem) and problem.classes is None and problem.declared_classes is None:
        raise ConfigError(
            "[problem] classes: how many there are would be read off the labels, which a release must not. Write classes, or declare labels."
        )
    _refuse_largest_index(problem)
    _refuse_masks(config)
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


def _refuse_largest_index(problem: ProblemTable) -> None:
    """Refuse files in which one record can decide how many parameters a model has, which everybody who gets it can count."""
    if problem.is_public or problem.declared_schema() is not None:
        return
    files = files_of(list(problem.sources), ARRAY_FILES) if problem.many else [Path(problem.name)]
    found = [path for path in files if path.suffix.lower() in LIBSVM_FILES]
    if found:
        raise ConfigError(
            f"[problem] data = {brief(str(found[0]), 200)!r}: in a LIBSVM file the largest index of any record says how many parameters a model has, so "
            f"that one record can show in their number, whatever noise is added. Write the records as .npz or .csv, whose columns are the same for all."
        )


def _refuse_masks(config: Config) -> None:
    """Refuse masks between agents, and say what to train with instead."""
    if isinstance(config.algorithm, FedavgAlgorithm) and config.algorithm.aggregation == "gopa":
        raise IncompatibleChoice(
            "[algorithm] aggregation: masks hide what agents send from a relay, and on one machine nobody reads it; left out, every agent's own noise "
            "would have to protect its records alone. Let one source protect all of them: add to the command noise.kind=central "
            "algorithm.aggregation=~ algorithm.partners=~"
        )


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
    if isinstance(section, LawSection) and section.epsilon is not None:
        return calibrated_for(experiment, section, _WHO)
    f = chosen_fraction_bits(experiment, _WHO)
    return experiment, f, deployed_guarantees(experiment, _WHO, fraction_bits=f)


def _of_numbers(found: tuple[Deployed, ...]) -> tuple[str, ...]:
    """What whole numbers cost where they cost most."""
    return max(found, key=lambda one: one.rounding).notes


def _of_noise(experiment: Experiment) -> tuple[str, ...]:
    """A way to the same epsilon with less noise, where there is one."""
    noise = experiment.noise
    local = noise.law is not None and not noise.needs_relay and not noise.in_gradients
    return (CENTRAL,) if local and experiment.topology.relay else ()


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
