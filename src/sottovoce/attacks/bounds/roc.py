"""The receiver operating characteristic of an attacker: how well scores tell two worlds apart, at every threshold.

    AUC = P(score1 > score0) + P(score1 = score0) / 2,    estimated by the same share of all n m pairs

1/2 is an attacker who knows nothing, below 1/2 one whose sign is wrong. Two statements of error:
  - `standard_error`: DeLong, DeLong & Clarke-Pearson 1988. With V0_i the share of world-1 scores that beat score0_i and
    V1_j that of world-0 scores that score1_j beats, its square is var(V0) / n + var(V1) / m. Consistent, and 0 for
    scores that are separated perfectly, where it must not be read as certainty.
  - `interval`: no approximation. The estimate is an average over all ways to form min(n, m) disjoint pairs, so it
    concentrates like a mean of so many independent numbers in [0, 1] (Hoeffding 1963, section 5):
    P(estimate off by more) <= 2 exp(-min(n, m) kl(estimate, AUC)), kl the relative entropy of two coins.
An AUC is a description, not a lower bound on epsilon: small false-alarm rates matter for privacy, and they hardly move it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import rel_entr

from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.bounds.lower_bound import checked_confidence, checked_scores
from sottovoce.numbers import checked
from sottovoce.reprs import short_repr

_SMALLEST = 1e-300


class Auc(NamedTuple):
    """The area under the curve and its error."""

    value: float
    standard_error: float  # by DeLong's method
    pairs: int  # min(n, m)

    def interval(self, confidence: float) -> tuple[float, float]:
        """An interval that holds the AUC with at least this confidence, for any number of scores."""
        radius = math.log(2.0 / (1.0 - checked_confidence(confidence))) / self.pairs
        return _lower_end(self.value, radius), 1.0 - _lower_end(1.0 - self.value, radius)


class OperatingPoint(NamedTuple):
    """A threshold and what it achieves."""

    true_positive_rate: float
    false_positive_rate: float
    threshold: float


class Curve(NamedTuple):
    """The empirical curve, from "never" to "always"."""

    false_positive_rates: Floats  # [q + 1]
    true_positive_rates: Floats  # [q + 1]
    thresholds: Floats  # [q + 1]; say "world 1" from this score on, inf is never

    def __repr__(self) -> str:
        return short_repr(self)


def auc(scores0: ArrayLike, scores1: ArrayLike) -> Auc:
    """Return the AUC with ties counted half, and DeLong's standard error (NaN-free from two scores per world on)."""
    x, y = checked_scores(scores0, scores1, least=2)
    beaten_by = 1.0 - _share_below(x, np.sort(y))  # [n]
    beats = _share_below(y, np.sort(x))  # [m]
    variance = beaten_by.var(ddof=1) / len(x) + beats.var(ddof=1) / len(y)
    return Auc(float(beats.mean()), math.sqrt(float(variance)), min(len(x), len(y)))


def curve(scores0: ArrayLike, scores1: ArrayLike) -> Curve:
    """Return the rates at every threshold that makes a difference."""
    x, y = checked_scores(scores0, scores1)
    seen = np.unique(np.concatenate([x, y]))[::-1]
    rates = [(len(s) - np.searchsorted(np.sort(s), seen, side="left")) / len(s) for s in (x, y)]
    false, true = (np.concatenate([[0.0], rate]) for rate in rates)
    return Curve(false, true, np.concatenate([[math.inf], seen]))


def tpr_at_fpr(scores0: ArrayLike, scores1: ArrayLike, *, fpr: float) -> OperatingPoint:
    """Return the best point of the empirical curve with a false-positive rate of at most `fpr`; nothing is interpolated.

    The threshold is the best on these very scores: a description, not a bound.
    """
    fpr = checked("fpr", fpr, "[0, 1]")
    false, true, thresholds = curve(scores0, scores1)
    last = int(np.searchsorted(false, fpr, side="right")) - 1
    first = int(
        np.searchsorted(true, true[last], side="left")
    )  # of all thresholds with as many hits, the one with the fewest false alarms
    return OperatingPoint(float(true[first]), float(false[first]), float(thresholds[first]))


def _share_below(values: Floats, others: Floats) -> Floats:
    """The share of the sorted `others` below each value, ties counted half."""
    left, right = (np.searchsorted(others, values, side=side) for side in ("left", "right"))
    share: Floats = 0.5 * (left + right) / len(others)
    return share


def _lower_end(value: float, radius: float) -> float:
    """The smallest A <= value with kl(value, A) <= radius."""

    def excess(other: float) -> float:
        return float(rel_entr(value, other) + rel_entr(1.0 - value, 1.0 - other)) - radius

    return 0.0 if value <= 0.0 or excess(_SMALLEST) <= 0.0 else float(brentq(excess, _SMALLEST, value, xtol=1e-15))
