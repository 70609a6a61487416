"""Privacy losses of many rounds on a grid, convolved so that no number can be too small.

A pair of worlds (P, Q) is known by the law of its loss L = ln dP/dQ under P: delta(epsilon) = E (1 - e^(epsilon-L))_+.
The losses of independent rounds add up. Three things are done to keep grids short, and each can only raise delta at
every epsilon of either sign, so that it may be done before further rounds are added (Zhu, Dong & Wang 2022):

    spread     a loss between two points of the grid goes to both, in the shares that keep its probability under P and
               under Q; whoever cannot tell the two points apart is back at the loss there was
    lift       a loss is replaced by a larger one: the least likely low losses by the lowest that is kept
    give up    the least likely high losses count as infinite

Arithmetic. Probabilities are convolved directly: sums of products of numbers that are not negative, whose relative
errors add up to one unit of rounding per operation, however small the numbers are. These units are counted, and the
probabilities enlarged by their number in the end; what underflow may lose is counted as infinite. A Fourier transform
would be shorter for long grids, but errs by a share of the largest probability. Points of the grid are whole multiples
of unit / 2^exponent, so that they are never rounded.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce.accounting.mechanisms import pure
from sottovoce.accounting.mechanisms.round_values import Group, few_values, total

RESOLUTION: Final = 80  # points of the grid per standard deviation of the losses, at least
SMALLEST_DELTA: Final = 1e-290  # below this, grids are not made finer
_SET_ASIDE: Final = 1e-6  # share of delta that may be lifted or given up on the way
_SMALLEST_SUM: Final = 1e-100  # a total loss below this is stated as it is
_UNDERFLOW: Final = 2.0**-1022
_ROUNDING: Final = 2.0**-53
_ROUNDINGS: Final = 16  # of a number that is computed in a few steps
_ROUNDINGS_OF_ROUND: Final = 4096  # of the probabilities of one round, whose exponents of up to 745 are rounded too
_MOST_POINTS: Final = 4096  # of one round, where no formula asks for more


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of some rounds together: `masses[k]` is the probability under P of top - (start + k) spacing."""

    exponent: int  # spacing = unit / 2^exponent
    start: int
    masses: NDArray[np.float64]
    infinite: float
    rounds: int
    variance: float  # of the losses before any grid, by which the spacing is chosen
    roundings: float  # relative errors of the masses, in units of rounding


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One round of largest loss v, for every v."""

    masses: Callable[[int, float, float], NDArray[np.float64]]  # from intervals, spacing and what may be lifted
    variance: Callable[[float], float]  # of the loss, from v
    spread: Callable[[float], float]  # from v: what a grid adds to that variance, over spacing^2
    digits: int  # binary digits of the values of v that are told apart
    upwards: bool  # values of v are rounded up, rather than spread over their neighbours


@dataclass(frozen=True, slots=True)
class Composition:
    """The losses of all rounds, in plain numbers."""

    top: float  # the largest finite loss
    below: NDArray[np.float64]  # how far the others are below it
    masses: NDArray[np.float64]
    infinite: float

    def delta(self, epsilon: float) -> float:
        """A delta for this epsilon."""
        return self._delta_below(self.top - epsilon)

    def epsilon(self, delta: float) -> float:
        """An epsilon for this delta; infinity where it is less than what was given up."""
        if self.infinite > delta:
            return math.inf
        inside = self.below[: np.searchsorted(self.below, self.top)]
        points = np.append(inside, self.top)  # the last one is epsilon = 0
        if self._delta_below(self.top) <= delta:
            return 0.0
        low, high = (
            -1,
            len(points) - 1,
        )  # delta is exceeded at `high`, and not at `low`; -1 stands for the largest loss itself
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._delta_below(points[middle]) <= delta else (low, middle)
        nearest = float(points[low]) if low >= 0 else 0.0
        # Between two points delta is linear in e^epsilon.
        inner, outer = self._delta_below(nearest), self._delta_below(points[high])
        share = min(1.0 - _ROUNDING, (delta - inner) / (outer - inner))
        further = -math.log1p(math.expm1(nearest - points[high]) * share)
        back = 1e-12 * further + 1e-15 * nearest
        while further > 0.0 and self._delta_below(nearest + further) > delta:
            further, back = max(0.0, further - back), 2.0 * back
        return max(0.0, math.nextafter(self.top - (nearest + further), math.inf))

    def _delta_below(self, distance: float) -> float:
        """Delta at the epsilon that is `distance` below the largest loss."""
        number = int(np.searchsorted(self.below, distance))
        if distance <= 0.0 or number == 0:
            return self.infinite
        reached = float(self.masses[:number] @ -np.expm1(self.below[:number] - distance))
        return min(1.0, reached * (1.0 + 2.0 * (number + _ROUNDINGS) * _ROUNDING) + self.infinite)


def smallest_epsilon(
    mechanism: Mechanism, values: NDArray[np.float64], counts: NDArray[np.int64], delta: float
) -> float:
    """Return an epsilon for this delta, never above that of their sum.

    Args:
        mechanism: of every round.
        values: the largest losses, distinct and the largest first, above 0.
        counts: rounds of each.
        delta: at least 0, below 1.
    """
    together = total(values, counts)
    largest = pure.epsilon(together, delta)
    if delta == 0.0 or not _SMALLEST_SUM < together < math.inf:
        return largest
    return min(largest, composed(mechanism, values, counts, delta).epsilon(delta))


def smallest_delta(
    mechanism: Mechanism, values: NDArray[np.float64], counts: NDArray[np.int64], epsilon: float
) -> float:
    """Return a delta for this epsilon, never above that of their sum; other arguments as in `smallest_epsilon`."""
    together = total(values, counts)
    largest = pure.delta(together, epsilon)
    if largest == 0.0 or not _SMALLEST_SUM < together < math.inf:
        return largest
    matters = 1e-10
    while (found := composed(mechanism, values, counts, matters).delta(epsilon)) < matters > SMALLEST_DELTA:
        matters **= 3
    return min(largest, found)


def composed(mechanism: Mechanism, values: NDArray[np.float64], counts: NDArray[np.int64], delta: float) -> Composition:
    """Return the losses of all rounds together; arguments as in `smallest_epsilon`.

    A millionth of `delta` may be lifted or given up on the way, so that it says which losses matter.
    """
    # Where sums are kept, only the last of the values is rounded, which matters little if there are many.
    fewer = 2 if len(values) > 64 and not mechanism.upwards else 0
    groups, unit = few_values(values, counts, digits=mechanism.digits - fewer, upwards=mechanism.upwards)
    rounds = sum(group.count for group in groups)
    # A grid of some rounds is used rounds / (its rounds) times, and each of its few dozen steps may cut off its share.
    cut = max(_SET_ASIDE * max(delta, SMALLEST_DELTA) / (256.0 * rounds), 1e-300)
    grids = [_of_group(mechanism, group, unit, cut, alone=len(groups) == 1) for group in groups]
    waiting = [(grid.variance, number, grid) for number, grid in enumerate(grids)]
    heapq.heapify(waiting)
    number = len(waiting)
    while len(waiting) > 1:  # grids of similar spacing meet if the narrowest go first
        first, second = heapq.heappop(waiting)[2], heapq.heappop(waiting)[2]
        both = _sum(first, second, unit, cut)
        heapq.heappush(waiting, (both.variance, number, both))
        number += 1
    last = waiting[0][2]
    top = 0.5 * unit * math.fsum(math.ldexp(group.intervals * group.count, -group.exponent) for group in groups)
    enlarged = math.exp(1.01 * _ROUNDING * last.roundings)
    below = np.arange(last.start, last.start + len(last.masses), dtype=np.float64) * math.ldexp(unit, -last.exponent)
    return Composition(top * (1.0 + 2.0**-50), below, last.masses * enlarged, last.infinite * enlarged)


def _of_group(mechanism: Mechanism, group: Group, unit: float, cut: float, *, alone: bool) -> Losses:
    """All rounds of a group, by squaring."""
    intervals, exponent = group.intervals, group.exponent
    value = 0.5 * intervals * math.ldexp(unit, -exponent)
    variance = mechanism.variance(value)
    # Spreading the continuous part adds spread spacing^2 to the variance of every round.
    widest = math.sqrt(variance / max(mechanism.spread(value), 1e-300)) / RESOLUTION
    if not alone:  # other rounds will be spread over this grid
        widest = min(widest, math.sqrt(variance * group.count) / RESOLUTION)
    while math.ldexp(unit, -exponent) > max(widest, 2.0 * min(value, -math.log(cut)) / _MOST_POINTS):
        intervals, exponent = 2 * intervals, exponent + 1
    masses = mechanism.masses(intervals, math.ldexp(unit, -exponent), cut)
    one = Losses(exponent, 0, masses, len(masses) * _UNDERFLOW, 1, variance, _ROUNDINGS_OF_ROUND)
    losses = one
    for digit in bin(group.count)[3:]:
        losses = _sum(losses, losses, unit, cut)
        if digit == "1":
            losses = _sum(losses, one, unit, cut)
    return losses


def _sum(first: Losses, second: Losses, unit: float, cut: float) -> Losses:
    """The losses of both together, cut and on a grid as wide as their spread allows."""
    exponent = min(first.exponent, second.exponent)
    first, second = _at(first, exponent, unit), _at(second, exponent, unit)
    shorter, longer = sorted((len(first.masses), len(second.masses)))
    both = Losses(
        exponent=exponent, start=first.start + second.start, masses=np.convolve(first.masses, second.masses),
        infinite=first.infinite + second.infinite + shorter * longer * _UNDERFLOW, rounds=first.rounds + second.rounds,
        variance=first.variance + second.variance, roundings=first.roundings + second.roundings + shorter + 2,
    )  # fmt: skip
    both = _shortened(both, cut * both.rounds)
    while 2.0 * math.ldexp(unit, -exponent) * RESOLUTION <= math.sqrt(both.variance):
        exponent -= 1
        both = _at(both, exponent, unit)
    return both


def _at(losses: Losses, exponent: int, unit: float) -> Losses:
    """The losses spread over a wider grid, which has every second point, again and again."""
    masses, start, infinite, roundings = losses.masses, losses.start, losses.infinite, losses.roundings
    for present in range(losses.exponent, exponent, -1):
        if start % 2:
            masses, start = np.concatenate([[0.0], masses]), start - 1
        spacing = math.ldexp(unit, -present)
        even, odd = masses[::2], masses[1::2]
        masses = np.zeros(len(odd) + 1 if len(odd) == len(even) else len(even))
        masses[: len(even)] = even
        masses[: len(odd)] += odd * expit(spacing)
        masses[1 : len(odd) + 1] += odd * expit(-spacing)
        start, infinite, roundings = start // 2, infinite + len(masses) * _UNDERFLOW, roundings + _ROUNDINGS
    return Losses(exponent, start, masses, infinite, losses.rounds, losses.variance, roundings)


def _shortened(losses: Losses, cut: float) -> Losses:
    """Low losses of probability at most `cut` lifted, and high ones given up."""
    masses = losses.masses
    last = len(masses) - 1 - int(np.searchsorted(np.cumsum(masses[::-1]), cut))
    if last <= 0:
        return losses
    lifted = masses[: last + 1].copy()
    lifted[-1] += masses[last + 1 :].sum()
    first = min(int(np.searchsorted(np.cumsum(lifted), cut)), last)
    given_up = losses.infinite + float(lifted[:first].sum())
    roundings = losses.roundings + len(masses)
    return Losses(
        losses.exponent, losses.start + first, lifted[first:], given_up, losses.rounds, losses.variance, roundings
    )
