"""How good a model is, in the words of whoever asked for it.

classes     accuracy: the share of records classified right
numbers     error: the root of the mean square, in the target's units; with it the share of the variance that is explained
a mean      distance: how far the model is from the mean over all agents of their records' means
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sottovoce.experiments.experiment import Experiment
from sottovoce.problems import ClippedGradients, Problem

Name = Literal["accuracy", "error", "distance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is measured of a model, and on which records.

    Attributes:
        name: "accuracy" (a share, higher is better), "error" or "distance" (lower is better).
        score: model [d] -> its value.
        records: how many it is measured on.
        held_out: whether these are records that nobody learnt from.
        without_learning: the value of the most frequent class, or of the mean of the targets; None for a distance.
    """

    name: Name
    score: Callable[[np.ndarray], float]
    records: int
    held_out: bool
    without_learning: float | None

    @property
    def worst(self) -> Any:
        """The reduction that finds the worst of several scores."""
        return np.min if self.name == "accuracy" else np.max

    @property
    def best(self) -> Any:
        """The reduction that finds the best of several scores."""
        return np.max if self.name == "accuracy" else np.min

    def explained(self, error: float) -> float | None:
        """The share of the variance that a model with this error explains; below 0 where it does worse than the mean."""
        base = self.without_learning
        return None if self.name != "error" or not base else 1.0 - (error / base) ** 2

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"measure": self.name, "records": self.records, "held_out": self.held_out}


def measure_of(experiment: Experiment) -> Measure:
    """How models of an experiment are scored: on its test records, or on all training records where it has none."""
    problem: Any = experiment.problem
    if problem.kind == "mean_estimation":
        optimum = problem.optimum
        return Measure(
            name="distance",
            score=lambda model: float(np.linalg.norm(model - optimum)),
            records=int(problem.sizes.sum()),
            held_out=False,
            without_learning=None,
        )
    learnt = _training_records(problem)
    features, targets = learnt if experiment.test is None else experiment.test
    held_out, count = experiment.test is not None, len(targets)
    if problem.has_accuracy:
        values, counts = np.unique(learnt[1], return_counts=True)
        frequent = float((targets == values[counts.argmax()]).mean())
        return Measure(
            name="accuracy",
            score=lambda model: float(problem.accuracy(model.astype(np.float64), features, targets)),
            records=count,
            held_out=held_out,
            without_learning=frequent,
        )
    unit = _unit_of_target(experiment)

    def error(guesses: np.ndarray | float) -> float:
        return unit * float(np.sqrt(np.mean((targets - guesses) ** 2)))

    return Measure(
        name="error",
        score=lambda model: error(features @ model.astype(np.float64)),
        records=count,
        held_out=held_out,
        without_learning=error(float(learnt[1].mean())),
    )


def unclipped(problem: Any) -> Any:
    """The same problem as those see it who need no protection: nothing is clipped, and records are about nobody in particular."""
    bare = problem.problem if isinstance(problem, ClippedGradients) else problem
    return replace(bare, clip=None, persons=None)


def _training_records(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """All agents' features and targets in one pile."""
    rows = list(zip(problem.arrays["features"], problem.arrays["targets"], problem.sizes, strict=True))
    return np.concatenate([x[:n] for x, _, n in rows]), np.concatenate([y[:n] for _, y, n in rows])


def _unit_of_target(experiment: Experiment) -> float:
    """How many of the target's own units one unit of the scaled target is."""
    if experiment.schema is None:
        return 1.0
    zero, one = experiment.schema.in_units_of_target([0.0, 1.0])
    return float(one - zero)
