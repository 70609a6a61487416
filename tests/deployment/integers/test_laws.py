"""A law of noise becomes its rounded form at the scale of the round, or is refused."""

import pytest

import sottovoce as sv
from sottovoce.deployment.integers import RoundedGaussian, RoundedLaplace, rounded
from sottovoce.errors import ConfigError, IncompatibleChoice


def test_each_law_becomes_its_rounded_form_at_the_scale_of_the_round():
    assert rounded(sv.noise.Gaussian(std=0.3), 2.0**20) == RoundedGaussian(std=2.0**20)
    assert rounded(sv.noise.Laplace(std=0.3), 2.0**20) == RoundedLaplace(std=2.0**20)


def test_the_spherical_law_is_refused_with_what_to_use():
    with pytest.raises(IncompatibleChoice, match="Gaussian or Laplace"):
        rounded(sv.noise.L2Laplace(scale=0.3), 2.0**20)


@pytest.mark.parametrize("law", [sv.noise.Gaussian(std=1.0), sv.noise.Laplace(std=1.0)])
@pytest.mark.parametrize("scale", [0.0, 2.0**-11, 2.0**37, float("nan")])
def test_scales_out_of_range_are_refused(law, scale):
    with pytest.raises(ConfigError, match="units"):
        rounded(law, scale)
