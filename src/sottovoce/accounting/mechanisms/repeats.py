"""Several runs on the same data, each with noise and draws of its own: what they give away together.

Whoever gets the results of R runs has R releases about the same data. Each has the guarantee of one run whatever was released before, so they
compose adaptively:

    Gaussian      mu sqrt(R)                                             mu^2 adds up (Dong, Roth & Su 2022)
    pure          R epsilon                                              for any delta, an upper bound
    samples       R T rounds of the same sampled Gaussian mechanism      one pair dominates every round, so its R T copies dominate all
    masks         local sqrt(R) and R T rounds                           given the graphs mu^2 adds up; each of R T rounds may have a bad one
    charged       mu sqrt(R), total variation R t                        for every proof by itself
    walks         R N contributions                                      Renyi divergences add up, at every order; paths are drawn anew

Where the worst of several agents is stated, that of the runs together is the worst of the same agents.
"""

import math
from dataclasses import replace

from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.mechanisms.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.tradeoff import (
    FixedSizeTradeoff,
    GaussianTradeoff,
    PureTradeoff,
    SubsampledTradeoff,
    Tradeoff,
    WorstTradeoff,
)
from sottovoce.accounting.walk import WalkTradeoff
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import whole


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
    match tradeoff:
        case _ if times == 1:
            return tradeoff
        case GaussianTradeoff(mu):
            return GaussianTradeoff(mu * math.sqrt(times))
        case PureTradeoff(pure_epsilon):
            return PureTradeoff(pure_epsilon * times)
        case SubsampledTradeoff() | FixedSizeTradeoff():
            return replace(tradeoff, rounds=tradeoff.rounds * times)
        case MaskedTradeoff():
            return replace(tradeoff, local=tradeoff.local * math.sqrt(times), rounds=tradeoff.rounds * times)
        case ChargedTradeoff(ways):
            return ChargedTradeoff(tuple(_charged(way, times) for way in ways))
        case WalkTradeoff():
            return replace(tradeoff, contributions=tradeoff.contributions * times)
        case WorstTradeoff(parts):
            return WorstTradeoff(tuple(replace(part, contributions=part.contributions * times) for part in parts))
    raise UnsupportedClaim(
        f"{times} runs together were asked of a {type(tradeoff).__name__}; no rule for their composition is proved. Account them one by one, "
        f"and add up epsilons and deltas."
    )


def _charged(way: Way, times: int) -> Way:
    return Way(way.mu * math.sqrt(times), min(1.0, way.total_variation * times))
