"""sv.calibrate: the noise that meets a target exactly, the inverse of `account`.

Every value of `account` is inversely proportional to the scale of the noise: mu for Gaussian noise, epsilon for the Laplace laws. So one
account suffices, and the factor is value / target. Only sampling and walks need a search.
"""

import math

from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sottovoce.accounting.account import account
from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.question.checked import Adjacency, Unit
from sottovoce.accounting.question.participation import Participation
from sottovoce.accounting.tradeoff import GaussianTradeoff, PureTradeoff, SearchedTradeoff
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.noise import Noise
from sottovoce.numbers import checked
from sottovoce.observers import Observer
from sottovoce.problems import ConvexSmooth
from sottovoce.topologies import Topology


def calibrate(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    sensitivity: ArrayLike,
    epsilon: float,
    delta: float,
    unit: Unit = "agent",
    adjacency: Adjacency = "replace",
    participation: Participation = "every-round",
    losses: ConvexSmooth | None = None,
    agent: int | None = None,
    same_model: bool | None = None,
) -> Noise:
    """The same noise rescaled so that `account(...).epsilon(delta)` is `epsilon`; other arguments as in `account`.

    Raises:
        UnsupportedClaim: no scale gives this observer a finite guarantee.
        ConfigError: epsilon or delta outside their ranges.
    """
    checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "[0, 1)")  # before the long account
    if not isinstance(observer, Observer):
        raise ConfigError(f"observer = {observer!r}; noise is calibrated for one observer. Give one of sv.observers.")
    found = account(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
        participation=participation, losses=losses, agent=agent, same_model=same_model,
    )  # fmt: skip
    return noise.scaled(noise_factor(found, epsilon=epsilon, delta=delta))


def noise_factor(found: Guarantee, *, epsilon: float, delta: float) -> float:
    """The factor on the noise of `found` with which `found.scaled(factor).epsilon(delta)` is `epsilon`.

    Raises:
        UnsupportedClaim: no factor gives this observer that epsilon.
    """
    epsilon, delta = checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "[0, 1)")
    if found.validity == "infinite":
        raise UnsupportedClaim(f"no amount of this noise gives {found.observer} a finite epsilon. {found.reason}")
    match found.tradeoff:
        case GaussianTradeoff(mu):
            if delta == 0:
                raise UnsupportedClaim(
                    "Gaussian noise has no finite epsilon at delta = 0. Give delta > 0, or use a Laplace law."
                )
            return _needed(mu, gaussian.mu(epsilon, delta))
        case PureTradeoff(pure_epsilon):
            return _needed(pure_epsilon, _pure(epsilon, delta))
        case searched:
            if delta == 0:
                raise UnsupportedClaim("this guarantee has no finite epsilon at delta = 0. Give delta > 0.")
            if isinstance(searched, MaskedTradeoff) and searched.local == 0:
                return _needed(0.0, epsilon)
            return _search(searched, epsilon, delta)


def _pure(epsilon: float, delta: float) -> float:
    """The largest pure epsilon that implies (epsilon, delta): e^pure = (e^epsilon + delta) / (1 - delta)."""
    return epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta)


def _needed(value: float, target: float) -> float:
    if value == 0:
        raise UnsupportedClaim("this observer learns nothing whatever the noise, so no scale meets the target exactly.")
    return value / target


def _search(tradeoff: SearchedTradeoff, epsilon: float, delta: float) -> float:
    """The smallest factor that meets the target to a millionth, found on a logarithmic scale."""

    def excess(log_factor: float) -> float:
        reached = tradeoff.scaled(math.exp(log_factor)).epsilon(delta)
        return math.log(max(reached, 1e-300)) - math.log(epsilon)

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
    root = float(brentq(excess, low, high, xtol=1e-6))
    while excess(root) > 0:  # end on the private side
        root += 1e-6
    return math.exp(root)
