"""The lattice on which parties compute: whole numbers of a unit 2^-f, as int64.

    to_units:  x  ->  round(clip(2^f x, -B, B)),    B = 2^bound_bits units,    halves go to the even neighbour
    to_float:  n  ->  2^-f n

Both are exact: a float64 is saturated by a comparison, scaled by a power of two and rounded by one IEEE operation, so
that `to_units` is this function of the real number that the float64 stands for, with no error of floating point in it.

WHAT THIS DOES TO DIFFERENCES. Let x and y be vectors of d numbers, m and n their units. Saturating makes no difference
of two entries larger: clip is 1-Lipschitz. Rounding moves each entry by at most 1/2, so that the two errors differ by
at most 1 in each entry:

    |m_i - n_i|      <=  2^f |x_i - y_i| + 1            and, being whole, <= floor(2^f |x_i - y_i|) + 1
    ||m - n||_2      <=  2^f ||x - y||_2 + sqrt(d)      (triangle inequality)
    ||m - n||_1      <=  2^f ||x - y||_1 + d

The bounds are attained: 1/2 and 3/2 units become 0 and 2, one unit apart before and two after. `deployment.privacy`
charges this to every rounding of a run.

B is far below 2^53, so that one operation in float64 on numbers within the bound errs far below a unit (2^-9 of one at
B = 2^44), and far above what learning reaches where noise has 2^20 to 2^28 units. Numbers beyond it are held at the
bound, which weakens no guarantee and costs accuracy where it happens.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from sottovoce.errors import ConfigError, ProtocolError
from sottovoce.numbers import is_whole

_BOUND_BITS = 44
_FINEST = 200  # fraction bits; with the bound's 52 and float64's exponents nothing over- or underflows
_EXACT = 2**53  # up to here every whole number is a float64


class NotFinite(ProtocolError):
    """A number of a state or a message is NaN or infinite, and no bound holds for it."""


class OutsideTheLattice(ProtocolError):
    """A whole number is too large to be a sum of what parties send: masks that did not cancel, or a false message."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Whole numbers of 2^-f.

    Attributes:
        fraction_bits: f; one unit is 2^-f. Negative where a unit is larger than one.
        bound_bits: entries are held within 2^bound_bits units.
    """

    fraction_bits: int
    bound_bits: int = field(default=_BOUND_BITS, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse resolutions and bounds at which float64 would not be exact."""
        if not is_whole(self.fraction_bits, -_FINEST, _FINEST):
            raise ConfigError(
                f"fraction_bits = {self.fraction_bits!r}; it must be an integer from -{_FINEST} to {_FINEST}. "
                "Choose it so that noise has 2^20 to 2^28 units."
            )
        if not is_whole(self.bound_bits, 1, 52):
            raise ConfigError(
                f"bound_bits = {self.bound_bits!r}; it must be an integer from 1 to 52. Leave it out for {_BOUND_BITS}."
            )

        object.__setattr__(self, "fraction_bits", int(self.fraction_bits))
        object.__setattr__(self, "bound_bits", int(self.bound_bits))

    @property
    def unit(self) -> float:
        """2^-f."""
        return math.ldexp(1.0, -self.fraction_bits)

    @property
    def bound(self) -> int:
        """The largest absolute entry that `to_units` returns."""
        return 1 << self.bound_bits

    def to_units(self, values: np.ndarray) -> np.ndarray:
        """The nearest whole numbers of the unit, within the bound, [...] float -> [...] int64.

        Raises:
            NotFinite: an entry is NaN or infinite.
            ConfigError: not an array of float64 or float32.
        """
        given = np.asarray(values)
        if given.dtype not in (np.float64, np.float32):
            raise ConfigError(f"The numbers have type {given.dtype}; float64 is needed. Convert them first.")
        if not np.isfinite(given).all():
            raise NotFinite(
                f"{np.count_nonzero(~np.isfinite(given))} of {given.size} numbers are NaN or infinite, which no bound "
                "holds. Lower the step size, or repair the data."
            )
        # Saturated before it is scaled: a number near the largest float64 would become infinite otherwise.
        limit = math.ldexp(1.0, self.bound_bits - self.fraction_bits)
        scaled = np.ldexp(np.clip(given.astype(np.float64), -limit, limit), self.fraction_bits)
        units: np.ndarray = np.rint(scaled).astype(np.int64)
        return units

    def to_float(self, units: np.ndarray) -> np.ndarray:
        """The numbers that units stand for, [...] int64 -> [...] float64, exactly.

        Raises:
            OutsideTheLattice: an entry is above 2^53 in absolute value, where float64 does not hold every whole number.
            ConfigError: not an array of int64.
        """
        given = np.asarray(units)
        if given.dtype != np.int64:
            raise ConfigError(f"The units have type {given.dtype}; int64 is needed. Use integers.signed for words.")
        # Not np.abs: the absolute value of -2^63 is -2^63 again.
        outside = (given > _EXACT) | (given < -_EXACT)
        if outside.any():
            raise OutsideTheLattice(
                f"{np.count_nonzero(outside)} of {given.size} "
                "whole numbers are above 2^53 units; sums of what parties send stay far below. "
                "Masks did not cancel, or a message was false."
            )
        return np.ldexp(given.astype(np.float64), -self.fraction_bits)
