"""Problems: data split over agents, a loss, its gradient, constants, optimum and sensitivity."""

from collections.abc import Callable

from sottovoce.problems.batches import Batch, Cyclic, CyclicBatch, check_batch, cyclic_batch
from sottovoce.problems.centring import centred_features, shrunk_mean
from sottovoce.problems.classification import classification
from sottovoce.problems.clipped_gradients import ClippedGradients, gradient_clip_of
from sottovoce.problems.columns import (
    TABLES,
    AgentRecords,
    BadTable,
    Column,
    Complaint,
    Schema,
    Table,
    agent_names,
    files_of,
    is_pattern,
    read_records,
    read_table,
    table,
)
from sottovoce.problems.constants import Constants, ConvexSmooth, QuadraticRecords
from sottovoce.problems.custom_loss import CustomLoss, custom_loss
from sottovoce.problems.linear_regression import LinearRegression, linear_regression
from sottovoce.problems.loaders import (
    ARRAY_FILES,
    LIBSVM_FILES,
    LOADERS,
    add_intercept,
    check_plain_file,
    load,
    load_points,
    public_bounds,
    read_text,
    scale_features,
    unit_norm,
)
from sottovoce.problems.logistic_regression import LogisticRegression, logistic_regression
from sottovoce.problems.mean_estimation import MeanEstimation, mean_estimation
from sottovoce.problems.model import Architecture, Model, Preparation, size_of
from sottovoce.problems.networks import NETWORKS
from sottovoce.problems.newton import minimise_logistic
from sottovoce.problems.partition import add_feature_noise, label_counts, partition
from sottovoce.problems.persons import Persons, person_keys
from sottovoce.problems.problem import Problem
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit, required_persons, unit_in_words
from sottovoce.problems.split import Split, split
from sottovoce.problems.synthetic import SyntheticRegression, synthetic_regression
from sottovoce.problems.synthetic_clicks import synthetic_clicks
from sottovoce.problems.synthetic_points import truncated_gaussian

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
    "mean_estimation": mean_estimation,
    "classification": classification,
}

__all__ = [
    "LOADERS",
    "PROBLEMS",
    "Adjacency",
    "AgentRecords",
    "BadTable",
    "ClippedGradients",
    "Column",
    "Complaint",
    "Constants",
    "ConvexSmooth",
    "CustomLoss",
    "CyclicBatch",
    "LinearRegression",
    "LogisticRegression",
    "MeanEstimation",
    "Model",
    "Persons",
    "Problem",
    "QuadraticRecords",
    "Schema",
    "Sensitivity",
    "Split",
    "SyntheticRegression",
    "Table",
    "Unit",
    "add_feature_noise",
    "add_intercept",
    "centred_features",
    "classification",
    "custom_loss",
    "cyclic_batch",
    "label_counts",
    "linear_regression",
    "load",
    "load_points",
    "logistic_regression",
    "mean_estimation",
    "partition",
    "person_keys",
    "public_bounds",
    "read_records",
    "read_table",
    "scale_features",
    "shrunk_mean",
    "split",
    "synthetic_clicks",
    "synthetic_regression",
    "table",
    "truncated_gaussian",
    "unit_norm",
]


def __dir__() -> list[str]:
    return [*__all__]
