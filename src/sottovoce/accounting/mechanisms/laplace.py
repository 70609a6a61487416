"""Rounds of Laplace noise together: what they give away at delta > 0, which is far less than the sum of their epsilons.

One round adds noise of density ~ exp(-||x||) to a vector that differs by v in that norm: `Laplace` with the l1 norm,
`L2Laplace` with the l2 norm, both over their scale. Losses lie in [-v, v].

One dimension is the worst. H(epsilon) = 1 - integral of min(p, e^epsilon q), p centred at w, ||w|| = v, and q at 0.
For |epsilon| <= v

    min(p, e^epsilon q)(x) = c exp(-max(||x - w||, ||x|| - epsilon)) >= c exp(-||x - m|| - (v - epsilon) / 2)

for the point m of the segment from 0 to w with ||m|| = (v + epsilon) / 2: the triangle inequality, twice. The right
side integrates to exp(-(v - epsilon) / 2), whatever the norm and the dimension. Hence

    H(epsilon) <= 1 - e^((epsilon - v) / 2)   for |epsilon| <= v,        0 above v,        1 - e^epsilon below -v,

with equality in one dimension, so also where the whole change is in one coordinate of independent Laplace noise. A pair
that is at most this at every epsilon of either sign is dominated by the one-dimensional one, and rounds that are so
whatever was released before are dominated by independent ones (Zhu, Dong & Wang 2022).

Unequal rounds are the worst. Write H(epsilon) = 1 - e^(epsilon / 2) U(epsilon). U is the convolution of e^(-|x| / 2)
with the law of the loss under the measure sqrt(PQ), and that law composes by convolution: for one round U is
e^(-max(v, |x|) / 2), for two rounds v1 >= v2 with s = v1 + v2 it is

    U(x) = e^(-s / 2) (1 + min(v2 / 2, (s - |x|) / 4))   for |x| <= s,        e^(-|x| / 2) beyond.

At equal sum it grows with v2. So moving a part of the smaller of two rounds to the larger never hides anything, and a
vector of rounds is dominated by every vector that weakly majorises it: whose k largest values have no smaller a sum,
for every k. This orders vectors, bounds what is known in part only (`largest_within`), and replaces many values by few.

Numbers are upper bounds: losses on a grid (`loss_grid`), between whose points H is replaced by its chords in e^epsilon.
With spacing h and t = tanh(h / 4), these are the H of the losses v - k h with probabilities (1 + t) / 2 at k = 0,
t e^(-k h / 2) in between, and e^(-v) (1 + t) / 2 at -v. Epsilon comes out within about 0.1 % of the truth; one round is
exact, and so is delta = 0.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.accounting.mechanisms import pure
from sottovoce.accounting.mechanisms.loss_grid import Mechanism, smallest_delta, smallest_epsilon
from sottovoce.accounting.mechanisms.round_values import numbers_of, rounds_of
from sottovoce.numbers import checked


def epsilon(values: ArrayLike, delta: float, *, counts: ArrayLike | None = None) -> float:
    """Return an epsilon at which rounds of Laplace noise are together (epsilon, delta)-DP.

    Args:
        values: of every round, the largest change in the law's norm over its scale, which is its own epsilon at
            delta = 0; from 0 to infinity.
        delta: at least 0, below 1; delta = 0 gives the sum of `values`.
        counts: how many rounds each value stands for; one by default.

    Raises:
        ConfigError: malformed numbers.
    """
    distinct, number = rounds_of(values, counts)
    delta = checked("delta", delta, "[0, 1)")
    if number.sum() == 1 and delta > 0.0:
        exact = float(distinct[0]) * (1.0 + 2.0**-50) + 2.0 * math.log1p(-delta)
        return min(pure.epsilon(distinct[0], delta), max(0.0, exact))
    return smallest_epsilon(_LAPLACE, distinct, number, delta)


def delta(values: ArrayLike, epsilon: float, *, counts: ArrayLike | None = None) -> float:
    """Return a delta at which rounds of Laplace noise are together (epsilon, delta)-DP.

    Args:
        values: as for `epsilon`.
        epsilon: at least 0, finite.
        counts: as for `epsilon`.

    Raises:
        ConfigError: malformed numbers.
    """
    distinct, number = rounds_of(values, counts)
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    if number.sum() == 1 and epsilon < distinct[0]:
        exact = -math.expm1(0.5 * (epsilon - distinct[0] * (1.0 + 2.0**-50)))
        return min(pure.delta(distinct[0], epsilon), exact)
    return smallest_delta(_LAPLACE, distinct, number, epsilon)


def largest_within(caps: ArrayLike, total: float) -> NDArray[np.float64]:
    """Return the rounds that dominate all those with values at most `caps` and a sum of at most `total`.

    The largest caps are used up, the largest first, until the sum is reached: no other vector has larger sums of its k
    largest values. It holds too if the values are chosen on the way, by what was released before: after the first round
    the rest is dominated by its own largest vector, and both together are majorised.

    Args:
        caps: of every round, from 0 to infinity.
        total: from 0 to infinity.
    """
    total = checked("total", total, "[0, inf]")
    if total == math.inf:
        return np.array([math.inf])
    ordered = np.sort(numbers_of("caps", caps))[::-1]
    sums = np.cumsum(ordered)
    used = int(np.searchsorted(sums, total))
    if used >= len(ordered):
        return ordered
    before = sums[used - 1] if used else 0.0
    return np.append(ordered[:used], max(0.0, total - before))


def partial_sums(
    values: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the corners of the sums of the k largest values: k, and the sum; both begin at 0."""
    return np.append(0, np.cumsum(counts)), np.append(0.0, np.cumsum(values * counts))


def _masses(intervals: int, spacing: float, cut: float) -> NDArray[np.float64]:
    """Probabilities of v - k spacing. The lower end takes all that is below it, half of e^(-k spacing / 2) anywhere."""
    last = min(intervals, math.ceil(2.0 * -math.log(cut) / spacing))
    share = math.tanh(0.25 * spacing)
    masses: NDArray[np.float64] = share * np.exp(-0.5 * spacing * np.arange(last + 1))
    masses[0] = 0.5 * (1.0 + share)
    masses[-1] = 0.5 * (1.0 + share) * math.exp(-0.5 * spacing * last)
    return masses


def _variance(value: float) -> float:
    if value < 1e-3:
        return value * value
    return 4.0 - 4.0 * (value + 1.0) * math.exp(-value) - math.expm1(-value) ** 2


def _spread(value: float) -> float:
    """Half of 1 - e^-v lies between the ends, and spreading it over a cell adds a sixth of its width squared."""
    return -math.expm1(-value) / 12.0


_LAPLACE: Final = Mechanism(_masses, _variance, _spread, digits=8, upwards=False)
