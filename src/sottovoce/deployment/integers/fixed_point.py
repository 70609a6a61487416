"""Fixed point: real vectors as integers, and sums of integers modulo 2^64 as real vectors.

    encode:  value -> x in Z^d,  x = round(2^f clip(value, C)),  with ||x|| <= 2^f C exactly
    decode:  sum of n such x plus noise, known modulo 2^64 -> 2^-f sum,  right while |sum| < 2^63 in every coordinate

Rounding to the nearest integers can push a vector out of the ball; then it is rounded towards zero instead, and the
largest entries step inwards until the ball holds it, in exact integer arithmetic. Any two encodings therefore differ by
at most 2 (2^f C) in l2, with no term for rounding: that is the sensitivity under replacement, 2^f C where a neighbour
holds the zero vector.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, is_whole

_LARGEST_RADIUS = 2**52  # above it a float64 no longer holds every integer
_HALF_RING = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPoint:
    """How a party's vector becomes integers.

    Attributes:
        clip: largest l2 norm C of a vector, positive and finite.
        fraction_bits: f; one unit of the integers is 2^-f.
    """

    clip: float
    fraction_bits: int

    def __post_init__(self) -> None:
        """Refuse bounds that bound nothing and resolutions that float64 cannot hold."""
        if not is_number(self.clip, "(0, inf)"):
            raise ConfigError(
                f"clip = {self.clip!r}; a clip bound must be a finite number above 0. Give e.g. clip=1.0."
            )
        object.__setattr__(self, "clip", float(self.clip))
        bits = self.fraction_bits
        if not is_whole(bits, 0, 52):
            raise ConfigError(
                f"fraction_bits = {bits!r}; it must be an integer from 0 to 52. Give e.g. fraction_bits=20."
            )
        radius = Fraction(self.clip) * 2**bits
        if not 1 <= radius <= _LARGEST_RADIUS:
            raise ConfigError(
                f"clip = {self.clip:g} with {bits} fraction bits spans {float(radius):g} units; between 1 and "
                "2^52 are needed. Change fraction_bits."
            )

    @property
    def squared_radius(self) -> int:
        """Largest squared l2 norm of an encoded vector, in squared units."""
        radius: Fraction = Fraction(self.clip) * 2**self.fraction_bits
        return math.floor(radius * radius)

    @property
    def largest(self) -> int:
        """Largest absolute entry of an encoded vector, in units."""
        return math.isqrt(self.squared_radius)

    def encode(self, value: np.ndarray) -> np.ndarray:
        """Clip a vector to norm C and round it, [d] float -> [d] int64.

        Raises:
            ConfigError: not one vector of finite numbers.
        """
        vector = np.asarray(value)
        if vector.ndim != 1 or vector.size == 0 or vector.dtype.kind not in "iuf":
            raise ConfigError(
                f"The value has shape {vector.shape} and type {vector.dtype}; needed is one non-empty vector "
                "of numbers. Flatten the model first."
            )
        vector = vector.astype(np.float64)
        if not np.isfinite(vector).all():
            raise ConfigError(
                "The value contains NaN or infinite entries, which no clipping bounds. Repair the data first."
            )
        largest = float(np.abs(vector).max())
        # In units of the largest entry, so that squares of huge or tiny entries stay within floating point.
        ratio = float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0
        over = largest > 0 and ratio > self.clip / largest
        scaled = np.ldexp(vector / largest * (self.clip / ratio) if over else vector, self.fraction_bits)
        nearest = np.rint(scaled).astype(np.int64)
        return nearest if _squared_norm(nearest) <= self.squared_radius else self._inside(np.trunc(scaled))

    def _inside(self, truncated: np.ndarray) -> np.ndarray:
        units: np.ndarray = truncated.astype(np.int64)
        while _squared_norm(units) > self.squared_radius:
            index = int(np.argmax(np.abs(units)))
            units[index] -= np.sign(units[index])
        return units

    def decode(self, total: np.ndarray) -> np.ndarray:
        """A sum modulo 2^64 as real numbers, [d] uint64 -> [d] float64."""
        return np.ldexp(signed(total).astype(np.float64), -self.fraction_bits)

    def check_room(self, *, parties: int, noise_bound: int) -> None:
        """Refuse a round whose sum could pass 2^63 and come back with the wrong sign.

        Args:
            parties: number of vectors in the sum.
            noise_bound: largest absolute entry of one party's noise, in units.
        """
        largest = parties * (self.largest + noise_bound)
        if largest >= _HALF_RING:
            raise ConfigError(
                f"{parties} parties with entries up to {self.largest} and noise up to {noise_bound} units can "
                f"reach {largest:.3g}, "
                f"but a sum is only known up to 2^63 = {_HALF_RING:.3g}. Use fewer fraction bits."
            )


def signed(total: np.ndarray) -> np.ndarray:
    """The representatives in [-2^63, 2^63) of integers modulo 2^64, uint64 -> int64."""
    return np.ascontiguousarray(total, dtype=np.uint64).view(np.int64)


def ring(integers: np.ndarray) -> np.ndarray:
    """Integers modulo 2^64, int64 -> uint64."""
    return np.ascontiguousarray(integers, dtype=np.int64).view(np.uint64)


def _squared_norm(integers: np.ndarray) -> int:
    # Two parts of at most 27 bits: products of parts, summed over up to 2^9 entries at a time, stay below 2^63.
    high, low = np.divmod(np.abs(integers), 2**27)
    total = 0
    for start in range(0, len(integers), 512):
        a, b = high[start : start + 512], low[start : start + 512]
        total += (int(a @ a) << 54) + (int(a @ b) << 28) + int(b @ b)
    return total
