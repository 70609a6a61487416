"""The law of what a path costs, and the guarantee that it gives.

The way of the token does not depend on data, and the observer may know it. Given the way, all contributions of an agent are at most one Gaussian
mechanism of mu^2 = C / m^2, m the noise multiplier of one contribution and C the cost of the way by some plan (see the package). So the divergence
of (way, token) together is the average of those given the way:

    delta(epsilon) = E delta_G(sqrt(C) / m, epsilon),      delta_G(mu, epsilon) that of a shift by mu (mechanisms.gaussian)

The law of C does not depend on the noise, so that one law serves every scale. It is kept on a grid of costs, each rounded up; delta_G grows with C, so
that rounding errs upwards only. Ways that cost more than the grid holds are counted as if all contributions were in clear sight, which is true of
every way. Laws come from sums of products that are partly done by Fourier transforms; `allowance` bounds what rounding of floating-point numbers may
have taken away, and is added to delta.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.tradeoff import Order, searched_factor
from sottovoce.accounting.walk.tradeoffs import WalkTradeoff
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, is_number, whole
from sottovoce.reprs import short_repr

ROUNDING = 2.0**-53
NEGLIGIBLE = 1e-15
_MOST_POINTS = 2**17  # of a law of several walks together


def trimmed(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law without its end of at most NEGLIGIBLE in all, which whoever states it adds to the allowance."""
    kept = np.maximum(masses, 0.0)
    tails = np.cumsum(kept[::-1])[::-1]
    return kept[: max(1, int(np.count_nonzero(tails > NEGLIGIBLE)))]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostLaw:
    """P(C <= spacing i) is at least the sum of masses[0..i], but for the allowance.

    Attributes:
        plan: the name of the plan whose costs these are.
        spacing: of the grid.
        masses: [M] of the costs 0, spacing, 2 spacing, ...
        beyond: the probability of ways that count in clear sight.
        contributions: N, which those ways cost.
        allowance: what rounding may have taken from all probabilities together.
    """

    plan: str
    spacing: float
    masses: NDArray[np.float64]
    beyond: float
    contributions: int
    allowance: float

    def __post_init__(self) -> None:
        whole("contributions", self.contributions)
        checked("spacing", self.spacing, "(0, inf)")
        masses = self.masses
        if masses.ndim != 1 or not len(masses) or not (np.isfinite(masses).all() and (masses >= 0.0).all()):
            raise ConfigError("a law of costs needs a list of probabilities, none of them negative.")
        if not (is_number(self.beyond, "[0, inf)") and is_number(self.allowance, "[0, inf)")):
            raise ConfigError(f"beyond = {self.beyond!r} and allowance = {self.allowance!r}; both must be at least 0.")

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def mean(self) -> float:
        """E C, rounded up."""
        costs = self.spacing * np.arange(len(self.masses))
        return float(self.masses @ costs) + self.beyond * self.contributions

    def above(self, cost: float) -> float:
        """P(C > cost), at most."""
        first = max(0, math.floor(cost / self.spacing * (1.0 - 1e-12))) + 1
        return float(self.masses[first:].sum()) + self.beyond + self.allowance

    def delta(self, noise_multiplier: float, epsilon: float) -> float:
        """E delta_G(sqrt(C) / noise_multiplier, epsilon)."""
        held = np.flatnonzero(self.masses)
        held = held[held > 0]
        mu = np.sqrt(self.spacing * held) / noise_multiplier
        total = float(self.masses[held] @ gaussian.deltas(mu, epsilon))
        if self.beyond:
            total += self.beyond * gaussian.delta(math.sqrt(self.contributions) / noise_multiplier, epsilon)
        return min(1.0, total * (1.0 + 4.0 * (len(held) + 8) * ROUNDING) + self.allowance)

    def epsilon(self, noise_multiplier: float, delta: float, *, most: float) -> float:
        """The smallest epsilon with this delta, from above; `most` where it would be larger.

        Args:
            noise_multiplier: m, std over sensitivity.
            delta: above 0, below 1.
            most: an epsilon that holds anyhow.
        """
        if self.allowance >= delta or math.isinf(most) or self.delta(noise_multiplier, most) > delta:
            return most
        if self.delta(noise_multiplier, 0.0) <= delta:
            return 0.0
        from scipy.optimize import brentq

        target = math.log(delta)
        found = float(
            brentq(lambda at: _log(self.delta(noise_multiplier, at)) - target, 0.0, most, xtol=1e-12 * most, rtol=1e-11)
        )
        further = 1e-11 * found
        while found < most and self.delta(noise_multiplier, found) > delta:  # end on the private side
            found, further = min(most, found + further), 2.0 * further
        return found

    def repeated(self, times: int) -> "CostLaw":
        """The law of the sum of so many costs drawn independently: several tokens, or several runs."""
        times = whole("times", times)
        if times == 1:
            return self
        factor = math.ceil(times * (len(self.masses) - 1) / _MOST_POINTS) or 1
        one = self.coarser(factor)
        points = times * (len(one.masses) - 1) + 1
        length = fft.next_fast_len(points, real=True)
        masses = np.maximum(fft.irfft(fft.rfft(one.masses, length) ** times, length)[:points], 0.0)
        error = 16.0 * ROUNDING * times * math.log2(length + 1.0) * math.sqrt(length)
        return replace(
            one, masses=masses, beyond=times * self.beyond * (1.0 + error), contributions=times * self.contributions,
            allowance=times * self.allowance + error,
        )  # fmt: skip

    def coarser(self, factor: int) -> "CostLaw":
        """The same law on every factor-th point, costs rounded up."""
        if factor == 1:
            return self
        at = -(-np.arange(len(self.masses)) // factor)
        return replace(self, spacing=self.spacing * factor, masses=np.bincount(at, self.masses).astype(np.float64))


def _log(delta: float) -> float:
    return math.log(max(delta, 1e-320))


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsTradeoff:
    """The average over all ways of the token, by the plan that says least at each delta; never more than `gaps` says.

    Attributes:
        laws: of the costs, one for each plan that was computed.
        gaps: what the Renyi divergences of the gaps say.
        clear_cost: what all contributions cost in clear sight; N where all hops are alike.
    """

    laws: tuple[CostLaw, ...]
    gaps: WalkTradeoff
    clear_cost: float
    mu: ClassVar[None] = None
    pure_epsilon: ClassVar[None] = None

    @property
    def noise_multiplier(self) -> float:
        """m, std over sensitivity."""
        return self.gaps.noise_multiplier

    @property
    def clear_mu(self) -> float:
        """The Gaussian parameter of all contributions in clear sight."""
        return math.sqrt(self.clear_cost) / self.noise_multiplier

    @property
    def order(self) -> Order:
        """Less noise covers more, for the same laws of costs and gaps."""
        laws = tuple((law.spacing, law.beyond, law.allowance, law.masses.tobytes()) for law in self.laws)
        below = self.gaps.order
        return Order(("paths", self.clear_cost, *below.kind, *laws), below.sizes)

    def scaled(self, factor: float) -> "PathsTradeoff":
        """What holds when the noise is multiplied by this factor."""
        return replace(self, gaps=self.gaps.scaled(factor))

    def repeated(self, times: int) -> "PathsTradeoff":
        """Costs of independent walks add up."""
        laws = tuple(law.repeated(times) for law in self.laws)
        return replace(self, laws=laws, gaps=self.gaps.repeated(times), clear_cost=times * self.clear_cost)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """By a search."""
        return searched_factor(self, epsilon, delta)

    def epsilon(self, delta: float) -> float:
        """An epsilon for this delta."""
        least = self.gaps.epsilon(delta)
        if delta == 0.0 or least == 0.0:
            return least
        least = min(least, gaussian.epsilon(self.clear_mu, delta))
        for law in self.laws:
            least = min(least, law.epsilon(self.noise_multiplier, delta, most=least))
        return least

    def delta(self, epsilon: float) -> float:
        """A delta for this epsilon."""
        found = min(self.gaps.delta(epsilon), gaussian.delta(self.clear_mu, epsilon))
        return min([found, *(law.delta(self.noise_multiplier, epsilon) for law in self.laws)])

    def by_plan(self, delta: float) -> dict[str, float]:
        """{plan: epsilon} that every plan alone states at this delta, above 0."""
        most = gaussian.epsilon(self.clear_mu, delta)
        stated = {law.plan: law.epsilon(self.noise_multiplier, delta, most=most) for law in self.laws}
        return {"gaps, Renyi": self.gaps.epsilon(delta), **stated}
