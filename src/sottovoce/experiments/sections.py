"""What an experiment's file may say: one immutable model per section, chosen by its `kind`.

A key that means nothing for the chosen kind is thereby as unknown as a misspelt one. Names are looked up in `build`, never here.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from sottovoce.experiments.noise_sections import LawSection, Noise, PrescribedNoise
from sottovoce.experiments.privacy_sections import PrivacySection as PrivacySection
from sottovoce.experiments.values import Count, Fraction, NonNegative, Positive, Seed, wrong
from sottovoce.experiments.values import Section as Section


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
    """What every topology may have on top: links that fail, or one random pair of neighbours awake per round."""

    dropout: Fraction | None = None
    random_pair: bool = False

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.dropout is not None and self.random_pair:
            raise wrong("dropout and random_pair are two schedules of active links; keep one")
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


class PartitionSection(Section):
    """What every way of dealing out records may have on top."""

    min_partition_size: Count = 1


class IidPartition(PartitionSection):
    """Records shuffled and dealt out evenly."""

    kind: Literal["iid"]


class DirichletPartition(PartitionSection):
    """Label shares drawn from a Dirichlet law; a small alpha makes agents differ."""

    kind: Literal["dirichlet"]
    alpha: Positive
    self_balancing: bool = False


class LabelPartition(PartitionSection):
    """Each agent sees a few labels only."""

    kind: Literal["by_label"]
    labels_per_agent: Count


class SizePartition(PartitionSection):
    """Later agents have more records."""

    kind: Literal["by_size"]
    growth: Literal["linear", "square", "exponential"]


Partition = Annotated[IidPartition | DirichletPartition | LabelPartition | SizePartition, Field(discriminator="kind")]


def _range(given: Any) -> Any:
    """A TOML list [low, high] as a pair."""
    numbers = isinstance(given, list | tuple) and all(type(number) in (int, float) for number in given)
    if not numbers or len(given) != 2 or not all(map(math.isfinite, given)) or given[0] > given[1]:
        raise wrong(f"write two finite numbers, [low, high]; given {given!r}")
    return tuple(map(float, given))


def _deviations(given: Any) -> Any:
    """A range of standard deviations."""
    low, high = _range(given)
    if low < 0:
        raise wrong(f"standard deviations are not negative; given {given!r}")
    return low, high


def _ranges(given: Any) -> Any:
    """One range for all features, or a list with one for each."""
    if isinstance(given, list | tuple) and given and all(isinstance(limits, list | tuple) for limits in given):
        return tuple(_ranges(limits) for limits in given)
    low, high = _range(given)
    if low == high:
        raise wrong(f"a range needs low < high; given {given!r}")
    return low, high


Deviations = Annotated[tuple[float, float], BeforeValidator(_deviations)]
Bounds = Annotated[tuple[float, float] | tuple[tuple[float, float], ...], BeforeValidator(_ranges)]

_MADE_FOR = {  # synthetic data -> the problems they suit
    "synthetic": ("linear_regression", "mean_estimation"),
    "truncated_gaussian": ("mean_estimation",),
    "synthetic_clicks": ("logistic_regression",),
}
_Sizes = Mapping[str, tuple[str, ...]]  # synthetic data -> the keys that size them
_DEALT_OUT = ("synthetic_clicks",)  # the others are made for each agent
_SIZES = {"samples": "samples (records of one agent)", "dimension": "dimension", "records": "records (of all agents)"}


class ProblemSection(Section):
    """Where the records come from, how they are scaled, and how they are split over the agents."""

    sizes: ClassVar[_Sizes]

    data: Annotated[str, AfterValidator(lambda name: "synthetic" if name == "synthetic_regression" else name)]
    target: str | None = None  # .csv only: the column to predict; None: the last
    partition: Partition | None = None  # None: iid
    bounds: Bounds | None = None  # public range of the features, to be scaled to [-1, 1]
    unit_norm: bool = False  # every record divided by its own norm

    @model_validator(mode="after")
    def _keys_fit_the_data(self) -> Self:
        if self.data in _MADE_FOR and self.data not in self.sizes:
            raise wrong(f'data = "{self.data}" is made for {", ".join(_MADE_FOR[self.data])} only')
        needed = self.sizes.get(self.data, ())
        given = [key for key in _SIZES if getattr(self, key, None) is not None]
        if missing := [_SIZES[key] for key in needed if key not in given]:
            raise wrong(f'data = "{self.data}" needs {" and ".join(missing)}')
        if superfluous := [key for key in given if key not in needed]:
            suited = ", ".join(f'"{name}"' for name, keys in self.sizes.items() if superfluous[0] in keys)
            verb, them = ("apply", "them") if len(superfluous) > 1 else ("applies", "it")
            raise wrong(f"{' and '.join(superfluous)} {verb} to data = {suited} only; remove {them}")
        if needed and self.partition is not None and self.data not in _DEALT_OUT:
            raise wrong(f"partition does not apply to {self.data} data, which are made for each agent; remove it")
        if needed and self.bounds is not None:
            raise wrong(f"bounds do not apply to {self.data} data, which need no scaling; remove them")
        if self.target is not None and not self.data.lower().endswith(".csv"):
            raise wrong(f'target names a column of a .csv file, and data = "{self.data}" is none; remove it')
        return self


class RegressionProblem(ProblemSection):
    """A linear model of features."""

    ridge: NonNegative
    feature_noise: Deviations | None = None  # range of the agents' standard deviations; makes their data differ
    intercept: bool = False  # one more feature, the same for every record


class LinearProblem(RegressionProblem):
    """A linear model with squared errors."""

    sizes: ClassVar[_Sizes] = {"synthetic": ("samples", "dimension")}

    kind: Literal["linear_regression"]
    samples: Count | None = None  # synthetic only: records of one agent
    dimension: Count | None = None  # synthetic only


class LogisticProblem(RegressionProblem):
    """A linear classifier."""

    sizes: ClassVar[_Sizes] = {"synthetic_clicks": ("records",)}

    kind: Literal["logistic_regression"]
    records: Count | None = None  # synthetic_clicks only: records of all agents
    test_fraction: Fraction = (
        0.0  # of each agent's records, kept away from learning; 0: accuracy is of the training records
    )


class MeanProblem(ProblemSection):
    """The mean of points in a box."""

    sizes: ClassVar[_Sizes] = {"synthetic": ("samples", "dimension"), "truncated_gaussian": ("samples", "dimension")}

    kind: Literal["mean_estimation"]
    radius: Positive
    samples: Count | None = None  # synthetic only: records of one agent
    dimension: Count | None = None  # synthetic only

    @model_validator(mode="after")
    def _labels_are_there(self) -> Self:
        by_label = isinstance(self.partition, DirichletPartition | LabelPartition)
        if by_label and self.target is None and self.data.lower().endswith(".csv"):
            raise wrong("this partition goes by label, so it needs target, the column of labels")
        return self


Problem = Annotated[LinearProblem | LogisticProblem | MeanProblem, Field(discriminator="kind")]


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
    batch_size: Count | None = None


class InexactAdmmAlgorithm(Section):
    """One linearised step per agent and round, with dual variables."""

    kind: Literal["inexact_admm"]
    penalty: Positive
    linearise_at: Literal["global", "own"] = "global"
    batch_size: Count | None = None


Algorithm = Annotated[
    DiffusionAlgorithm | DgdAlgorithm | FedavgAlgorithm | InexactAdmmAlgorithm, Field(discriminator="kind")
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
    by_records = isinstance(config.topology, FederationTopology) and config.topology.weights == "records"
    if privacy is not None and privacy.adjacency == "add-remove" and by_records:
        found.append(
            '[privacy] adjacency: with weights = "records" one record more or less changes the weights of all agents, for which nothing is '
            'proved; use adjacency = "replace", or weights = "uniform"'
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
