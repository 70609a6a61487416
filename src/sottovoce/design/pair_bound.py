"""What no noise of pair keys can go below: the value of a dual point, evaluated here and valid whoever proposed it.

Take any y_bp >= 0, any vectors v_bp (zero at the members of b) and any lambda_k >= 0, and let S meet everything that is asked
(`pair_problem`). For every vector z and every S_b > 0, [S_b^-1]_pp >= 2 z_p - z' S_b z, since the difference is the squared norm of
S_b^1/2 z - S_b^-1/2 e_p. With z = s v, s = v_p / kappa_bp, and [S_b^-1]_pp <= kappa_bp this reads v' S_b v >= v_p^2 / kappa_bp (for s = 0 it
is trivial), so

    sum_b tr(N_b S_b) >= sum_bp y_bp (v_bp)_p^2 / kappa_bp,         N_b = sum_p y_bp v_bp v_bp'.

S_b is the sum of what is honest in b: own variances d_k^2, and the pairs' blocks M_e. Collect what belongs to each of them,

    R_e = block of G + Lambda - sum over views in which both ends of e are honest of N_b        (2 x 2),
    r_k = entry of G + Lambda - sum over views in which k is honest of N_b                      (a number),

with Lambda = Diag(lambda). Then tr(G S) = sum_b tr(N_b S_b) + sum_e tr(R_e M_e) + sum_k r_k d_k^2 - sum_k lambda_k S_kk. If every R_e is positive
semi-definite and every r_k >= 0, then tr(R_e M_e) >= 0, d_k^2 >= floor_k and S_kk <= cap_k give

    tr(G S) >= sum_bp y_bp (v_bp)_p^2 / kappa_bp + sum_k r_k floor_k - sum_k lambda_k cap_k.

Nothing was assumed about y, v and lambda beyond their signs and R_e >= 0, r_k >= 0. The latter are enforced: y and lambda are multiplied by the
largest theta that keeps them true. G itself has them (theta = 0), and they hold on an interval, so theta is found by pairs and agents and is
then checked, with room for rounding, on the numbers that are used. The best v_bp are S_b^-1 e_p at the optimum, the best y the multipliers
of the constraints; a solver that errs in them loses tightness, not truth.

One more dual point needs no solver. G >= g u u' for its largest eigenvalue g with vector u, so tr(G S) >= g u' S u >= g max_p u_p^2 / kappa_p: no noise
hides an agent better in the sum of all messages than the noise of that sum.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.design.pair_problem import Floats, PairProblem

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # relative to the terms that are subtracted from each other


class DualPoint(NamedTuple):
    """Proposed multipliers, and the vectors v_bp as columns."""

    weights: Floats  # [B, K] y
    vectors: Floats  # [B, K, K], v_bp = vectors[b, :, p]
    caps: Floats  # [K] lambda


class Parts(NamedTuple):
    """What stands beside each part of S: the own variances and the blocks of the pairs."""

    own: Floats  # [K]
    first: Floats  # [m]
    second: Floats  # [m]
    cross: Floats  # [m]


def lower_bound(problem: PairProblem, dual: DualPoint) -> float:
    """A number that tr(G S) cannot go below for any S that meets everything asked; the larger of two dual values."""
    weights = np.where(problem.honest & np.isfinite(problem.kappa), np.maximum(dual.weights, 0.0), 0.0)
    caps = np.where(np.isfinite(problem.cap), np.maximum(dual.caps, 0.0), 0.0)
    best = max(_along_largest_eigenvector(problem), float(np.diag(problem.price) @ problem.floor))
    vectors = dual.vectors * problem.honest[:, :, None]
    if not (np.isfinite(weights).all() and np.isfinite(vectors).all() and np.isfinite(caps).all()):
        return best
    at, taken = price_parts(problem), taken_parts(problem, weights, vectors, caps)
    theta = _largest_multiple(at, taken)
    peaks = np.einsum("bpp->bp", vectors) ** 2
    capped = np.where(np.isfinite(problem.cap), problem.cap, 0.0)
    value = theta * float((weights * peaks / problem.kappa).sum() - caps @ capped)
    value += float((at.own - theta * taken.own) @ problem.floor)
    return max(best, value * (1.0 - ROUNDING) if value > 0.0 else value)


def _along_largest_eigenvector(problem: PairProblem) -> float:
    values, vectors = np.linalg.eigh(problem.price)
    peak = float((vectors[:, -1] ** 2 / problem.kappa.min(axis=0)).max())
    return max(float(values[-1]), 0.0) * peak * (1.0 - len(values) * ROUNDING)


def price_parts(problem: PairProblem) -> Parts:
    """The parts of G."""
    i, j = problem.pairs.T
    g = problem.price
    return Parts(np.diag(g), g[i, i], g[j, j], g[i, j])


def taken_parts(problem: PairProblem, weights: Floats, vectors: Floats, caps: Floats) -> Parts:
    """The parts of sum_b N_b - Lambda."""
    i, j = problem.pairs.T
    own, first, second, cross = -caps, -caps[i], -caps[j], np.zeros(len(i))
    for view, kept in enumerate(problem.honest_pairs):
        if not weights[view].any():
            continue
        n = (vectors[view] * weights[view]) @ vectors[view].T
        own = own + np.diag(n)
        first, second, cross = first + kept * n[i, i], second + kept * n[j, j], cross + kept * n[i, j]
    return Parts(own, first, second, cross)


def _largest_multiple(at: Parts, taken: Parts) -> float:
    """The largest theta with `at` - theta `taken` without a negative part, a little less where rounding could matter; 0 if there is none."""
    theta = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [at.own / taken.own, at.first / taken.first, at.second / taken.second]
        # the smaller root of det(at - theta taken) = 0, in the form that does not cancel
        half = 0.5 * (at.first * taken.second + at.second * taken.first) - at.cross * taken.cross
        start, end = at.first * at.second - at.cross**2, taken.first * taken.second - taken.cross**2
        root = np.sqrt(np.maximum(half**2 - start * end, 0.0))
        ratios.append(np.maximum(start, 0.0) / (half + root))
    for ratio, positive in zip(
        ratios, (taken.own > 0, taken.first > 0, taken.second > 0, half + root > 0), strict=True
    ):
        theta = min([theta, *ratio[positive]])
    theta, shrink = float(theta) if np.isfinite(theta) else 0.0, ROUNDING
    while theta > 0.0 and not _without_negative_part(at, taken, theta):
        theta *= 1.0 - shrink
        shrink = min(2.0 * shrink, 0.5)
        theta = theta if theta > 1e-12 else 0.0
    return theta


def _without_negative_part(at: Parts, taken: Parts, theta: float) -> bool:
    own, first, second, cross = (a - theta * b for a, b in zip(at, taken, strict=True))
    sizes = [np.abs(a) + theta * np.abs(b) for a, b in zip(at, taken, strict=True)]
    low = [own - ROUNDING * sizes[0], first - ROUNDING * sizes[1], second - ROUNDING * sizes[2]]
    if min((part.min() for part in low if part.size), default=0.0) < 0.0:
        return False
    return bool((low[1] * low[2] >= (np.abs(cross) + ROUNDING * sizes[3]) ** 2).all())
