"""Composition: what several releases reveal together, in each language of privacy.

    (epsilon, delta)   basic: both add up. Advanced, for k equal releases and any slack > 0:
                       epsilon' = sqrt(2 k ln(1 / slack)) epsilon + k epsilon (e^epsilon - 1),  delta' = k delta + slack
                       (Dwork, Rothblum & Vadhan 2010)
    mu-GDP             mu^2 adds up; exact for Gaussian mechanisms (Dong, Roth & Su 2022)
    Renyi              the value at each order a adds up, and for any a > 1
                       epsilon = value + ln((a - 1) / a) - (ln delta + ln a) / (a - 1)
                       (Canonne, Kamath & Steinke 2020)
    rho-zCDP           rho adds up; it is the value a rho at every order a (Bun & Steinke 2016)

All hold for adaptive releases. A mu-GDP Gaussian mechanism has the value a mu^2 / 2 at order a, hence rho = mu^2 / 2;
going through Renyi costs some epsilon against `accounting.gaussian`, which is exact.
"""

import math
from collections.abc import Iterable, Sequence

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole

_LARGEST_EXPONENT = 700.0  # e^700 is the last round power below the largest float


def basic(guarantees: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the (epsilon, delta) of all `guarantees` together: the sums. A delta of 1 or more is reported as 1.

    Args:
        guarantees: pairs (epsilon, delta) with epsilon from 0 to infinity and delta from 0 to 1.
    """
    epsilons, deltas = [], []
    for number, (epsilon, delta) in enumerate(guarantees):
        epsilons.append(checked(f"epsilon of guarantee {number}", epsilon, "[0, inf]"))
        deltas.append(checked(f"delta of guarantee {number}", delta, "[0, 1]"))
    return math.fsum(epsilons), min(1.0, math.fsum(deltas))


def advanced(epsilon: float, delta: float, rounds: int, slack: float) -> tuple[float, float]:
    """Return (epsilon', delta') of `rounds` adaptive (epsilon, delta)-DP releases, by advanced composition.

    For large epsilon or few rounds `basic` is smaller: take the better of the two.

    Args:
        epsilon: of one release, at least 0.
        delta: of one release, at least 0, below 1.
        rounds: k, at least 1.
        slack: the delta spent on composing, in (0, 1).
    """
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    delta = checked("delta", delta, "[0, 1)")
    slack = checked("slack", slack, "(0, 1)")
    k = whole("rounds", rounds)
    if epsilon > _LARGEST_EXPONENT:
        return math.inf, min(1.0, k * delta + slack)
    total = math.sqrt(2.0 * k * math.log(1.0 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    return total, min(1.0, k * delta + slack)


def gaussian(mus: Iterable[float]) -> float:
    """Return the mu of mu_1-GDP, mu_2-GDP, ... together: the root of the sum of squares, exact for Gaussian noise."""
    return math.hypot(*(checked(f"mu of release {number}", mu, "[0, inf]") for number, mu in enumerate(mus)))


def rdp(orders: Sequence[float], values: Sequence[float], delta: float) -> float:
    """Return the smallest epsilon that Renyi guarantees at several orders give at `delta`.

    Every order alone gives a valid epsilon; where the best one is the first or the last, more orders would give less.

    Args:
        orders: a > 1, finite.
        values: the Renyi divergence bound at each order, from 0 to infinity.
        delta: in (0, 1).
    """
    delta = checked("delta", delta, "(0, 1)")
    if len(orders) != len(values) or len(orders) == 0:
        raise ConfigError(
            f"{len(orders)} orders and {len(values)} values; give one value for each of at least one order."
        )
    return min(
        _epsilon_at_order(
            checked(f"order {number}", order, "(1, inf)") - 1.0, checked(f"value {number}", value, "[0, inf]"), delta
        )
        for number, (order, value) in enumerate(zip(orders, values, strict=True))
    )


def zcdp(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at `delta`, at the best Renyi order.

    With b = a - 1 the conversion is smallest where rho b^2 + ln(1 + b) = ln(1 / delta), whose left side grows with b.
    Any b gives a valid epsilon, so the accuracy of the root does not touch validity.

    Args:
        rho: from 0 to infinity.
        delta: in (0, 1).
    """
    from scipy.optimize import brentq  # heavy, and only this search needs it

    rho = checked("rho", rho, "[0, inf]")
    delta = checked("delta", delta, "(0, 1)")
    if rho in (0.0, math.inf):
        return rho
    target = -math.log(delta)
    end = min(math.sqrt(target / rho), math.expm1(min(target, _LARGEST_EXPONENT)))
    b = float(brentq(lambda b: rho * b * b + math.log1p(b) - target, 0.0, end * (1.0 + 1e-12), xtol=1e-300, rtol=1e-12))
    return _epsilon_at_order(b, (1.0 + b) * rho, delta)


def zcdp_classic(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho ln(1 / delta)), the textbook conversion (Bun & Steinke 2016): larger than `zcdp`."""
    rho = checked("rho", rho, "[0, inf]")
    delta = checked("delta", delta, "(0, 1)")
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def rdp_of_gaussian(mu: float, order: float) -> float:
    """Return order mu^2 / 2, the Renyi divergence of that order between N(0, 1) and N(mu, 1)."""
    return checked("order", order, "[1, inf)") * zcdp_of_gaussian(mu)


def zcdp_of_gaussian(mu: float) -> float:
    """Return rho = mu^2 / 2, the zCDP of a Gaussian mechanism with mu = sensitivity / std."""
    mu = checked("mu", mu, "[0, inf]")
    return 0.5 * mu * mu


def _epsilon_at_order(b: float, value: float, delta: float) -> float:
    """Return the Renyi conversion at order 1 + b, not below 0; ln((a - 1) / a) = -ln(1 + 1 / b)."""
    return max(0.0, value - math.log1p(1.0 / b) - (math.log(delta) + math.log1p(b)) / b)
