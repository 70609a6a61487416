"""Numbers at the border: each argument is checked once, with the same words everywhere."""

import operator
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError

SMALLEST, LARGEST = 1e-100, 1e100  # squares stay within the range of floating-point numbers
# Of steps and noise: the square of a step over that of a scale is a normal number.
LEAST_SQUARED, MOST_SQUARED = 1e-62, 1e62


def is_number(value: object, interval: str = "(-inf, inf)") -> bool:
    """Whether something is a real number in `interval`, written as in mathematics: "[0, 1)". Booleans and NaN are none."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    low, high = _ends(interval)
    number = float(value)
    above = low <= number if interval[0] == "[" else low < number
    return above and (number <= high if interval[-1] == "]" else number < high)


def is_whole(value: object, least: int, most: int | None = None) -> bool:
    """Whether something is a whole number from `least` to `most`; None: without end. Booleans and fractions are none."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool | np.bool_) and least <= number and (most is None or number <= most)


def checked(name: str, value: float, interval: str) -> float:
    """Return `value` as a float if it is a real number in `interval`, written as in mathematics: "[0, 1)".

    Raises:
        ConfigError: for booleans, anything that is no real number, NaN, and numbers outside the interval.
    """
    if not is_number(value, interval):
        raise ConfigError(f"{name} = {value!r}; it must be a number in {interval}. Give {name} in that range.")
    return float(value)


def whole(name: str, value: int, *, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`.

    Raises:
        ConfigError: for booleans, fractions and anything smaller.
    """
    if not is_whole(value, least):
        raise ConfigError(f"{name} = {value!r}; it must be a whole number of at least {least}.")
    return operator.index(value)


def chosen(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the allowed words.

    Raises:
        ConfigError: for any other word.
    """
    if value not in allowed:
        raise ConfigError(f"{name} = {value!r}; choose one of {', '.join(map(repr, allowed))}.")
    return value


def positive_numbers(name: str, value: ArrayLike, *, count: int | None = None, why: str = "") -> np.ndarray:
    """Return one positive finite number, or a list of them, as an array.

    Args:
        name: of the argument.
        value: one number or a flat list of numbers.
        count: how many a list must have; None: any number.
        why: what to do about a value that will not do.

    Raises:
        ConfigError: another shape, or something that is no positive finite number.
    """
    try:
        given = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        given = np.asarray(None)
    shaped = given.ndim == 0 or (given.ndim == 1 and count in (None, len(given)))
    numbers = given.dtype.kind in "fiu" and shaped and given.size > 0
    if not numbers or not ((given > SMALLEST) & (given < LARGEST)).all():
        each = "one for each agent" if count is None else f"one for each of the {count} agents"
        raise ConfigError(f"{name} = {value!r}; it must be one finite number above 0, or {each}. {why}".rstrip())
    return given.astype(float)


def per_agent(name: str, value: ArrayLike, num_agents: int) -> np.ndarray:
    """Return [K] positive finite numbers from one number or one per agent.

    Raises:
        ConfigError: another shape, or something that is no positive finite number.
    """
    given = positive_numbers(name, value, count=num_agents, why="Clip the gradients to have one.")
    return np.broadcast_to(given, (num_agents,))


def within_range(what: str, values: ArrayLike, low: float = LEAST_SQUARED, high: float = MOST_SQUARED) -> None:
    """Refuse numbers that are not zero and beyond these sizes: a price that rounds to zero would be stated as perfect privacy.

    Raises:
        ConfigError: naming the number.
    """
    sizes = np.abs(np.asarray(values, dtype=float)).ravel()
    beyond = sizes[(sizes != 0) & ~((sizes > low) & (sizes < high))]
    if len(beyond):
        raise ConfigError(
            f"{what} is {beyond[0]:g}; to be accounted it must lie between {low:g} and {high:g}, so that squares neither overflow nor vanish. "
            f"Measure models in other units."
        )


@cache
def _ends(interval: str) -> tuple[float, float]:
    low, high = interval[1:-1].split(",")
    return float(low), float(high)
