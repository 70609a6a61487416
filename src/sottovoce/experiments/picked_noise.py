"""What a designed noise is held against: the best proportion of gopa, and a bound that no noise passes.

Central bound. Let the common model weigh the agents' noise by gains G_c = sum_i l_i v_i v_i'. A covariance S under which agent p is hidden as asked has
[S^-1]_pp <= kappa_p, so that v' S v >= v_p^2 / [S^-1]_pp >= v_p^2 / kappa_p for every p (Cauchy and Schwarz), and tr(G_c S) >= sum_i l_i max_p v_ip^2 / kappa_p. With
equal weights of agents the mean over agents of the squared error is never below that of their mean.
"""

import numpy as np

from sottovoce.design.targets import Limits
from sottovoce.topologies import Topology

SQUARED_RATIOS = np.geomspace(1e-4, 1e4, 33)


def laplacian(topology: Topology) -> np.ndarray:
    """[K, K] of the linked pairs: the covariance of sources that pairs add with opposite signs."""
    K = topology.num_agents
    low, high = topology.pairs.T
    found = np.zeros((K, K))
    for ends, sign in (((low, low), 1.0), ((high, high), 1.0), ((low, high), -1.0), ((high, low), -1.0)):
        np.add.at(found, ends, sign)
    return found


def best_ratio(gains: np.ndarray, topology: Topology, limits: Limits) -> float:
    """The variance of a pair's source over that of own noise with which gopa has the smallest error under these limits; 0: none helps.

    It only proposes: what the noise is worth, and what it hides, is computed from it afterwards.

    Args:
        gains: [K, K] the error is tr(gains S).
        topology: whose linked pairs share noise.
        limits: on [S^-1]_pp of all agents, and of the honest ones against coalitions.
    """
    K, shared = topology.num_agents, laplacian(topology)
    views = [((), limits.everybody), *limits.coalitions]

    def needed(ratio: float) -> float:
        largest = 0.0
        for members, limit in views:
            honest = ~np.isin(np.arange(K), members)
            if not np.isfinite(limit[honest]).any():
                continue
            inside = shared[np.ix_(honest, honest)].copy()
            np.fill_diagonal(inside, 0.0)
            np.fill_diagonal(inside, -inside.sum(axis=1))  # pairs with a member hide nothing from it
            precision = np.linalg.inv(np.eye(int(honest.sum())) + ratio * inside)
            largest = max(largest, float(np.max(np.diag(precision) / limit[honest])))
        return float(np.trace(gains) + ratio * np.sum(gains * shared)) * largest

    grid, found = SQUARED_RATIOS, 0.0
    for _ in range(3):
        errors = [needed(float(ratio)) for ratio in grid]
        best = int(np.argmin(errors))
        if errors[best] < needed(found):
            found = float(grid[best])
        grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 17)
    return found


def central_bound(gains: np.ndarray, limits: Limits) -> float:
    """The least noise that any covariance which keeps the limits leaves in the common model.

    Args:
        gains: [K, K] of the centroid.
        limits: on [S^-1]_pp; every coalition's limit binds the reader of all messages too, who knows less.
    """
    values, vectors = np.linalg.eigh(gains)
    least = np.max(vectors**2 / limits.strictest[:, None], axis=0)
    return float(np.maximum(values, 0.0) @ least)
