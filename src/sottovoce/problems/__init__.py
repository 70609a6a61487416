"""Problems: data split over agents, a loss, its gradient, constants, optimum and sensitivity."""

from collections.abc import Callable

from sottovoce.problems.constants import Constants, ConvexSmooth, QuadraticRecords
from sottovoce.problems.linear_regression import LinearRegression, linear_regression
from sottovoce.problems.loaders import BREAST_CANCER_BOUNDS, LOADERS, load, scale_features, unit_norm
from sottovoce.problems.logistic_regression import LogisticRegression, logistic_regression
from sottovoce.problems.mean_estimation import MeanEstimation, mean_estimation
from sottovoce.problems.partition import partition
from sottovoce.problems.problem import Problem
from sottovoce.problems.sensitivity import Adjacency, Unit
from sottovoce.problems.synthetic import SyntheticRegression, synthetic_regression

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
    "mean_estimation": mean_estimation,
}

__all__ = [
    "BREAST_CANCER_BOUNDS",
    "LOADERS",
    "PROBLEMS",
    "Adjacency",
    "Constants",
    "ConvexSmooth",
    "LinearRegression",
    "LogisticRegression",
    "MeanEstimation",
    "Problem",
    "QuadraticRecords",
    "SyntheticRegression",
    "Unit",
    "linear_regression",
    "load",
    "logistic_regression",
    "mean_estimation",
    "partition",
    "scale_features",
    "synthetic_regression",
    "unit_norm",
]
