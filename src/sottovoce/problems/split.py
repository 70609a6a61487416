"""Keep some of every agent's records away from learning, to test on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked
from sottovoce.reprs import short_repr

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

    def __repr__(self) -> str:
        return short_repr(self)


def split(
    features_list: Sequence[Any],
    targets_list: Sequence[Any],
    *,
    test_fraction: float,
    seed: int,
    persons: Sequence[Any] | None = None,
) -> Split:
    """Take this fraction of every agent's records, rounded down and chosen at random, for testing.

    Every agent keeps at least one record to learn from. Where persons are known the fraction is of every agent's persons, with all
    records of each: a model that has learnt from somebody's records is not tested on others of theirs.

    Args:
        features_list: K arrays [n_k, d].
        targets_list: K arrays [n_k].
        test_fraction: strictly between 0 and 1.
        seed: of NumPy's generator.
        persons: whom each record is about, K arrays [n_k]; None: every record is on its own.

    Returns:
        (train, test).

    Raises:
        ConfigError: another fraction, lists that disagree, or agents so small that nothing is left to test on.
    """
    checked("test_fraction", test_fraction, "(0, 1)")
    features, targets = [np.asarray(part) for part in features_list], [np.asarray(part) for part in targets_list]
    about = None if persons is None else [np.asarray(part) for part in persons]
    ends = _chosen(_sizes(features, targets), about, test_fraction, np.random.default_rng([seed, _STREAM]))
    train, test = zip(*(_cut(parts, ends) for parts in (features, targets)), strict=True)
    return Split(train, (np.concatenate(test[0]), np.concatenate(test[1])))


def _sizes(features: list[Records], targets: list[Records]) -> list[int]:
    sizes = [len(part) for part in features]
    if sizes != [len(part) for part in targets]:
        raise ConfigError(
            f"features have {sizes} records per agent, but targets {[len(part) for part in targets]}; each record needs "
            "one of each."
        )
    return sizes


def _chosen(
    sizes: list[int], persons: list[Records] | None, test_fraction: float, generator: np.random.Generator
) -> list[tuple[Records, Records]]:
    """Places of every agent's records to learn from, and to test on."""
    if persons is None:
        ends = [_ends(generator.permutation(size), test_fraction) for size in sizes]
    elif [len(part) for part in persons] != sizes:
        raise ConfigError(
            f"records are {sizes} per agent, but persons {[len(part) for part in persons]}; each record needs one."
        )
    else:
        ends = [_ends_by_person(generator, part, test_fraction) for part in persons]
    if not any(len(tested) for _, tested in ends):
        raise ConfigError(
            f"test_fraction = {test_fraction:g} of so few records (at most {max(sizes, default=0)} per agent) leaves no "
            "record to test on; use a larger fraction, or 0."
        )
    return ends


def _ends(order: Records, test_fraction: float) -> tuple[Records, Records]:
    """Of things in random order those to learn from, and those to test on: the first ones."""
    held = min(int(test_fraction * len(order)), max(len(order) - 1, 0))
    return order[held:], order[:held]


def _ends_by_person(generator: np.random.Generator, persons: Records, test_fraction: float) -> tuple[Records, Records]:
    """One agent's records to learn from and to test on, each person's together."""
    _, kept = _ends(generator.permutation(np.unique(persons)), test_fraction)
    tested = np.isin(persons, kept)
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def _cut(parts: list[Records], ends: list[tuple[Records, Records]]) -> tuple[list[Records], list[Records]]:
    """Every agent's records to learn from, and those to test on."""
    pairs = list(zip(parts, ends, strict=True))
    return [part[learnt] for part, (learnt, _) in pairs], [part[tested] for part, (_, tested) in pairs]
