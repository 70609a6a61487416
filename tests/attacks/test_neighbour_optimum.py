"""A neighbour's own optimum from its gradients: exact without noise, with the stated covariance under noise."""

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.attacks.gradient_recovery import gradients_from_views
from sottovoce.attacks.neighbour_optimum import logistic_optimum, quadratic_optimum
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.simulation.views import observe

D = 3
RNG = np.random.default_rng(8)
ROOT = RNG.standard_normal((D, 2 * D))
HESSIAN = ROOT @ ROOT.T / D + 0.2 * np.eye(D)
OPTIMUM = np.array([0.4, -1.0, 0.7])
POINTS = OPTIMUM + RNG.standard_normal((9, D))
GRADIENTS = (POINTS - OPTIMUM) @ HESSIAN


def test_d_plus_one_gradients_determine_a_quadratic_risk():
    found = quadratic_optimum(POINTS[: D + 1], GRADIENTS[: D + 1])
    np.testing.assert_allclose(found.optimum, OPTIMUM, atol=1e-10)
    np.testing.assert_allclose(found.hessian, HESSIAN, atol=1e-9)
    assert found.residual < 1e-12


def test_d_gradients_do_not():
    with pytest.raises(IncompatibleChoice, match="span 2 of 3 directions"):
        quadratic_optimum(POINTS[:D], GRADIENTS[:D])


def test_points_in_a_hyperplane_do_not():
    flat = POINTS.copy()
    flat[:, 0] = 2 * flat[:, 1] + 1
    with pytest.raises(IncompatibleChoice, match="hyperplane"):
        quadratic_optimum(flat, (flat - OPTIMUM) @ HESSIAN)


def test_with_a_known_hessian_one_gradient_is_enough():
    found = quadratic_optimum(POINTS[:1], GRADIENTS[:1], hessian=HESSIAN)
    np.testing.assert_allclose(found.optimum, OPTIMUM, atol=1e-10)


@pytest.mark.parametrize("known", [None, HESSIAN])
def test_the_error_under_noise_has_the_stated_covariance(known):
    # 2000 fits; whitened by the stated covariance the error has mean square 1, with standard deviation sqrt(2 / 6000) = 0.018.
    std, rng = 1e-3, np.random.default_rng(4)
    C = quadratic_optimum(POINTS, GRADIENTS, hessian=known).unit_covariance * std**2
    errors = np.array([
        quadratic_optimum(POINTS, GRADIENTS + std * rng.standard_normal(GRADIENTS.shape), hessian=known).optimum - OPTIMUM
        for _ in range(2000)
    ])  # fmt: skip
    whitened = np.linalg.solve(np.linalg.cholesky(C), errors.T)

    def p_value(factor):
        p = stats.chi2.cdf((whitened**2).sum() * factor, whitened.size)
        return 2 * min(p, 1 - p)

    assert p_value(1.0) > 1e-4
    assert p_value((3 / 2) ** 2) < 1e-6
    assert p_value((2 / 3) ** 2) < 1e-6
    assert np.abs(np.corrcoef(whitened)[np.triu_indices(D, 1)]).max() < 5 / np.sqrt(2000)


def test_points_that_have_converged_make_the_error_larger():
    near = POINTS.mean(axis=0) + 0.1 * (POINTS - POINTS.mean(axis=0))
    spread = quadratic_optimum(POINTS, GRADIENTS).unit_covariance
    close = quadratic_optimum(near, (near - OPTIMUM) @ HESSIAN).unit_covariance
    assert np.trace(close) > 5 * np.trace(spread)


K, RING, ATC = 4, sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1)
DATA = np.random.default_rng(0)
PROBLEM = sv.problems.linear_regression(DATA.standard_normal((K, 8, D)), DATA.standard_normal((K, 8)), ridge=0.1)


def fits_from_messages(noise, agent, repeats):
    views = observe(PROBLEM, RING, ATC, noise, sv.observers.eavesdropper(), rounds=12, repeats=repeats)
    seen = gradients_from_views(views, agent=agent, topology=RING, algorithm=ATC, noise=noise, start=np.zeros(D))
    return seen, [quadratic_optimum(w, g) for w, g in zip(seen.points, seen.gradients, strict=True)]


def own_optimum(agent):
    return np.linalg.solve(PROBLEM.arrays["hessian"][agent], PROBLEM.arrays["linear"][agent])


@pytest.mark.parametrize("agent", range(K))
def test_an_eavesdropper_has_every_agents_own_optimum(agent):
    _, (found,) = fits_from_messages(sv.noise.none(), agent, 1)
    np.testing.assert_allclose(found.optimum, own_optimum(agent), atol=1e-8)
    assert np.linalg.norm(found.optimum - PROBLEM.optimum) > 0.1  # which is not the one they learn together


def test_an_eavesdroppers_error_under_noise_is_the_stated_one():
    # 300 runs x 3 coordinates; the noise is small, so that first order holds although later points react to it.
    seen, fits = fits_from_messages(sv.noise.independent(sv.noise.Gaussian(std=1e-5)), 1, 300)
    whitened = np.array(
        [np.linalg.solve(np.linalg.cholesky(f.unit_covariance), f.optimum - own_optimum(1)) for f in fits]
    )
    total = ((whitened / seen.gradient_std[0]) ** 2).sum()

    def p_value(factor):
        p = stats.chi2.cdf(total * factor, whitened.size)
        return 2 * min(p, 1 - p)

    assert p_value(1.0) > 1e-4
    assert p_value((3 / 2) ** 2) < 1e-6
    assert p_value((2 / 3) ** 2) < 1e-6


def logistic_case(records, dimension, points, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((records, dimension)), np.where(np.arange(records) % 2, 1.0, -1.0)
    problem = sv.problems.logistic_regression([x], [y], ridge=0.2)
    data = {name: array[0] for name, array in problem.arrays.items()}
    w = 2 * rng.standard_normal((points, dimension))
    return problem, w, np.stack([problem.gradient(point, data) for point in w])


def test_a_logistic_optimum_is_exact_when_the_number_of_records_is_known():
    problem, w, g = logistic_case(records=3, dimension=2, points=12, seed=0)
    found = logistic_optimum(w, g, ridge=0.2, records=3)
    np.testing.assert_allclose(found.optimum, problem.optimum, atol=1e-7)
    assert found.residual < 1e-9
    # The fitted records are the true ones, y x, in some order.
    true = problem.features[0] * problem.labels[0][:, None]
    distance = np.linalg.norm(found.records[:, None] - true[None], axis=2).min(axis=1)
    assert distance.max() < 1e-5


def test_a_few_fitted_records_stand_for_many():
    problem, w, g = logistic_case(records=40, dimension=2, points=12, seed=1)
    found = logistic_optimum(w, g, ridge=0.2, records=4)
    assert np.linalg.norm(found.optimum - problem.optimum) < 0.1 * np.linalg.norm(problem.optimum)


def test_noise_moves_a_logistic_optimum_in_proportion():
    problem, w, g = logistic_case(records=3, dimension=2, points=12, seed=0)
    rng = np.random.default_rng(5)
    sizes = []
    for std in (1e-4, 1e-2):
        fits = [
            logistic_optimum(w, g + std * rng.standard_normal(g.shape), ridge=0.2, records=3, starts=3)
            for _ in range(6)
        ]
        sizes.append(np.sqrt(np.mean([(fit.optimum - problem.optimum) ** 2 for fit in fits])))
        assert np.mean([fit.residual for fit in fits]) < 1.2 * std
    assert 20 < sizes[1] / sizes[0] < 500


def test_malformed_input_is_named():
    with pytest.raises(IncompatibleChoice, match="as many points as records"):
        logistic_optimum(POINTS, GRADIENTS, ridge=0.1, records=10)
    with pytest.raises(IncompatibleChoice, match="no inverse"):
        quadratic_optimum(POINTS, GRADIENTS, hessian=np.diag([1.0, 1.0, 0.0]))
    for ridge in (0.0, True, np.nan):
        with pytest.raises(ConfigError, match="ridge"):
            logistic_optimum(POINTS, GRADIENTS, ridge=ridge, records=2)
    with pytest.raises(ConfigError, match="shape"):
        quadratic_optimum(POINTS, GRADIENTS[:3])
    with pytest.raises(ConfigError, match="hessian"):
        quadratic_optimum(POINTS, GRADIENTS, hessian=np.eye(2))
