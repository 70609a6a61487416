"""What the [problem] table of an experiment's file may say, by its `kind`, how it deals out records (`partition`), and the problem that it names."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from sottovoce.experiments.config.columns import ColumnsSection, Sources
from sottovoce.experiments.config.values import LARGEST, Count, Fraction, NonNegative, Positive, Section, Seed, wrong
from sottovoce.problems import LOADERS, PROBLEMS, Problem
from sottovoce.wording import brief, brief_value

Records = tuple[list[np.ndarray], list[np.ndarray]]  # features [n_k, d] and targets [n_k] of each agent
Test = tuple[np.ndarray, np.ndarray] | None  # features [n, d] and targets [n] kept away from learning


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
    if (
        not numbers
        or len(given) != 2
        or not all(-math.inf < number < math.inf for number in given)
        or given[0] > given[1]
    ):
        raise wrong(f"write two finite numbers, [low, high]; given {brief_value(given)}")
    if max(map(abs, given)) > LARGEST:
        raise wrong(f"numbers should be at most {LARGEST:g} in size; given {brief_value(given)}")
    return tuple(map(float, given))


def _deviations(given: Any) -> Any:
    """A range of standard deviations."""
    low, high = _range(given)
    if low < 0:
        raise wrong(f"standard deviations are not negative; given {brief_value(given)}")
    return low, high


def _ranges(given: Any) -> Any:
    """One range for all features, a list with one for each, or a table with one for each name."""
    if isinstance(given, dict):
        return {name: _named_range(name, limits) for name, limits in given.items()}
    if isinstance(given, list | tuple) and given and all(isinstance(limits, list | tuple) for limits in given):
        return tuple(_ranges(limits) for limits in given)
    low, high = _range(given)
    if low == high:
        raise wrong(f"a range needs low < high; given {brief_value(given)}")
    return low, high


def _named_range(name: str, limits: Any) -> Any:
    """The range of one column, which a complaint names."""
    try:
        return _ranges(limits)
    except PydanticCustomError as error:
        raise wrong(f"{brief(name)!r}: {error.message()}; low < high is needed") from error


def _widths(given: Any) -> Any:
    """One width, or a TOML list of them, as a tuple."""
    widths = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not widths or not all(type(width) is int and width >= 1 for width in widths):
        raise wrong(
            f"write one whole number of at least 1, or a list with one for each hidden layer; given {brief_value(given)}"
        )
    return widths


Deviations = Annotated[tuple[float, float], BeforeValidator(_deviations)]
Bounds = Annotated[
    tuple[float, float] | tuple[tuple[float, float], ...] | dict[str, tuple[float, float]], BeforeValidator(_ranges)
]
Widths = Annotated[tuple[int, ...], BeforeValidator(_widths)]

_MADE_FOR = {  # synthetic data -> the problems they suit
    "synthetic": ("linear_regression", "mean_estimation"),
    "truncated_gaussian": ("mean_estimation",),
    "synthetic_clicks": ("logistic_regression",),
}
_Sizes = Mapping[str, tuple[str, ...]]  # synthetic data -> the keys that size them
_DEALT_OUT = ("synthetic_clicks",)  # one set, dealt out to the agents; other synthetic data are made for each agent
_SIZES = {"samples": "samples (records of one agent)", "dimension": "dimension", "records": "records (of all agents)"}


class ProblemSection(ColumnsSection):
    """Where the records come from, how they are scaled, and how they are split over the agents."""

    if TYPE_CHECKING:
        ridge: float
        test_fraction: float
        feature_noise: tuple[float, float] | None

    sizes: ClassVar[_Sizes]

    data: Annotated[Sources, AfterValidator(lambda name: "synthetic" if name == "synthetic_regression" else name)]
    partition: Partition | None = None  # None: iid
    bounds: Bounds | None = None  # public range of the features, to be scaled to [-1, 1]
    unit_norm: bool = False  # every record divided by its own norm

    @model_validator(mode="after")
    def _sizes_fit_the_data(self) -> Self:
        if self.name in _MADE_FOR and self.name not in self.sizes:
            raise wrong(f'data = "{self.name}" is made for {", ".join(_MADE_FOR[self.name])} only')
        needed = self.sizes.get(self.name, ())
        given = [key for key in _SIZES if getattr(self, key, None) is not None]
        if missing := [_SIZES[key] for key in needed if key not in given]:
            raise wrong(f'data = "{self.name}" needs {" and ".join(missing)}')
        if superfluous := [key for key in given if key not in needed]:
            raise wrong(self._superfluous(superfluous))
        return self

    def _superfluous(self, keys: list[str]) -> str:
        suited = ", ".join(f'"{name}"' for name, sized in self.sizes.items() if keys[0] in sized)
        verb, them = ("apply", "them") if len(keys) > 1 else ("applies", "it")
        return f"{' and '.join(keys)} {verb} to data = {suited} only; remove {them}"

    @model_validator(mode="after")
    def _keys_fit_the_data(self) -> Self:
        needed = self.sizes.get(self.name, ())
        if needed and self.partition is not None and self.name not in _DEALT_OUT:
            raise wrong(f"partition does not apply to {self.name} data, which are made for each agent; remove it")
        if needed and self.bounds is not None:
            raise wrong(f"bounds do not apply to {self.name} data, which need no scaling; remove them")
        if self.target is not None and not self.is_table:
            raise wrong(
                f'target names a column of a .csv or .parquet file, and data = "{self.name}" is none; remove it'
            )
        return self

    @model_validator(mode="after")
    def _owners_fit(self) -> Self:
        if self.owned and self.partition is not None:
            raise wrong("partition deals records out, and these data say who holds them; remove partition")
        if self.declares and self.feature_noise is not None:
            raise wrong(
                "feature_noise does not apply to declared columns, which predictions must be able to prepare again; remove it"
            )
        if self.test is not None and self.test_fraction:
            raise wrong("test and test_fraction both say which records are for testing; keep one")
        return self

    @property
    def is_public(self) -> bool:
        """Whether the data are nobody's own: they come with the package, or are made from a seed."""
        return self.data in LOADERS or self.data in self.sizes

    def problem(self, records: Records, test: Test, *, seed: int, whole: bool = True) -> Problem:
        """The problem of these records.

        Args:
            records: features and targets of every agent.
            test: records kept away from learning.
            seed: of first parameters that are drawn, where the table names none.
            whole: whether these are the records of all agents, so that a class that none of them has is a mistake.
        """
        return PROBLEMS[self.kind](*records, ridge=self.ridge)


class RegressionProblem(ProblemSection):
    """A linear model of features."""

    ridge: NonNegative
    feature_noise: Deviations | None = None  # range of the agents' standard deviations; makes their data differ
    intercept: bool = False  # one more feature, the same for every record


class LinearProblem(RegressionProblem):
    """A linear model with squared errors."""

    sizes: ClassVar[_Sizes] = {"synthetic": ("samples", "dimension")}

    kind: Literal["linear_regression"]
    test_fraction: Fraction = (
        0.0  # share of each agent's records kept for testing; 0: errors are of the training records
    )
    samples: Count | None = None  # synthetic only: records of one agent
    dimension: Count | None = None  # synthetic only


class LogisticProblem(RegressionProblem):
    """A linear classifier."""

    sizes: ClassVar[_Sizes] = {"synthetic_clicks": ("records",)}

    kind: Literal["logistic_regression"]
    records: Count | None = None  # synthetic_clicks only: records of all agents
    test_fraction: Fraction = (
        0.0  # share of each agent's records kept for testing; 0: accuracy is of the training records
    )

    def problem(self, records: Records, test: Test, *, seed: int, whole: bool = True) -> Problem:
        """The problem of these records, which have both classes if they are all there are."""
        return PROBLEMS[self.kind](*records, ridge=self.ridge, both_classes=whole)


class MeanProblem(ProblemSection):
    """The mean of points in a box."""

    sizes: ClassVar[_Sizes] = {"synthetic": ("samples", "dimension"), "truncated_gaussian": ("samples", "dimension")}
    ridge: ClassVar[float] = 0.0  # type: ignore[misc]
    feature_noise: ClassVar[None] = None  # type: ignore[misc]
    intercept: ClassVar[bool] = False  # type: ignore[misc]
    test_fraction: ClassVar[float] = 0.0  # type: ignore[misc]

    kind: Literal["mean_estimation"]
    radius: Positive
    samples: Count | None = None  # synthetic only: records of one agent
    dimension: Count | None = None  # synthetic only

    @model_validator(mode="after")
    def _labels_are_there(self) -> Self:
        by_label = isinstance(self.partition, DirichletPartition | LabelPartition)
        if by_label and self.target is None and self.is_table:
            raise wrong("this partition goes by label, so it needs target, the column of labels")
        return self

    def problem(self, records: Records, test: Test, *, seed: int, whole: bool = True) -> Problem:
        """The problem of these points, whose labels count only when they are dealt out."""
        return PROBLEMS[self.kind](records[0], radius=self.radius)


class ClassificationProblem(ProblemSection):
    """A small network that tells classes apart."""

    sizes: ClassVar[_Sizes] = {}
    intercept: ClassVar[bool] = False  # type: ignore[misc]

    kind: Literal["classification"]
    ridge: NonNegative
    model: Literal["linear", "mlp", "cnn"] = "mlp"
    hidden: Widths | None = None  # of the hidden layers; channels for cnn. None: 32 for mlp, 8 and 16 for cnn
    classes: Annotated[int, Field(ge=2)] | None = None  # None: the largest label plus one, which is then no secret
    seed: Seed | None = None  # of the first parameters; None: the experiment's seed
    feature_noise: Deviations | None = None
    test_fraction: Fraction = 0.0

    @model_validator(mode="after")
    def _keys_fit_the_model(self) -> Self:
        if self.model == "linear" and self.hidden is not None:
            raise wrong(
                'hidden does not apply to model = "linear", which has no hidden layers; remove it, or use model = "mlp"'
            )
        if self.model == "cnn" and self.declares:
            raise wrong('model = "cnn" needs images, and declared columns are none; use model = "mlp"')
        if self.declares and self.classes not in (None, self.declared_classes):
            raise wrong(f"classes = {self.classes}, and {self.declared_classes} labels are declared; remove classes")
        if self.data == "digits" and self.classes != 2:
            raise wrong(
                'data = "digits" is labelled even or odd; write data = "digits_classes" for the ten digits, or add classes = 2'
            )
        return self

    def problem(self, records: Records, test: Test, *, seed: int, whole: bool = True) -> Problem:
        """The problem of these records; without `classes`, there are as many as labels were found."""
        labels = records[1] if test is None else [*records[1], test[1]]
        declared = self.classes or self.declared_classes
        return PROBLEMS[self.kind](
            *records,
            model=self.model,
            hidden=self.hidden,
            classes=declared or int(max(part.max() for part in labels)) + 1,
            seed=seed if self.seed is None else self.seed,
            ridge=self.ridge,
        )

    @property
    def declared_classes(self) -> int | None:
        """How many labels are declared; None where none are."""
        return 2 if self.positive is not None else None if self.labels is None else len(self.labels)


ProblemTable = Annotated[
    LinearProblem | LogisticProblem | MeanProblem | ClassificationProblem, Field(discriminator="kind")
]
