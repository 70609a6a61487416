"""Optima are stationary; constants are eigenvalues; promises about losses hold on random pairs of models."""

import numpy as np
import pytest

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems import ConvexSmooth, linear_regression, logistic_regression, mean_estimation


def weighted_gradient(problem, model, weights, row):
    return sum(w * problem.gradient(model, row(problem.arrays, k)) for k, w in enumerate(weights))


def hessian(problem, model, agent, row, step=1e-5):
    data = row(problem.arrays, agent)
    columns = [
        (problem.gradient(model + step * e, data) - problem.gradient(model - step * e, data)) / (2 * step)
        for e in np.eye(problem.dimension)
    ]
    return np.array(columns).T


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 0.5])
def test_gradient_vanishes_at_the_optimum(kind, make, row, ridge):
    problem = make(kind, sizes=(30, 12, 25), ridge=ridge)
    uniform = np.full(3, 1 / 3)
    assert np.linalg.norm(weighted_gradient(problem, problem.optimum, uniform, row)) < 1e-10
    assert problem.optimum is problem.optimum


def test_weighted_gradient_vanishes_at_the_weighted_optimum(kind, make, row):
    problem = make(kind, sizes=(30, 12, 25))
    weights = np.array([0.2, 0.7, 0.1])
    optimum = problem.weighted_optimum(weights)
    assert np.linalg.norm(weighted_gradient(problem, optimum, weights, row)) < 1e-10
    np.testing.assert_allclose(problem.weighted_optimum(10 * weights), optimum, atol=1e-9)
    np.testing.assert_allclose(problem.weighted_optimum(np.ones(3)), problem.optimum, atol=1e-9)
    assert np.linalg.norm(optimum - problem.optimum) > 1e-3


def test_an_agent_of_weight_zero_does_not_move_the_weighted_optimum(kind, make, row):
    problem = make(kind, sizes=(30, 12, 25))
    one = problem.weighted_optimum([1.0, 0.0, 0.0])
    assert np.linalg.norm(problem.gradient(one, row(problem.arrays, 0))) < 1e-10


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [np.nan, 1, 1], ["a", "b", "c"]])
def test_meaningless_weights_are_refused(kind, make, weights):
    with pytest.raises(ConfigError, match="weights"):
        make(kind).weighted_optimum(weights)


def test_separable_data_without_ridge_have_no_optimum():
    features = [np.array([[1.0, 0.2], [2.0, -1.0]]), np.array([[-1.0, 0.3], [-0.5, 1.0]])]
    labels = [np.array([1, 1]), np.array([-1, -1])]
    with pytest.raises(UnsupportedClaim, match="separates the two classes"):
        _ = logistic_regression(features, labels).optimum
    assert np.isfinite(logistic_regression(features, labels, ridge=1e-4).optimum).all()


def test_quasi_separable_data_without_ridge_have_no_optimum():
    # The two records at zero contradict each other; every other lies on its side.
    features = np.array([[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]])
    with pytest.raises(UnsupportedClaim, match="ridge"):
        _ = logistic_regression(features, [[1, -1, 1, -1]]).optimum


def test_dependent_features_without_ridge_give_the_shortest_optimum(row, split):
    features, targets, labels = split(sizes=(40, 30))
    doubled = [np.concatenate([x, x], axis=1) for x in features]
    for make_one, values in ((linear_regression, targets), (logistic_regression, labels)):
        optimum = make_one(doubled, values).optimum
        np.testing.assert_allclose(optimum[:3], optimum[3:], atol=1e-8)
        np.testing.assert_allclose(optimum[:3] * 2, make_one(features, values).optimum, atol=1e-7)


def test_features_of_very_different_scales_still_reach_the_optimum(row, split):
    features, _, labels = split(sizes=(60, 40))
    scaled = [x * np.array([1e3, 1.0, 1e-2]) for x in features]
    problem = logistic_regression(scaled, labels, ridge=1e-6)
    assert np.linalg.norm(weighted_gradient(problem, problem.optimum, [0.5, 0.5], row)) < 1e-7


def test_constants_of_quadratics_are_the_eigenvalues_of_the_hessians(make, row):
    problem = make("linear_regression", sizes=(7, 2, 9))  # agent 1 has fewer records than parameters
    constants = problem.constants
    hessians = [hessian(problem, np.zeros(3), k, row) for k in range(3)]
    for k in range(3):
        eigenvalues = np.linalg.eigvalsh(hessians[k])
        assert constants.local_smoothness[k] == pytest.approx(eigenvalues[-1], rel=1e-6)
        assert constants.local_strong_convexity[k] == pytest.approx(eigenvalues[0], rel=1e-6)
    eigenvalues = np.linalg.eigvalsh(np.mean(hessians, axis=0))
    assert constants.smoothness == pytest.approx(eigenvalues[-1], rel=1e-6)
    assert constants.strong_convexity == pytest.approx(eigenvalues[0], rel=1e-6)


def test_logistic_constants_hold_at_every_model_and_are_attained_at_zero(make, row):
    problem = make("logistic_regression")
    constants = problem.constants
    for model in np.random.default_rng(1).standard_normal((20, 3)):
        for k in range(3):
            eigenvalues = np.linalg.eigvalsh(hessian(problem, model, k, row))
            assert eigenvalues[-1] <= constants.local_smoothness[k] + 1e-8
            assert eigenvalues[0] >= constants.local_strong_convexity[k] - 1e-8
    for k in range(3):
        at_zero = np.linalg.eigvalsh(hessian(problem, np.zeros(3), k, row))[-1]
        assert constants.local_smoothness[k] == pytest.approx(at_zero, rel=1e-6)
    at_zero = np.linalg.eigvalsh(np.mean([hessian(problem, np.zeros(3), k, row) for k in range(3)], axis=0))[-1]
    assert constants.smoothness == pytest.approx(at_zero, rel=1e-6)
    assert constants.strong_convexity == problem.ridge


def test_global_constants_lie_between_the_local_ones(kind, make):
    constants = make(kind, sizes=(12, 20, 15)).constants
    assert constants.strong_convexity >= constants.local_strong_convexity.min() - 1e-12
    assert constants.smoothness <= constants.local_smoothness.max() + 1e-12
    assert constants.local_smoothness.max() <= constants.record_smoothness + 1e-12


def test_missing_curvature_is_reported_as_exactly_zero():
    features = np.ones((2, 5, 2))
    constants = linear_regression(features, np.zeros((2, 5))).constants
    assert constants.strong_convexity == 0.0
    assert (constants.local_strong_convexity == 0.0).all()


def test_promised_losses_hold_for_every_record_on_random_pairs(problem, record_gradients):
    promise = problem.losses
    if promise is None:
        assert (problem.kind, problem.clip.norm) == ("mean_estimation", "l1")
        return
    generator = np.random.default_rng(2)
    for _ in range(100):
        first, second = generator.standard_normal((2, 3)) * generator.choice([0.1, 1.0, 5.0])
        for k in range(problem.num_agents):
            change = record_gradients(problem, first, k) - record_gradients(problem, second, k)
            step = first - second
            assert (change @ step >= promise.nu * step @ step - 1e-10).all()
            assert (np.linalg.norm(change, axis=1) <= promise.beta * np.linalg.norm(step) + 1e-10).all()


def test_the_promised_smoothness_is_attained_by_some_record(make, record_gradients):
    problem = make("linear_regression")
    steepest = max(
        np.linalg.norm(record_gradients(problem, x, k)[i] - record_gradients(problem, 0 * x, k)[i]) / np.linalg.norm(x)
        for k in range(3)
        for i, x in enumerate(problem.features[k, : problem.sizes[k]])
        if x.any()
    )
    assert problem.losses.beta == pytest.approx(steepest)


def test_promises_are_those_of_the_unclipped_ridge(make):
    assert make("linear_regression").losses.nu == pytest.approx(0.2)
    assert make("logistic_regression").losses.nu == pytest.approx(0.1)
    assert make("mean_estimation").losses == ConvexSmooth(1.0, 1.0)
    assert make("mean_estimation").with_clipping(1.0, "l2").losses == ConvexSmooth(1.0, 0.0)


def test_l1_clipped_points_break_monotonicity_so_nothing_is_promised():
    problem = mean_estimation(np.zeros((1, 1, 2)), radius=1.0).with_clipping(1.0, "l1")
    first, second = np.array([10.0, 1.0]), np.array([9.0, 4.0])
    data = {name: array[0] for name, array in problem.arrays.items()}
    pairs = np.random.default_rng(0).uniform(-5, 5, (2000, 2, 2))
    inner = [(problem.gradient(a, data) - problem.gradient(b, data)) @ (a - b) for a, b in [(first, second), *pairs]]
    assert min(inner) < -1e-3
    assert problem.losses is None


@pytest.mark.parametrize(("beta", "nu"), [(0.0, 0.0), (-1.0, 0.0), (float("inf"), 0.0), (1.0, -0.1), (1.0, 2.0)])
def test_impossible_promise_is_refused(beta, nu):
    with pytest.raises(ConfigError, match="ConvexSmooth needs"):
        ConvexSmooth(beta, nu)


def test_quadratic_records_reproduce_every_gradient(make, row, record_gradients):
    for kind in ("linear_regression", "mean_estimation"):
        problem = make(kind)
        quadratic = problem.quadratic
        for model in np.random.default_rng(3).standard_normal((3, 3)):
            for k in range(3):
                affine = quadratic.hessian[k] @ model - quadratic.offset[k]
                np.testing.assert_allclose(affine, problem.gradient(model, row(problem.arrays, k)), atol=1e-12)
                maps = quadratic.record_maps(k)
                assert maps.shape == (problem.sizes[k], 3, 4)
                np.testing.assert_allclose(
                    maps @ np.append(model, 1.0), record_gradients(problem, model, k), atol=1e-12
                )


def test_only_unclipped_quadratics_are_quadratic(problem):
    assert (problem.quadratic is None) == (problem.clip is not None or problem.kind == "logistic_regression")
    assert ("hessian" in problem.arrays) == (problem.clip is None and problem.kind == "linear_regression")


@pytest.mark.parametrize(("records", "dimension"), [(3, 5), (4, 600)])
def test_wide_problems_keep_features_instead_of_hessians(row, records, dimension):
    generator = np.random.default_rng(4)
    features, targets = generator.standard_normal((2, records, dimension)), generator.standard_normal((2, records))
    problem = linear_regression(features, targets, ridge=0.1)
    assert "hessian" not in problem.arrays
    model = generator.standard_normal(dimension)
    expected = -2 * features[0].T @ (targets[0] - features[0] @ model) / records + 0.2 * model
    np.testing.assert_allclose(problem.gradient(model, row(problem.arrays, 0)), expected, atol=1e-10)
    errors = targets - features @ model
    assert problem.risk(model, problem.arrays) == pytest.approx((errors**2).mean() + 0.1 * model @ model)
    assert np.linalg.norm(weighted_gradient(problem, problem.optimum, [0.5, 0.5], row)) < 1e-10
