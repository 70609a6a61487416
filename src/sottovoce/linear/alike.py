"""Which rounds of a run are the same function, and the proof of it.

An agent's functions get the round they run in. If they run on an `UnnumberedRound`, which answers nothing but the values of the
algorithm's schedules, then they depend on the round through these values alone, and rounds with equal values are the same function.
Where they ask for the number itself, every round is a function of its own.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import SottovoceError
from sottovoce.numbers import whole
from sottovoce.schedules import RoundNumberUsed, Schedule, UnnumberedRound

Result = TypeVar("Result")


def for_each_distinct_round(
    compute: Callable[[Any], Result], rounds: int, *algorithms: Algorithm
) -> tuple[list[Result], list[int], np.ndarray]:
    """Compute something for every round, once for rounds that are proven to be the same function.

    Args:
        compute: from a round, by running the functions of `algorithms` and nothing else that depends on the round.
        rounds: T.
        algorithms: whose functions are run.

    Returns:
        The results, the round (from 1) each was computed for, and the position of every round's result [T].

    Raises:
        ConfigError: no number of rounds.
    """
    whole("rounds", rounds)
    schedules = tuple(schedule for algorithm in algorithms for schedule in algorithm.schedules)
    values = np.array([schedule.table(rounds) for schedule in schedules]).reshape(len(schedules), rounds).T
    _, first, which = np.unique(values, axis=0, return_index=True, return_inverse=True)
    found = _unnumbered(compute, first, schedules)
    # The last word has the round with its number: a function that asks what kind of thing the round is gets another answer there.
    if found is not None and all(_same(found[which.ravel()[t]], compute(t + 1)) for t in {0, rounds - 1}):
        return found, [int(t) + 1 for t in first], which.ravel()
    return [compute(t) for t in range(1, rounds + 1)], list(range(1, rounds + 1)), np.arange(rounds)


def _unnumbered(
    compute: Callable[[Any], Result], first: np.ndarray, schedules: tuple[Schedule, ...]
) -> list[Result] | None:
    """The results for rounds that hide their numbers; None if one was asked for."""
    found = []
    for t in first:
        round_ = UnnumberedRound(int(t) + 1, schedules)
        try:
            found.append(compute(round_))
        except SottovoceError:
            raise
        except (Exception, RoundNumberUsed):  # whatever else is wrong shows again when the rounds have numbers
            return None
        if round_.asked:
            return None
    return found


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(_same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=True)
    return bool(first == second)
