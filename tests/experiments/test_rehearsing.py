"""What a rehearsal takes for granted when it bounds the difference between parties and simulation."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments.rehearsing.outcome import _curvature

FEATURES = [np.random.default_rng(agent).normal(size=(9, 3)) for agent in range(2)]
TARGETS = [10.0 * x.sum(1) for x in FEATURES]


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(
    "problem",
    [
        sv.problems.linear_regression(FEATURES, TARGETS, ridge=0.1),
        sv.problems.logistic_regression(FEATURES, [np.sign(y) for y in TARGETS], ridge=0.1),
        sv.problems.mean_estimation(FEATURES, radius=9.0),
    ],
    ids=lambda problem: problem.kind,
)
def test_clipped_gradients_change_as_little_and_as_much_as_the_bound_assumes(problem, batch_size):
    clipped = problem.with_clipping(0.5, "l2")
    largest, smallest = _curvature(clipped, batch_size)
    generator, found = np.random.default_rng(0), []
    for agent in range(2):
        data = {name: values[agent] for name, values in clipped.arrays.items()}
        for _ in range(200):
            model, step = generator.normal(size=3), 1e-3 * generator.normal(size=3)
            if batch_size is None:
                change = clipped.gradient(model + step, data) - clipped.gradient(model, data)
            else:
                batch = clipped.records(data, generator.integers(9, size=batch_size))
                change = clipped.batch_gradient(model + step, batch) - clipped.batch_gradient(model, batch)
            found.append(change @ step / (step @ step))
    assert smallest - 1e-9 <= min(found)
    assert max(found) <= largest + 1e-9
    # Clipping really took curvature away, so that the eigenvalues of the data would have been too much.
    if problem.kind != "logistic_regression":
        assert min(found) < problem.constants.local_strong_convexity.min()


def test_gradients_of_no_convex_loss_have_no_curvature_to_count_on():
    with pytest.raises(UnsupportedClaim, match="Measure the difference"):
        _curvature(sv.problems.mean_estimation(FEATURES, radius=9.0).with_clipping(0.5, "l1"), None)
