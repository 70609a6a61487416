"""Numbers at the border: each argument is checked once, with the same words everywhere."""

import math
import operator
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError

SMALLEST, LARGEST = 1e-100, 1e100  # squares stay within the range of floating-point numbers


def checked(name: str, value: float, interval: str) -> float:
    """Return `value` as a float if it is a real number in `interval`, written as in mathematics: "[0, 1)".

    Raises:
        ConfigError: for booleans, anything that is no real number, NaN, and numbers outside the interval.
    """
    low, high = _ends(interval)
    number = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        number = float(value)
    above = low <= number if interval[0] == "[" else low < number
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):
        raise ConfigError(f"{name} = {value!r}; it must be a number in {interval}. Give {name} in that range.")
    return number


def whole(name: str, value: int, *, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`.

    Raises:
        ConfigError: for booleans, fractions and anything smaller.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool_) or number < least:
        raise ConfigError(f"{name} = {value!r}; it must be a whole number of at least {least}.")
    return number


def chosen(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the allowed words.

    Raises:
        ConfigError: for any other word.
    """
    if value not in allowed:
        raise ConfigError(f"{name} = {value!r}; choose one of {', '.join(map(repr, allowed))}.")
    return value


def per_agent(name: str, value: ArrayLike, num_agents: int) -> np.ndarray:
    """Return [K] positive finite numbers from one number or one per agent.

    Raises:
        ConfigError: another shape, or something that is no positive finite number.
    """
    given = np.asarray(value)
    numbers = given.dtype.kind in "fiu" and given.shape in ((), (num_agents,))
    if not numbers or not ((given > SMALLEST) & (given < LARGEST)).all():
        raise ConfigError(
            f"{name} = {value!r}; it must be one finite number above 0, or one for each of the {num_agents} agents. "
            f"Clip the gradients to have one."
        )
    return np.broadcast_to(given.astype(float), (num_agents,))


@cache
def _ends(interval: str) -> tuple[float, float]:
    low, high = interval[1:-1].split(",")
    return float(low), float(high)
