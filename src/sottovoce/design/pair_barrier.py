"""Noise of pair keys by Newton's method on a barrier: exact to rounding for some hundreds of pairs, coalitions included.

In own variances d and blocks M_e the problem of `pair_problem` is convex. For a weight t that grows by steps, minimise

    t tr(G S) - sum_bp log(kappa_bp - [S_b^-1]_pp) - sum_k log(d_k - floor_k) - sum_e log det M_e - sum_k log(cap_k - S_kk).

The derivatives are closed forms of X = S_b^-1 and N = X Diag(w) X, w_p = 1 / (kappa_p - X_pp): in a symmetric direction E, X_pp changes by -(X E X)_pp
and its second derivative is 2 (X E X E X)_pp, so the constraints of one view contribute

    gradient  -tr(E N),     Hessian  2 tr(E X F N) + sum_p w_p^2 (X E X)_pp (X F X)_pp.

The barrier is self-concordant up to a constant: -tau d <= dd <= tau d and -tau M_e <= dM_e <= tau M_e imply -tau S_b <= dS_b <= tau S_b, which bounds the third
derivative of X_pp by the second. At the minimum for t the weights w / t, 1 / (t (cap - S_kk)) with the vectors X e_p are a feasible dual point
(the gradient says that G minus them is M_e^-1 / t on every pair), whose value is within (number of constraints) / t; `pair_bound` evaluates
it without relying on that.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from sottovoce.design.pair_bound import DualPoint
from sottovoce.design.pair_problem import Blocks, Floats, PairProblem, covariances

GROWTH, MOST_WEIGHTS, MOST_STEPS = 12.0, 40, 150
# squared Newton decrements at which a minimum counts as found: on the way, and where its dual point matters
LOOSE, TIGHT = 1e-1, 1e-9
SMALLEST_GROWTH = 1.2
SMALLEST_GAP = 1e-8  # rounding leaves nothing to gain beyond


class _State(NamedTuple):
    """A strictly feasible point with what its derivatives need."""

    blocks: Blocks
    inverses: Floats  # [B, K, K]
    slack: Floats  # [B, K] kappa - X_pp, infinite where nothing is asked
    room: Floats  # [K] cap - S_kk
    barrier: float


def solve_barrier(problem: PairProblem, found: Callable[[Blocks, DualPoint], bool]) -> None:
    """Follow the path of minima and hand over a point and a dual point after each weight, until `found` says that it is enough.

    Args:
        problem: in units in which own noise and its price are about one, with cap_k above both the floor and own noise.
        found: called with blocks that meet everything strictly; true ends the search.
    """
    state, weight = _start(problem), float(problem.kappa.size)
    constraints = problem.kappa.size + problem.cap.size + problem.floor.size + 2 * len(problem.pairs)
    growth = GROWTH
    for _ in range(MOST_WEIGHTS):
        gap = constraints / (weight * _price(problem, state.blocks))  # at the minimum, relative
        moved = _centre(problem, state, weight, LOOSE if gap > 1e-4 else TIGHT)
        if moved is None:  # too far from the last minimum: take a shorter way
            growth = np.sqrt(growth)
            weight /= growth
            if growth < SMALLEST_GROWTH:
                return
            continue
        if found(moved.blocks, _dual(moved, weight)) or gap < SMALLEST_GAP:
            return
        state, weight = moved, growth * weight


def _start(problem: PairProblem) -> _State:
    """Own noise between what is needed and the cap, and small uncorrelated blocks."""
    needed = problem.own_variances
    degree = np.bincount(problem.pairs.ravel(), minlength=len(needed)) + 1.0
    room = np.minimum(problem.cap - needed, 4.0 * needed)
    small = 0.25 * room / degree
    i, j = problem.pairs.T
    state = _state(problem, Blocks(needed + 0.5 * room, small[i], small[j], np.zeros(len(i))))
    assert state is not None
    return state


def _dual(state: _State, weight: float) -> DualPoint:
    return DualPoint(1.0 / (weight * state.slack), state.inverses, 1.0 / (weight * state.room))


def _state(problem: PairProblem, blocks: Blocks) -> _State | None:
    """The point with its barrier, or None where it is not strictly feasible."""
    own, determinant = blocks.own - problem.floor, blocks.first * blocks.second - blocks.cross**2
    if min(own.min(), min(determinant.min(initial=1.0), blocks.first.min(initial=1.0))) <= 0.0:
        return None
    s = covariances(problem, blocks)
    room = problem.cap - np.diag(s[0])
    try:
        lower = np.linalg.inv(np.linalg.cholesky(s))
    except np.linalg.LinAlgError:
        return None
    inverses = lower.transpose(0, 2, 1) @ lower
    slack = problem.kappa - np.einsum("bpp->bp", inverses)
    if min(room.min(), slack.min()) <= 0.0:
        return None
    finite, capped = np.isfinite(slack), np.isfinite(room)
    logs = np.log(slack[finite]).sum() + np.log(own).sum() + np.log(determinant).sum() + np.log(room[capped]).sum()
    return _State(blocks, inverses, slack, room, -float(logs))


def _price(problem: PairProblem, blocks: Blocks) -> float:
    g, (i, j) = problem.price, problem.pairs.T
    pairs = g[i, i] @ blocks.first + g[j, j] @ blocks.second + 2.0 * (g[i, j] @ blocks.cross)
    return float(np.diag(g) @ blocks.own + pairs)


def _centre(problem: PairProblem, state: _State, weight: float, enough: float) -> _State | None:
    """Damped Newton steps to the minimum for this weight; None where it is not reached."""
    last = np.inf
    for _ in range(MOST_STEPS):
        gradient, hessian = _derivatives(problem, state, weight)
        scale = 1.0 / np.sqrt(np.diag(hessian))
        try:
            factor = linalg.cho_factor(hessian * np.outer(scale, scale), lower=True, check_finite=False)
        except linalg.LinAlgError:
            return None
        step = -scale * linalg.cho_solve(factor, scale * gradient, check_finite=False)
        slope = float(gradient @ step)
        # Newton's steps converge quadratically here: a decrement that is small and falls no more is rounding
        if -slope < enough or (-slope < 1e-2 and -slope > 0.5 * last):
            return state
        moved = _line_search(problem, state, weight, step, slope) if np.isfinite(slope) else None
        if moved is None:
            return None
        state, last = moved, -slope
    return None


def _line_search(problem: PairProblem, state: _State, weight: float, step: Floats, slope: float) -> _State | None:
    agents, count = len(problem.floor), len(problem.pairs)
    parts = [step[:agents], *step[agents:].reshape(3, count)]
    before = weight * _price(problem, state.blocks) + state.barrier
    length = 1.0
    while length > 1e-8:
        blocks = Blocks(*(part + length * move for part, move in zip(state.blocks, parts, strict=True)))
        moved = _state(problem, blocks)
        after = np.inf if moved is None else weight * _price(problem, blocks) + moved.barrier
        if after <= before + 0.1 * length * slope + 1e-12 * abs(before):  # the last term is rounding
            return moved
        length *= 0.5
    return None


def _derivatives(problem: PairProblem, state: _State, weight: float) -> tuple[Floats, Floats]:
    """Gradient [n] and Hessian [n, n] in (own, first, second, cross), n = K + 3 m."""
    agents, (i, j) = np.arange(len(problem.floor)), problem.pairs.T
    entry = np.concatenate([agents, i, j, len(agents) + np.arange(len(i))])  # the entry of S each variable adds to
    rows, columns = np.concatenate([agents, i]), np.concatenate([agents, j])
    halves = np.where(rows == columns, 0.5, 1.0)
    gradient = weight * (2.0 * halves * problem.price[rows, columns])[entry]
    hessian = np.zeros((len(entry), len(entry)))
    for view, kept in enumerate(problem.honest_pairs):
        there = np.concatenate([problem.honest[view], kept, kept, kept])
        slope, curvature = _of_view(state.inverses[view], 1.0 / state.slack[view], (rows, columns, halves))
        if view == 0:
            slope[: len(agents)] += 1.0 / state.room
            curvature[agents, agents] += 1.0 / state.room**2
        gradient += np.where(there, slope[entry], 0.0)
        part = entry[there]
        hessian[np.ix_(there, there)] += curvature[np.ix_(part, part)]
    _add_cones(problem, state.blocks, gradient, hessian)
    return gradient, hessian


def _of_view(x: Floats, w: Floats, entries: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    """Derivatives of -sum_p log(kappa_p - X_pp) in the entries (r, s) of S: the direction e_r e_s' + e_s e_r', or e_r e_r' on the diagonal."""
    r, s, halves = entries
    n = (x * w) @ x
    moves = 2.0 * halves * x[:, r] * x[:, s]  # [K, entries]: minus the change of X_pp
    weighted = w[:, None] * moves
    xr, xs, xq = x[np.ix_(r, r)], x[np.ix_(s, s)], x[np.ix_(r, s)]
    nr, ns, nq = n[np.ix_(r, r)], n[np.ix_(s, s)], n[np.ix_(r, s)]
    second = xq.T * nq + xs * nr + xr * ns + xq * nq.T
    return -2.0 * halves * n[r, s], 2.0 * np.outer(halves, halves) * second + weighted.T @ weighted


def _add_cones(problem: PairProblem, blocks: Blocks, gradient: Floats, hessian: Floats) -> None:
    """Derivatives of -log(d - floor) and of -log det M."""
    own, (a, b, c) = 1.0 / (blocks.own - problem.floor), blocks[1:]
    k, m = len(own), len(a)
    agents, pairs = np.arange(k), k + np.arange(m)
    gradient[:k] -= own
    hessian[agents, agents] += own**2
    det = a * b - c**2
    first = np.stack([b, a, -2.0 * c]) / det
    gradient[k:] -= first.ravel()
    constant = np.zeros((3, 3, m))
    constant[0, 1] = constant[1, 0] = -1.0
    constant[2, 2] = 2.0
    second = first[:, None] * first[None, :] + constant / det
    for row in range(3):
        for column in range(3):
            hessian[pairs + row * m, pairs + column * m] += second[row, column]
