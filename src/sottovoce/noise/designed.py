"""Noise whose strengths were computed: own noise of every agent, noise of pairs with two factors each, or the sums of a generator.

What agent k adds, to all its messages and to its own copy alike, is one of

    own and pairs     n_k = own_k z_k + sum over pairs e with k of factor_ke z_e      z_e known to the two agents of e, z_k to k alone
    joint             n   = L z                                                       z known to nobody, n_k told to agent k

with independent sources of one Gaussian law. The covariance of n is Diag(own^2) + sum_e c_e c_e', or L L', times the law's variance. `gopa` is the
first form with equal own factors and pair factors +r and -r on every link. `sottovoce.design` computes the numbers; nothing here knows what for.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.noise.laws import Gaussian
from sottovoce.noise.noise import GENERATOR, Noise, NoiseMap, same_everywhere
from sottovoce.topologies import ActiveLinks


def designed(
    law: Gaussian,
    *,
    own: ArrayLike | None = None,
    pairs: Sequence[Sequence[int]] | np.ndarray = (),
    factors: Sequence[Sequence[float]] | np.ndarray = (),
    joint: ArrayLike | None = None,
) -> Noise:
    """Gaussian noise of given strengths: own and pairs', or the sums of a joint generator.

    Requires: as many agents as there are strengths; links that are not drawn at random. A joint generator is trusted: it must draw the
    noise, tell every agent its own sum alone, and forget it.

    Args:
        law: of all sources; its std multiplies every factor.
        own: [K] factor of every agent's own source.
        pairs: [m, 2] agents that share a source, linked or not.
        factors: [m, 2] with which the first and the second of them add it.
        joint: [K, K] factors of a generator's sources, in place of the others.

    Raises:
        ConfigError: factors that are not finite, of the wrong number, or of pairs that are none.
        IncompatibleChoice: a law that is not Gaussian.
    """
    if not isinstance(law, Gaussian):
        raise IncompatibleChoice(
            f"designed noise got the law {type(law).__name__}; sums of several sources are accounted exactly for Gaussian ones only. Use "
            f"sv.noise.Gaussian."
        )
    if (own is None) == (joint is None):
        raise ConfigError(
            "designed noise needs `own` (with `pairs` and `factors`) or `joint`, and exactly one of them."
        )
    if joint is not None:
        if len(pairs) or len(factors):
            raise ConfigError("a joint generator makes all noise: leave `pairs` and `factors` out.")
        return _of_generator(law, joint)
    numbers, ends, shares = _numbers("own", own, 1), _pairs(pairs), _numbers("factors", factors, 2)
    num_agents, num_pairs = len(numbers), len(ends)
    if shares.shape != ends.shape:
        raise ConfigError(f"{num_pairs} pairs have {len(shares)} rows of factors; every pair needs two of them.")
    if num_pairs and ends.max() >= num_agents:
        raise ConfigError(f"a pair names agent {ends.max()}; `own` has {num_agents} agents, numbered from 0.")
    agents = np.arange(num_agents)
    agent = np.concatenate([ends.ravel(), agents])
    source = np.concatenate([np.repeat(np.arange(num_pairs), 2), num_pairs + agents])
    owners = np.concatenate([ends, np.stack([agents, np.full(num_agents, -1)], axis=1)])
    described = {"own": numbers.tolist(), "pairs": ends.tolist(), "factors": shares.tolist()}
    return _scheme(law, owners, agent, source, np.concatenate([shares.ravel(), numbers]), num_agents, described)


def _of_generator(law: Gaussian, joint: ArrayLike) -> Noise:
    factors = _numbers("joint", joint, 2)
    if factors.shape[0] != factors.shape[1]:
        raise ConfigError(f"joint has shape {factors.shape}; it must be square, a row for every agent.")
    agent, source = np.nonzero(factors)
    owners = np.tile([GENERATOR, -1], (len(factors), 1))
    return _scheme(law, owners, agent, source, factors[agent, source], len(factors), {"joint": factors.tolist()})


def _scheme(
    law: Gaussian,
    owners: np.ndarray,
    agent: np.ndarray,
    source: np.ndarray,
    value: np.ndarray,
    num_agents: int,
    described: dict[str, Any],
) -> Noise:
    """The entries (agent, source, value) as a noise scheme."""

    def spread(links: ActiveLinks) -> NoiseMap:
        if len(links.perron) != num_agents:
            raise IncompatibleChoice(
                f"this noise was designed for {num_agents} agents, and the network has {len(links.perron)}. Design it for this network."
            )
        if not isinstance(links.weights, np.ndarray):
            raise IncompatibleChoice(
                "designed noise is added in every round, and here links are drawn at random. Use fixed or listed links."
            )
        return same_everywhere(links, owners, agent, source, value)

    return Noise(name="designed", law=law, spread=spread, parameters=described)


def _numbers(name: str, given: Any, dimensions: int) -> np.ndarray:
    try:
        numbers = np.array(given, dtype=float)
    except (TypeError, ValueError):
        numbers = np.array(math.nan)
    if dimensions == 2 and numbers.size == 0:
        return np.zeros((0, 2))
    if numbers.ndim != dimensions or not numbers.size or not np.isfinite(numbers).all():
        raise ConfigError(f"{name} of designed noise must be finite numbers in {dimensions} dimension(s).")
    return numbers


def _pairs(given: Any) -> np.ndarray:
    ends = np.array(given)
    if ends.size == 0:
        return np.zeros((0, 2), dtype=int)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu" or (ends < 0).any():
        raise ConfigError("pairs of designed noise must be rows of two agents, numbered from 0.")
    if (ends[:, 0] == ends[:, 1]).any():
        raise ConfigError(
            f"agent {ends[ends[:, 0] == ends[:, 1]][0, 0]} stands in a pair with itself; its own noise belongs into `own`."
        )
    if len(np.unique(np.sort(ends, axis=1), axis=0)) < len(ends):
        raise ConfigError("a pair of agents stands twice in `pairs`; a pair has one source, with one factor for each.")
    return ends.astype(int)
