"""What an experiment's file may say: one immutable model per section, chosen by its `kind`.

A key that means nothing for the chosen kind is thereby as unknown as a misspelt one. Names are looked up in `build`, never here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("does_not_fit", "{message}", {"message": message})


class Section(BaseModel):
    """Values of one TOML table: immutable, of the stated types (no text for numbers), nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ExperimentSection(Section):
    """How long, how often and with which random numbers."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    rounds: Count
    repeats: Count = 1
    seed: Seed = 0
    dtype: Literal["float32", "float64"] = "float32"
    chunk: Count | None = None  # rounds between two checkpoints; None: chosen by the amount of work
    record: tuple[str, ...] | None = None  # metrics to keep; None: all that cost little


class TopologySection(Section):
    """What every topology may have on top: links that fail, or one random pair of neighbours awake per round."""

    dropout: Fraction | None = None
    random_pair: bool = False

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.dropout is not None and self.random_pair:
            raise _wrong("dropout and random_pair are two schedules of active links; keep one")
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


class IidPartition(Section):
    """Records shuffled and dealt out evenly."""

    kind: Literal["iid"]


class DirichletPartition(Section):
    """Label shares drawn from a Dirichlet law; a small alpha makes agents differ."""

    kind: Literal["dirichlet"]
    alpha: Positive


Partition = Annotated[IidPartition | DirichletPartition, Field(discriminator="kind")]


class ProblemSection(Section):
    """Where the records come from: a data set to split over the agents."""

    data: str
    partition: Partition | None = None  # None: iid


class MadeOrLoaded(ProblemSection):
    """A problem that also works on synthetic records, made for each agent."""

    samples: Count | None = None  # synthetic only: records of one agent
    dimension: Count | None = None  # synthetic only

    @model_validator(mode="after")
    def _keys_fit_the_data(self) -> Self:
        if self.data != "synthetic":
            if self.samples is not None or self.dimension is not None:
                raise _wrong('samples and dimension apply to data = "synthetic" only; remove them')
        elif self.samples is None or self.dimension is None:
            raise _wrong('data = "synthetic" needs samples (records of one agent) and dimension')
        elif self.partition is not None:
            raise _wrong("partition does not apply to synthetic data, which are made for each agent; remove it")
        return self


class LinearProblem(MadeOrLoaded):
    """A linear model with squared errors."""

    kind: Literal["linear_regression"]
    ridge: NonNegative


class LogisticProblem(ProblemSection):
    """A linear classifier."""

    kind: Literal["logistic_regression"]
    ridge: NonNegative
    test_fraction: Fraction = (
        0.0  # of each agent's records, kept away from learning; 0: accuracy is of the training records
    )


class MeanProblem(MadeOrLoaded):
    """The mean of points in a box."""

    kind: Literal["mean_estimation"]
    radius: Positive


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


Algorithm = Annotated[DiffusionAlgorithm | DgdAlgorithm, Field(discriminator="kind")]


class NoNoise(Section):
    """Messages in clear."""

    kind: Literal["none"]


class LawSection(Section):
    """The law of one noise source; `std` or `scale`, whichever that law is given by."""

    law: Literal["laplace", "gaussian", "l2_laplace"]
    std: Positive | None = None
    scale: Positive | None = None

    @model_validator(mode="after")
    def _law_has_its_number(self) -> Self:
        needed, other = ("scale", "std") if self.law == "l2_laplace" else ("std", "scale")
        if getattr(self, other) is not None:
            raise _wrong(f'{other} does not apply to law = "{self.law}"; give {needed} instead')
        if getattr(self, needed) is None:
            raise _wrong(f'law = "{self.law}" needs {needed}, the size of the noise; there is no default')
        return self


class IndependentNoise(LawSection):
    """Each sender's own noise, which does not cancel."""

    kind: Literal["independent"]
    per_edge: bool = False
    self_noise: bool = True


class CancellingNoise(LawSection):
    """Noise that cancels in the centroid, or at each receiver."""

    kind: Literal["graph_homomorphic", "local_graph_homomorphic"]


class PrescribedNoise(Section):
    """The noise that Showkatbakhsh et al. prescribe for their two-stage method: the document's numbers, not a guarantee of ours."""

    kind: Literal["showkatbakhsh"]
    document_epsilon: Positive
    document_delta: Positive
    multiplier: Positive = 1.0  # of every standard deviation


Noise = Annotated[NoNoise | IndependentNoise | CancellingNoise | PrescribedNoise, Field(discriminator="kind")]


class PrivacySection(Section):
    """What is protected, and the clipping that bounds what it can change. No defaults: each is a decision."""

    unit: Literal["record", "agent"]
    clip: Positive
    clip_norm: Literal["l1", "l2"]


class Config(Section):
    """A whole experiment."""

    experiment: ExperimentSection
    topology: Topology
    problem: Problem
    algorithm: Algorithm
    noise: Noise
    privacy: PrivacySection | None = None  # None: gradients are not clipped

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, for JSON; `Config.model_validate` takes it back."""
        return self.model_dump(mode="json", exclude_none=True)


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
