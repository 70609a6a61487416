"""Guarantees of runs that are only close to what was proven: the distance is charged to delta.

If in both worlds the law of a run is within total variation t of one with an (epsilon, delta) guarantee, then

    delta'(epsilon) = delta(epsilon) + (1 + e^epsilon) t

holds for the run. For a mu-GDP start this is convex in x = e^epsilon, since d delta / dx = -Phi(-mu/2 - epsilon/mu), and
lowest at

    epsilon* = -mu (Phi^-1(t) + mu / 2) .

Beyond epsilon* the smaller delta' of epsilon* still holds. Below (1 + e^epsilon*) t no delta is reached at all. Several
runs, also adaptive ones: mu^2 and t add up.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from scipy.special import ndtri

from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.tradeoff import Order, searched_factor
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked

_LARGEST_EXPONENT = 700.0  # e^700 is the last round power below the largest float


class Way(NamedTuple):
    """One proof: within `total_variation` of something that is mu-GDP."""

    mu: float
    total_variation: float


@dataclass(frozen=True, slots=True)
class ChargedTradeoff:
    """What the best of several proofs gives, each of them mu-GDP up to a total variation.

    Attributes:
        ways: the proofs; which of them is best may depend on epsilon.
    """

    ways: tuple[Way, ...]

    def __post_init__(self) -> None:
        """Refuse an empty list of proofs and numbers that bound nothing."""
        if not self.ways:
            raise ConfigError("there is no proof to state a guarantee from. Give at least one (mu, total variation).")
        for way in self.ways:
            checked("mu", way.mu, "[0, inf)")
            checked("total_variation", way.total_variation, "[0, 1]")

    @property
    def mu(self) -> float | None:
        """The smallest mu that needs no charge; None where every proof has one."""
        return min((way.mu for way in self.ways if way.total_variation == 0.0), default=None)

    @property
    def pure_epsilon(self) -> None:
        """None: Gaussian noise has no finite epsilon at delta = 0."""
        return None

    @property
    def order(self) -> Order:
        """That of these very proofs."""
        return Order(("imperfect", self.ways), ())

    def repeated(self, times: int) -> "ChargedTradeoff":
        """For every proof by itself, mu^2 and total variations add up."""
        return ChargedTradeoff(
            tuple(Way(way.mu * math.sqrt(times), min(1.0, way.total_variation * times)) for way in self.ways)
        )

    def factor_for(self, epsilon: float, delta: float) -> float:
        """Refused, as `scaled` is."""
        return searched_factor(self, epsilon, delta)

    def scaled(self, factor: float) -> NoReturn:
        """Refused: how far a run is from its ideal does not follow from its scale."""
        raise UnsupportedClaim(
            f"noise scaled by {factor!r}; this guarantee is charged for rounding or imperfect draws, which scale "
            f"otherwise. Account the run with the other noise."
        )

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for this delta; inf where delta does not even pay the charge."""
        target = checked("delta", delta, "[0, 1)")
        return min(_epsilon(way, target) for way in self.ways)

    def delta(self, epsilon: float) -> float:
        """The smallest delta for this epsilon."""
        at = checked("epsilon", epsilon, "[0, inf)")
        return min(_delta(way, min(at, _lowest(way))) for way in self.ways)


def charged_delta(epsilon: float, delta: float, *, total_variation: float) -> float:
    """The delta of a run whose law is, for every input, within `total_variation` of that of an (epsilon, delta)-DP one.

    Several sources of error add up before they are charged.
    """
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    off = checked("total_variation", total_variation, "[0, 1]")
    start = checked("delta", delta, "[0, 1]")
    if off == 0.0:
        return start
    return min(1.0, start + off * (1.0 + math.exp(epsilon))) if epsilon < _LARGEST_EXPONENT else 1.0


def _lowest(way: Way) -> float:
    """The epsilon at which the charged delta is smallest."""
    if way.total_variation == 0.0:
        return math.inf
    lowest = -way.mu * (float(ndtri(way.total_variation)) + 0.5 * way.mu) if way.mu > 0.0 else 0.0
    return min(max(0.0, lowest), 0.999 * _LARGEST_EXPONENT)


def _delta(way: Way, epsilon: float) -> float:
    return charged_delta(epsilon, gaussian.delta(way.mu, epsilon), total_variation=way.total_variation)


def _epsilon(way: Way, delta: float) -> float:
    if way.total_variation == 0.0:
        return gaussian.epsilon(way.mu, delta)
    low, high = 0.0, _lowest(way)
    if _delta(way, high) > delta:
        return math.inf
    if _delta(way, low) <= delta:
        return low
    # The upper end always meets the target, so that what is returned holds however early this stops.
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if _delta(way, middle) <= delta else (middle, high)
    return high
