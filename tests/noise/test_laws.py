"""Laws and schedules: scales, norms, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce as sv


def test_laplace_scale_is_std_over_root_two():
    assert sv.noise.Laplace(std=2.0).scale == pytest.approx(2.0 / 2**0.5)


def test_l2_laplace_variance_is_d_plus_one_scale_squared():
    assert sv.noise.L2Laplace(scale=0.5).variance(3) == pytest.approx(4 * 0.25)
    assert sv.noise.L2Laplace(scale=0.5).variance(1) == pytest.approx(sv.noise.Laplace(std=0.5 * 2**0.5).variance(1))


def test_each_law_states_the_norm_its_sensitivity_needs():
    norms = {kind: law(**{"scale" if kind == "l2_laplace" else "std": 1.0}).norm for kind, law in sv.noise.LAWS.items()}
    assert norms == {"laplace": "l1", "gaussian": "l2", "l2_laplace": "l2"}


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "big"])
@pytest.mark.parametrize(
    "make",
    [lambda v: sv.noise.Laplace(std=v), lambda v: sv.noise.Gaussian(std=v), lambda v: sv.noise.L2Laplace(scale=v)],
)
def test_a_scale_that_is_not_positive_and_finite_is_refused(make, bad):
    with pytest.raises(sv.ConfigError, match=r"none\(\)"):
        make(bad)


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_scaling_multiplies_the_standard_deviation(std, factor):
    noise = sv.noise.independent(sv.noise.Gaussian(std=std)).scaled(factor)
    assert noise.law.std == pytest.approx(std * factor)


def test_schedules_multiply_round_by_round_whatever_their_form():
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    listed = noise.scaled([1.0, 2.0, 3.0])
    np.testing.assert_allclose(listed.factors(3), [1, 2, 3])
    np.testing.assert_allclose(noise.scaled(lambda t: 1 / t).factors(3), [1, 1 / 2, 1 / 3])
    np.testing.assert_allclose(listed.scaled(lambda t: 1 / t).factors(3), [1, 1, 1])
    np.testing.assert_allclose(noise.scaled(lambda t: 1 / t).scaled([1.0, 2.0, 3.0]).factors(3), [1, 1, 1])
    np.testing.assert_allclose(noise.factors(2), [1, 1])


def test_a_schedule_shorter_than_the_run_is_refused():
    with pytest.raises(sv.ConfigError, match="2 factors but the run has 3 rounds"):
        sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled([1.0, 1.0]).factors(3)


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_a_negative_or_undefined_factor_is_refused_with_its_round(bad):
    with pytest.raises(sv.ConfigError, match="round 2"):
        sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled([1.0, bad]).factors(2)


def test_uniform_times_gamma_is_exponential():
    """The law behind Rizk et al. 2023, Definition 2: U(0, 1) * Gamma(2, 1) ~ Exp(1); a Gamma(3, 1) factor is rejected."""
    from scipy.stats import kstest

    generator = np.random.default_rng(1)
    u = generator.random(100_000)
    assert kstest(u * generator.gamma(2.0, size=u.size), "expon").pvalue > 1e-4
    assert kstest(u * generator.gamma(3.0, size=u.size), "expon").pvalue < 1e-4
