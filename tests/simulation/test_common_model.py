"""The model that a run hands out is the one its metrics were measured at."""

import numpy as np
import pytest

import sottovoce as sv

GENERATOR = np.random.default_rng(3)
FEATURES, TARGETS = GENERATOR.normal(size=(4, 8, 3)), GENERATOR.normal(size=(4, 8))
PROBLEM = sv.problems.linear_regression(FEATURES, TARGETS, ridge=0.1)
LEFT_STOCHASTIC = sv.topologies.from_matrix(
    [[0.5, 0.2, 0.0, 0.4], [0.5, 0.5, 0.1, 0.0], [0.0, 0.3, 0.6, 0.3], [0.0, 0.0, 0.3, 0.3]]
)


@pytest.mark.parametrize(
    ("topology", "algorithm"),
    [
        (LEFT_STOCHASTIC, sv.algorithms.atc(step_size=0.1)),
        (sv.topologies.complete(4).with_walk(), sv.algorithms.random_walk(step_size=0.1)),
    ],
    ids=["centroid", "token"],
)
def test_the_common_model_is_where_the_metrics_are_measured(topology, algorithm, tmp_path):
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    run = sv.simulate(PROBLEM, topology, algorithm, noise, rounds=7, repeats=3, dtype="float64", progress=False)
    assert run.common.shape == (3, 3)
    distances = ((run.common - PROBLEM.optimum) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, run.metrics["msd_centroid"][:, -1], rtol=1e-9)
    uniform = ((run.models.mean(axis=1) - PROBLEM.optimum) ** 2).sum(axis=1)
    assert not np.allclose(distances, uniform, rtol=1e-3)  # the plain average is another model
    sv.save(run, tmp_path / "run")
    np.testing.assert_array_equal(sv.load(tmp_path / "run").common, run.common)
