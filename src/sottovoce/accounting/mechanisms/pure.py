"""Pure epsilon-DP: the two Laplace mechanisms, and what pure epsilon0-DP implies in the other languages.

    law                          density                     sensitivity in    epsilon
    Laplace, coordinate-wise     ~ exp(-||x||_1 / scale)     l1                sensitivity / scale
    L2Laplace, spherical         ~ exp(-||x||_2 / scale)     l2                sensitivity / scale

Both are the triangle inequality of the law's own norm, attained far out along the change (Laplace: Vlaski & Sayed,
Lemma 11.1, eq. 11.17-11.20). The norms must match: coordinate-wise noise with an l2 sensitivity spends up to sqrt(d)
times the epsilon claimed, because ||v||_1 <= sqrt(d) ||v||_2 is attained.

Of all epsilon0-DP mechanisms, randomized response with odds e^epsilon0 : 1 reveals most, and every other one is a
post-processing of it (Kairouz, Oh & Viswanath 2015). So for ANY epsilon0-DP mechanism

    delta(epsilon) = max(0, (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)),

and its trade-off between false alarms and misses has one corner, at ( 1 / (1 + e^epsilon0), 1 / (1 + e^epsilon0) ). The
Gaussian trade-off curve of mu is convex and runs through (0, 1), (Phi(-mu / 2), Phi(-mu / 2)) and (1, 0); it lies below
the corner's two straight edges exactly when it does not pass above the corner. Hence epsilon0-DP implies mu-GDP with

    mu = -2 Phi^-1(1 / (1 + e^epsilon0)),   that is   erf(mu / sqrt 8) = tanh(epsilon0 / 2),

and no smaller mu will do.
"""

import math

import numpy as np
from scipy.special import erfinv, ndtri_exp

from sottovoce.numbers import checked


def laplace_epsilon(scale: float, sensitivity: float) -> float:
    """Return the epsilon of independent Laplace coordinates.

    Args:
        scale: b of the density exp(-|x| / b) / (2 b), above 0. The standard deviation is sqrt(2) b.
        sensitivity: in l1, above 0.
    """
    return checked("sensitivity", sensitivity, "(0, inf)") / checked("scale", scale, "(0, inf)")


def laplace_scale(epsilon: float, sensitivity: float) -> float:
    """Return the scale b at which independent Laplace coordinates are epsilon-DP; `sensitivity` is in l1."""
    return checked("sensitivity", sensitivity, "(0, inf)") / checked("epsilon", epsilon, "(0, inf)")


def l2_laplace_epsilon(scale: float, sensitivity: float) -> float:
    """Return the epsilon of the spherical law with density ~ exp(-||x||_2 / scale), in any dimension.

    Args:
        scale: above 0. The standard deviation of one coordinate is sqrt(d + 1) scale.
        sensitivity: in l2, above 0.
    """
    return checked("sensitivity", sensitivity, "(0, inf)") / checked("scale", scale, "(0, inf)")


def l2_laplace_scale(epsilon: float, sensitivity: float) -> float:
    """Return the scale at which the spherical law ~ exp(-||x||_2 / scale) is epsilon-DP; `sensitivity` is in l2."""
    return checked("sensitivity", sensitivity, "(0, inf)") / checked("epsilon", epsilon, "(0, inf)")


def delta(pure_epsilon: float, epsilon: float) -> float:
    """Return the delta that every `pure_epsilon`-DP mechanism satisfies at `epsilon`; attained by randomized response.

    Args:
        pure_epsilon: epsilon0, 0 to infinity inclusive.
        epsilon: at least 0, finite.
    """
    epsilon0 = checked("pure_epsilon", pure_epsilon, "[0, inf]")
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    if epsilon >= epsilon0:
        return 0.0
    return -math.expm1(epsilon - epsilon0) / (1.0 + math.exp(-epsilon0))


def epsilon(pure_epsilon: float, delta: float) -> float:
    """Return the smallest epsilon at which every `pure_epsilon`-DP mechanism is (epsilon, delta)-DP.

    Args:
        pure_epsilon: epsilon0, 0 to infinity inclusive.
        delta: at least 0, below 1; delta = 0 gives epsilon0 back.
    """
    epsilon0 = checked("pure_epsilon", pure_epsilon, "[0, inf]")
    delta = checked("delta", delta, "[0, 1)")
    loss = delta * (1.0 + math.exp(-epsilon0))
    return max(0.0, epsilon0 + math.log1p(-loss)) if loss < 1.0 else 0.0


def mu(pure_epsilon: float) -> float:
    """Return the smallest mu for which every `pure_epsilon`-DP mechanism is mu-GDP.

    Args:
        pure_epsilon: epsilon0, 0 to infinity inclusive; mu grows like sqrt(8 epsilon0).
    """
    epsilon0 = checked("pure_epsilon", pure_epsilon, "[0, inf]")
    if epsilon0 == math.inf:
        return math.inf
    if epsilon0 < 1.0:  # Phi^-1 near one half would lose digits
        return 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * epsilon0)))
    return -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon0)))
