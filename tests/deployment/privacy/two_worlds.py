"""The integer protocol of one agent, played for every possible transcript in two worlds, so that what it gives away is a sum over all of them.

One coordinate, few rounds, noise of a few units. A transcript is the words y_1, ..., y_T that the agent sent. In either world its state is a function of them, so

    P(y) = product over t of p(y_t - m_t(y_1, ..., y_(t-1))),      p: the law of rounded noise

and the hockey-stick divergence  sum over y of max(0, P(y) - e^epsilon P'(y))  is the smallest delta there is. Words outside the window are left out, which only makes
it smaller. Everything is written down here again, from docs/guarantees.md: nothing of `sottovoce.deployment.agent` or `privacy` is used but the lattice.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sottovoce.deployment.integers import Lattice


class Protocol(NamedTuple):
    """What both worlds share."""

    algorithm: object
    lattice: Lattice
    own_weight: float  # a_pp
    own_factor: float  # s: what the own copy carries of the noise
    others: Callable[[int], float]  # (round from 1): what the neighbours' words add to the combination, in units
    pmf: Callable[[np.ndarray], np.ndarray]
    rounds: int
    window: np.ndarray  # the words that are looked at
    start: float = 0.0


Gradient = Callable[[np.ndarray, int], np.ndarray]  # (points, round) -> gradients, entry by entry


def gaussian_pmf(std: float) -> Callable[[np.ndarray], np.ndarray]:
    """Of a rounded Gaussian."""
    return lambda k: ndtr((k + 0.5) / std) - ndtr((k - 0.5) / std)


def laplace_pmf(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """Of rounded Laplace noise with density ~ exp(-|x| / scale)."""

    return lambda k: np.where(
        k == 0,
        1.0 - np.exp(-0.5 / scale),
        0.5 * (np.exp(-(np.abs(k) - 0.5) / scale) - np.exp(-(np.abs(k) + 0.5) / scale)),
    )


def transcripts(protocol: Protocol, gradient: Gradient) -> np.ndarray:
    """The probability of every transcript in one world."""
    return played(protocol, gradient)[0]


def played(protocol: Protocol, gradient: Gradient) -> tuple[np.ndarray, list[np.ndarray]]:
    """The probability of every transcript in one world, and the message of every round, before noise, for every transcript up to it."""
    messages = []
    lattice, words = protocol.lattice, protocol.window
    (exchange,) = protocol.algorithm.exchanges
    probability = np.ones(1)
    state = lattice.to_units(np.array([protocol.start]))
    for t in range(1, protocol.rounds + 1):

        def asked(point, step=0, t=t):
            return gradient(np.asarray(point), t)

        m = lattice.to_units(exchange.message(lattice.to_float(state), asked, t))
        messages.append(m)
        noise = words[None, :] - m[:, None]
        probability = (probability[:, None] * protocol.pmf(noise)).ravel()
        own = m[:, None] + np.rint(protocol.own_factor * noise).astype(np.int64)
        received = (protocol.own_weight * own + protocol.others(t)).ravel() * lattice.unit
        before = lattice.to_float(np.repeat(state, len(words)))
        state = lattice.to_units(exchange.update(before, received, asked, t))
    return probability, messages


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The smallest delta at this epsilon, in the worse direction."""
    return max(
        float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum()),
        float(np.maximum(second - np.exp(epsilon) * first, 0.0).sum()),
    )
