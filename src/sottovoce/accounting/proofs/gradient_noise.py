"""Noise in every gradient: one argument for every algorithm, graph and observer.

All that agent p computes follows from its noisy gradients and from what it receives. Give the observer everything but p's data and p's noise, and
all noisy gradients of p: T L of them, each taken at a point that the ones before determine, so that also one record needs no promise.

    Gaussian       mu^2    = L sum_t Delta^2 / scale_t^2
    Laplace laws   epsilon = L sum_t Delta / scale_t

over the rounds t in which gradients make any difference: all of them in learning, the first one in gossip.
Who reads the messages of one-step methods with self-noise learns as much; the value is stated as an upper bound for all observers.
"""

import numpy as np

from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way, values_at_public_points
from sottovoce.linear import uses_gradients
from sottovoce.numbers import within_range


def gradient_values(evidence: Evidence) -> SentValues:
    """What the noisy gradients of an agent give away, at sensitivity one; the same for every agent, with all its local steps."""
    algorithm, noise, pure = evidence.asked.algorithm, evidence.asked.noise, evidence.asked.pure
    patterns, num_agents = evidence.placed, len(evidence.asked.sensitivity)
    assert noise.law is not None  # only the scheme without noise has none
    rounds = patterns.shape[1]
    scales = noise.law.scale * noise.factors(rounds)
    within_range("the scale of the noise", scales)
    used = uses_gradients(algorithm, rounds)
    with np.errstate(divide="ignore"):
        price = algorithm.gradients_per_round / (scales if pure else scales**2)  # [T]
    spent = np.cumsum(np.where(patterns & used, price[None, :], 0.0), axis=1).max(axis=0)  # [T]
    everyone = (len(scales), num_agents)
    each = np.broadcast_to(np.where(used, price, 0.0)[:, None], everyone)
    return values_at_public_points(
        np.broadcast_to(spent[:, None], everyone), pure=pure, each=each, parts=algorithm.gradients_per_round
    )


WAY = Way(where=frozenset({"noise in gradients"}), values=gradient_values)
