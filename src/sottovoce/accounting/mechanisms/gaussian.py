"""Gaussian differential privacy: what a shift of mu standard deviations reveals, exactly.

A mechanism is mu-GDP if telling two neighbouring inputs apart is never easier than telling N(0, 1) from N(mu, 1).
Gaussian noise of standard deviation sigma on l2 sensitivity Delta is mu-GDP with mu = Delta / sigma, and no smaller mu.
The pairs (epsilon, delta) it satisfies are those with at least

    delta(mu, epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2)

(Balle & Wang 2018; Dong, Roth & Su 2022). No constant is lost: `epsilon`, `mu` and `std` invert this equation.

Numerics. With t = epsilon / mu - mu / 2, phi the normal density and R(x) = Phi(-x) / phi(x) Mills' ratio, the identity
e^epsilon phi(t + mu) = phi(t) turns the difference of two vanishing terms into

    delta = phi(t) [R(t) - R(t + mu)],    R(t) - R(t + mu) = integral of (1 - x R(x)) over [t, t + mu],

and the positive integrand keeps all digits where the difference cancels (small mu). Two facts make Newton's method
safe:

    d delta / d epsilon = -phi(t) R(t + mu), and ln delta is concave in epsilon: e^u Phi(-u / mu - mu / 2) is
    log-concave in u, and delta is its integral from epsilon to infinity;
    d delta / d mu = phi(t), and ln delta is concave in mu: its slope 1 / [R(t) - R(t + mu)] falls as mu grows.

A tangent of a concave function lies above it, so every Newton step ends at an epsilon that is too large, or at a mu
that is too small: an iteration stopped early would still be a valid guarantee.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked


def _unit_interval_rule(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (1.0 + nodes), 0.5 * weights


_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_PI: Final = math.sqrt(math.pi)
_SQRT_HALF_PI: Final = math.sqrt(0.5 * math.pi)
_LOG_SQRT_2PI: Final = 0.5 * math.log(2.0 * math.pi)
# Gauss-Legendre on [0, 1]; with eight nodes the error is below 1e-15 for mu <= 1.
_NODES, _WEIGHTS = _unit_interval_rule(8)
_ASYMPTOTIC_FROM: Final = 1e3  # from here on two terms of R's series are exact to rounding
_TOLERANCE: Final = 1e-14
_DELTAS_ROUNDING: Final = 2.0**-50
_MAX_STEPS: Final = 100


def delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    Args:
        mu: the Gaussian parameter, 0 to infinity inclusive.
        epsilon: at least 0, finite.
    """
    return math.exp(log_delta(mu, epsilon))


def deltas(mu: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return delta(mu, epsilon) for many mu at once, from above: what rounding may take from the difference is added.

    Args:
        mu: [M] above 0, finite.
        epsilon: at least 0, finite.
    """
    t, y = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    first, second = ndtr(-t), np.exp(epsilon + log_ndtr(-y))
    # Rounded arguments and exponents move either term by a share of itself that grows with the exponent.
    lost = _DELTAS_ROUNDING * (first * (1.0 + t * t) + second * (1.0 + epsilon + y * y))
    return np.asarray(np.clip(first - second + lost, 0.0, 1.0))


def log_delta(mu: float, epsilon: float) -> float:
    """Return ln delta(mu, epsilon): also where delta itself is below the smallest float. -inf when delta is zero."""
    mu = checked("mu", mu, "[0, inf]")
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    if mu == 0.0:
        return -math.inf
    if mu == math.inf:
        return 0.0
    return _log_delta(mu, epsilon)[0]


def epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP.

    Args:
        mu: the Gaussian parameter, 0 to infinity inclusive.
        delta: at least 0, below 1.

    Returns:
        0 if delta(mu, 0) <= delta; infinity for mu = infinity, and for delta = 0 unless mu = 0.
    """
    mu = checked("mu", mu, "[0, inf]")
    delta = checked("delta", delta, "[0, 1)")
    if mu == 0.0:
        return 0.0
    half_square = 0.5 * mu * mu
    if delta == 0.0 or half_square == math.inf:
        return math.inf
    target = math.log(delta)
    if _log_delta(mu, 0.0)[0] <= target:
        return 0.0
    # Two upper bounds of t: delta <= Phi(-t), and delta <= mu phi(t) for t >= 0.
    start = min(-float(ndtri(delta)), math.sqrt(2.0 * max(0.0, math.log(mu) - target - _LOG_SQRT_2PI)))
    current = max(0.0, half_square + mu * start)
    for _ in range(_MAX_STEPS):
        value, ratio = _log_delta(mu, current)
        step = (value - target) * ratio / _mills(current / mu + 0.5 * mu)
        current = max(0.0, current + step)
        if step >= -_TOLERANCE * current:
            break
    return current


def mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP.

    Args:
        epsilon: at least 0, finite.
        delta: at least 0, below 1; delta = 0 allows only mu = 0.
    """
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    delta = checked("delta", delta, "[0, 1)")
    if delta == 0.0:
        return 0.0
    at_zero = 2.0 * math.sqrt(2.0) * float(erfinv(delta))  # delta(mu, 0) = erf(mu / sqrt 8)
    if epsilon == 0.0:
        return at_zero
    # Lower bounds: delta(mu, epsilon) <= delta(mu, 0), and delta <= Phi(-t), that is mu^2 / 2 + z mu = epsilon.
    target, z = math.log(delta), -float(ndtri(delta))
    root = math.hypot(z, math.sqrt(2.0) * math.sqrt(epsilon))
    current = max(at_zero, epsilon / (0.5 * (z + root)) if z > 0.0 else root - z)
    for _ in range(_MAX_STEPS):
        value, ratio = _log_delta(current, epsilon)
        step = (target - value) * ratio
        current += step
        if step <= _TOLERANCE * current:
            break
    return current


def std(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest Gaussian standard deviation that gives (epsilon, delta)-DP, for any epsilon >= 0.

    Args:
        epsilon: at least 0, finite.
        delta: above 0, below 1: no Gaussian noise gives delta = 0.
        sensitivity: the l2 sensitivity, above 0.
    """
    delta = checked("delta", delta, "(0, 1)")
    sensitivity = checked("sensitivity", sensitivity, "(0, inf)")
    return sensitivity / mu(epsilon, delta)


def classic_std(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return sensitivity sqrt(2 ln(1.25 / delta)) / epsilon, the textbook calibration.

    Valid for 0 < epsilon < 1 only (Dwork & Roth 2014, Thm A.1), and larger than `std` there; beyond, it may be too
    small.

    Raises:
        ConfigError: epsilon outside (0, 1).
    """
    delta = checked("delta", delta, "(0, 1)")
    sensitivity = checked("sensitivity", sensitivity, "(0, inf)")
    try:
        epsilon = checked("epsilon", epsilon, "(0, 1)")
    except ConfigError as error:
        raise ConfigError(f"{error} The classical formula is proved there only; use std, which is exact.") from None
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def _mills(x: float) -> float:
    return _SQRT_HALF_PI * float(erfcx(x * _SQRT_HALF))


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Return ln delta and delta / phi(t), for finite mu > 0."""
    t = epsilon / mu - 0.5 * mu
    log_phi = -0.5 * t * t - _LOG_SQRT_2PI
    if t < 0.0 and mu >= 1.0:  # delta is near 1: keep the digits of 1 - delta
        phi = math.exp(log_phi)
        value = math.log1p(-(float(ndtr(t)) + phi * _mills(t + mu)))
        return value, math.exp(value) / phi if phi > 0.0 else math.inf
    log_ratio = _log_mills_drop(t, mu)
    return log_phi + log_ratio, math.exp(log_ratio)


def _log_mills_drop(t: float, mu: float) -> float:
    """Return ln [R(t) - R(t + mu)], by series, integral or difference."""
    y = t + mu
    if t > _ASYMPTOTIC_FROM:  # R(x) = 1/x - 1/x^3 + ...
        correction = (1.0 / t) ** 2 + (1.0 / t) * (1.0 / y) + (1.0 / y) ** 2
        return math.log(mu) - math.log(t) - math.log(y) + math.log1p(-correction)
    if mu < 1.0:
        z = (
            t * _SQRT_HALF + (mu * _SQRT_HALF) * _NODES
        )  # x / sqrt 2; x R(x) = sqrt(pi) z erfcx(z), and the weights sum to 1
        return math.log(mu) + math.log1p(-_SQRT_PI * float(_WEIGHTS @ (z * erfcx(z))))
    return math.log(_mills(t) - _mills(y))
