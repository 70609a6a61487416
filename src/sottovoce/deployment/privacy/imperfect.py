"""Any proven trade-off, of a law that is only close to the one that ran: the distance is charged to delta.

    delta'(epsilon) = delta(epsilon) + (1 + e^epsilon) t

holds if the run's law is, in both worlds, within total variation t of one with delta(epsilon). The right side is convex in e^epsilon, so beyond its lowest
point the smaller delta' of that point still holds, and below its value no delta is reached.
"""

import math
from dataclasses import dataclass
from typing import NoReturn

from sottovoce.accounting import Tradeoff
from sottovoce.accounting.gopa.imperfect_noise import charged_delta
from sottovoce.accounting.tradeoff import Order
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import checked, whole


@dataclass(frozen=True, slots=True)
class ImperfectTradeoff:
    """A trade-off up to a total variation.

    Attributes:
        ideal: of the law that was meant, with a finite epsilon at delta = 0.
        total_variation: how far the law that ran is from it, above 0.
    """

    ideal: Tradeoff
    total_variation: float

    @property
    def mu(self) -> None:
        """None: what is charged to delta is no Gaussian trade-off."""
        return None

    @property
    def pure_epsilon(self) -> None:
        """None: at delta = 0 nothing is promised of imperfect draws."""
        return None

    @property
    def order(self) -> Order:
        """That of these very numbers."""
        return Order(("imperfect", self), ())

    def delta(self, epsilon: float) -> float:
        """A delta that holds with this epsilon."""
        at = checked("epsilon", epsilon, "[0, inf)")
        # Any smaller epsilon's delta holds too; the pure one is the last at which the ideal delta still falls.
        tried = {at, min(at, self._last), 0.0}
        return min(self._at(one) for one in tried)

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds with this delta; inf where delta does not even pay the charge."""
        target = checked("delta", delta, "[0, 1)")
        low, high = 0.0, self._last
        if self._at(low) <= target:
            return low
        if self._at(high) > target:
            return math.inf
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._at(middle) <= target else (middle, high)
        return high

    @property
    def _last(self) -> float:
        last = self.ideal.pure_epsilon
        return 690.0 if last is None else min(float(last), 690.0)

    def _at(self, epsilon: float) -> float:
        return charged_delta(epsilon, self.ideal.delta(epsilon), total_variation=self.total_variation)

    def repeated(self, times: int) -> "ImperfectTradeoff":
        """The ideal ones compose, and total variations add up."""
        times = whole("times", times)
        return ImperfectTradeoff(self.ideal.repeated(times), min(1.0, self.total_variation * times))

    def scaled(self, factor: float) -> NoReturn:
        """Refused: how far a run is from its ideal does not follow from its scale."""
        raise UnsupportedClaim(
            f"noise scaled by {factor!r}; this guarantee is charged for rounding and imperfect draws, which scale otherwise. Account the run with the other noise."
        )

    def factor_for(self, epsilon: float, delta: float) -> NoReturn:
        """Refused, as `scaled` is."""
        self.scaled(delta)
