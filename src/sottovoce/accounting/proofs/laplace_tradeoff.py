"""The trade-off of rounds of Laplace noise: the pure epsilon at delta = 0, what `laplace` proves at any other delta.

Two such trade-offs are ordered at every delta where the sums of the k largest values of one are at least those of the
other, for every k. Otherwise which of them is worse may depend on delta.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.mechanisms import laplace, pure
from sottovoce.accounting.mechanisms.round_values import rounds_of, total
from sottovoce.accounting.tradeoff import needed_factor, searched_factor
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

    @property
    def order(self) -> "Majorisation":
        """By sums of the largest values."""
        return Majorisation(self.pure_epsilon, self.values, self.counts)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """In closed form at delta = 0, else by a search."""
        if delta == 0 or self.pure_epsilon == 0:
            return needed_factor(self.pure_epsilon, epsilon)
        return searched_factor(self, epsilon, delta, tolerance=1e-11)


class Majorisation(NamedTuple):
    """The order of Laplace rounds."""

    pure_epsilon: float
    values: tuple[float, ...]
    counts: tuple[int, ...]

    def covers(self, other: object) -> bool:
        """Whether these give away at least as much at every delta: their values weakly majorise the other's."""
        if not isinstance(other, Majorisation):
            return False
        if math.isinf(self.pure_epsilon):
            return True
        number, sums = laplace.partial_sums(np.array(self.values), np.array(self.counts, dtype=np.int64))
        theirs, lower = laplace.partial_sums(np.array(other.values), np.array(other.counts, dtype=np.int64))
        # Between corners both are linear, and constant after the last.
        points = np.union1d(number, theirs)
        return bool((np.interp(points, number, sums) >= np.interp(points, theirs, lower)).all())
