"""Two shapes of a guarantee for a walking token.

RenyiTradeoff   D_a <= a rate for orders 1 < a <= largest_order. The limit comes from weak convexity (Feldman et al.
                2018): if every D_a of a mixture's parts is at most c / (a - 1), c <= 1, the mixture's is at most 1 + c
                times their mean. With parts of at most a Delta^2 / (2 std^2) this needs a (a - 1) <= 2 std^2 / Delta^2.
WalkTradeoff    N contributions with random gaps h: with b = a - 1 and s = b (b + 1) Delta^2 / (2 std^2),
                b D_a <= N ln E e^(s / h), at every order. It is the exact divergence of N Gaussian mechanisms with
                mu^2 = Delta^2 / (std^2 h) whose h are drawn independently and shown.

Both go to (epsilon, delta) by Canonne, Kamath & Steinke 2020: for every order allowed,

    ln delta = b (D_a - epsilon) + b ln(b / (1 + b)) - ln(1 + b).

The right side is convex in b (b D_a is convex: a logarithm of a mean of exponentials of convex functions), so its
minimum, and the b of the smallest epsilon at a given delta, are found by a search in one variable; any b is valid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

import numpy as np

from sottovoce.accounting.mechanisms import composition, gaussian
from sottovoce.accounting.tradeoff import Order, searched_factor
from sottovoce.accounting.walk.gaps import GapLaw
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import checked, whole

_EXPONENT_LIMIT = 600.0  # below, expm1 keeps the digits of small means and stays finite
_LOG_B = (-30.0, 60.0)  # where the best order lies for every delta a float can hold


def largest_order(*, std: float, sensitivity: float) -> float:
    """Return the largest Renyi order at which weak convexity may be used: a (a - 1) = 2 std^2 / sensitivity^2.

    Raises:
        UnsupportedClaim: no order above 1 remains, in floating-point numbers.
    """
    ratio = checked("std", std, "(0, inf)") / checked("sensitivity", sensitivity, "(0, inf)")
    order = _order_of_product(2.0 * ratio * ratio)
    if not 1.0 < order < math.inf:
        raise UnsupportedClaim(
            f"std = {std:g} is {ratio:g} times the sensitivity {sensitivity:g}, which leaves no Renyi order above 1. "
            f"Take a std of the same order of magnitude as the sensitivity, or the local guarantee."
        )
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiTradeoff:
    """D_a <= a rate for 1 < a <= largest_order, where the noise alone sets the limit.

    Attributes:
        rate: the Renyi divergence per unit of order, from 0 to infinity.
        largest_order: above 1; see `largest_order`.
    """

    rate: float
    largest_order: float

    def __post_init__(self) -> None:
        checked("rate", self.rate, "[0, inf]")
        checked("largest_order", self.largest_order, "(1, inf)")

    @property
    def mu(self) -> None:
        """None: the guarantee is no Gaussian one."""
        return None

    def repeated(self, times: int) -> NoReturn:
        """Refused: no rule is proved."""
        raise UnsupportedClaim(
            f"{times} runs together were asked of a RenyiTradeoff; no rule for their composition is proved. Account them one by one, and "
            f"add up epsilons and deltas."
        )

    def scaled(self, factor: float) -> "RenyiTradeoff":
        """What holds when the noise is multiplied by this factor: std^2 enters the rate and the limit on the order."""
        factor = checked("factor", factor, "(0, inf)")
        product = self.largest_order * (self.largest_order - 1.0) * factor * factor
        return RenyiTradeoff(rate=self.rate / factor**2, largest_order=_order_of_product(product))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for this delta; inf at delta = 0 unless nothing is revealed."""
        delta = checked("delta", delta, "[0, 1)")
        if self.rate in (0.0, math.inf) or delta == 0.0:
            return 0.0 if self.rate == 0.0 else math.inf
        b = self.largest_order - 1.0
        # The best b of all solves rate b^2 + ln(1 + b) = ln(1 / delta), and the left side grows.
        if self.rate * b * b + math.log1p(b) >= -math.log(delta):
            return composition.zcdp(self.rate, delta)
        return composition.rdp([self.largest_order], [self.largest_order * self.rate], delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta for this epsilon."""
        epsilon = checked("epsilon", epsilon, "[0, inf)")
        if self.rate in (0.0, math.inf):
            return 0.0 if self.rate == 0.0 else 1.0
        end = self.largest_order - 1.0

        def slope(b: float) -> float:
            return self.rate * (1.0 + 2.0 * b) - epsilon - math.log1p(1.0 / b)

        start = min(end, math.exp(-40.0))
        if slope(end) <= 0.0 or slope(start) >= 0.0:
            b = end if slope(end) <= 0.0 else start
        else:
            from scipy.optimize import brentq

            b = float(brentq(slope, start, end, rtol=1e-12))
        return _delta_of_log(_log_delta(b, b * (1.0 + b) * self.rate, epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkTradeoff:
    """Contributions with random gaps; see the module. Never worse than the local guarantee, which it knows too.

    Attributes:
        gaps: the law of the number of noises that hide one contribution.
        contributions: how often the agent contributes, at most.
        noise_multiplier: std / sensitivity.
    """

    gaps: GapLaw
    contributions: int
    noise_multiplier: float
    mu: ClassVar[None] = None
    pure_epsilon: ClassVar[None] = None

    def __post_init__(self) -> None:
        whole("contributions", self.contributions)
        checked("noise_multiplier", self.noise_multiplier, "(0, inf)")

    @property
    def order(self) -> Order:
        """Less noise covers more, for the same law of gaps and as many contributions."""
        law = (self.contributions, self.gaps.lengths.tobytes(), self.gaps.probabilities.tobytes())
        return Order(("walk", *law), (1.0 / self.noise_multiplier,))

    def repeated(self, times: int) -> "WalkTradeoff":
        """As many contributions more: Renyi divergences add up at every order, and paths are drawn anew."""
        return replace(self, contributions=self.contributions * times)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """By a search."""
        return searched_factor(self, epsilon, delta)

    @property
    def local_mu(self) -> float:
        """The Gaussian parameter of all contributions in clear sight."""
        return math.sqrt(self.contributions) / self.noise_multiplier

    def scaled(self, factor: float) -> "WalkTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return replace(self, noise_multiplier=self.noise_multiplier * checked("factor", factor, "(0, inf)"))

    def renyi(self, order: float) -> float:
        """The Renyi divergence at this order, at most."""
        b = checked("order", order, "(1, inf)") - 1.0
        return self._moment(b) / b

    def epsilon(self, delta: float) -> float:
        """An epsilon for this delta, at the best order; inf at delta = 0 unless nothing is revealed."""
        delta = checked("delta", delta, "[0, 1)")
        if self.gaps.seen == 0.0:
            return 0.0
        if delta == 0.0:
            return math.inf

        def at(log_b: float) -> float:
            b = math.exp(log_b)
            return self._moment(b) / b - math.log1p(1.0 / b) - (math.log(delta) + math.log1p(b)) / b

        return min(max(0.0, _smallest(at)), gaussian.epsilon(self.local_mu, delta))

    def delta(self, epsilon: float) -> float:
        """A delta for this epsilon, at the best order."""
        epsilon = checked("epsilon", epsilon, "[0, inf)")
        if self.gaps.seen == 0.0:
            return 0.0
        log_delta = _smallest(lambda log_b: _log_delta(math.exp(log_b), self._moment(math.exp(log_b)), epsilon))
        return min(_delta_of_log(log_delta), gaussian.delta(self.local_mu, epsilon))

    def _moment(self, b: float) -> float:
        """Return b D at order 1 + b: N ln E e^(s / h), where gaps that end unseen count e^0."""
        s = 0.5 * b * (1.0 + b) / self.noise_multiplier**2
        exponents, probabilities = s / self.gaps.lengths, self.gaps.probabilities
        if s < _EXPONENT_LIMIT:
            return self.contributions * math.log1p(float(probabilities @ np.expm1(exponents)))
        top = float(exponents.max())
        mean = float(probabilities @ np.exp(exponents - top)) + (1.0 - self.gaps.seen) * math.exp(-top)
        return self.contributions * (top + math.log(mean))


def smallest_std(epsilon_at: Callable[[float], float], epsilon: float, *, start: float) -> float:
    """Return the smallest std with epsilon_at(std) <= epsilon, to 1e-12 from above; epsilon_at must fall with std."""
    from scipy.optimize import brentq

    low = high = start
    while epsilon_at(high) > epsilon:
        high *= 2.0
    while epsilon_at(low) <= epsilon:
        low *= 0.5
    log_std = brentq(lambda x: epsilon_at(math.exp(x)) - epsilon, math.log(low), math.log(high), xtol=1e-13)
    std = math.exp(log_std)
    while epsilon_at(std) > epsilon:
        std *= 1.0 + 5e-13
    return std


def _order_of_product(product: float) -> float:
    """Return a > 1 with a (a - 1) = product, without cancellation."""
    return 1.0 + 2.0 * product / (1.0 + math.sqrt(1.0 + 4.0 * product))


def _log_delta(b: float, moment: float, epsilon: float) -> float:
    return moment - b * epsilon - b * math.log1p(1.0 / b) - math.log1p(b)


def _delta_of_log(log_delta: float) -> float:
    return math.exp(min(0.0, log_delta))


def _smallest(function: Callable[[float], float]) -> float:
    """Return the smallest value found of a function with one valley in ln b."""
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(function, bounds=_LOG_B, method="bounded", options={"xatol": 1e-7}).fun)
