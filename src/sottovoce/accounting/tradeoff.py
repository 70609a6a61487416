"""The shapes a proven guarantee can have: what (epsilon, delta) pairs hold.

Gaussian     mu-GDP: at most as distinguishable as N(0, 1) and N(mu, 1)
pure         epsilon-DP with delta = 0; for delta > 0 the exact trade-off of the worst pure mechanism, randomized response
subsampled   T Gaussian mechanisms on Poisson-sampled records, by privacy-loss distributions; no finite mu is exact
fixed size   T Gaussian mechanisms on samples of a fixed size, the same way; another mechanism with other numbers
masked       vectors that reach a relay with pairwise masks, on average over a random graph
charged      Gaussian up to a total variation: rounded or imperfectly drawn noise
walk         contributions to a token, each hidden by a random number of noises; the worst of several agents together
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.mechanisms import fixed_size, gaussian, pure, subsampled
from sottovoce.accounting.mechanisms.imperfect_noise import ChargedTradeoff
from sottovoce.accounting.walk.tradeoffs import WalkTradeoff
from sottovoce.numbers import checked


def _positive(factor: float) -> float:
    return checked("factor", factor, "(0, inf)")


@dataclass(frozen=True, slots=True)
class GaussianTradeoff:
    """mu-GDP."""

    mu: float

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

    @property
    def mu(self) -> None:
        """None: the guarantee is no Gaussian one."""
        return None

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

    @property
    def mu(self) -> None:
        """None: the guarantee is no Gaussian one."""
        return None

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

    parts: tuple[WalkTradeoff, ...]

    @property
    def mu(self) -> None:
        """None: the guarantee is no Gaussian one."""
        return None

    def scaled(self, factor: float) -> "WorstTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return WorstTradeoff(tuple(part.scaled(factor) for part in self.parts))

    def epsilon(self, delta: float) -> float:
        """An epsilon for this delta that holds for all of them."""
        return max(part.epsilon(delta) for part in self.parts)

    def delta(self, epsilon: float) -> float:
        """A delta for this epsilon that holds for all of them."""
        return max(part.delta(epsilon) for part in self.parts)


SampledTradeoff = SubsampledTradeoff | FixedSizeTradeoff
# No closed form in the noise.
SearchedTradeoff = SampledTradeoff | WalkTradeoff | WorstTradeoff | MaskedTradeoff | ChargedTradeoff
Tradeoff = GaussianTradeoff | PureTradeoff | SearchedTradeoff
