"""The largest losses of all rounds: one number for each, grouped, and replaced by few numbers that promise no less."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import ConfigError

_SUMS: Final = 1e-9  # relative error of a sum of a million values


@dataclass(frozen=True, slots=True)
class Group:
    """`count` rounds whose losses reach from -value to value; 2 value = intervals unit / 2^exponent, intervals odd."""

    intervals: int
    exponent: int
    count: int


def rounds_of(values: ArrayLike, counts: ArrayLike | None = None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct values that are not 0, the largest first, and how many rounds have each of them.

    Args:
        values: one for each round, or for `counts` rounds; from 0 to infinity.
        counts: whole numbers of at least 1.

    Raises:
        ConfigError: malformed numbers.
    """
    given = numbers_of("values", values)
    number = np.ones(given.shape) if counts is None else numbers_of("counts", counts)
    if given.ndim != 1 or number.shape != given.shape:
        raise ConfigError(
            f"values of shape {given.shape} and counts of shape {number.shape}; give one list of numbers, and one "
            f"count for each."
        )
    if not (given >= 0.0).all() or not ((number >= 1.0) & (number == np.floor(number)) & (number < 2.0**53)).all():
        raise ConfigError(
            "values must be numbers of at least 0 (infinity is allowed) and counts whole numbers of at least 1. Give "
            "the epsilon of every round, and how many rounds have it."
        )
    distinct, where = np.unique(given, return_inverse=True)
    together = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(together, where, number.astype(np.int64))
    shown = distinct > 0.0
    return distinct[shown][::-1], together[shown][::-1]


def total(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """Return the sum over all rounds; infinity where it is too large for a number."""
    with np.errstate(over="ignore"):
        products = values * counts
    try:
        return math.fsum(products)
    except OverflowError:
        return math.inf


def few_values(
    values: NDArray[np.float64], counts: NDArray[np.int64], *, digits: int, upwards: bool
) -> tuple[list[Group], float]:
    """Return rounds with values of few binary digits that dominate the given ones, and their unit.

    Args:
        values: distinct, the largest first, above 0.
        counts: rounds of each.
        digits: binary digits of the values in units of the largest one.
        upwards: round every value up. Otherwise sums are kept: between two neighbouring values of few digits, as many
            rounds get the upper one as it takes for the sums of the k largest values to be at least what they were.
    """
    # So much above the largest value that ratios with few digits stay below them, whatever the last bits of the values are.
    unit = float(values[0]) * (1.0 + 2.0**-40)
    share = values / unit * (1.0 + 2.0**-51)
    # What is small beside the others needs fewer digits: the step is never below that of the root mean square.
    common = math.sqrt(float((share**2 * counts).sum() / counts.sum()))
    steps = np.ldexp(1.0, np.frexp(np.maximum(share, common))[1] - digits)
    upper = np.ceil(share / steps) * steps
    starts = np.flatnonzero(np.diff(upper, prepend=np.inf))
    rounds, sums = np.add.reduceat(counts, starts), np.add.reduceat(share * counts, starts) * (1.0 + _SUMS)
    excess, found = 0.0, dict[float, int]()
    for high, step, count, together in zip(upper[starts], steps[starts], rounds.tolist(), sums, strict=True):
        low = high - step
        raised = min(count, max(0, math.ceil((together - excess - count * low) / (high - low))))
        raised = count if upwards else raised
        excess = max(0.0, excess + raised * high + (count - raised) * low - together)
        for value, number in ((float(high), raised), (float(low), count - raised)):
            if value > 0.0 and number > 0:
                found[value] = found.get(value, 0) + number
    return [_group(value, number) for value, number in found.items()], unit


def _group(value: float, count: int) -> Group:
    """Rounds of `value` units: 2 value is an odd number over, or times, a power of two."""
    numerator, denominator = value.as_integer_ratio()
    twos = (numerator & -numerator).bit_length() - 1
    return Group(numerator >> twos, denominator.bit_length() - 2 - twos, count)


def numbers_of(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return an array of numbers.

    Raises:
        ConfigError: something else.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} = {values!r}; it must be a list of numbers.") from None
