"""Small problems shared by the simulation tests."""

import numpy as np
import pytest

import sottovoce as sv


@pytest.fixture(scope="session")
def regression():
    """Six agents of unequal size, three parameters."""
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(n, 3)) * 0.6 for n in (5, 8, 6, 9, 7, 5)]
    targets = [x @ np.array([1.0, -0.5, 0.2]) + 0.1 * generator.normal(size=len(x)) for x in features]
    return sv.problems.linear_regression(features, targets, ridge=0.05)


@pytest.fixture(scope="session")
def directed():
    """A non-symmetric left-stochastic matrix on six agents in which everyone hears at least two others."""
    generator = np.random.default_rng(4)
    matrix = generator.random((6, 6)) * (generator.random((6, 6)) < 0.5) + 0.3 * np.eye(6)
    matrix += 0.2 * (np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), 2, axis=0))
    return sv.topologies.from_matrix(matrix / matrix.sum(axis=0))
