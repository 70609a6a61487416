"""Sizes at which squares neither overflow nor vanish: a price that rounds to zero would be stated as perfect privacy."""

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.linear import Rounds

SMALLEST, LARGEST = 1e-62, 1e62  # of steps and noise; the square of a step over that of a scale is a normal number
SMALLEST_FACTOR, LARGEST_FACTOR = (
    1e-9,
    1e9,
)  # with which a link or own copy carries a source: beyond them covariances lose their digits


def check_range(what: str, values: ArrayLike, low: float = SMALLEST, high: float = LARGEST) -> None:
    """Refuse numbers that are not zero and beyond these sizes.

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


def check_sizes(rounds: Rounds) -> None:
    """Refuse steps, noise and factors of noise whose squares overflow or vanish.

    Raises:
        ConfigError: naming the number.
    """
    for bound in rounds.distinct:
        check_range("a step", np.concatenate([bound.form.messages[:, -1], bound.form.state[:, -1]]))
        for exchange in bound.exchanges:
            for factors in (exchange.noise.link_value, exchange.noise.self_value):
                check_range("a factor of the noise", factors, SMALLEST_FACTOR, LARGEST_FACTOR)
    check_range("the scale of the noise", rounds.scales)
