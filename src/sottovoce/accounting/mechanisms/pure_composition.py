"""Any rounds that are each epsilon_t-DP, together, at delta > 0: the optimal composition of pure mechanisms.

One round. H(a) = sup over events of P - a Q is convex in a; an epsilon-DP pair has H = 0 at a = e^epsilon and, by the
other order of worlds, H = 1 - a at a = e^-epsilon. So between the two H lies below the chord, which is the profile of
randomized response: losses +epsilon and -epsilon with odds e^epsilon to 1. It dominates the round at every a, hence
rounds that are each epsilon_t-DP whatever was released before are together dominated by independent randomized
responses (Zhu, Dong & Wang 2022), and those are rounds of that kind. This is the theorem of Kairouz, Oh & Viswanath
(2015) for equal rounds, and of Murtagh & Vadhan (2016) for unequal ones, adaptive choices included.

k equal rounds have the losses (k - 2 i) epsilon with binomial probabilities, so

    delta(e) = sum of C(k, i) p^(k-i) (1 - p)^i (1 - e^(e - (k - 2 i) epsilon))_+,    p = e^epsilon / (1 + e^epsilon),

which comes out to within rounding upwards (beyond some 20,000 rounds, within a hundredth of a per cent). For unequal
rounds the exact value is hard to compute: values are rounded up to 9 binary digits, and the two-point laws convolved on
a grid (`loss_grid`), an upper bound. Unlike Laplace rounds, more unequal values are not always worse here.

Laplace noise gives away less than this at the same epsilon_t (`laplace`).
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from sottovoce.accounting.mechanisms.loss_grid import Mechanism, smallest_delta, smallest_epsilon
from sottovoce.accounting.mechanisms.round_values import rounds_of
from sottovoce.numbers import checked


def epsilon(values: ArrayLike, delta: float, *, counts: ArrayLike | None = None) -> float:
    """Return an epsilon at which rounds that are each purely DP are together (epsilon, delta)-DP.

    Args:
        values: the epsilon of every round, from 0 to infinity.
        delta: at least 0, below 1; delta = 0 gives the sum of `values`.
        counts: how many rounds each value stands for; one by default.

    Raises:
        ConfigError: malformed numbers.
    """
    distinct, number = rounds_of(values, counts)
    return smallest_epsilon(_RANDOMIZED_RESPONSE, distinct, number, checked("delta", delta, "[0, 1)"))


def delta(values: ArrayLike, epsilon: float, *, counts: ArrayLike | None = None) -> float:
    """Return a delta at which rounds that are each purely DP are together (epsilon, delta)-DP.

    Args:
        values: as for `epsilon`.
        epsilon: at least 0, finite.
        counts: as for `epsilon`.

    Raises:
        ConfigError: malformed numbers.
    """
    distinct, number = rounds_of(values, counts)
    return smallest_delta(_RANDOMIZED_RESPONSE, distinct, number, checked("epsilon", epsilon, "[0, inf)"))


def _masses(intervals: int, spacing: float, cut: float) -> NDArray[np.float64]:
    """Probabilities of v and -v, and nothing in between."""
    value = 0.5 * intervals * spacing
    if expit(-value) < cut:  # the lower one is lifted
        return np.ones(1)
    masses = np.zeros(intervals + 1)
    masses[0], masses[-1] = expit(value), expit(-value)
    return masses


def _variance(value: float) -> float:
    return (value / math.cosh(0.5 * value)) ** 2 if value < 700.0 else 0.0


_RANDOMIZED_RESPONSE: Final = Mechanism(_masses, _variance, lambda _: 0.0, digits=9, upwards=True)
