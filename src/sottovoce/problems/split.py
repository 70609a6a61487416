"""Keep some of every agent's records away from learning, to test on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked

Records = NDArray[Any]

_STREAM = 0x7E57  # keeps this draw apart from whatever else is drawn from the same seed


class Split(NamedTuple):
    """Records to learn from, and records to test on.

    Attributes:
        train: (K arrays of features [n_k, d], K arrays of targets [n_k]).
        test: (features [N, d], targets [N]) of all agents together.
    """

    train: tuple[list[Records], list[Records]]
    test: tuple[Records, Records]


def split(features_list: Sequence[Any], targets_list: Sequence[Any], *, test_fraction: float, seed: int) -> Split:
    """Take this fraction of every agent's records, rounded down and chosen at random, for testing.

    Every agent keeps at least one record to learn from.

    Args:
        features_list: K arrays [n_k, d].
        targets_list: K arrays [n_k].
        test_fraction: strictly between 0 and 1.
        seed: of NumPy's generator.

    Returns:
        (train, test).

    Raises:
        ConfigError: another fraction, lists that disagree, or agents so small that nothing is left to test on.
    """
    checked("test_fraction", test_fraction, "(0, 1)")
    features, targets = [np.asarray(part) for part in features_list], [np.asarray(part) for part in targets_list]
    sizes = [len(part) for part in features]
    if sizes != [len(part) for part in targets]:
        raise ConfigError(
            f"features have {sizes} records per agent, but targets {[len(part) for part in targets]}; each record needs "
            "one of each."
        )
    generator = np.random.default_rng([seed, _STREAM])
    orders = [generator.permutation(size) for size in sizes]
    held = [min(int(test_fraction * size), max(size - 1, 0)) for size in sizes]
    if not any(held):
        raise ConfigError(
            f"test_fraction = {test_fraction:g} of so few records (at most {max(sizes, default=0)} per agent) leaves no "
            "record to test on; use a larger fraction, or 0."
        )
    ends = list(zip(orders, held, strict=True))
    train, test = zip(*(_cut(parts, ends) for parts in (features, targets)), strict=True)
    return Split(train, (np.concatenate(test[0]), np.concatenate(test[1])))


def _cut(parts: list[Records], ends: list[tuple[Any, int]]) -> tuple[list[Records], list[Records]]:
    """Of every agent's records those to learn from, and the first n of its order to test on."""
    pairs = list(zip(parts, ends, strict=True))
    return [part[order[n:]] for part, (order, n) in pairs], [part[order[:n]] for part, (order, n) in pairs]
