"""How far apart two normal laws of scores are: a sharp bound that ASSUMES normal scores of equal variance.

If scores are N(a, s^2) in world 0 and N(a + mu s, s^2) in world 1, the worlds are at least as distinguishable as N(0, 1)
and N(mu, 1). With n and m scores, D the difference of the means and S^2 the pooled variance,

    t = (D / S) / sqrt(1/n + 1/m)   has the noncentral t law, df = n + m - 2, centre  mu / sqrt(1/n + 1/m).

The limits of its centre are exact. Writing t as (Z + centre) / C with Z normal and C = sqrt(chi^2_df / df),

    P(T <= t | centre) = P(centre <= t C - Z),

so the lower limit at confidence c is the (1 - c)-quantile of t C - Z, a sum of two independent variables. Its
distribution is an integral over whichever of the two is narrower, which is smooth for small and for huge t alike.

A count of hits reaches no further than ln of the number of runs; this does, because it extrapolates the tails. That is
what is assumed and cannot be seen in the data. The likelihood ratio of a linear view with Gaussian noise is normal with
equal variances by construction.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, gammaln, ndtr

from sottovoce.attacks.bounds.lower_bound import LowerBound, checked_confidence, checked_scores
from sottovoce.errors import ConfigError

ASSUMPTION = "normal scores with the same variance in both worlds"
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)
_NORMAL_REACH = 9.0
_TAIL = 1e-18


def gaussian_dp(scores0: ArrayLike, scores1: ArrayLike, *, confidence: float) -> LowerBound:
    """Bound mu from below for normal scores; `.at(delta)` turns it into an epsilon.

    Args:
        scores0: the attacker's scores in world 0, at least two, [n].
        scores1: in world 1, [m]; larger than in world 0, or the bound is 0.
        confidence: of `mu` and of `upper_mu`, each; both hold together with 2 confidence - 1.

    Raises:
        ConfigError: scores that do not vary: they are not normal, and any mu would fit.
    """
    confidence = checked_confidence(confidence)
    x, y = checked_scores(scores0, scores1, least=2, finite=True)
    freedom = len(x) + len(y) - 2
    spread = math.sqrt((len(x) * x.var() + len(y) * y.var()) / freedom)
    if not 0.0 < spread < math.inf:
        raise ConfigError(
            f"The scores have standard deviation {spread:g} within the worlds; normal scores vary. Use clopper_pearson, "
            f"which assumes nothing about them."
        )
    estimate = float(y.mean() - x.mean()) / spread
    error = math.sqrt(1.0 / len(x) + 1.0 / len(y))
    low, high = (error * centre_limit(estimate / error, freedom, level) for level in (confidence, 1.0 - confidence))
    return LowerBound(
        method="gaussian-dp", confidence=confidence, mu=max(0.0, low), assumes=ASSUMPTION, estimate=estimate,
        upper_mu=max(0.0, high),
    )  # fmt: skip


def centre_limit(t: float, freedom: int, level: float) -> float:
    """Return the centre at which a noncentral t variable is below t with probability `level`."""
    if t < 0.0:
        return -centre_limit(-t, freedom, 1.0 - level)
    # t C - Z lies in this interval but for two probabilities of 1e-18.
    low = t * math.sqrt(chdtri(freedom, 1.0 - _TAIL) / freedom) - _NORMAL_REACH
    high = t * math.sqrt(chdtri(freedom, _TAIL) / freedom) + _NORMAL_REACH
    return float(brentq(lambda centre: _probability(t, freedom, centre) - level, low, high, xtol=1e-12, rtol=1e-13))


def _probability(t: float, freedom: int, centre: float) -> float:
    """P(t C - Z >= centre) for t >= 0."""
    # Where t C is the wider one, integrate over Z; where centre + Z < 0 the event is certain.
    if t > math.sqrt(2.0 * freedom):
        start = float(np.clip(-centre, -_NORMAL_REACH, _NORMAL_REACH))
        z = start + 0.5 * (_NORMAL_REACH - start) * (1.0 + _NODES)
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        ratio = np.maximum(centre + z, 0.0) / t
        above = (_WEIGHTS * density) @ chdtrc(freedom, freedom * ratio * ratio)
        return float(ndtr(start)) + 0.5 * (_NORMAL_REACH - start) * float(above)
    low, high = (math.sqrt(chdtri(freedom, p) / freedom) for p in (1.0 - 1e-15, _TAIL))
    c = low + 0.5 * (high - low) * (1.0 + _NODES)
    half = 0.5 * freedom
    density = 2.0 * np.exp(half * math.log(half) - gammaln(half) + (freedom - 1) * np.log(c) - half * c * c)
    return 0.5 * (high - low) * float((_WEIGHTS * density) @ ndtr(t * c - centre))
