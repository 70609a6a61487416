"""Rounded Laplace integers from 128 random bits each, the same on every machine.

    X = round(b L),  L with density exp(-|x|) / 2,  b = s / sqrt 2:      P(|X| >= j) = exp(-(j - 1/2) / b)  for j >= 1

and P(X = 0) = 1 - exp(-1 / (2 b)), which is twice what one sign of zero has. `tail_comparison` says how numbers are
drawn, and proves the total variation: with Q(x) = exp(-x / b) / 2, |X| >= j exactly when V + 1/2 < 2^127 exp(-(j - 1/2)
/ b). Floating point proposes |X| = round(-b ln(2 p)); where its value lies within 2^-40 s of the edge between two
integers (a share of about 2^-39 s of the draws), the comparison is made in decimal arithmetic, with sqrt 2 and the
exponential of as many digits. What this assumes of the machine is that its logarithm of numbers down to 2^-127 is right
to 2^-41, thirty units in the last place of the largest; the probability adds 2^-48 b to that error (`tail_comparison`),
four roundings of numbers up to 89 b add 2^-44 b, and all together stay below 2^-40 s. Every draw takes 16 bytes.

exp(-x / b) <= 2^-128 from x = 128 ln(2) b = 62.737 s on: no draw is farther out, and the total variation distance to
the true law is at most (62.74 s + 2) 2^-128 per draw, see `total_variation`.

For integer x, x + round(b L) = round(x + b L): whoever sees it sees post-processed continuous Laplace noise, so that
epsilon = (l1 change of x) / b holds as it does for real numbers, up to the total variation. This is not the discrete
Laplace (two-sided geometric) law, whose cells other than zero have the same ratios. A sum of several rounded draws is
not the rounding of one sum. Not constant-time.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np

from sottovoce.deployment.integers import tail_comparison
from sottovoce.deployment.integers.tail_comparison import DOUBT
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number

_FARTHEST = 62.74  # exp(-sqrt(2) 62.74) < 2^-128: no draw is farther out, in standard deviations
_SMALLEST, _LARGEST = 2.0**-10, 2.0**36
_SQRT_HALF = math.sqrt(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedLaplace:
    """The law of round(Y), Y Laplace with standard deviation `std`.

    Attributes:
        std: s, the standard deviation before rounding, in units of the integers; from 2^-10 to 2^36. The parameter b of
            the density exp(-|x| / b) / (2 b) is std / sqrt 2.
    """

    std: float

    def __post_init__(self) -> None:
        """Refuse a scale at which the comparison in floating point decides nothing."""
        if not is_number(self.std) or not _SMALLEST <= self.std <= _LARGEST:
            raise ConfigError(
                f"std = {self.std!r} units; a rounded Laplace law needs a finite number from 2^-10 to 2^36. "
                f"Change the fraction bits or the noise."
            )
        object.__setattr__(self, "std", float(self.std))

    @property
    def bound(self) -> int:
        """No draw is larger than this in absolute value."""
        return math.floor(_FARTHEST * self.std + 1.0)

    @property
    def total_variation(self) -> float:
        """Largest total variation distance between one draw and the true law."""
        return (self.bound + 1) * 2.0**-128

    @property
    def doubt(self) -> float:
        """How far the quantile of floating point may be off, in units."""
        return DOUBT * self.std

    def from_words(self, words: np.ndarray) -> np.ndarray:
        """Draws from uniform words, [..., 2] uint64 -> [...] int64.

        The first word holds the sign and the 63 high bits of V, the second the 64 low bits.
        """
        return tail_comparison.from_words(self, words)

    def from_key(self, key: bytes, count: int) -> np.ndarray:
        """The first draws of a key's stream, [count] int64; a key is used once."""
        return tail_comparison.from_key(self, key, count)

    def quantile(self, tail: np.ndarray) -> None:
        """Replace upper tail probabilities by where they are reached, in units, in place."""
        tail *= 2.0
        np.log(tail, out=tail)
        tail *= -self.std * _SQRT_HALF

    def tail_beyond(self, size: int, digits: Context) -> Decimal:
        """exp(-(size - 1/2) / b) / 2, with so many digits."""
        scale = digits.divide(Decimal(self.std), digits.sqrt(Decimal(2)))
        return digits.divide(
            digits.exp(digits.divide(Decimal(1 - 2 * size), digits.multiply(Decimal(2), scale))), Decimal(2)
        )
