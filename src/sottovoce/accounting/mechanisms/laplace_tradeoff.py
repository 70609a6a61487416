"""The trade-off of rounds of Laplace noise: the pure epsilon at delta = 0, what `laplace` proves at any other delta.

Two such trade-offs are ordered at every delta where the sums of the k largest values of one are at least those of the
other, for every k. Otherwise which of them is worse may depend on delta; `worst_of` then states one that holds for
both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.mechanisms import laplace, pure
from sottovoce.accounting.mechanisms.round_values import rounds_of, total
from sottovoce.numbers import checked, whole


@dataclass(frozen=True, slots=True)
class LaplaceTradeoff:
    """Rounds of noise with density ~ exp(-||x|| / scale), and changes that are bounded in its norm.

    Made by `of_rounds` or `of_total`.
    """

    pure_epsilon: float
    values: tuple[float, ...]  # change over scale in a round: distinct, the largest first
    counts: tuple[int, ...]  # rounds with each of them

    @staticmethod
    def of_rounds(values: ArrayLike, counts: ArrayLike | None = None) -> "LaplaceTradeoff":
        """The trade-off of rounds with these epsilons; `counts` says how many rounds have each of them."""
        distinct, number = rounds_of(values, counts)
        return LaplaceTradeoff(total(distinct, number), tuple(distinct.tolist()), tuple(number.tolist()))

    @staticmethod
    def of_total(pure_epsilon: float, largest: ArrayLike = (math.inf,)) -> "LaplaceTradeoff":
        """The trade-off of any rounds whose epsilons add up to at most `pure_epsilon`, as with several participations.

        Args:
            pure_epsilon: the largest sum, from 0 to infinity.
            largest: the largest epsilon of every round, where known. What the rounds spend of it may be chosen on the
                way, by what was released before.
        """
        made = LaplaceTradeoff.of_rounds(laplace.largest_within(largest, pure_epsilon))
        return replace(made, pure_epsilon=pure_epsilon)

    @property
    def mu(self) -> float:
        """The smallest mu that the pure epsilon implies."""
        return pure.mu(self.pure_epsilon)

    def scaled(self, factor: float) -> "LaplaceTradeoff":
        """What holds when the noise is multiplied by this factor."""
        factor = checked("factor", factor, "(0, inf)")
        values = tuple(value / factor for value in self.values)
        return replace(self, pure_epsilon=self.pure_epsilon / factor, values=values)

    def repeated(self, times: int) -> "LaplaceTradeoff":
        """What holds for several such runs together."""
        times = whole("times", times)
        counts = tuple(count * times for count in self.counts)
        return replace(self, pure_epsilon=self.pure_epsilon * times, counts=counts)

    def epsilon(self, delta: float) -> float:
        """An upper bound on the smallest epsilon for this delta; the pure one at delta = 0."""
        largest = pure.epsilon(self.pure_epsilon, delta)
        return largest if delta == 0 else min(largest, laplace.epsilon(self.values, delta, counts=self.counts))

    def delta(self, epsilon: float) -> float:
        """An upper bound on the smallest delta for this epsilon."""
        largest = pure.delta(self.pure_epsilon, epsilon)
        return largest if largest == 0 else min(largest, laplace.delta(self.values, epsilon, counts=self.counts))

    def dominates(self, other: "LaplaceTradeoff") -> bool:
        """Whether this one gives away at least as much at every delta: its values weakly majorise the other's."""
        if math.isinf(self.pure_epsilon):
            return True
        number, sums = laplace.partial_sums(np.array(self.values), np.array(self.counts, dtype=np.int64))
        theirs, lower = laplace.partial_sums(np.array(other.values), np.array(other.counts, dtype=np.int64))
        # Between corners both are linear, and constant after the last.
        points = np.union1d(number, theirs)
        return bool((np.interp(points, number, sums) >= np.interp(points, theirs, lower)).all())


def worst_of(tradeoffs: Sequence[LaplaceTradeoff]) -> LaplaceTradeoff:
    """What holds for all of these at every delta; its pure epsilon is the largest of theirs.

    One that dominates all others is returned as it is. Otherwise the result may be above the largest of them at some
    delta.
    """
    largest = max(tradeoffs, key=lambda one: one.pure_epsilon)
    if all(one is largest or one == largest or largest.dominates(one) for one in tradeoffs):
        return largest
    values, counts = laplace.least_majorant([(one.values, one.counts) for one in set(tradeoffs)])
    return replace(LaplaceTradeoff.of_rounds(values, counts), pure_epsilon=largest.pure_epsilon)
