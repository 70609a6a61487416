"""A whole experiment's file: one immutable model per table, chosen by its `kind`, and what tables may not say together.

A key that means nothing for the chosen kind is thereby as unknown as a misspelt one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sottovoce.experiments.config import algorithm, noise
from sottovoce.experiments.config.algorithm import AlgorithmTable
from sottovoce.experiments.config.deployment import DeploymentSection
from sottovoce.experiments.config.ledger import LedgerSection
from sottovoce.experiments.config.noise import LawSection, NoiseTable
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.problem import Partition, ProblemTable
from sottovoce.experiments.config.topology import FederationTopology, TopologyTable
from sottovoce.experiments.config.values import Count, Section, Seed


class ExperimentSection(Section):
    """How long, how often and with which random numbers."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    rounds: Count
    repeats: Count = 1
    seed: Seed = 0
    dtype: Literal["float32", "float64"] = "float32"
    chunk: Count | None = None  # rounds between two checkpoints; None: chosen by the amount of work
    record: list[str] | None = (
        None  # metrics to keep; None: all that cost little; "models": every agent's model of every round, too
    )


class Config(Section):
    """A whole experiment."""

    experiment: ExperimentSection
    topology: TopologyTable
    problem: ProblemTable
    algorithm: AlgorithmTable
    noise: NoiseTable
    privacy: PrivacySection | None = None  # None: gradients are not clipped
    deployment: DeploymentSection | None = None  # None: the file is for simulations alone
    ledger: LedgerSection | None = None  # read by `sottovoce train` alone; a simulation gives nothing away

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if found := _disagreements(self):
            raise PydanticCustomError("disagreements", "{messages}", {"messages": found})
        return self

    def __repr__(self) -> str:
        """The name, and the kind of every part."""
        kinds = {name: getattr(self, name).kind for name in ("topology", "problem", "algorithm", "noise")}
        parts = ", ".join(f"{name}={kind!r}" for name, kind in kinds.items())
        return f"Config({self.experiment.name!r}, rounds={self.experiment.rounds}, {parts})"

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, for JSON; `Config.model_validate` takes it back."""
        return self.model_dump(mode="json", exclude_none=True)


def _disagreements(config: Config) -> list[str]:
    """What each section may say alone, but not together with the others."""
    found = [
        *_noise_disagreements(config.noise, config.privacy),
        *_clipping_disagreements(config),
        *_person_disagreements(config),
        *_deployment_disagreements(config),
        *_batch_disagreements(config),
    ]
    if config.topology.num_agents is None and not config.problem.owned:
        found.append(
            "[topology] agents: this key is missing; only data that name their owners say how many agents there are"
        )
    by_records = config.topology.kind == "federation" and config.topology.weights == "records"
    if by_records and config.privacy is not None and config.privacy.adjacency == "add-remove":
        found.append(
            '[privacy] adjacency: with weights = "records" one record more or less changes the weights of all agents, for which nothing is '
            'proved; use adjacency = "replace", or weights = "uniform"'
        )
    return found


def _noise_disagreements(given: NoiseTable, privacy: PrivacySection | None) -> list[str]:
    """Where the size of the noise, or epsilon, needs an observer or a delta."""
    found = []
    observers, delta = (None, None) if privacy is None else (privacy.observers, privacy.delta)
    if isinstance(given, LawSection) and given.epsilon is not None:
        delta = given.delta if delta is None else delta
        if observers is None:
            found.append(
                "[noise] epsilon: noise is calibrated for an observer; list observers in [privacy], the first one counts"
            )
        if given.is_gaussian and delta is None:
            found.append(
                "[noise] epsilon: Gaussian noise has no epsilon without a delta; give delta in [privacy], there is no default"
            )
    elif given.is_gaussian and observers is not None and delta is None:
        found.append(
            "[privacy] delta: this key is missing; Gaussian noise has no finite epsilon without it, there is no default"
        )
    return found


def _person_disagreements(config: Config) -> list[str]:
    """Where the unit is not what the data say of persons."""
    unit, known = None if config.privacy is None else config.privacy.unit, config.problem.person is not None
    if unit == "person" and not known:
        return [
            '[privacy] unit: "person" protects all records of one person, and [problem] does not say whom a record is about; name the column '
            "in person, and the most records that one person may have in records_per_person"
        ]
    if unit == "record" and known:
        return [
            '[privacy] unit: "record" protects one row, not one person, and [problem] person says whom rows are about; write unit = "person", '
            "or remove person and records_per_person"
        ]
    return []


def _clipping_disagreements(config: Config) -> list[str]:
    """Where whole gradients or updates are clipped and something else is needed."""
    privacy = config.privacy
    if privacy is None or privacy.clips == "records":
        return []
    if privacy.clips == "gradient":
        return _gradient_disagreements(privacy)
    found = []
    if config.algorithm.kind != "fedavg":
        found.append(f'[privacy] clips: whole updates are clipped in kind = "fedavg"; given "{config.algorithm.kind}"')
    if config.noise.kind == "gradient":
        found.append(
            '[privacy] clips: noise in gradients needs clips = "records", which bounds what a record does to a gradient'
        )
    if privacy.losses is not None:
        found.append(
            '[privacy] losses: clipped updates need no promise and keep none; remove losses, or use clips = "records"'
        )
    if privacy.participation != "every-round":
        found.append(
            "[privacy] participation: a clipped update is bounded for all records together; remove participation"
        )
    return found


def _gradient_disagreements(privacy: PrivacySection) -> list[str]:
    found = []
    if privacy.unit != "agent":
        found.append(
            f'[privacy] unit: one record may turn the clipped gradient of its agent round, so that clips = "gradient" protects agents; given '
            f'"{privacy.unit}". Use unit = "agent", or clips = "records"'
        )
    if privacy.losses is not None:
        found.append(
            "[privacy] losses: a whole gradient that is clipped belongs to no convex loss, so that a promise of one is not kept; remove "
            'losses, or use clips = "records"'
        )
    return found


def _batch_disagreements(config: Config) -> list[str]:
    """Where records in turns meet something that is not made for them."""
    if config.algorithm.batch is None:
        return []
    privacy, found = config.privacy, []
    if config.algorithm.kind == "random_walk":
        found.append("[algorithm] batch: on a walk an agent takes part when it holds the token; remove batch")
    if config.deployment is not None:
        found.append(
            "[algorithm] batch: parties draw their batches or use all records, and take none in turns; remove batch, or [deployment]"
        )
    if privacy is not None and privacy.participation != "every-round":
        found.append(
            "[privacy] participation: it follows from [algorithm] batch, which says in which rounds records take part; remove participation"
        )
    if privacy is not None and privacy.clips == "update" and privacy.unit == "record":
        found.append(
            '[algorithm] batch: a clipped update is bounded for all records together; remove batch, or use clips = "records"'
        )
    return found


def _deployment_disagreements(config: Config) -> list[str]:
    """What parties agree on and the run does not have, or the other way round."""
    given, found = config.deployment, []
    if given is None:
        return []
    if config.privacy is None:
        found.append(
            "[privacy]: this section is missing; parties that run a file among themselves must say what is protected, and how gradients are clipped"
        )
    if given.relay == "trusted" and config.topology.kind != "federation":
        found.append(
            f'[deployment] relay: there is none in kind = "{config.topology.kind}" to be trusted; remove relay, or use a federation'
        )
    if config.noise.kind == "central" and given.relay != "trusted":
        found.append(
            '[deployment] relay: "central" noise is added by the relay, which reads all messages in clear; write relay = "trusted" if all parties '
            'do trust it, or use kind = "independent"'
        )
    if given.records is not None and not records_enter(config):
        found.append(
            "[deployment] records: numbers of records do not enter this run, and would be published without need; remove records"
        )
    if given.features is not None and (config.problem.declares or config.problem.is_public):
        found.append(
            "[deployment] features: the number of features is known, from declared columns or from the name of the data; remove features"
        )
    return found


def records_enter(config: Config) -> bool:
    """Whether agents' numbers of records enter a weight or a guarantee, so that all must know them."""
    privacy = config.privacy
    if isinstance(config.topology, FederationTopology) and config.topology.weights == "records":
        return True
    if privacy is None or privacy.unit == "agent" or privacy.clips != "records":
        return False
    # With batches the divisor is the batch's; what is left of an agent without one person still depends on how much it has.
    return config.algorithm.batch_size is None or (privacy.unit, privacy.adjacency) == ("person", "add-remove")


def _by_kind(union: Any) -> dict[str, type[Section]]:
    models = get_args(get_args(union)[0])
    return {kind: model for model in models for kind in get_args(model.model_fields["kind"].annotation)}


CHOICES: Mapping[str, Mapping[str, type[Section]]] = {  # table -> kind -> model
    "topology": _by_kind(TopologyTable),
    "problem": _by_kind(ProblemTable),
    "partition": _by_kind(Partition),
    "algorithm": algorithm.TABLES,
    "noise": noise.TABLES,
}
