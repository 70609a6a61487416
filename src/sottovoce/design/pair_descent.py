"""Noise of pair keys by descent: for thousands of pairs or many coalitions, where Newton's method has too many unknowns.

With multipliers y_bp of the constraints [S_b^-1]_pp <= kappa_bp and lambda_k of S_kk <= cap_k, minimise the Lagrangian

    tr((G + Lambda) S) + sum_bp y_bp [S_b^-1]_pp

by L-BFGS in the stds themselves: u_k with d_k^2 = floor_k + u_k^2, and the two factors of every pair, of any sign. Its slope in S is
G + Lambda - N, N = sum_b S_b^-1 Diag(y_b) S_b^-1 on what is honest in b: one Cholesky factor and one product of matrices per view. Then

    y_bp <- y_bp ([S_b^-1]_pp / kappa_bp)^2,          lambda_k <- lambda_k (S_kk / cap_k)^2,

which for own noise alone is exact in one step: there y = G d^4, so that [S^-1]_pp = (G_pp / y_p)^1/2. Where the multipliers stand still, S is optimal;
before that, S scaled to what is asked and the multipliers themselves are what is handed over. In the factors the Lagrangian is not convex, but a
minimum at which G + Lambda - N has no negative part is one in S too, and the dual bound tells whether it has.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from sottovoce.design.pair_bound import DualPoint, price_parts, taken_parts
from sottovoce.design.pair_problem import Blocks, Floats, PairProblem, blocks_of, covariances

STEPS = 15  # of L-BFGS between two moves of the multipliers
FEWEST_MOVES, MOST_MOVES, WORK = 14, 80, 2e9  # more moves where B K^3, the work of one step, is small
EXPONENT = 2.0


class _Evaluated(NamedTuple):
    blocks: Blocks
    variances: Floats  # [K]
    inverses: Floats  # [B, K, K]


def solve_descent(problem: PairProblem, found: Callable[[Blocks, DualPoint], bool]) -> None:
    """Minimise Lagrangians and move their multipliers; hand over a point and a dual point after each move.

    Args:
        problem: in units in which own noise and its price are about one.
        found: called with blocks that meet what is asked up to a factor; true ends the search.
    """
    x, dual = _start(problem)
    moves = int(np.clip(WORK / (len(problem.kappa) * len(problem.floor) ** 3), FEWEST_MOVES, MOST_MOVES))
    for _ in range(moves):
        options = {"maxiter": STEPS, "maxcor": 20, "ftol": 1e-10, "gtol": 0.0}
        x = optimize.minimize(_lagrangian, x, args=(problem, dual), jac=True, method="L-BFGS-B", options=options).x
        at = _evaluated(problem, x)
        if at is None:
            return
        dual = dual._replace(vectors=at.inverses)
        if found(at.blocks, dual):
            return
        ratios = np.einsum("bpp->bp", at.inverses) / problem.kappa
        dual = DualPoint(
            dual.weights * ratios**EXPONENT, at.inverses, dual.caps * (at.variances / problem.cap) ** EXPONENT
        )


def _start(problem: PairProblem) -> tuple[Floats, DualPoint]:
    """Own noise and about a quarter as much from pairs, of the sign that lowers the price; the multipliers of own noise."""
    (i, j), needed, price = problem.pairs.T, problem.own_variances, np.diag(problem.price)
    size = 0.5 * np.sqrt(needed / (np.bincount(problem.pairs.ravel(), minlength=len(needed)) + 1.0))
    sign = np.where(problem.price[i, j] > 0.0, -1.0, 1.0)
    own = np.sqrt(np.maximum(needed - problem.floor, 0.01 * needed))
    asked = np.isfinite(problem.kappa)
    weights = asked * (price * needed**2 / asked.sum(axis=0))
    caps = np.where(np.isfinite(problem.cap), 0.1 * price, 0.0)
    vectors = np.empty((0, len(needed), len(needed)))
    return np.concatenate([own, size[i], sign * size[j]]), DualPoint(weights, vectors, caps)


def _evaluated(problem: PairProblem, x: Floats) -> _Evaluated | None:
    count = len(problem.floor)
    factors = x[count:].reshape(2, -1).T
    blocks = blocks_of(problem.floor + x[:count] ** 2, factors)
    s = covariances(problem, blocks)
    variances = np.diag(s[0]).copy()
    for view, matrix in enumerate(s):
        lower, failed = linalg.lapack.dpotrf(matrix, lower=1)
        inverse, singular = linalg.lapack.dpotri(lower, lower=1)
        if failed or singular:
            return None
        s[view] = inverse + inverse.T
    agents = np.arange(count)
    s[:, agents, agents] *= 0.5
    return _Evaluated(blocks, variances, s)


def _lagrangian(x: Floats, problem: PairProblem, dual: DualPoint) -> tuple[float, Floats]:
    """Value and gradient [K + 2 m]."""
    at = _evaluated(problem, x)
    if at is None:
        return np.inf, np.zeros_like(x)
    price = price_parts(problem)
    parts = [float(a @ b) for a, b in zip(price, at.blocks, strict=True)]
    hidden = float((dual.weights * np.einsum("bpp->bp", at.inverses)).sum())
    value = sum(parts) + parts[3] + hidden + float(dual.caps @ at.variances)
    taken = taken_parts(problem, dual.weights, at.inverses, dual.caps)
    own, first, second, cross = (a - b for a, b in zip(price, taken, strict=True))
    count = len(own)
    a, b = x[count:].reshape(2, -1)
    return value, 2.0 * np.concatenate([own * x[:count], first * a + cross * b, second * b + cross * a])
