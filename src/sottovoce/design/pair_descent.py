"""Noise of pair keys by descent: for thousands of pairs, where Newton's method has too many unknowns.

The unknowns are the stds themselves, u_k with d_k^2 = floor_k + u_k^2 and the two factors of every pair, without constraints of sign. The largest of the
ratios [S_b^-1]_pp / kappa_bp is smoothed to

    h = (1 / q) log sum_bp ([S_b^-1]_pp / kappa_bp)^q,         max <= e^h <= (number of ratios)^(1/q) max,

and q grows. Without floor and cap, scaling S moves log tr(G S) and h by the same amount in opposite directions, so that
log tr(G S) + h is minimised over all S, and scaled afterwards. With them, h <= 0 is held by an augmented Lagrangian, and S_kk <= cap_k likewise
by the same smoothing. In the factors the problem is not convex, but a minimum has no direction in which a block M_e could fall: the gradient says
that G equals P N on every pair in use, N = sum_b S_b^-1 Diag(weights) S_b^-1, P = tr(G S), which is the dual point handed over.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from sottovoce.design.pair_bound import DualPoint, Parts, price_parts, taken_parts
from sottovoce.design.pair_problem import Blocks, Floats, PairProblem, blocks_of, covariances

STAGES = ((20.0, 40), (80.0, 60), (300.0, 80))  # the exponent q, and the most steps taken with it
PENALTY = 10.0


class _Smooth(NamedTuple):
    """A smoothed maximum of logarithms: its value and the share of each term in its slope."""

    value: float
    shares: Floats


def _smooth(ratios: Floats, q: float) -> _Smooth:
    with np.errstate(divide="ignore"):
        logs = q * np.log(ratios)
    top = float(logs.max())
    if top == -np.inf:
        return _Smooth(-np.inf, np.zeros_like(logs))
    terms = np.exp(logs - top)
    return _Smooth((top + float(np.log(terms.sum()))) / q, terms / terms.sum())


class _Multipliers(NamedTuple):
    hidden: float
    capped: float


class _Evaluated(NamedTuple):
    blocks: Blocks
    inverses: Floats  # [B, K, K]
    price: float
    hidden: _Smooth  # [B, K]
    capped: _Smooth  # [K]


def solve_descent(problem: PairProblem, found: Callable[[Blocks, DualPoint], bool]) -> None:
    """Descend with a maximum that is smoothed less and less, and hand over a point and a dual point after each stage.

    Args:
        problem: in units in which own noise and its price are about one.
        found: called with blocks that meet what is asked up to a factor; true ends the search.
    """
    x, bound = _start(problem), bool(problem.floor.max() > 0.0 or np.isfinite(problem.cap).any())
    held = _Multipliers(1.0, 0.0)
    for q, steps in STAGES:
        for _ in range(5 if bound else 1):
            x = optimize.minimize(
                _lagrangian,
                x,
                args=(problem, q, held, bound),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": steps, "maxcor": 20},
            ).x
            at = _evaluated(problem, x, q)
            if at is None:
                return
            if bound:
                held = _Multipliers(*(max(m + PENALTY * s.value, 0.0) for m, s in zip(held, at[3:], strict=True)))
        if found(at.blocks, _dual(problem, at, held)):
            return


def _start(problem: PairProblem) -> Floats:
    """Own noise and a quarter as much from pairs, of the sign that lowers the price."""
    (i, j), count = problem.pairs.T, len(problem.floor)
    degree = np.bincount(problem.pairs.ravel(), minlength=count) + 1.0
    size = 0.5 / np.sqrt(degree)
    sign = np.where(problem.price[i, j] > 0.0, -1.0, 1.0)
    own = np.sqrt(np.maximum(1.0, 0.01 * problem.floor))
    return np.concatenate([own, size[i], sign * size[j]])


def _evaluated(problem: PairProblem, x: Floats, q: float) -> _Evaluated | None:
    count = len(problem.floor)
    u, first, second = x[:count], *x[count:].reshape(2, -1)
    blocks = blocks_of(problem.floor + u**2, np.stack([first, second], axis=1))
    s = covariances(problem, blocks)
    inverses = np.empty_like(s)
    for view, matrix in enumerate(s):
        lower, failed = linalg.lapack.dpotrf(matrix, lower=1)
        inverse, bad = linalg.lapack.dpotri(lower, lower=1)
        if failed or bad:
            return None
        inverses[view] = np.tril(inverse) + np.tril(inverse, -1).T
    price = sum(float(a @ b) for a, b in zip(price_parts(problem)[:3], blocks[:3], strict=True))
    price += 2.0 * float(price_parts(problem).cross @ blocks.cross)
    hidden = _smooth(np.einsum("bpp->bp", inverses) / problem.kappa, q)
    return _Evaluated(blocks, inverses, price, hidden, _smooth(np.diag(s[0]) / problem.cap, q))


def _taken(problem: PairProblem, at: _Evaluated, held: _Multipliers) -> DualPoint:
    """The slopes of the two smoothed maxima, as multipliers of the constraints."""
    diagonal = np.einsum("bpp->bp", at.inverses)
    variances = np.diag(covariances(problem, at.blocks, slice(0, 1))[0])
    return DualPoint(held.hidden * at.hidden.shares / diagonal, at.inverses, held.capped * at.capped.shares / variances)


def _dual(problem: PairProblem, at: _Evaluated, held: _Multipliers) -> DualPoint:
    slopes = _taken(problem, at, held)
    return DualPoint(at.price * slopes.weights, slopes.vectors, at.price * slopes.caps)


def _lagrangian(x: Floats, problem: PairProblem, q: float, held: _Multipliers, bound: bool) -> tuple[float, Floats]:
    """Value and gradient [K + 2 m] of log tr(G S) + h, or of the augmented Lagrangian where floor or cap fix the scale."""
    at = _evaluated(problem, x, q)
    if at is None:
        return np.inf, np.zeros_like(x)
    value = float(np.log(at.price))
    if bound:
        values = [at.hidden.value, at.capped.value if np.isfinite(problem.cap).any() else -np.inf]
        slopes = _Multipliers(*(max(m + PENALTY * v, 0.0) for m, v in zip(held, values, strict=True)))
        value += sum((s**2 - m**2) / (2.0 * PENALTY) for s, m in zip(slopes, held, strict=True))
    else:
        slopes = _Multipliers(1.0, 0.0)
        value += at.hidden.value
    taken = taken_parts(problem, *_taken(problem, at, slopes))
    own, first, second, cross = Parts(*(a / at.price - b for a, b in zip(price_parts(problem), taken, strict=True)))
    count = len(own)
    u, a, b = x[:count], *x[count:].reshape(2, -1)
    return value, 2.0 * np.concatenate([own * u, first * a + cross * b, second * b + cross * a])
