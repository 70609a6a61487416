"""A token on any graph: the next holder is drawn by a symmetric transition matrix W, irreducible and aperiodic.

PUBLISHED (Cyffers, Bellet & Upadhyay 2024). Per contribution of u and unit of the Renyi order, v learns at most

    rate_uv = (Delta^2 / std^2) S_uv,      S_uv = sum_{t <= T} (W^t)_uv / t
            = H_T / n + sum_{k >= 2} (sum_{t <= T} lambda_k^t / t) (phi_k phi_k^T)_uv,      H_T = 1 + 1/2 + ... + 1/T,

with the eigenpairs (lambda_k, phi_k) of W, at orders up to `largest_order`. The published closed form has ln T for H_T
and -ln(1 - lambda_k) for the inner sum. The first counts too little for a contribution early in the walk (hypercube of
8 agents, T = 1000, neighbours: 1.0008 instead of 1.0730), so we use H_T; the inner sum is cut at T as well. If v knows
who handed it the token, (u, v) becomes the largest (u, w) over v's neighbours w.

PROVEN: `proven_graph_epsilon`, by gaps (see the package), one pair or coalition at a time. The published rate counts
visits of v after one contribution, however many contributions those visits show together.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sottovoce.accounting.walk.complete import local_epsilon
from sottovoce.accounting.walk.contributions import Contributions, count_and_delta
from sottovoce.accounting.walk.gaps import graph_gaps
from sottovoce.accounting.walk.tradeoffs import RenyiTradeoff, WalkTradeoff, largest_order
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, chosen, whole
from sottovoce.topologies import Dropout, Listed, RandomPair, Topology

Matrix = NDArray[np.float64]
Sender = Literal["hidden", "known"]

_TOLERANCE = 1e-9
_DIRECT_TERMS = 10_000  # of the sums over t; the rest goes by an integral


def transition_matrix(walk: Topology | ArrayLike) -> Matrix:
    """Return [K, K] W of a topology's weights or of a given matrix, once it is checked.

    Raises:
        ConfigError: no square matrix of probabilities whose rows sum to one.
        IncompatibleChoice: not symmetric, not irreducible, periodic, or a schedule that changes the weights.
    """
    if isinstance(walk, Topology):
        if isinstance(walk.schedule, Listed | Dropout | RandomPair):
            raise IncompatibleChoice(
                f"{walk!r} changes its weights from round to round; a walk is accounted with one transition matrix. "
                f"Use a static topology."
            )
        walk = walk.matrix
    W = _symmetric(_stochastic(np.asarray(walk)))
    eigenvalues = np.linalg.eigvalsh(W)
    if eigenvalues[-2] > 1.0 - 1e-12 or eigenvalues[0] < -1.0 + 1e-12:
        raise IncompatibleChoice(
            f"the walk has the eigenvalues {eigenvalues[-2]:.6g} and {eigenvalues[0]:.6g} beside 1; they must lie "
            f"between -1 and 1: connect the graph (first), or let agents keep the token sometimes (second)."
        )
    return W


def _stochastic(W: np.ndarray) -> Matrix:
    """Refuse what is no square matrix of probabilities whose rows sum to one."""
    if W.dtype.kind not in "fiu" or W.ndim != 2 or W.shape[0] != W.shape[1] or W.shape[0] < 2:
        raise ConfigError(
            f"a transition matrix of shape {W.shape} and type {W.dtype}; give a real square one, 2 x 2 or more."
        )
    W = W.astype(np.float64)
    if not (np.isfinite(W).all() and (W >= 0.0).all() and np.abs(W.sum(axis=1) - 1.0).max() <= _TOLERANCE):
        raise ConfigError("a transition matrix needs entries of at least 0 and rows that sum to 1. Normalise it.")
    return W


def _symmetric(W: Matrix) -> Matrix:
    """Refuse a matrix that is not its own transpose."""
    if np.abs(W - W.T).max() > _TOLERANCE:
        raise IncompatibleChoice(
            "the transition matrix is not symmetric; the walk is accounted with the uniform stationary law that "
            "symmetry gives. Use weights='metropolis'."
        )
    return np.asarray(0.5 * (W + W.T))


def lag_sums(walk: Topology | ArrayLike, *, rounds: int, sender: Sender = "hidden") -> Matrix:
    """Return [K, K] S_uv, the sum of (W^t)_uv / t over t = 1..rounds; row u is whose data, column v who looks.

    Args:
        walk: topology with symmetric weights, or W.
        rounds: T, hops of the whole walk.
        sender: "known" if agents learn who handed them the token.
    """
    W, T = transition_matrix(walk), whole("rounds", rounds)
    eigenvalues, vectors = np.linalg.eigh(W)
    sums = _partial_logarithms(eigenvalues[:-1], T)
    S = (vectors[:, :-1] * sums) @ vectors[:, :-1].T + (float(special.digamma(T + 1)) + np.euler_gamma) / W.shape[0]
    S = np.maximum(S, 0.0)
    if chosen("sender", sender, ("hidden", "known")) == "hidden":
        return np.asarray(S)
    linked = (W > 0.0) | np.eye(W.shape[0], dtype=bool)  # its own visits count too: never less than with hidden senders
    return np.stack([S[:, linked[:, v]].max(axis=1) for v in range(W.shape[0])], axis=1)


def published_pairwise_rate(
    walk: Topology | ArrayLike,
    *,
    rounds: int,
    contributions: int,
    std: float,
    sensitivity: float,
    sender: Sender = "hidden",
) -> Matrix:
    """Return [K, K] the published Renyi divergence per unit of order, for all contributions together.

    Row u is whose data, column v who looks; not a number on the diagonal.

    Args:
        walk: topology with symmetric weights, or W.
        rounds: T, hops of the whole walk.
        contributions: of the protected agent, at most.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of one agent.
        sender: "known" if agents learn who handed them the token.
    """
    ratio = checked("sensitivity", sensitivity, "(0, inf)") / checked("std", std, "(0, inf)")
    rate = whole("contributions", contributions) * ratio**2 * lag_sums(walk, rounds=rounds, sender=sender)
    np.fill_diagonal(rate, np.nan)
    return rate


def published_pairwise_epsilon(
    walk: Topology | ArrayLike,
    *,
    rounds: int,
    contributions: Contributions,
    std: float,
    sensitivity: float,
    delta: float,
    sender: Sender = "hidden",
) -> Matrix:
    """Return [K, K] the published epsilon of every pair, or the exact local one where that is smaller.

    Args:
        walk: topology with symmetric weights, or W.
        rounds: T, hops of the whole walk.
        contributions: of the protected agent: a cap, or `likely_contributions_on_graph`.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of one agent.
        delta: in (0, 1).
        sender: "known" if agents learn who handed them the token.

    Raises:
        UnsupportedClaim: noise so small that no Renyi order above 1 is left.
    """
    count, left = count_and_delta(contributions, delta)
    rates = published_pairwise_rate(
        walk, rounds=rounds, contributions=count, std=std, sensitivity=sensitivity, sender=sender
    )  # fmt: skip
    end = largest_order(std=std, sensitivity=sensitivity)
    local = local_epsilon(contributions=count, std=std, sensitivity=sensitivity, delta=left)
    table = np.full(rates.shape, np.nan)
    for u, v in zip(*np.nonzero(~np.eye(len(rates), dtype=bool)), strict=True):
        table[u, v] = min(local, RenyiTradeoff(rate=float(rates[u, v]), largest_order=end).epsilon(left))
    return table


def proven_graph_epsilon(
    walk: Topology | ArrayLike,
    *,
    agent: int,
    observers: Iterable[int],
    rounds: int,
    contributions: Contributions,
    std: float,
    sensitivity: float,
    delta: float,
) -> float:
    """Return a proven epsilon of one agent towards others who look together and may know all of the token's way.

    Args:
        walk: topology with symmetric weights, or W.
        agent: u, whose data are protected.
        observers: who looks.
        rounds: T, hops of the whole walk.
        contributions: of the protected agent: a cap, or `likely_contributions_on_graph`.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of the agent.
        delta: in (0, 1).
    """
    count, left = count_and_delta(contributions, delta)
    ratio = checked("std", std, "(0, inf)") / checked("sensitivity", sensitivity, "(0, inf)")
    gaps = graph_gaps(transition_matrix(walk), agent=agent, observers=observers, rounds=rounds)
    return WalkTradeoff(gaps=gaps, contributions=count, noise_multiplier=ratio).epsilon(left)


def _partial_logarithms(eigenvalues: Matrix, rounds: int) -> Matrix:
    """Return the sum of l^t / t over t = 1..rounds, for each l in (-1, 1).

    Behind the first terms, positive l: the sum is at most the integral of e^(-c t) / t from half a step before to
    half a step behind, c = -ln l (a convex function lies below its means), and equal to ten digits. Negative l: terms
    of alternating sign sum to half the first and half the last, to nine digits.
    """
    direct = min(rounds, _DIRECT_TERMS)
    total, power = np.zeros_like(eigenvalues), np.ones_like(eigenvalues)
    for t in range(1, direct + 1):
        power = power * eigenvalues
        total += power / t
    if direct == rounds:
        return total
    positive = eigenvalues > 0.0
    c = -np.log(eigenvalues[positive])
    total[positive] += special.exp1(c * (direct + 0.5)) - special.exp1(c * (rounds + 0.5))
    negative = eigenvalues[~positive]
    total[~positive] += 0.5 * (power[~positive] * negative / (direct + 1) + negative**rounds / rounds)
    return total
