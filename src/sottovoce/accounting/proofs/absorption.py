"""Absorption certificate: a valid Gaussian privacy level for observers of some links, or of one final read-out.

In round i = 1..n agent l sends psi_{l,i}. A link l -> k carries psi_l + z_s, s one source of the sender; the own copy
is psi_l + c_l z_s (c_l <= 1, negative for graph-homomorphic noise) or bare. Sources are fresh N(0, std_i^2 I), one
owner each.

Proof. Let d_l be the difference of psi_l between the two worlds, and shift the sources of the second world by h_s =
-theta_s d_owner(s), with theta in [0, 1] fixed in advance. A link then differs by (1 - theta_s) d_l, an own copy by
(1 - c theta_s) d_l. With theta = 1 on every source that is read and theta = 0 on those the observer knows, both views
coincide: they are no easier to tell apart than the noise and its shifted copy. The shift depends on earlier noise
only and ||h_s|| <= H_s := theta_s e_owner(s) as soon as ||d_l|| <= e_l, so adaptive Gaussian composition gives

    mu^2 = sum_i sum_s H_{s,i}^2 / std_i^2.

By the triangle inequality the e are such bounds if e_{.,1} >= injection_{.,1} and

    diffusion  e_{k,i+1} >= contraction_{i,k} (sum_{l != k} a_lk (e_l - H_{s(lk)}) + x_k) + injection_{k,i+1}
    consensus  e_{k,i+1} >= sum_{l != k} a_lk (e_l - H_{s(lk)}) + max(x_k - step nu e_k, step beta e_k - x_k)
                            + injection_{k,i+1},                           x_k = a_kk (e_k - c_k H_{s(kk)}).

Diffusion (ATC, CTA) sends the combination through a local step with that Lipschitz constant, max(|1 - step nu|, |1 -
step beta|) if nu I <= Hessian <= beta I. Consensus takes the gradient at the un-noised own model: its own part is
(a_kk (1 - c theta) I - step M) d_k with nu I <= M <= beta I. At one and the same point the protected agent's two
local steps differ by at most its injection, step * sensitivity.

Inequalities are enough. Let (e, H) satisfy them and 0 <= H <= e, and put theta = H / e. For fixed theta the
right-hand sides are non-decreasing in e (1 - c theta >= 0, and max(y - nu', beta' - y) >= 0 for nu' <= beta'). So the
recursion run with equality stays below e, its shifts below H, its cost below the stated one. Minimising the cost is
thus a convex quadratic programme, sparse in (e, H). The solver only proposes theta: what is returned comes from the
recursion run forward with theta clamped, 1 where read and 0 where known, and holds whatever the solver did.

Sources that are not independent (what agents add to their messages, where they share noise) have a price h' X h
together, X from `noise_vectors`; then H' |X| H replaces the sum of squares (`absorption_prices`), and nothing else
changes, since the cost still grows with every H.

Final read-out. Seen is sum_l r_l psi_{l,n} + sum_s g_s z_{s,n}, and of round n's links only those marked as read.
Read sources move by -d_owner(s); the rest D = sum_l (r_l - sum_{s of l, read} g_s) d_l must be undone by sources
neither read nor known, sum_s g_s h_s = -D. The shortest such shift is h_s = -g_s D / |g|^2 (Cauchy-Schwarz) and costs
||D||^2 / (std_n^2 |g|^2), where ||D|| <= sum_l |r_l - ...| e_l; infinite if all those g vanish.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting.proofs.absorption_problem import (
    Consensus,
    Diffusion,
    Problem,
    RoundLinks,
    Terminal,
    checked_problem,
)
from sottovoce.accounting.proofs.contraction import contraction_mu
from sottovoce.errors import ConfigError
from sottovoce.reprs import short_repr

__all__ = [
    "Certificate",
    "Consensus",
    "Diffusion",
    "RoundLinks",
    "Terminal",
    "absorption_certificate",
    "contraction_mu",
]

LARGEST_PROGRAMME = 1_000_000  # variables


class Certificate(NamedTuple):
    """A Gaussian privacy level and the plan that proves it."""

    mu: float  # infinite where no plan hides the change
    shifts: np.ndarray  # [n, S] H, S the largest number of sources in a round
    bounds: np.ndarray  # [n, K] e
    lower: float  # dual value, as a mu: no plan of this kind does better (says nothing about the true loss)
    spent: np.ndarray  # [n] mu^2 up to and including each round; a read-out counts in round n
    solved: bool  # False: the solver failed and mu may be far from the best plan, though valid

    def __repr__(self) -> str:
        return short_repr(self)


class _Plan(NamedTuple):
    bounds: np.ndarray  # [n, K]
    shifts: np.ndarray  # [n, W]
    costs: np.ndarray  # [n]


def absorption_certificate(
    links: Sequence[RoundLinks],
    *,
    std: np.ndarray,
    injection: np.ndarray,
    steps: Diffusion | Consensus,
    terminal: Terminal | None = None,
) -> Certificate:
    """The best absorption plan and its mu (module docstring); never worse than accounting all sent messages.

    Args:
        links: one entry per round.
        std: noise per coordinate in each round, [n]. 0: no source acts in that round.
        injection: fresh difference of each agent's message, [n, K]: step * sensitivity at the protected agent in the
            rounds where its data enter, 0 elsewhere.
        steps: how the next message follows from a round.
        terminal: the read-out released at the end, if any.

    Raises:
        ConfigError: malformed input, or more than `LARGEST_PROGRAMME` variables.
    """
    problem = checked_problem(links, std, injection, steps, terminal)
    fixed, feasible = _fixed_shares(problem)
    forced, sent = _evaluate(problem, np.nan_to_num(fixed)), _evaluate(problem, _sent_messages(problem, fixed))
    best = min(forced, sent, key=_cost)
    if not feasible or _cost(best) == 0.0:
        return _certificate(best, dual=_cost(best), solved=feasible or math.isinf(_cost(best)))
    if not np.isfinite([_cost(forced), _cost(best)]).all():
        return _certificate(best, dual=0.0, solved=False)  # overflow
    proposal, dual, solved = _solve(problem, fixed, forced.bounds, _cost(best))
    if proposal is not None:
        best = min(best, _evaluate(problem, proposal), key=_cost)
    return _certificate(best, dual=dual, solved=solved)


def programme_size(
    links: Sequence[RoundLinks],
    *,
    std: np.ndarray,
    injection: np.ndarray,
    steps: Diffusion | Consensus,
    terminal: Terminal | None = None,
) -> int:
    """Variables of the quadratic programme that `absorption_certificate` would solve; arguments as there."""
    problem = checked_problem(links, std, injection, steps, terminal)
    active, free = _active(problem, _fixed_shares(problem)[0])
    return int(active.sum()) + int(free.sum())


def _cost(plan: _Plan) -> float:
    return float(np.sum(plan.costs))


def _certificate(plan: _Plan, *, dual: float, solved: bool) -> Certificate:
    spent = np.cumsum(plan.costs)
    mu = float(np.sqrt(spent[-1]))
    return Certificate(mu, plan.shifts[:, :-1], plan.bounds, min(mu, max(dual, 0.0) ** 0.5), spent, solved)


def _evaluate(problem: Problem, shares: np.ndarray) -> _Plan:
    """Run the recursion with equality for theta = shares [n, W]. What is seen without noise costs infinity."""
    n, agents = problem.injection.shape
    bounds, shifts, costs = problem.injection.copy(), np.zeros_like(shares), np.zeros(n)
    with np.errstate(over="ignore", invalid="ignore"):
        for i, r in enumerate(problem.rounds):
            shifts[i] = shares[i] * bounds[i, r.owners]
            shifts[i, r.read & ~problem.usable(i) & (bounds[i, r.owners] > 0)] = np.inf
            rest = float(problem.residual @ bounds[i]) if i == n - 1 else 0.0
            shifts[i], costs[i] = _cost_of_round(problem, i, shifts[i], rest)
            if i < n - 1:
                alpha, gamma = problem.coefficients(i)
                flow = (alpha + gamma * shares[i, r.sources]) * bounds[i, r.senders]
                combined = [np.bincount(r.receivers, branch, agents) for branch in flow]
                bounds[i + 1] += np.max(combined, axis=0, initial=0.0)
    overflow = ~np.isfinite(bounds).all(axis=1)
    return _Plan(bounds, shifts, np.where(np.maximum.accumulate(overflow), np.inf, costs))


def _cost_of_round(problem: Problem, i: int, shifts: np.ndarray, rest: float) -> tuple[np.ndarray, float]:
    """Shifts [W] with those that undo a read-out's difference of length `rest`, and what they cost together."""
    prices, std = problem.rounds[i].prices, problem.std[i] or 1.0  # without noise shifts are 0 or infinite
    norm, moved = float(np.linalg.norm(problem.spread)), shifts
    if rest > 0 and norm == 0:
        moved = np.full_like(shifts, np.inf)
    elif rest > 0:
        moved = shifts + (np.abs(problem.undo) * rest if prices else np.abs(problem.spread) / norm * (rest / norm))
    if prices is None or np.isinf(moved).any():
        return moved, float(np.sum((moved / std) ** 2))
    return moved, prices.of(shifts, problem.undo, rest) / std**2


def _fixed_shares(problem: Problem) -> tuple[np.ndarray, bool]:
    """Shares theta that are not free, 1 or 0, else NaN, [n, W]; and whether any plan makes the views coincide.

    Backwards in time: an agent seen without usable noise must have e = 0. So it must not inject, and each link into it
    must be absorbed in full or come from an agent with e = 0.
    """
    n, agents = problem.injection.shape
    fixed, feasible = np.full((n, problem.spread.size), np.nan), True
    fixed[-1] = 0.0  # no round follows that would profit
    clean = (problem.residual > 0) & ~problem.spread.any()  # agents that must have e = 0
    for i in reversed(range(n)):
        r, usable = problem.rounds[i], problem.usable(i)
        if i < n - 1:
            alpha, gamma = problem.coefficients(i)
            absorbable = usable[r.sources] & ~(alpha + gamma).any(axis=0)
            into = clean[r.receivers] & (alpha.any(axis=0) | (usable[r.sources] & gamma.any(axis=0)))
            fixed[i, r.sources[into & absorbable]] = 1.0
            clean = np.bincount(r.senders[into & ~absorbable], minlength=agents) > 0
        fixed[i, ~usable] = 0.0
        fixed[i, r.read & usable] = 1.0
        clean[r.owners[r.read & ~usable]] = True
        feasible &= not (clean & (problem.injection[i] > 0)).any()
    return fixed, feasible


def _sent_messages(problem: Problem, fixed: np.ndarray) -> np.ndarray:
    """The plan that absorbs all the protected agents send, in every round."""
    protected = np.asarray((problem.injection > 0).any(axis=0))
    owned = np.array([protected[r.owners] for r in problem.rounds])
    return np.where(np.isnan(fixed), owned.astype(float), fixed)


def _active(problem: Problem, fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Agents [n, K] that can differ and whose difference can matter, and free sources [n, W] worth a variable."""
    n = len(problem.rounds)
    reached, matters = problem.injection > 0, np.zeros(problem.injection.shape, bool)
    passing = []  # per round, links that can carry a difference on
    for i, r in enumerate(problem.rounds[:-1]):
        alpha, gamma = problem.coefficients(i)
        share = fixed[i, r.sources]
        passing.append(np.where(np.isnan(share), alpha.any(0) | gamma.any(0), (alpha + gamma * share).any(0)))
        reached[i + 1, r.receivers[passing[i] & reached[i, r.senders]]] = True
    matters[-1] = problem.residual > 0
    worth = np.zeros(fixed.shape, bool)
    for i in reversed(range(n)):
        r = problem.rounds[i]
        matters[i, r.owners[fixed[i] == 1.0]] = True
        if i < n - 1:
            used = passing[i] & (matters[i + 1] & reached[i + 1])[r.receivers]
            matters[i, r.senders[used]] = True
            worth[i, r.sources[used]] = True
        worth[i] &= np.isnan(fixed[i]) & reached[i, r.owners]
    return reached & matters, worth


class _Layout(NamedTuple):
    """Where the variables e / scale, H / scale of the owner, and the read-out (last, if any) stand; -1: no variable."""

    e: np.ndarray  # [n, K]
    h: np.ndarray  # [n, W]
    scale: np.ndarray  # [n, K]
    shares: np.ndarray  # [n, W] theta where there is no variable
    readout: float  # scale of the read-out's difference, 0 without one
    size: int


def _layout(problem: Problem, fixed: np.ndarray, bounds: np.ndarray) -> _Layout:
    """Scaled by the bounds of a plan without free shifts, each row's factors and injection sum to about one."""
    active, free = _active(problem, fixed)
    counts = int(active.sum()), int(free.sum())
    e = np.where(active, np.cumsum(active).reshape(active.shape) - 1, -1)
    h = np.where(free, np.cumsum(free).reshape(free.shape) - 1 + counts[0], -1)
    scale = np.where(bounds > 0, bounds, 1.0)
    readout = float(problem.residual @ np.where(active[-1], scale[-1], 0.0))
    return _Layout(e, h, scale, np.where(free, np.nan, np.nan_to_num(fixed)), readout, sum(counts) + (readout > 0))


def _quadratic(problem: Problem, layout: _Layout) -> np.ndarray:
    """Cost of each variable's square, [size], where sources are independent."""
    cost = np.zeros(layout.size)
    for i, r in enumerate(problem.rounds):
        if r.prices is not None:
            continue
        e, h = layout.e[i, r.owners], layout.h[i]
        price = (layout.scale[i, r.owners] / (problem.std[i] or 1.0)) ** 2
        whole = (layout.shares[i] == 1.0) & (e >= 0)
        np.add.at(cost, e[whole], price[whole])
        cost[h[h >= 0]] += price[h >= 0]
    if layout.readout > 0 and problem.rounds[-1].prices is None:
        cost[-1] = (layout.readout / (problem.std[-1] * np.linalg.norm(problem.spread))) ** 2
    return cost


def _products(problem: Problem, layout: _Layout) -> tuple[sparse.coo_array, bool]:
    """Cost of products of variables where sources share noise, as a symmetric matrix; and whether it is the cost itself, or more."""
    entries, exact = [(np.zeros(0, int), np.zeros(0, int), np.zeros(0))], True
    for i, r in enumerate(problem.rounds):
        if r.prices is None:
            continue
        e = layout.e[i, r.owners]
        variable = np.where(layout.h[i] >= 0, layout.h[i], np.where(layout.shares[i] == 1.0, e, -1))
        place, price, convex = np.flatnonzero(variable >= 0), r.prices.proposed, r.prices.convex
        factor, variable = (layout.scale[i, r.owners] / (problem.std[i] or 1.0))[place], variable[place]
        price = price[np.ix_(place, place)]
        if i == len(problem.rounds) - 1 and layout.readout > 0:
            price, convex = r.prices.with_readout(place, problem.undo)
            variable = np.append(variable, layout.size - 1)
            factor = np.append(factor, layout.readout / problem.std[i])
        rows, columns = np.nonzero(price)
        entries.append((variable[rows], variable[columns], (price * np.outer(factor, factor))[rows, columns]))
        exact &= convex or not len(place)
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.coo_array((values, (rows, columns)), shape=(layout.size, layout.size)), exact


def _recursion(problem: Problem, layout: _Layout) -> tuple[sparse.coo_array, np.ndarray]:
    """The recursion as matrix @ x <= limit, one block of rows per branch of its right-hand side."""
    count = int((layout.e >= 0).sum())
    branches = 1 if isinstance(problem.steps, Diffusion) else 2
    limit = np.tile(-(problem.injection / layout.scale)[layout.e >= 0], branches)
    entries = [(np.arange(branches * count), np.tile(np.arange(count), branches), -np.ones(branches * count))]
    for i, r in enumerate(problem.rounds[:-1]):
        rows, e, h = layout.e[i + 1, r.receivers], layout.e[i, r.senders], layout.h[i, r.sources]
        live = (e >= 0) & (rows >= 0)
        free = live & (h >= 0)
        ratio = layout.scale[i, r.senders] / layout.scale[i + 1, r.receivers]
        share = np.nan_to_num(layout.shares[i, r.sources])
        for branch, (alpha, gamma) in enumerate(zip(*problem.coefficients(i), strict=True)):
            entries.append((rows[live] + branch * count, e[live], (ratio * (alpha + gamma * share))[live]))
            entries.append((rows[free] + branch * count, h[free], (ratio * gamma)[free]))
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.coo_array((values, (rows, columns)), shape=(limit.size, layout.size)), limit


def _constraints(problem: Problem, layout: _Layout) -> tuple[sparse.csc_array, np.ndarray]:
    """The recursion, 0 <= H <= e and the read-out's difference as matrix @ x <= limit."""
    recursion, limit = _recursion(problem, layout)
    owner = np.concatenate([layout.e[i, r.owners[layout.h[i] >= 0]] for i, r in enumerate(problem.rounds)])
    count = owner.size
    h = sparse.coo_array((np.ones(count), (np.arange(count), layout.h[layout.h >= 0])), shape=(count, layout.size))
    e = sparse.coo_array((np.ones(count), (np.arange(count), owner)), shape=(count, layout.size))
    blocks = [recursion, -h, h - e]
    if layout.readout > 0:
        row = np.zeros((1, layout.size))
        shown = layout.e[-1] >= 0
        row[0, layout.e[-1, shown]] = (problem.residual * layout.scale[-1] / layout.readout)[shown]
        row[0, -1] = -1.0
        blocks.append(sparse.coo_array(row))
    matrix = sparse.vstack(blocks, format="csc")
    return matrix, np.concatenate([limit, np.zeros(matrix.shape[0] - limit.size)])


def _solve(
    problem: Problem, fixed: np.ndarray, bounds: np.ndarray, cost: float
) -> tuple[np.ndarray | None, float, bool]:
    """Proposed shares, dual value and success; `cost` is that of a plan at hand."""
    layout = _layout(problem, fixed, bounds)
    if layout.size > LARGEST_PROGRAMME:
        raise ConfigError(
            f"The absorption programme has {layout.size} variables; at most {LARGEST_PROGRAMME} are solved. "
            "Account for fewer rounds or agents, or use the guarantee for all sent messages."
        )
    unit = cost * 1e-4  # keeps the optimum well above 1, below which the solver's relative gap becomes an absolute one
    products, exact = _products(problem, layout)
    squares = sparse.diags_array(_quadratic(problem, layout), format="csc")
    hessian = sparse.triu((squares + products) * (2.0 / unit), format="csc")
    matrix, limit = _constraints(problem, layout)
    import clarabel  # heavy, and only certificates need it

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    cones = [clarabel.NonnegativeConeT(limit.size)]
    solution = clarabel.DefaultSolver(hessian, np.zeros(layout.size), matrix, limit, cones, settings).solve()
    x = np.asarray(solution.x)
    if not np.isfinite(x).all():
        return None, 0.0, False
    shares = layout.shares.copy()
    for i, r in enumerate(problem.rounds):
        free = layout.h[i] >= 0
        bound = x[layout.e[i, r.owners[free]]]
        shares[i, free] = np.clip(x[layout.h[i, free]] / np.where(bound > 0, bound, np.inf), 0.0, 1.0)
    solved = solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    return shares, float(solution.obj_val_dual) * unit if solved and exact else 0.0, solved
