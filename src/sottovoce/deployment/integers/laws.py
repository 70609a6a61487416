"""Which whole-number law stands for a law of noise."""

from sottovoce.deployment.integers.rounded_gaussian import RoundedGaussian
from sottovoce.deployment.integers.rounded_laplace import RoundedLaplace
from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import Gaussian, Laplace, Law


def rounded(law: Law, scale_in_units: float) -> RoundedGaussian | RoundedLaplace:
    """The law of a source, rounded to whole numbers.

    Args:
        law: what kind of law.
        scale_in_units: its standard deviation in the round, in units of the lattice; takes the place of the law's own.

    Raises:
        IncompatibleChoice: the spherical law L2Laplace, for which there is no sampler with a proof.
        ConfigError: a scale out of the range in which draws are exact.
    """
    if isinstance(law, Gaussian):
        return RoundedGaussian(std=scale_in_units)
    if isinstance(law, Laplace):
        return RoundedLaplace(std=scale_in_units)
    raise IncompatibleChoice(
        f"The noise law is {type(law).__name__}, whose coordinates depend on each other through one radius, so that no "
        "comparison of bits draws them one by one. Among real parties use Gaussian or Laplace noise."
    )
