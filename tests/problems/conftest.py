"""Small problems that the tests of this folder share."""

import numpy as np
import pytest

from sottovoce.problems import PROBLEMS, linear_regression, logistic_regression, mean_estimation

CLIPS = [None, (0.7, "l2"), (0.7, "l1")]


def split_records(sizes=(7, 4, 9), dimension=3, seed=0):
    """Features (one row of them zero), targets and labels of agents with different numbers of records."""
    generator = np.random.default_rng(seed)
    features = [generator.standard_normal((n, dimension)) for n in sizes]
    features[0][0] = 0.0
    targets = [generator.standard_normal(n) * 2 for n in sizes]
    labels = [np.where(np.arange(n) % 2 == 0, -1.0, 1.0) for n in sizes]
    return features, targets, labels


def make_problem(kind, sizes=(7, 4, 9), dimension=3, seed=0, ridge=0.1):
    features, targets, labels = split_records(sizes, dimension, seed)
    if kind == "linear_regression":
        return linear_regression(features, targets, ridge=ridge)
    if kind == "logistic_regression":
        return logistic_regression(features, labels, ridge=ridge)
    return mean_estimation([np.clip(x, -1.5, 1.5) for x in features], radius=1.5)


def agent_row(arrays, agent):
    return {name: array[agent] for name, array in arrays.items()}


def gradients_of_records(problem, model, agent):
    """The gradient of every record of this agent, ridge included, by batches of one."""
    data = agent_row(problem.arrays, agent)
    each = [problem.batch_gradient(model, problem.records(data, np.array([i]))) for i in range(problem.sizes[agent])]
    return np.array(each)


@pytest.fixture(scope="session")
def split():
    return split_records


@pytest.fixture(scope="session")
def make():
    return make_problem


@pytest.fixture(scope="session")
def row():
    return agent_row


@pytest.fixture(scope="session")
def record_gradients():
    return gradients_of_records


@pytest.fixture(params=sorted(set(PROBLEMS) - {"classification"}))  # which has no optimum and tests of its own
def kind(request):
    return request.param


@pytest.fixture(params=CLIPS, ids=["unclipped", "l2", "l1"])
def problem(request, kind):
    made = make_problem(kind)
    return made if request.param is None else made.with_clipping(*request.param)
