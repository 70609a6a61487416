"""What a designed noise is held against: the best ratio of pairwise noise, the one-step rule, and what a trusted centre would need.

All take the price G of `pair_noise` and kappa, and are scaled like it: the largest [S^-1]_pp / kappa_p is one, so that prices are compared at equal
privacy for the reader of every message.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from sottovoce.design.pair_problem import Floats

__all__ = ["PairwiseRatio", "best_pairwise_ratio", "central_bound", "equal_privacy", "own_noise"]

LARGEST_RATIO = 1e4


class PairwiseRatio(NamedTuple):
    """Own noise of one std at every agent and pair noise of `ratio` times that std, with opposite signs at the two ends."""

    ratio: float
    covariance: Floats  # [K, K], scaled


def equal_privacy(covariance: ArrayLike, kappa: ArrayLike) -> Floats:
    """The covariance times the number that makes the largest [S^-1]_pp / kappa_p one."""
    s = np.asarray(covariance, dtype=np.float64)
    return np.asarray(s * float((np.diag(np.linalg.inv(s)) / kappa).max()))


def own_noise(kappa: ArrayLike, count: int) -> Floats:
    """Independent noise, with each agent at its own kappa: S = Diag(1 / kappa)."""
    return np.diag(1.0 / np.broadcast_to(np.asarray(kappa, dtype=np.float64), (count,)))


def best_pairwise_ratio(G: ArrayLike, kappa: ArrayLike, pairs: ArrayLike) -> PairwiseRatio:  # noqa: N803
    """S = d^2 (I + r^2 L), L the Laplacian of the pairs, with the r of the least tr(G S) at equal privacy.

    The search looks at a grid of r first, since the price may have more than one valley, and refines the best of it.
    """
    g, laplacian = np.asarray(G, dtype=np.float64), _laplacian(len(np.asarray(G)), np.asarray(pairs))
    values, vectors = np.linalg.eigh(laplacian)
    prices, squares = np.einsum("ij,ij->j", vectors, g @ vectors), vectors**2

    def price(ratio: float) -> float:
        variances = 1.0 + ratio**2 * np.maximum(values, 0.0)
        return float(prices @ variances) * float((squares @ (1.0 / variances) / kappa).max())

    grid = np.concatenate([[0.0], np.geomspace(1e-3, LARGEST_RATIO, 200)])
    best = int(np.argmin([price(ratio) for ratio in grid]))
    ratio = float(grid[best])
    if best:
        low, high = grid[best - 1], grid[min(best + 1, len(grid) - 1)]
        found = optimize.minimize_scalar(price, bounds=(low, high), method="bounded", options={"xatol": 1e-10 * high})
        ratio = float(found.x) if found.fun < price(ratio) else ratio
    return PairwiseRatio(ratio, equal_privacy(np.eye(len(g)) + ratio**2 * laplacian, kappa))


def central_bound(G: ArrayLike, kappa: ArrayLike, perron: ArrayLike) -> float:  # noqa: N803
    """What tr(G S) cannot go below for any noise whatsoever, a trusted centre's included.

    If G >= a q q', then tr(G S) >= a q' S q >= a max_p q_p^2 / kappa_p, since (q' S q) [S^-1]_pp >= q_p^2 (Cauchy-Schwarz). The largest such a is
    1 / (q' G^-1 q). With the Perron vector q this is the price of the noise in the centroid alone.
    """
    g, q = np.asarray(G, dtype=np.float64), np.asarray(perron, dtype=np.float64)
    values, vectors = np.linalg.eigh(g)
    along, kept = vectors.T @ q, values > len(g) * np.finfo(np.float64).eps * values[-1]
    if float((along[~kept] ** 2).sum()) > 1e-18 * float(q @ q):
        return 0.0  # q has a part without a price, and no positive multiple of q q' is below G
    return float((q**2 / kappa).max() / (along[kept] ** 2 / values[kept]).sum())


def _laplacian(count: int, pairs: np.ndarray) -> Floats:
    laplacian = np.zeros((count, count))
    i, j = pairs.T
    np.add.at(laplacian, (i, i), 1.0)
    np.add.at(laplacian, (j, j), 1.0)
    np.add.at(laplacian, (i, j), -1.0)
    np.add.at(laplacian, (j, i), -1.0)
    return laplacian
