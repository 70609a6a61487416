"""What a designed noise is held against: own noise, the best ratio of pairwise noise, the one-step rule, and what a trusted centre would need.

All take the price G of `pair_noise` and kappa, and are scaled like it: the largest [S^-1]_pp / kappa_p is one, so that prices are compared at equal
privacy for the reader of every message.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from sottovoce.design.free import free_covariance
from sottovoce.design.pair_problem import Floats
from sottovoce.reprs import short_repr

__all__ = ["PairwiseRatio", "best_pairwise_ratio", "central_bound", "equal_privacy", "one_step_rule", "own_noise"]

LARGEST_RATIO = 1e4


class PairwiseRatio(NamedTuple):
    """Own noise of one std at every agent and pair noise of `ratio` times that std, with opposite signs at the two ends."""

    ratio: float
    covariance: Floats  # [K, K], scaled

    def __repr__(self) -> str:
        return short_repr(self)


def equal_privacy(covariance: ArrayLike, kappa: ArrayLike) -> Floats:
    """The covariance times the number that makes the largest [S^-1]_pp / kappa_p one."""
    s = np.asarray(covariance, dtype=np.float64)
    return np.asarray(s * float((np.diag(np.linalg.inv(s)) / np.asarray(kappa)).max()))


def own_noise(kappa: ArrayLike, count: int) -> Floats:
    """Independent noise, with each agent at its own kappa: S = Diag(1 / kappa)."""
    return np.diag(1.0 / np.broadcast_to(np.asarray(kappa, dtype=np.float64), (count,)))


def best_pairwise_ratio(
    G: ArrayLike,
    kappa: ArrayLike,
    pairs: ArrayLike,
    *,
    coalitions: Sequence[tuple[Sequence[int], ArrayLike]] = (),
) -> PairwiseRatio:
    """S = d^2 (I + r^2 L), L the Laplacian of the pairs, with the r of the least tr(G S) at equal privacy.

    The search looks at a grid of r first, since the price may have more than one valley, and refines the best of it.

    Args:
        G: [K, K] price.
        kappa: [K] or a number, for the reader of every message.
        pairs: [m, 2] agents that share a source.
        coalitions: (members, kappa) as for `pair_noise`; their sources and those of their pairs are known.
    """
    g, joined = np.asarray(G, dtype=np.float64), np.asarray(pairs)
    views = [_View.of(len(g), joined, (), kappa), *(_View.of(len(g), joined, *coalition) for coalition in coalitions)]
    variances, links = float(np.trace(g)), _laplacian(len(g), joined)
    slope = float((g * links).sum())

    def factor(ratio: float) -> float:
        return max(view.largest_ratio(ratio) for view in views)

    def price(ratio: float) -> float:
        return (variances + ratio**2 * slope) * factor(ratio)

    grid = np.concatenate([[0.0], np.geomspace(1e-3, LARGEST_RATIO, 200)])
    best = int(np.argmin([price(ratio) for ratio in grid]))
    ratio = float(grid[best])
    if best:
        bounds = (grid[best - 1], grid[min(best + 1, len(grid) - 1)])
        found = optimize.minimize_scalar(price, bounds=bounds, method="bounded", options={"xatol": 1e-10 * bounds[1]})
        ratio = float(found.x) if found.fun < price(ratio) else ratio
    return PairwiseRatio(ratio, factor(ratio) * (np.eye(len(g)) + ratio**2 * links))


class _View(NamedTuple):
    """The Laplacian of the honest pairs, L = V Diag(values) V', and what is asked for the honest agents."""

    values: Floats  # [H]
    squares: Floats  # [H, H], V squared entry by entry
    kappa: Floats  # [H]

    @classmethod
    def of(cls, count: int, pairs: np.ndarray, members: Sequence[int], kappa: ArrayLike) -> "_View":
        honest = ~np.isin(np.arange(count), np.asarray(members, dtype=np.int64))
        links = _laplacian(count, pairs[honest[pairs].all(axis=1)])[np.ix_(honest, honest)]
        values, vectors = np.linalg.eigh(links)
        asked = np.broadcast_to(np.asarray(kappa, dtype=np.float64), (count,))
        return cls(np.maximum(values, 0.0), vectors**2, asked[honest])

    def largest_ratio(self, ratio: float) -> float:
        """max_p [(I + r^2 L)^-1]_pp / kappa_p."""
        return float((self.squares @ (1.0 / (1.0 + ratio**2 * self.values)) / self.kappa).max())


def one_step_rule(combination: ArrayLike, kappa: ArrayLike) -> Floats:
    """The covariance that puts the least noise into ONE combination of all messages, tr(A' S A), whatever later rounds make of it.

    This is how Whisper D-SGD chooses its covariance, free of any keys, as its public code does it. Its gain is measured with the true G.

    Args:
        combination: [K, K] A = [a_lk], columns sum to one.
        kappa: [K] or a number, for the reader of every message.
    """
    a = np.asarray(combination, dtype=np.float64)
    asked = np.broadcast_to(np.asarray(kappa, dtype=np.float64), (len(a),))
    return equal_privacy(free_covariance(a @ a.T, asked).covariance, asked)


def central_bound(G: ArrayLike, kappa: ArrayLike, perron: ArrayLike) -> float:
    """What tr(G S) cannot go below for any noise whatsoever, a trusted centre's included.

    If G >= a q q', then tr(G S) >= a q' S q >= a max_p q_p^2 / kappa_p, since (q' S q) [S^-1]_pp >= q_p^2 (Cauchy-Schwarz). The largest such a is
    1 / (q' G^-1 q). With the Perron vector q this is the price of the noise in the centroid alone.
    """
    g, q = np.asarray(G, dtype=np.float64), np.asarray(perron, dtype=np.float64)
    values, vectors = np.linalg.eigh(g)
    along, kept = vectors.T @ q, values > len(g) * np.finfo(np.float64).eps * values[-1]
    if float((along[~kept] ** 2).sum()) > 1e-18 * float(q @ q):
        return 0.0  # q has a part without a price, and no positive multiple of q q' is below G
    return float((q**2 / np.asarray(kappa)).max() / (along[kept] ** 2 / values[kept]).sum())


def _laplacian(count: int, pairs: np.ndarray) -> Floats:
    laplacian = np.zeros((count, count))
    i, j = pairs.T
    np.add.at(laplacian, (i, i), 1.0)
    np.add.at(laplacian, (j, j), 1.0)
    np.add.at(laplacian, (i, j), -1.0)
    np.add.at(laplacian, (j, i), -1.0)
    return laplacian
