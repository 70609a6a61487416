"""Tails of the two laws by mpmath, and draws from chosen bits."""

from fractions import Fraction

import mpmath
import numpy as np

from sottovoce.deployment.integers import RoundedGaussian


def exact_tail(law, size):
    """Q(size - 1/2), to 50 digits and more."""
    with mpmath.workdps(60):
        std = Fraction(law.std)
        point = mpmath.mpf(2 * size - 1) / 2 * std.denominator / std.numerator
        if isinstance(law, RoundedGaussian):
            return mpmath.erfc(point / mpmath.sqrt(2)) / 2
        return mpmath.exp(-point * mpmath.sqrt(2)) / 2


def edge(law, size):
    """Number of V for which |X| >= size: V + 1/2 < 2^128 Q."""
    with mpmath.workdps(60):
        return max(0, int(mpmath.ceil(exact_tail(law, size) * 2**128 - mpmath.mpf("0.5"))))


def draw(law, tails, negative=False):
    words = [[(v >> 64) | (negative << 63), v & (2**64 - 1)] for v in tails]
    return law.from_words(np.array(words, dtype=np.uint64)).tolist()
