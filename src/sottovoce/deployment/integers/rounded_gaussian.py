"""Rounded Gaussian integers from 128 random bits each, the same on every machine.

    X = round(s Z),  Z ~ N(0, 1):      P(|X| >= j) = 2 Q((j - 1/2) / s),      Q(x) = P(Z > x)

`tail_comparison` says how, and proves the total variation. No table is kept, so the scale may be large. Floating point
proposes |X|; where its value lies within 2^-40 s of the edge between two integers (a share 2^-39 s of the draws), the
comparison is made in decimal arithmetic,

    Q(x) = 1/2 - exp(-x^2/2) / sqrt(2 pi) (x + x^3/3 + x^5/(3 5) + x^7/(3 5 7) + ...),

whose terms are all positive. What this assumes of the machine is that its normal quantile is right to 2^-41, about 2000
units in the last place of a number near 1; both ends of a pair then draw the same integers, whatever their mathematical
library. The probability adds 2^-48 s to that error (`tail_comparison`) and one rounding 2^-49 s. Every draw takes 16
bytes.

Q(13.2) < 2^-129: no draw is farther out, and the total variation distance to the true law is at most
(13.2 s + 2) 2^-128 per draw, see `total_variation`.

For integer x, x + round(s Z) = round(x + s Z): whoever sees one party's sum alone sees post-processed continuous
Gaussian noise. A SUM of several parties' rounded noise is not the rounding of one Gaussian: `accounting.gopa.integers`
accounts for that. Not constant-time.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from sottovoce.deployment.integers import tail_comparison
from sottovoce.deployment.integers.tail_comparison import DOUBT, LONG
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
_ROOT = LONG.sqrt(LONG.multiply(Decimal(2), _PI))
_FARTHEST = 13.2  # Q(13.2) < 2^-129: no draw is farther out, in standard deviations
_SMALLEST, _LARGEST = 2.0**-10, 2.0**36


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussian:
    """The law of round(std Z) with Z standard normal.

    Attributes:
        std: s, the standard deviation before rounding, in units of the integers; from 2^-10 to 2^36.
    """

    std: float

    def __post_init__(self) -> None:
        """Refuse a scale at which the comparison in floating point decides nothing."""
        if not is_number(self.std) or not _SMALLEST <= self.std <= _LARGEST:
            raise ConfigError(
                f"std = {self.std!r} units; a rounded Gaussian needs a finite number from 2^-10 to 2^36. "
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
        ndtri(tail, out=tail)
        tail *= -self.std

    def tail_beyond(self, size: int, digits: Context) -> Decimal:
        """Q((size - 1/2) / s), with so many digits."""
        return upper_tail(Fraction(2 * size - 1, 2) / Fraction(self.std), digits)


def upper_tail(point: Fraction, digits: Context = LONG) -> Decimal:
    """Q(point) for 0 <= point <= 14; with 90 digits the absolute error is below 1e-65, with 36 below 1e-30."""
    if not 0 <= point <= 14:
        raise ConfigError(f"The tail probability was asked at {float(point):g}; the series is for points from 0 to 14.")
    with localcontext(digits):
        x = Decimal(point.numerator) / Decimal(point.denominator)
        square = x * x
        term, total, odd = x, x, 1
        density = (-square / 2).exp() / _ROOT
        negligible = Decimal(1).scaleb(-digits.prec)
        while term > negligible or odd < square:
            odd += 2
            term = term * square / odd
            total += term
        return Decimal("0.5") - density * total
