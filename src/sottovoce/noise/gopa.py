"""Pairwise noise with own noise: each linked pair shares a source that its two agents add with opposite signs.

Agent l adds the same perturbation to everything it sends in a round and to its own copy,

    n_l = rho (sum_{k > l} z_lk - sum_{k < l} z_kl) + z_l,      rho = pairwise_std / std,   k over the neighbours of l

where z_lk (l < k) is known to l and k alone and z_l to l alone. All sources have the law given, so that n has the covariance
std^2 I + pairwise_std^2 L, with L the Laplacian of the pairs that exchange both ways in the round. The centroid receives

    sum_l q_l n_l  =  sum_l q_l z_l + rho sum_{l < k} (q_l - q_k) z_lk :

of the pairs' noise nothing where agents count alike (every doubly stochastic A), of the agents' own noise always its average.

Sabater et al. 2022 (GOPA: one average of private values); Allouah et al. 2024 (DECOR: every round, with ATC). DECOR perturbs the
gradient, so the standard deviations here are its own times the step size.
"""

import math

import numpy as np

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.noise.laws import Gaussian, Laplace, check_law
from sottovoce.noise.noise import Noise, NoiseMap, outgoing_weight, same_everywhere
from sottovoce.numbers import is_number
from sottovoce.topologies import ActiveLinks


def gopa(law: Gaussian | Laplace, *, pairwise_std: float) -> Noise:
    """Noise shared by linked pairs with opposite signs, and own noise of every agent.

    Requires: every link has its opposite; both ends of a pair know before they send whether the pair is active in the round.
    Formal guarantee: none of cancellation. With doubly stochastic weights the centroid receives the average of the own sources and
    nothing of the pairs' noise; with other weights a part of the latter stays. A pair's noise hides nothing from its two agents.

    Args:
        law: law of every agent's own source.
        pairwise_std: standard deviation of a pair's source, of the same law. `scaled` multiplies both, so their ratio stays.

    Raises:
        ConfigError: pairwise_std is not a finite number above 0.
        IncompatibleChoice: the law is not given by a standard deviation.
    """
    check_law(law, scheme="gopa")
    if not isinstance(law, Gaussian | Laplace):
        raise IncompatibleChoice(
            f"gopa got the law {type(law).__name__}; it needs one that is given by its standard deviation, since that of an L2Laplace "
            f"source depends on the dimension and a sum of such sources no longer has that law. Use sv.noise.Gaussian or "
            f"sv.noise.Laplace."
        )
    ratio = _ratio(pairwise_std, law.std)

    def spread(links: ActiveLinks) -> NoiseMap:
        return _spread(links, ratio)

    # The ratio is kept, not pairwise_std: it is still true of a scheme that was scaled.
    return Noise(name="gopa", law=law, spread=spread, parameters={"pairwise_ratio": ratio})


def _ratio(pairwise_std: float, std: float) -> float:
    if not is_number(pairwise_std, "(0, inf)"):
        raise ConfigError(
            f"pairwise_std = {pairwise_std!r}; the standard deviation of a pair's noise must be a finite number above 0. "
            f"For own noise alone, use sv.noise.independent(law)."
        )
    ratio = float(pairwise_std) / float(std)
    if not 0 < ratio < math.inf:
        raise ConfigError(
            f"pairwise_std = {pairwise_std!r} cannot be expressed in units of std = {std!r}: their ratio leaves the range of floating "
            f"point. Use values of nearer size."
        )
    return ratio


def _spread(links: ActiveLinks, ratio: float) -> NoiseMap:
    forth, back = _directions(links)
    num_agents, num_pairs = len(links.perron), len(forth)
    agents, pairs = np.arange(num_agents), np.arange(num_pairs)
    low, high = links.senders[forth], links.receivers[forth]
    # What each agent adds, wherever it adds it: entries (agent, source, value).
    owner = np.concatenate([low, high, agents])
    source = np.concatenate([pairs, pairs, num_pairs + agents])
    shared = ratio * ((links.weights[forth] > 0) & (links.weights[back] > 0))
    sends = (outgoing_weight(links) > 0) * 1.0
    value = shared.__array_namespace__().concatenate([shared, -shared, sends])
    owners = np.concatenate([np.stack([low, high], axis=1), np.stack([agents, np.full_like(agents, -1)], axis=1)])
    return same_everywhere(links, owners, owner, source, value)


def _directions(links: ActiveLinks) -> tuple[np.ndarray, np.ndarray]:
    """Link positions of every pair: from its lower agent to its higher one and back, pairs in lexicographic order."""
    num_agents = len(links.perron)
    key, opposite = (links.senders * num_agents + links.receivers, links.receivers * num_agents + links.senders)
    order = np.argsort(key)
    back = order[np.minimum(np.searchsorted(key, opposite, sorter=order), len(key) - 1)]
    alone = np.flatnonzero(key[back] != opposite)
    if alone.size:
        sender, receiver = links.senders[alone[0]], links.receivers[alone[0]]
        raise IncompatibleChoice(
            f"gopa lets every linked pair share a source, which both ends must agree on; the link {sender} -> {receiver} has no "
            f"opposite. Add the link {receiver} -> {sender}, or use sv.noise.independent(law)."
        )
    forth = order[links.senders[order] < links.receivers[order]]
    return forth, back[forth]
