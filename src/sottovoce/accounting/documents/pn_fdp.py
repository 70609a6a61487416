"""Li et al. 2025 (arXiv 2510.19934), PN-f-DP: what a walking token tells agent v about agent u, by the lag until v's first look.

After a contribution of u the token comes to v for the first time t hops later with probability w_t (W^t without ways through v). The public code
takes a contribution that is seen at lag t for a Gaussian mechanism of mu_t = Delta / (sigma sqrt(t + 1)), draws the lags of N = floor(T / n)
contributions independently, shows them, and composes:

    delta(epsilon) = E delta_G(sqrt(mu_{t_1}^2 + ... + mu_{t_N}^2), epsilon),      delta_G that of a shift in Gaussian noise

It follows the authors' code for steps that never drive tokens apart (c = 1 there) and one step in each visit (K = 1); the printed theorems were not read.

How it stands.

 1. A contribution that v sees t hops later has passed t noises, not t + 1: one hand-over, sigma = Delta, delta = 1e-5 is 4.377 and not 2.943. `lags`
    = "mended" takes t.
 2. Mended, too, it adds up contributions that v sees in one look as if each had noises of its own. Two agents, equal weights, T = 8, four
    contributions, sigma = Delta, delta = 1e-5: between two looks of v all hops are u's, j contributions under j noises, so that up to the cap nothing
    is hidden. The code says 5.915, mended 8.806, and gradients that do not react show 9.486. v knows the way without being told, since u holds the token whenever v does not.
 3. floor(T / n) is a mean number of visits, rounded down; without a cap there are often more.

`upper_bound` is found by comparison: True where `accounting.walk.blocks_epsilon` proves the number or a smaller one.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.walk import blocks_epsilon, transition_matrix
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole
from sottovoce.topologies import Topology

_POINTS = 2**17  # of the grid of mu^2: the number is found to five digits
_SOURCE = "Li et al. 2025 (PN-f-DP)"


def pn_fdp_epsilon(
    walk: Topology | ArrayLike,
    *,
    agent: int,
    observer: int,
    rounds: int,
    std: float,
    sensitivity: float,
    delta: float,
    lags: Literal["program", "mended"],
    contributions: int | None = None,
) -> DocumentStatement:
    """The epsilon of a pair as the public code of PN-f-DP computes it, or with its lags mended.

    States: what the observer sees of the token is (epsilon, delta)-DP for all data of the agent.
    For whom: one other agent, who sees the token when it holds it.
    Upper bound: by comparison; see the module for where it is false.

    Args:
        walk: topology with symmetric weights, or W.
        agent: u, whose data are protected.
        observer: v, who looks.
        rounds: T, hops of the whole walk.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of the agent.
        delta: in [1e-10, 1).
        lags: "program" for t + 1 noises at lag t, "mended" for t.
        contributions: N; None is floor(T / n), which the code takes.

    Raises:
        ConfigError: malformed input, or fewer hops than agents where no N is given.
    """
    W, T = transition_matrix(walk), whole("rounds", rounds)
    N = whole("contributions", T // len(W) if contributions is None else contributions)
    multiplier = checked("std", std, "(0, inf)") / checked("sensitivity", sensitivity, "(0, inf)")
    d = checked("delta", delta, "[1e-10, 1)")
    noises = np.arange(1.0, T + 1.0) + (chosen("lags", lags, ("program", "mended")) == "program")
    value = _epsilon(noises, _first_visits(W, agent, observer, T), N, multiplier, d)
    proven = blocks_epsilon(
        W, agent=agent, observers=[observer], rounds=T, contributions=N, std=multiplier, sensitivity=1.0, delta=d, resolution="fast"
    )  # fmt: skip
    holds = proven <= value
    return DocumentStatement(
        value=value,
        kind="epsilon",
        source=f"{_SOURCE}, {'public code' if lags == 'program' else 'public code with its lags mended'}",
        upper_bound=holds,
        verdict=(
            f"at delta = {d:g}, for agent {observer} and {N} contributions; contributions that are seen in one look are added up as if each had noises "
            f"of its own, so the number is not relied on, "
            + (f"but {proven:.6g} is proven otherwise" if holds else f"and only {proven:.6g} is proven otherwise")
        ),
    )


def _first_visits(W: NDArray[np.float64], agent: int, observer: int, rounds: int) -> NDArray[np.float64]:
    """[T] the probability that the token, now with the agent, comes to the observer for the first time after 1, 2, ..., T hops."""
    u, v = (whole(name, one, least=0) for name, one in (("agent", agent), ("observer", observer)))
    if max(u, v) >= len(W) or u == v:
        raise ConfigError(f"agent = {u} and observer = {v} of {len(W)} agents; give two different ones.")
    found, reach = np.zeros(rounds), W[:, v].copy()
    others = W.copy()
    others[:, v] = 0.0
    for t in range(rounds):
        found[t] = reach[u]
        reach = others @ reach
    return found


def _epsilon(
    noises: NDArray[np.float64], probabilities: NDArray[np.float64], count: int, multiplier: float, delta: float
) -> float:
    """The epsilon of `count` Gaussian mechanisms of mu^2 = 1 / (multiplier^2 noises), drawn independently and shown."""
    from scipy.optimize import brentq

    most = count / float(noises[0])
    spacing = most / (_POINTS - 1)
    law = _composed(1.0 / noises / spacing, probabilities, count)
    held = np.flatnonzero(law)
    held = held[held > 0]
    mu, masses = np.sqrt(spacing * held) / multiplier, law[held]

    def excess(epsilon: float) -> float:
        return math.log(max(float(masses @ gaussian.deltas(mu, epsilon)), 1e-300)) - math.log(delta)

    if excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, gaussian.epsilon(math.sqrt(most) / multiplier, 0.5 * delta), xtol=1e-12))


def _composed(places: NDArray[np.float64], probabilities: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """[_POINTS] the law of a sum of `count` places on the grid; each lies between two points, which share it so that its mean stays."""
    below = np.floor(places).astype(np.int64)
    above = probabilities * (places - below)
    one = np.bincount(below, probabilities - above, minlength=_POINTS) + np.bincount(
        np.minimum(below + 1, _POINTS - 1), above, minlength=_POINTS
    )
    one[0] += max(0.0, 1.0 - float(probabilities.sum()))
    length = 2 * _POINTS
    return np.asarray(np.maximum(fft.irfft(fft.rfft(one, length) ** count, length)[:_POINTS], 0.0))
