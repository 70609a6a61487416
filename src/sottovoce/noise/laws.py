"""Laws of one noise source: Laplace, Gaussian, and the spherical l2-Laplace.

    Laplace      coordinates independent, density ~ exp(-||x||_1 / b),  variance 2 b^2 per coordinate
    Gaussian     coordinates independent, density ~ exp(-||x||_2^2 / (2 sigma^2))
    L2Laplace    density ~ exp(-||x||_2 / b): coordinates uncorrelated but dependent, variance (d+1) b^2 each

`norm` is the norm in which a sensitivity must be stated for that law: l1 for Laplace, l2 for the other two. Rizk et al. 2023
(eq. 30) and Vlaski & Sayed (11.40-11.51) pair the coordinate-wise Laplace law with an l2 bound; that is off by up to sqrt(d).
"""

import math
from dataclasses import dataclass
from typing import Literal

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number

Norm = Literal["l1", "l2"]


def _positive(name: str, value: float) -> None:
    if not is_number(value, "(0, inf)"):
        raise ConfigError(
            f"{name} = {value!r}; the scale of a noise law must be a finite number above 0. "
            f"For no noise at all, write sv.noise.none()."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Independent Laplace coordinates with standard deviation `std` (scale b = std / sqrt 2)."""

    std: float

    def __post_init__(self) -> None:
        _positive("Laplace std", self.std)

    @property
    def norm(self) -> Norm:
        """The norm in which a sensitivity must be given for this law."""
        return "l1"

    @property
    def scale(self) -> float:
        """The parameter b of the density exp(-|x| / b) / (2 b)."""
        return self.std / math.sqrt(2.0)

    def variance(self, dimension: int) -> float:
        """Variance of one coordinate of a `dimension`-dimensional draw."""
        return self.std**2

    def scaled(self, factor: float) -> "Laplace":
        """The law of `factor` times a draw."""
        return Laplace(std=self.std * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Independent Gaussian coordinates with standard deviation `std`."""

    std: float

    def __post_init__(self) -> None:
        _positive("Gaussian std", self.std)

    @property
    def norm(self) -> Norm:
        """The norm in which a sensitivity must be given for this law."""
        return "l2"

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.std

    def variance(self, dimension: int) -> float:
        """Variance of one coordinate of a `dimension`-dimensional draw."""
        return self.std**2

    def scaled(self, factor: float) -> "Gaussian":
        """The law of `factor` times a draw."""
        return Gaussian(std=self.std * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Laplace:
    """The spherical law with density ~ exp(-||x||_2 / scale): radius Gamma(d, scale), direction uniform."""

    scale: float

    def __post_init__(self) -> None:
        _positive("L2Laplace scale", self.scale)

    @property
    def norm(self) -> Norm:
        """The norm in which a sensitivity must be given for this law."""
        return "l2"

    def variance(self, dimension: int) -> float:
        """Variance of one coordinate: E r^2 / d = b^2 d (d + 1) / d."""
        return (dimension + 1) * self.scale**2

    def scaled(self, factor: float) -> "L2Laplace":
        """The law of `factor` times a draw."""
        return L2Laplace(scale=self.scale * factor)


Law = Laplace | Gaussian | L2Laplace


def check_law(law: object, *, scheme: str) -> None:
    """Refuse what is no law of a source.

    Args:
        law: what was given.
        scheme: the name of the scheme that needs it.

    Raises:
        ConfigError: with what to write instead.
    """
    if isinstance(law, Law):
        return
    std = f"{law:g}" if is_number(law) else "0.1"
    raise ConfigError(
        f"sv.noise.{scheme} got {law!r}; it needs the law of a source. Write sv.noise.{scheme}(sv.noise.Gaussian(std={std})), or another "
        f"law: sv.noise.Laplace(std={std}), sv.noise.L2Laplace(scale={std})."
    )
