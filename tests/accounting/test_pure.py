"""Pure epsilon-DP: which norm, and what it implies elsewhere."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting import gaussian, pure


def spherical(random, count, dimension, scale, shape=None):
    """Draws with density ~ exp(-||x||_2 / scale): radius Gamma(dimension), unless `shape` says otherwise."""
    direction = random.normal(size=(count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return random.gamma(dimension if shape is None else shape, scale, size=(count, 1)) * direction


def losses(x, shift, scale, order):
    """ln of density at x over density at x of the same law moved by shift."""
    return (np.linalg.norm(x - shift, order, axis=1) - np.linalg.norm(x, order, axis=1)) / scale


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_the_spherical_law_spends_exactly_epsilon_for_its_l2_sensitivity(dimension):
    """Never more on draws, and all of it far out along the change; 20,000 draws, largest loss by construction exact."""
    random = np.random.default_rng(dimension)
    shift = random.normal(size=dimension)
    sensitivity = float(np.linalg.norm(shift))
    scale = pure.l2_laplace_scale(0.7, sensitivity)
    assert losses(spherical(random, 20_000, dimension, scale), shift, scale, 2).max() <= 0.7 + 1e-12
    attained = losses(-1e4 * shift[None, :], shift, scale, 2)[0]
    assert attained == pytest.approx(0.7, rel=1e-9)
    assert pure.l2_laplace_epsilon(scale, sensitivity) == pytest.approx(0.7, rel=1e-15)


@pytest.mark.parametrize("dimension", [2, 5])
def test_the_losses_are_those_of_the_law_drawn(dimension):
    """E exp(-loss) = 1 holds only if draws and density belong together: a wrong radius law is rejected.

    100,000 draws; exp(-loss) lies in [1/e, e], so five standard errors are below 0.02.
    """
    random = np.random.default_rng(10 + dimension)
    shift = np.zeros(dimension)
    shift[0] = 1.0

    def standard_errors(shape):
        values = np.exp(-losses(spherical(random, 100_000, dimension, 1.0, shape), shift, 1.0, 2))
        return abs(values.mean() - 1) / (values.std() / math.sqrt(len(values)))

    assert standard_errors(None) < 5
    assert standard_errors(dimension - 0.9) > 10


@pytest.mark.parametrize("dimension", [2, 5])
def test_coordinate_wise_noise_with_an_l2_sensitivity_breaks_its_epsilon(dimension):
    """The diagonal change of l2 norm 1 has l1 norm sqrt(d): the loss reaches sqrt(d) epsilon, often."""
    random = np.random.default_rng(dimension)
    epsilon, shift = 1.0, np.full(dimension, dimension**-0.5)
    wrong = pure.laplace_scale(epsilon, float(np.linalg.norm(shift, 2)))
    right = pure.laplace_scale(epsilon, float(np.linalg.norm(shift, 1)))
    draws = random.laplace(size=(200_000, dimension))
    violated, kept = losses(wrong * draws, shift, wrong, 1), losses(right * draws, shift, right, 1)
    assert violated.max() == pytest.approx(math.sqrt(dimension) * epsilon, rel=1e-12)
    assert np.mean(violated > epsilon) > 0.05
    assert np.maximum(-np.expm1(epsilon - violated), 0).mean() > 0.01  # its delta at the epsilon claimed; must be 0
    assert kept.max() <= epsilon + 1e-12
    assert kept.max() == pytest.approx(epsilon, rel=1e-12)


def test_laplace_scale_inverts_epsilon():
    assert pure.laplace_scale(0.5, 3.0) == 6.0
    assert pure.laplace_epsilon(6.0, 3.0) == 0.5


@pytest.mark.parametrize("epsilon0", [1e-9, 0.01, math.log(3), 5.0, 40.0])
def test_delta_is_the_hockey_stick_divergence_of_randomized_response(epsilon0):
    """Two answers with probabilities a, 1 - a against 1 - a, a, a = e^epsilon0 / (1 + e^epsilon0), at 60 digits."""
    with mp.workdps(60):
        a = mp.exp(mp.mpf(epsilon0)) / (1 + mp.exp(mp.mpf(epsilon0)))
        for epsilon in (0.0, 0.3 * epsilon0, 0.99 * epsilon0, 1.5 * epsilon0):
            growth = mp.exp(mp.mpf(epsilon))
            exact = max(a - growth * (1 - a), 0) + max(1 - a - growth * a, 0)
            assert pure.delta(epsilon0, epsilon) == pytest.approx(float(exact), rel=1e-12)


@settings(deadline=None)
@given(st.floats(1e-6, 1e4), st.floats(0.0, 0.999))
def test_epsilon_inverts_delta(epsilon0, share):
    epsilon = share * epsilon0
    delta = pure.delta(epsilon0, epsilon)
    if delta < 1.0:
        back = pure.epsilon(epsilon0, delta)
        assert pure.delta(epsilon0, back) == pytest.approx(delta, rel=1e-9)
    assert pure.epsilon(epsilon0, 0.0) == epsilon0


@pytest.mark.parametrize("epsilon0", [1e-6, 0.1, 1.0, math.log(3), 6.0, 30.0])
def test_the_gaussian_curve_of_mu_dominates_every_pure_mechanism_and_touches_at_the_corner(epsilon0):
    """The corner is where the curve has slope -1, epsilon = 0; a slightly smaller mu fails there."""
    mu = pure.mu(epsilon0)
    for epsilon in np.linspace(0.0, 1.2 * epsilon0, 200):
        assert gaussian.delta(mu, epsilon) >= pure.delta(epsilon0, epsilon) * (1 - 1e-12)
    assert gaussian.delta(mu, 0.0) == pytest.approx(pure.delta(epsilon0, 0.0), rel=1e-13)
    assert gaussian.delta(mu * (1 - 1e-3), 0.0) < pure.delta(epsilon0, 0.0)


@pytest.mark.parametrize("epsilon0", [1e-12, 1e-4, 0.5, 0.999, 1.0, 3.0, 40.0, 700.0, 1e4])
def test_mu_solves_its_equation_to_sixty_digits_even_where_e_to_the_epsilon_overflows(epsilon0):
    """Phi(-mu / 2) = 1 / (1 + e^epsilon0), compared as logarithms, or as erf = tanh where both are near one half."""
    mu = pure.mu(epsilon0)
    with mp.workdps(60):
        if epsilon0 < 1:
            assert float(mp.erf(mp.mpf(mu) / mp.sqrt(8)) / mp.tanh(mp.mpf(epsilon0) / 2)) == pytest.approx(1, rel=1e-13)
        else:
            left, right = mp.log(mp.ncdf(-mp.mpf(mu) / 2)), -mp.log1p(mp.exp(mp.mpf(epsilon0)))
            assert float(left / right) == pytest.approx(1, rel=1e-12)


def test_infinite_and_zero_pure_epsilon():
    assert pure.delta(math.inf, 2.0) == 1.0
    assert pure.epsilon(math.inf, 0.5) == pure.mu(math.inf) == math.inf
    assert pure.delta(0.0, 0.0) == pure.epsilon(0.0, 0.0) == pure.mu(0.0) == 0.0
    assert pure.epsilon(0.1, 0.5) == 0.0


@pytest.mark.parametrize("bad", [math.nan, -1.0, True, "1"])
def test_malformed_numbers_are_refused(bad):
    for call in (
        lambda: pure.laplace_epsilon(bad, 1.0),
        lambda: pure.laplace_scale(1.0, bad),
        lambda: pure.l2_laplace_epsilon(1.0, bad),
        lambda: pure.l2_laplace_scale(bad, 1.0),
        lambda: pure.delta(bad, 1.0),
        lambda: pure.epsilon(1.0, bad),
        lambda: pure.mu(bad),
    ):
        with pytest.raises(sv.ConfigError):
            call()
