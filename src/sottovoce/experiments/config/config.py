"""What an experiment's file may say: one immutable model per section, chosen by its `kind`.

A key that means nothing for the chosen kind is thereby as unknown as a misspelt one. Names are looked up in `build`, never here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sottovoce.experiments.config.noise import LawSection, Noise, PlainNoise, PrescribedNoise
from sottovoce.experiments.config.privacy import PrivacySection as PrivacySection
from sottovoce.experiments.config.problem import ClassificationProblem as ClassificationProblem
from sottovoce.experiments.config.problem import LogisticProblem as LogisticProblem
from sottovoce.experiments.config.problem import MeanProblem as MeanProblem
from sottovoce.experiments.config.problem import Partition, Problem
from sottovoce.experiments.config.problem import RegressionProblem as RegressionProblem
from sottovoce.experiments.config.values import Count, Fraction, Positive, Seed, wrong
from sottovoce.experiments.config.values import Section as Section


class ExperimentSection(Section):
    """How long, how often and with which random numbers."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    rounds: Count
    repeats: Count = 1
    seed: Seed = 0
    dtype: Literal["float32", "float64"] = "float32"
    chunk: Count | None = None  # rounds between two checkpoints; None: chosen by the amount of work
    record: list[str] | None = None  # metrics to keep; None: all that cost little


class TopologySection(Section):
    """What every topology may have on top: links that fail, one random pair of neighbours awake per round, or a walking token."""

    dropout: Fraction | None = None
    random_pair: bool = False
    walk: bool = False

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        given = {"dropout": self.dropout is not None, "random_pair": self.random_pair, "walk": self.walk}
        if sum(given.values()) > 1:
            raise wrong(
                f"{' and '.join(name for name, on in given.items() if on)} are two schedules of active links; keep one"
            )
        return self


class PeerTopology(TopologySection):
    """A topology without a relay, where agents weigh what their neighbours send."""

    weights: Literal["metropolis", "laplacian", "uniform"] = "metropolis"


class FixedTopology(PeerTopology):
    """A graph known from the number of agents."""

    kind: Literal["ring", "path", "complete", "star"]
    agents: Count


class GridTopology(PeerTopology):
    """A rectangle of agents."""

    kind: Literal["grid"]
    rows: Count
    columns: Count


class HypercubeTopology(PeerTopology):
    """The corners of a cube: 2^dimension agents."""

    kind: Literal["hypercube"]
    dimension: Annotated[int, Field(ge=1, le=20)]


class ErdosRenyiTopology(PeerTopology):
    """Each pair is linked with the same probability."""

    kind: Literal["erdos_renyi"]
    agents: Count
    probability: Annotated[float, Field(gt=0, le=1)]
    seed: Seed | None = None  # None: the experiment's seed


class GeometricTopology(PeerTopology):
    """Random places in the unit square, linked when near."""

    kind: Literal["geometric"]
    agents: Count
    radius: Positive
    seed: Seed | None = None


class KOutTopology(PeerTopology):
    """Each agent chooses k partners."""

    kind: Literal["k_out"]
    agents: Count
    k: Count
    seed: Seed | None = None


class FederationTopology(TopologySection):
    """All agents around a relay without data."""

    kind: Literal["federation"]
    agents: Count
    weights: Literal["uniform", "records"] = "uniform"


Topology = Annotated[
    FixedTopology
    | GridTopology
    | HypercubeTopology
    | ErdosRenyiTopology
    | GeometricTopology
    | KOutTopology
    | FederationTopology,
    Field(discriminator="kind"),
]


class DiffusionAlgorithm(Section):
    """One gradient step and one combination per round."""

    kind: Literal["atc", "cta", "consensus"]
    step_size: Positive
    batch_size: Count | None = None  # None: the full gradient


class DgdAlgorithm(Section):
    """Gradient rounds with a shrinking step, then averaging alone."""

    kind: Literal["dgd"]
    step_size: Positive
    gradient_rounds: Count
    box: Positive | None = None
    batch_size: Count | None = None


class FedavgAlgorithm(Section):
    """Local gradient steps, then the average of all agents."""

    kind: Literal["fedavg"]
    step_size: Positive
    local_steps: Count = 1
    server_step_size: Positive = 1.0
    exchange: Literal["model", "gradient"] = "model"
    participation: Annotated[float, Field(gt=0, le=1)] = (
        1.0  # the probability with which an agent takes part in a round
    )
    agents_per_round: Count | None = None  # instead: how many take part, drawn without replacement
    aggregation: Literal["open", "gopa"] = "open"  # "gopa": masked in pairs, so that the relay learns sums alone
    partners: Count | None = None  # under gopa: others that every agent picks to share masks with
    pairwise_ratio: Positive | None = None  # size of a Gaussian mask in own noise; None: uniform masks
    silence: Fraction | None = None  # probability with which an agent publishes nothing in a round
    minimum_agents: Count | None = None  # that must publish for a round to count
    batch_size: Count | None = None

    @model_validator(mode="after")
    def _one_sampling(self) -> Self:
        if self.participation < 1 and self.agents_per_round is not None:
            raise wrong("participation and agents_per_round are two ways to draw the agents of a round; keep one")
        return self

    @model_validator(mode="after")
    def _masks(self) -> Self:
        keys = ("partners", "pairwise_ratio", "silence", "minimum_agents")
        given = [key for key in keys if getattr(self, key) is not None]
        if self.aggregation == "open":
            if given:
                raise wrong(f'{" and ".join(given)} belong to aggregation = "gopa", which is not chosen; add it')
            return self
        if self.partners is None:
            raise wrong(
                'aggregation = "gopa" needs partners, how many others an agent shares masks with; there is no default'
            )
        if self.participation < 1 or self.agents_per_round is not None:
            raise wrong(
                'under aggregation = "gopa" everybody takes part who is not silent; use silence instead of a sample of agents'
            )
        if self.silence is not None and self.minimum_agents is None:
            raise wrong("silence needs minimum_agents: how many agents' noise can be counted on; there is no default")
        return self


class InexactAdmmAlgorithm(Section):
    """One linearised step per agent and round, with dual variables."""

    kind: Literal["inexact_admm"]
    penalty: Positive
    penalty_growth: Annotated[float, Field(ge=1, le=10)] = 1.0  # the penalty is multiplied by this after every round
    linearise_at: Literal["global", "own"] = "global"
    batch_size: Count | None = None


class GossipAlgorithm(Section):
    """Averaging of values with the neighbours."""

    batch_size: ClassVar[None] = None  # all records make up an agent's value

    kind: Literal["gossip"]
    accelerated: bool = False


class MuffliatoAlgorithm(Section):
    """A gradient step and several averaging steps per round."""

    kind: Literal["muffliato"]
    step_size: Positive
    gossip_steps: Count
    accelerated: bool = False
    batch_size: Count | None = None


class RandomWalkAlgorithm(Section):
    """One token that walks over the agents."""

    kind: Literal["random_walk"]
    step_size: Positive
    contributions: Count | None = None
    batch_size: Count | None = None


Algorithm = Annotated[
    DiffusionAlgorithm
    | DgdAlgorithm
    | FedavgAlgorithm
    | InexactAdmmAlgorithm
    | GossipAlgorithm
    | MuffliatoAlgorithm
    | RandomWalkAlgorithm,
    Field(discriminator="kind"),
]


class Config(Section):
    """A whole experiment."""

    experiment: ExperimentSection
    topology: Topology
    problem: Problem
    algorithm: Algorithm
    noise: Noise
    privacy: PrivacySection | None = None  # None: gradients are not clipped

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if found := _disagreements(self):
            raise PydanticCustomError("disagreements", "{messages}", {"messages": found})
        return self

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, for JSON; `Config.model_validate` takes it back."""
        return self.model_dump(mode="json", exclude_none=True)


def _disagreements(config: Config) -> list[str]:
    """What each section may say alone, but not together with the others."""
    noise, privacy, found = config.noise, config.privacy, []
    observers = None if privacy is None else privacy.observers
    delta = None if privacy is None else privacy.delta
    gaussian = isinstance(noise, PrescribedNoise) or (isinstance(noise, LawSection) and noise.law == "gaussian")
    if isinstance(noise, LawSection) and noise.epsilon is not None:
        delta = noise.delta if delta is None else delta
        if observers is None:
            found.append(
                "[noise] epsilon: noise is calibrated for an observer; list observers in [privacy], the first one counts"
            )
        if gaussian and delta is None:
            found.append(
                "[noise] epsilon: Gaussian noise has no epsilon without a delta; give delta in [privacy], there is no default"
            )
    elif gaussian and observers is not None and delta is None:
        found.append(
            "[privacy] delta: this key is missing; Gaussian noise has no finite epsilon without it, there is no default"
        )
    found += _clipping_disagreements(config)
    by_records = isinstance(config.topology, FederationTopology) and config.topology.weights == "records"
    if privacy is not None and privacy.adjacency == "add-remove" and by_records:
        found.append(
            '[privacy] adjacency: with weights = "records" one record more or less changes the weights of all agents, for which nothing is '
            'proved; use adjacency = "replace", or weights = "uniform"'
        )
    return found


def _clipping_disagreements(config: Config) -> list[str]:
    """Where whole updates are clipped and something else is needed."""
    privacy = config.privacy
    if privacy is None or privacy.clips == "records":
        return []
    found = []
    if not isinstance(config.algorithm, FedavgAlgorithm):
        found.append(f'[privacy] clips: whole updates are clipped in kind = "fedavg"; given "{config.algorithm.kind}"')
    if isinstance(config.noise, PlainNoise) and config.noise.kind == "gradient":
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


def _by_kind(union: Any) -> dict[str, type[Section]]:
    models = get_args(get_args(union)[0])
    return {kind: model for model in models for kind in get_args(model.model_fields["kind"].annotation)}


CHOICES: Mapping[str, Mapping[str, type[Section]]] = {  # table -> kind -> model
    "topology": _by_kind(Topology),
    "problem": _by_kind(Problem),
    "partition": _by_kind(Partition),
    "algorithm": _by_kind(Algorithm),
    "noise": _by_kind(Noise),
}
