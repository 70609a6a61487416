"""Sums on a ring by a token that passes from neighbour to neighbour (Cyffers & Bellet 2022, arXiv 2012.05326, Alg. 1).

    hop h = 0, 1, .., K n - 1 of agent u = h mod n in pass k = h div n:   token <- token + x_u^k + noise_h,
    noise_h ~ N(0, std^2 I) if n - 1 divides h, and nothing otherwise;   then u hands the token to (u + 1) mod n

The others make n - 1 hops between two turns of an agent, so that every agent finds exactly one new noise in what it receives, however many agents
there are: the sum has the error of about K noises, not of K n. There are ceil(K n / (n - 1)) of them, since the very first hop needs one: the
next agent receives it alone. (The document's error counts floor(K n / (n - 1)), one less unless n - 1 divides K.)

This is no `Algorithm`: those let every agent perturb what it sends, while here most values go on in clear, hidden by a noise that somebody else has
added. It is therefore a function of its own, and so is its account, `sottovoce.accounting.gossip.ring_sum`.

TWO NEIGHBOURS of an agent who compare notes read its value in clear, except in passes where it adds the noise. And the last token must not be
published unless its last hop has noise (one pass, or a number of passes that is 1 modulo n - 1): an agent who saw the token after the last noise would
subtract.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole

Floats = NDArray[np.float64]


class RingSum(NamedTuple):
    """What a token did.

    Attributes:
        tokens: [K n, d] the token as it was handed on after every hop; the last one is the result.
        noises: [K n, d] what was added besides values; zero in hops without noise.
    """

    tokens: Floats
    noises: Floats

    @property
    def result(self) -> Floats:
        """[d] the last token: the sum of all values and noises."""
        return np.asarray(self.tokens[-1])


def noisy_hops(num_agents: int, passes: int) -> NDArray[np.bool_]:
    """[K n] whether noise is added in a hop.

    Args:
        num_agents: n, at least 3: of two agents each is both neighbours of the other.
        passes: K.
    """
    whole("num_agents", num_agents, least=3)
    whole("passes", passes)
    return np.asarray(np.arange(passes * num_agents) % (num_agents - 1) == 0)


def ring_sum(values: ArrayLike, *, std: float, seed: int) -> RingSum:
    """Send a token round the ring.

    Args:
        values: [K, n, d] what every agent adds in every pass; `np.broadcast_to(x, (K, n, d))` for the same in each.
        std: of the noise, per coordinate; 0 for none.
        seed: of NumPy's generator.

    Raises:
        ConfigError: values of another shape or that are not finite, fewer than 3 agents, or a std that is no finite number of at least 0.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 3 or x.shape[2] < 1 or not np.isfinite(x).all():
        raise ConfigError(f"values of shape {x.shape}; give finite numbers [passes, agents, dimension].")
    checked("std", std, "[0, inf)")
    K, n, d = x.shape
    noises = np.zeros((K * n, d))
    noisy = noisy_hops(n, K)
    noises[noisy] = std * np.random.default_rng(seed).standard_normal((int(noisy.sum()), d))
    return RingSum(np.cumsum(x.reshape(K * n, d) + noises, axis=0), noises)
