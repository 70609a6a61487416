"""The shapes a proven guarantee can have: what (epsilon, delta) pairs hold.

A trade-off is anything with the members of `Tradeoff`. Those of the basic mechanisms are here; masked averages, walks, rounded noise and composed
Laplace rounds have theirs beside their proofs.

Gaussian     mu-GDP: at most as distinguishable as N(0, 1) and N(mu, 1)
pure         epsilon-DP with delta = 0; for delta > 0 the exact trade-off of the worst pure mechanism, randomized response
subsampled   T Gaussian mechanisms on Poisson-sampled records, by privacy-loss distributions; no finite mu is exact
fixed size   T Gaussian mechanisms on samples of a fixed size, the same way; another mechanism with other numbers
worst        the largest of several at each delta, where no one of them is the largest at every delta

`repeated` is what R runs on the same data give away together, each with noise and draws of its own. Each has the guarantee of one run whatever
was released before, so they compose adaptively:

    Gaussian      mu sqrt(R)                                             mu^2 adds up (Dong, Roth & Su 2022)
    pure          R epsilon                                              for any delta, an upper bound
    samples       R T rounds of the same sampled Gaussian mechanism      one pair dominates every round, so its R T copies dominate all
    worst         the worst of the same parts, each repeated
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Protocol

from sottovoce.accounting.mechanisms import fixed_size, gaussian, pure, subsampled
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import checked, whole

LEAST_LOG_FACTOR = -600.0  # of the noise: what still reveals nothing with so little of it reveals nothing at all


class Order(NamedTuple):
    """What trade-offs are compared by: of one kind, the one whose sizes are all at least as large is at least as large at every delta."""

    kind: tuple[Hashable, ...]
    sizes: tuple[float, ...]

    def covers(self, other: object) -> bool:
        """Whether whatever holds for a trade-off of this order holds for the other too."""
        if not isinstance(other, Order):
            return False
        same = self.kind == other.kind and len(self.sizes) == len(other.sizes)
        return same and all(own >= its for own, its in zip(self.sizes, other.sizes, strict=True))


class PartialOrder(Protocol):
    """What trade-offs are compared by."""

    def covers(self, other: object) -> bool:
        """Whether whatever holds for a trade-off of this order holds for one of the other at every delta."""


class Tradeoff(Protocol):
    """What every proven guarantee can say about itself; values are immutable and comparable."""

    @property
    def mu(self) -> float | None:
        """The smallest mu for which it implies mu-GDP; None where no finite one is known."""

    @property
    def pure_epsilon(self) -> float | None:
        """Epsilon at delta = 0, for the laws that have one."""

    @property
    def order(self) -> PartialOrder:
        """What it is compared by."""

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds with this delta."""

    def delta(self, epsilon: float) -> float:
        """A delta that holds with this epsilon."""

    def scaled(self, factor: float) -> "Tradeoff":
        """What holds when the noise is multiplied by this factor."""

    def repeated(self, times: int) -> "Tradeoff":
        """What holds for so many runs on the same data together."""

    def factor_for(self, epsilon: float, delta: float) -> float:
        """The factor on the noise with which epsilon is met at delta."""


def uncovered(tradeoffs: Sequence[Tradeoff]) -> list[int]:
    """Positions of trade-offs that together cover all: at every delta the largest is among them."""
    kept: list[int] = []
    for position, one in enumerate(tradeoffs):
        if not any(tradeoffs[other].order.covers(one.order) for other in kept):
            kept = [other for other in kept if not one.order.covers(tradeoffs[other].order)] + [position]
    return kept


def worst_of(tradeoffs: Sequence[Tradeoff]) -> Tradeoff:
    """One trade-off that holds for all: the one that covers the others, else the largest at each delta."""
    kept = [tradeoffs[position] for position in uncovered(tradeoffs)]
    return kept[0] if len(kept) == 1 else WorstTradeoff(tuple(kept))


def repeated(tradeoff: Tradeoff, times: int) -> Tradeoff:
    """What holds for `times` runs together, if `tradeoff` holds for each of them.

    Args:
        tradeoff: of one run, as in `Guarantee.tradeoff`.
        times: runs on the same data; their noise, draws and graphs are independent of each other.

    Raises:
        ConfigError: times is not a whole number of at least 1.
        UnsupportedClaim: no rule is proved for this kind of guarantee.
    """
    times = whole("times", times)
    if times == 1:
        return tradeoff
    return tradeoff.repeated(times)


def needed_factor(value: float, target: float) -> float:
    """The factor on the noise of a value that goes with one over the scale.

    Raises:
        UnsupportedClaim: the value is zero with any noise.
    """
    if value == 0:
        raise UnsupportedClaim("this observer learns nothing whatever the noise, so no scale meets the target exactly.")
    return value / target


def searched_factor(tradeoff: Tradeoff, epsilon: float, delta: float, *, tolerance: float = 1e-6) -> float:
    """The smallest factor that meets the target to this relative tolerance, found on a logarithmic scale.

    Raises:
        UnsupportedClaim: delta is zero, or the observer learns nothing whatever the noise.
    """
    from scipy.optimize import brentq

    if delta == 0:
        raise UnsupportedClaim("this guarantee has no finite epsilon at delta = 0. Give delta > 0.")

    def excess(log_factor: float) -> float:
        reached = tradeoff.scaled(math.exp(log_factor)).epsilon(delta)
        return math.log(max(reached, 1e-300)) - math.log(epsilon)

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low *= 2.0
        if low < LEAST_LOG_FACTOR:
            return needed_factor(0.0, epsilon)
    while excess(high) > 0:
        high += 1.0
    root = float(brentq(excess, low, high, xtol=tolerance))
    while excess(root) > 0:  # end on the private side
        root += tolerance
        tolerance *= 2.0
    return math.exp(root)


def _positive(factor: float) -> float:
    return checked("factor", factor, "(0, inf)")


@dataclass(frozen=True, slots=True)
class GaussianTradeoff:
    """mu-GDP."""

    mu: float
    pure_epsilon: ClassVar[None] = None

    @property
    def order(self) -> Order:
        """A larger mu covers a smaller one."""
        return Order(("gaussian",), (self.mu,))

    def repeated(self, times: int) -> "GaussianTradeoff":
        """Squares of mu add up."""
        return GaussianTradeoff(self.mu * math.sqrt(times))

    def factor_for(self, epsilon: float, delta: float) -> float:
        """In closed form."""
        if delta == 0:
            raise UnsupportedClaim(
                "Gaussian noise has no finite epsilon at delta = 0. Give delta > 0, or use a Laplace law."
            )
        return needed_factor(self.mu, gaussian.mu(epsilon, delta))

    def scaled(self, factor: float) -> "GaussianTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return GaussianTradeoff(self.mu / _positive(factor))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for this delta; inf at delta = 0."""
        return gaussian.epsilon(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta for this epsilon."""
        return 1.0 if math.isinf(self.mu) else gaussian.delta(self.mu, epsilon)


@dataclass(frozen=True, slots=True)
class PureTradeoff:
    """Pure epsilon-DP."""

    pure_epsilon: float

    @property
    def mu(self) -> float:
        """The smallest mu for which this implies mu-GDP."""
        return math.inf if math.isinf(self.pure_epsilon) else pure.mu(self.pure_epsilon)

    @property
    def order(self) -> Order:
        """A larger epsilon covers a smaller one."""
        return Order(("pure",), (self.pure_epsilon,))

    def repeated(self, times: int) -> "PureTradeoff":
        """Epsilons add up."""
        return PureTradeoff(self.pure_epsilon * times)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """In closed form: pure epsilon0 implies (epsilon, delta) up to e^epsilon0 = (e^epsilon + delta) / (1 - delta)."""
        largest = epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta)
        return needed_factor(self.pure_epsilon, largest)

    def scaled(self, factor: float) -> "PureTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return PureTradeoff(self.pure_epsilon / _positive(factor))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon for this delta; the pure one at delta = 0."""
        return math.inf if math.isinf(self.pure_epsilon) else pure.epsilon(self.pure_epsilon, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta for this epsilon."""
        return 1.0 if math.isinf(self.pure_epsilon) else pure.delta(self.pure_epsilon, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledTradeoff:
    """Gaussian mechanisms on Poisson-sampled records (needs the extra `accounting`)."""

    noise_multiplier: float
    sampling_rate: float
    rounds: int
    adjacency: Literal["replace", "add-remove"]
    mu: ClassVar[None] = None
    pure_epsilon: ClassVar[None] = None

    @property
    def order(self) -> Order:
        """Less noise covers more, at the same rate and number of rounds."""
        return Order(("poisson", self.sampling_rate, self.rounds, self.adjacency), (1.0 / self.noise_multiplier,))

    def repeated(self, times: int) -> "SubsampledTradeoff":
        """As many rounds more."""
        return replace(self, rounds=self.rounds * times)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """By a search."""
        return searched_factor(self, epsilon, delta)

    def scaled(self, factor: float) -> "SubsampledTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return replace(self, noise_multiplier=self.noise_multiplier * _positive(factor))

    def epsilon(self, delta: float) -> float:
        """An upper bound on the smallest epsilon for this delta."""
        return subsampled.epsilon(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, rounds=self.rounds, delta=delta,
            adjacency=self.adjacency,
        )  # fmt: skip

    def delta(self, epsilon: float) -> float:
        """An upper bound on the smallest delta for this epsilon."""
        return subsampled.delta(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, rounds=self.rounds, epsilon=epsilon,
            adjacency=self.adjacency,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizeTradeoff:
    """Gaussian mechanisms on samples of a fixed size, one unit replaced (needs the extra `accounting`)."""

    noise_multiplier: float  # std over the largest change when one unit of the sample is replaced
    sampling_rate: float
    rounds: int
    mu: ClassVar[None] = None
    pure_epsilon: ClassVar[None] = None

    @property
    def order(self) -> Order:
        """Less noise covers more, at the same rate and number of rounds."""
        return Order(("fixed size", self.sampling_rate, self.rounds), (1.0 / self.noise_multiplier,))

    def repeated(self, times: int) -> "FixedSizeTradeoff":
        """As many rounds more."""
        return replace(self, rounds=self.rounds * times)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """By a search."""
        return searched_factor(self, epsilon, delta)

    def scaled(self, factor: float) -> "FixedSizeTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return replace(self, noise_multiplier=self.noise_multiplier * _positive(factor))

    def epsilon(self, delta: float) -> float:
        """An upper bound on the smallest epsilon for this delta."""
        return fixed_size.epsilon(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, rounds=self.rounds, delta=delta
        )

    def delta(self, epsilon: float) -> float:
        """An upper bound on the smallest delta for this epsilon."""
        return fixed_size.delta(
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
            rounds=self.rounds,
            epsilon=epsilon,
        )


@dataclass(frozen=True, slots=True)
class WorstTradeoff:
    """The largest of several, where which one is the largest depends on delta."""

    parts: tuple[Tradeoff, ...]

    @property
    def mu(self) -> float | None:
        """The largest; None where a part has none."""
        return _largest([part.mu for part in self.parts])

    @property
    def pure_epsilon(self) -> float | None:
        """The largest; None where a part has none."""
        return _largest([part.pure_epsilon for part in self.parts])

    @property
    def order(self) -> Order:
        """That of these parts together, which covers itself alone."""
        return Order(("worst", self.parts), ())

    def repeated(self, times: int) -> "WorstTradeoff":
        """The worst of the same parts, each repeated."""
        return WorstTradeoff(tuple(part.repeated(times) for part in self.parts))

    def factor_for(self, epsilon: float, delta: float) -> float:
        """The largest that a part needs."""
        return max(part.factor_for(epsilon, delta) for part in self.parts)

    def scaled(self, factor: float) -> "WorstTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return WorstTradeoff(tuple(part.scaled(factor) for part in self.parts))

    def epsilon(self, delta: float) -> float:
        """An epsilon for this delta that holds for all of them."""
        return max(part.epsilon(delta) for part in self.parts)

    def delta(self, epsilon: float) -> float:
        """A delta for this epsilon that holds for all of them."""
        return max(part.delta(epsilon) for part in self.parts)


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
