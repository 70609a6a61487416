"""A token on the complete graph: every next holder is uniform over all n agents, the present one included.

PUBLISHED (Cyffers & Bellet 2022, Lemma 1 and App. F). With N contributions of u, L-Lipschitz losses and delta,

    epsilon = min over 1 < a <= a_max of  4 N a L^2 ln n / (std^2 n) + ln(1/delta) / (a - 1),
    a_max = (1 + sqrt(1 + 2 std^2 / L^2)) / 2                         (`largest_order` with sensitivity 2L).

The factor 4 is 2 (1 + c) with c = 1 from weak convexity. A display of the appendix and the authors' program have 2,
which is too small for an observer who knows the lags. ln n / n stands for the mean of 1/lag, which is ln n / (n - 1)
for the geometric law (1/n) (1 - 1/n)^(t - 1): `published_epsilon_exact_lag` uses it, cut at the end of the walk, with the better
conversion to (epsilon, delta).

PROVEN: `proven_epsilon`, by gaps (see the package). Against `epsilon` at n = 2000, N = 12, delta = 1e-6: where that
is 10, it is 3.75; where it is 1, 0.36. On a grid of settings it exceeded `epsilon` only for 3 to 6 agents with many
contributions and for noise well below the sensitivity, by up to 14 %; there the published value is not confirmed. For
2 agents it is false (an observer who holds the token whenever the other does not sees everything) and refused.
"""

import math
from typing import Final

import numpy as np

from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.walk.contributions import Contributions, count_and_delta
from sottovoce.accounting.walk.gaps import complete_gaps
from sottovoce.accounting.walk.tradeoffs import RenyiTradeoff, WalkTradeoff, largest_order, smallest_std
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import checked, whole

_LONGEST_SUM: Final = 10**7


def epsilon(*, num_agents: int, contributions: Contributions, std: float, lipschitz: float, delta: float) -> float:
    """Return the published network epsilon of one agent towards another, as printed.

    Args:
        num_agents: n, at least 3.
        contributions: N of the protected agent: a cap, or `likely_contributions`.
        std: of the Gaussian noise added to every gradient, per coordinate.
        lipschitz: L of the losses; gradients of two data sets differ by at most 2L.
        delta: in (0, 1).

    Raises:
        UnsupportedClaim: two agents, or noise so small that no Renyi order above 1 is left.
    """
    count, delta = count_and_delta(contributions, delta)
    return _as_printed(_published_agents(num_agents), count, std, checked("lipschitz", lipschitz, "(0, inf)"), delta)


def published_std_for(
    *, epsilon: float, num_agents: int, contributions: Contributions, lipschitz: float, delta: float
) -> float:
    """Return the smallest std for which the published epsilon is at most this one; arguments as there."""
    target, L = checked("epsilon", epsilon, "(0, inf)"), checked("lipschitz", lipschitz, "(0, inf)")
    n, (count, left) = _published_agents(num_agents), count_and_delta(contributions, delta)
    return smallest_std(lambda std: _as_printed(n, count, std, L, left), target, start=L)


def published_epsilon_exact_lag(
    *, num_agents: int, contributions: Contributions, std: float, lipschitz: float, delta: float, rounds: int
) -> float:
    """Return the published epsilon with the mean of 1/lag summed exactly and the better conversion; arguments as there.

    The contributions are still added up as in the source; `proven_epsilon` does not need that.

    Args:
        num_agents: as in `epsilon`.
        contributions: as in `epsilon`.
        std: as in `epsilon`.
        lipschitz: as in `epsilon`.
        delta: as in `epsilon`.
        rounds: hops of the whole walk; a lag cannot be longer.
    """
    n, (count, left) = _published_agents(num_agents), count_and_delta(contributions, delta)
    change = 2.0 * checked("lipschitz", lipschitz, "(0, inf)")
    end = largest_order(std=std, sensitivity=change)
    mean = _mean_inverse_lag(n, whole("rounds", rounds))
    # Weak convexity with c = 1 doubles the mean of a change^2 / (2 std^2 lag).
    return RenyiTradeoff(rate=count * (change / std) ** 2 * mean, largest_order=end).epsilon(left)


def proven_epsilon(
    *,
    num_agents: int,
    contributions: Contributions,
    std: float,
    sensitivity: float,
    delta: float,
    rounds: int,
    observers: int = 1,
) -> float:
    """Return a network epsilon that is proven for everyone who sees the token at some agents and even all of its way.

    Args:
        num_agents: n, at least 2.
        contributions: of the protected agent: a cap, or `likely_contributions`.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of the agent: 2L, or 2C with clipping to norm C where the
            clipped losses are still convex and smooth.
        delta: in (0, 1).
        rounds: hops of the whole walk.
        observers: how many other agents look, together.
    """
    count, left = count_and_delta(contributions, delta)
    return _by_gaps(num_agents, rounds, observers, count, std, sensitivity).epsilon(left)


def proven_std_for(
    *,
    epsilon: float,
    num_agents: int,
    contributions: Contributions,
    sensitivity: float,
    delta: float,
    rounds: int,
    observers: int = 1,
) -> float:
    """Return the smallest std for which `proven_epsilon` is at most this epsilon; arguments as there."""
    target, (count, left) = checked("epsilon", epsilon, "(0, inf)"), count_and_delta(contributions, delta)
    change = checked("sensitivity", sensitivity, "(0, inf)")
    unit = _by_gaps(num_agents, rounds, observers, count, 1.0, 1.0)
    return smallest_std(lambda std: unit.scaled(std / change).epsilon(left), target, start=change)


def local_epsilon(*, contributions: Contributions, std: float, sensitivity: float, delta: float) -> float:
    """Return the exact epsilon towards someone who sees the token after every contribution: no amplification at all."""
    count, left = count_and_delta(contributions, delta)
    change = checked("sensitivity", sensitivity, "(0, inf)") * math.sqrt(count)
    return gaussian.epsilon(change / checked("std", std, "(0, inf)"), left)


def local_std(*, epsilon: float, contributions: Contributions, sensitivity: float, delta: float) -> float:
    """Return the smallest std for which `local_epsilon` is at most this epsilon."""
    count, left = count_and_delta(contributions, delta)
    return gaussian.std(epsilon, left, checked("sensitivity", sensitivity, "(0, inf)") * math.sqrt(count))


def _as_printed(n: int, count: int, std: float, L: float, delta: float) -> float:
    end = largest_order(std=std, sensitivity=2.0 * L)
    rate = 4.0 * count * (L / std) ** 2 * math.log(n) / n
    order = min(1.0 + math.sqrt(math.log(1.0 / delta) / rate), end)
    return rate * order + math.log(1.0 / delta) / (order - 1.0)


def _by_gaps(n: int, rounds: int, observers: int, count: int, std: float, sensitivity: float) -> WalkTradeoff:
    ratio = checked("std", std, "(0, inf)") / checked("sensitivity", sensitivity, "(0, inf)")
    gaps = complete_gaps(n, rounds=rounds, observers=observers)
    return WalkTradeoff(gaps=gaps, contributions=count, noise_multiplier=ratio)


def _mean_inverse_lag(n: int, rounds: int) -> float:
    """Return the sum of (1/n) (1 - 1/n)^(t - 1) / t over t <= rounds; the whole series where the rest cannot matter."""
    if rounds >= min(_LONGEST_SUM, 50 * n):
        return math.log(n) / (n - 1)
    t = np.arange(1, rounds + 1)
    return float(np.sum(np.exp((t - 1) * math.log1p(-1.0 / n)) / t) / n)


def _published_agents(num_agents: int) -> int:
    n = whole("num_agents", num_agents)
    if n < 3:
        raise UnsupportedClaim(
            f"num_agents = {n}; with two agents the observer holds the token whenever the other does not, and the "
            f"published bound is false. Take at least 3 agents, or local_epsilon."
        )
    return n
