"""What is protected, from whom, and under which promises: the table [privacy] of a file, with what the other tables say about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce.accounting import Participation, cyclic
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import LawSection
from sottovoce.experiments.config.privacy import CyclicSection, PrivacySection, PromiseSection, asked
from sottovoce.experiments.config.problem import ClassificationProblem, DirichletPartition, LabelPartition
from sottovoce.experiments.config.topology import FederationTopology
from sottovoce.observers import Observer, final_model, observer_named
from sottovoce.problems import Adjacency, Batch, ConvexSmooth, Problem, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that one observer may learn."""

    epsilon: float
    observer: Observer
    until_spent: bool  # run as many rounds as fit instead of refusing the run

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"epsilon": self.epsilon, "observer": self.observer.name, "until_spent": self.until_spent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """What is protected, from whom, and under which promises."""

    unit: Unit
    adjacency: Adjacency
    delta: float | None  # None: epsilon is stated for delta = 0, which the Laplace laws allow
    observers: tuple[Observer, ...]  # who is answered for, in this order; empty: nobody
    losses: ConvexSmooth | None
    participation: Participation
    same_model: bool | None  # passed on to `account`
    budget: Budget | None
    premises: tuple[str, ...]  # what a guarantee rests on beyond what the accountant says itself

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        takes_part = self.participation if isinstance(self.participation, str) else asdict(self.participation)
        return {
            "unit": self.unit,
            "adjacency": self.adjacency,
            "delta": self.delta,
            "observers": [observer.name for observer in self.observers],
            "losses": None if self.losses is None else {"beta": self.losses.beta, "nu": self.losses.nu},
            "participation": takes_part,
            "budget": None if self.budget is None else self.budget.describe(),
        }


def protection(config: Config, problem: Problem) -> Privacy | None:
    """What a configuration says about privacy; None where it says nothing.

    Raises:
        UnsupportedClaim: the problem is asked for a promise about its losses, and can make none.
    """
    section, noise = config.privacy, config.noise
    if section is None:
        return None
    budget = section.budget
    delta = section.delta
    if delta is None and isinstance(noise, LawSection):
        delta = noise.delta
    # 2C bounds what data do to a gradient; the ridge is no data, but its gradient moves with the model.
    return Privacy(
        unit=section.unit,
        adjacency=section.adjacency,
        delta=delta,
        observers=tuple(asked([observer_named(name) for name in section.observers or ()])),
        losses=_losses(section, problem, config.algorithm.turns),
        participation=_participation(config, section),
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


def _losses(section: PrivacySection, problem: Problem, batch: Batch | None) -> ConvexSmooth | None:
    if isinstance(section.losses, PromiseSection):
        return ConvexSmooth(section.losses.beta, section.losses.nu)
    if section.losses == "problem" and problem.losses is None:
        raise UnsupportedClaim(
            f"[privacy] losses: '{problem.kind}' with gradients clipped in {section.clip_norm} can promise nothing about its losses. "
            f"Remove losses, clip in l2, or make the promise yourself: losses = {{ beta = .., nu = .. }}."
        )
    known = problem.losses if section.losses == "problem" else None
    return known if known is None or batch is None else batch.losses(known, problem.sizes)


def _participation(config: Config, section: PrivacySection) -> Participation:
    given, batch = section.participation, config.algorithm.turns
    if batch is not None and section.unit == "record":
        return batch.participation(config.experiment.rounds)
    return cyclic(given.times, given.gap) if isinstance(given, CyclicSection) else given


def _premises(config: Config, section: PrivacySection) -> tuple[str, ...]:
    """What guarantees rest on beyond the account itself: what is public, and where promises come from."""
    problem = config.problem
    made = [*_premises_about_owners(config, section), *_premises_about_records(config, section)]
    if section.participation != "every-round":
        made.append("the protected record takes part in no other rounds than promised (promised, not checked)")
    if isinstance(problem, ClassificationProblem) and problem.classes is None and problem.declared_classes is None:
        made.append("the number of classes is public: it was taken from the labels")
    if section.losses == "problem" and problem.kind != "mean_estimation" and not problem.unit_norm:
        made.append(
            "as far as the promise is used: beta was computed from the features at hand and must hold for every record "
            "that could stand in their place (unit_norm = true makes it so)"
        )
    return tuple(made)


def _premises_about_owners(config: Config, section: PrivacySection) -> list[str]:
    """What is public of who holds records of somebody's own files, and whom a record stands for."""
    by_label = isinstance(config.problem.partition, DirichletPartition | LabelPartition)
    made = []
    if by_label:
        # The label of one record decides where it and many others are: that is what no proof here looks at.
        made.append(
            "records were dealt out by their labels: which agent holds a record is the same in both worlds, whatever its label is"
        )
    if not _from_file(config):
        return made
    if section.unit == "record":
        made.append("a record is one row of the file, not one person, unless each person has one row")
    if config.problem.owned:
        made.append("who the agents are, and which of them holds a record, is public")
    else:
        made.append(
            f"the agents are invented: the file does not say who holds a record{'' if by_label else ', so records were dealt out at random'}"
        )
    return made


def _premises_about_records(config: Config, section: PrivacySection) -> list[str]:
    """What is public of the agents' numbers of records, and how often one of them is used."""
    made, batches = [], config.algorithm.batch_size is not None
    by_records = section.unit != "agent" and section.clips == "records"
    if isinstance(config.topology, FederationTopology) and config.topology.weights == "records":
        made.append("every agent's number of records is public: it sets the agent's weight")
    elif by_records and not batches:
        made.append("every agent's number of records is public: it enters the sensitivity")
    if section.unit != "agent" and section.adjacency == "add-remove":
        made.append("which other records an agent learns from is the same whether the protected ones are there or not")
    if config.algorithm.batch is not None:
        made.append("the order in which an agent's records take their turns is public, and the same whatever they say")
    if by_records and batches and section.participation == "every-round":
        made.append("any record may be drawn in any round, so the value is an upper bound")
    return made


def _from_file(config: Config) -> bool:
    """Whether records are somebody's own: neither bundled nor made."""
    return not config.problem.is_public


def _watched(name: str, listed: Sequence[str]) -> Observer:
    """The budget's observer; whoever reads messages may also get a model that somebody listed is given."""
    observer = observer_named(name)
    released = any(observer_named(one).final_model for one in listed)
    return observer + final_model() if released and observer.sees_messages and not observer.final_model else observer
