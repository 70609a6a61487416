"""Rounded Gaussian integers from 128 random bits each, the same on every machine.

    X = round(s Z),  Z ~ N(0, 1):      P(|X| >= j) = 2 Q((j - 1/2) / s),      Q(x) = P(Z > x)

One bit gives the sign. The other 127 form V, and |X| is the quantile at the upper tail probability (V + 1/2) / 2^128:

    |X| >= j   exactly when   V + 1/2 < 2^128 Q((j - 1/2) / s)                                                    (*)

No table is kept, so the scale may be large. Floating point proposes |X|; where its value lies within 2^-40 s of the
edge between two integers (a share 2^-39 s of the draws), (*) is decided in decimal arithmetic of 90 digits,

    Q(x) = 1/2 - exp(-x^2/2) / sqrt(2 pi) (x + x^3/3 + x^5/(3 5) + x^7/(3 5 7) + ...),

whose terms are all positive. What this assumes of the machine is that its normal quantile is right to 2^-40, about 4000
units in the last place; both ends of a pair then draw the same integers, whatever their mathematical library. Every
draw takes 16 bytes.

Each edge between two integers moves by at most 2^-129, and what lies beyond the last edge has that probability at most,
so the total variation distance to the true law is at most (13.2 s + 2) 2^-128 per draw: see `total_variation`.

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

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
_DIGITS = 90
_NEGLIGIBLE = Decimal("1e-70")
_FARTHEST = 13.2  # Q(13.2) < 2^-129: no draw is farther out, in standard deviations
_DOUBT = 2.0**-40
_SMALLEST, _LARGEST = 2.0**-10, 2.0**36
WORDS = 2  # 64-bit words per draw


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

    def from_words(self, words: np.ndarray) -> np.ndarray:
        """Draws from uniform words, [..., 2] uint64 -> [...] int64.

        The first word holds the sign and the 63 high bits of V, the second the 64 low bits.
        """
        if words.dtype != np.uint64 or words.ndim < 2 or words.shape[-1] != WORDS:
            raise ConfigError(
                f"The words have type {words.dtype} and shape {words.shape}; needed are uint64, two of them "
                "for every draw."
            )
        high, low = words[..., 0] & np.uint64(2**63 - 1), words[..., 1]
        tail = np.ldexp(high.astype(np.float64), -64) + np.ldexp(low.astype(np.float64) + 0.5, -128)
        shifted = 0.5 - self.std * ndtri(tail)
        edge = np.rint(shifted)
        size: np.ndarray = np.floor(shifted).astype(np.int64)
        for index in zip(*np.nonzero(np.abs(shifted - edge) <= _DOUBT * self.std), strict=True):
            candidate = int(edge[index])
            size[index] = (
                candidate if self._reaches(candidate, (int(high[index]) << 64) | int(low[index])) else candidate - 1
            )
        size[words[..., 0] >> np.uint64(63) == 1] *= -1
        return size

    def _reaches(self, candidate: int, tail: int) -> bool:
        """Whether |X| >= candidate >= 1, by (*)."""
        chance = upper_tail(Fraction(2 * candidate - 1, 2) / Fraction(self.std))
        with localcontext(Context(prec=_DIGITS)):
            return 2 * tail + 1 < chance * 2**129


def upper_tail(point: Fraction) -> Decimal:
    """Q(point) for 0 <= point <= 14, with an absolute error below 1e-65."""
    if not 0 <= point <= 14:
        raise ConfigError(f"The tail probability was asked at {float(point):g}; the series is for points from 0 to 14.")
    with localcontext(Context(prec=_DIGITS)):
        x = Decimal(point.numerator) / Decimal(point.denominator)
        square = x * x
        term, total, odd = x, x, 1
        density = (-square / 2).exp() / (2 * _PI).sqrt()
        while term > _NEGLIGIBLE or odd < square:
            odd += 2
            term = term * square / odd
            total += term
        return Decimal("0.5") - density * total
