"""The best noise from pair keys: own noise of every agent, and one source for every pair that shares a key, with factors of any sign.

`pair_noise` minimises tr(G S), the noise's part of an error, over S = Diag(d^2) + sum_e c_e c_e' such that every agent stays as hidden as asked from
the reader of all messages and from coalitions (`pair_problem` has the problem, `pair_bound` the proof of the bound). Solvers only propose
numbers. What is returned is scaled here, so that what is asked holds, and the bound is a dual value computed here from their numbers; a solver
that fails costs gain, not truth.

Scaling. Everything but the floor is multiplied by one number such that the largest [S_b^-1]_pp / kappa_bp is one. Where the floor alone meets
everything, the floor is the optimum. Where scaling up breaks a cap, the result is mixed with own noise alone, which meets everything: all that is
asked is convex in (d^2, c c'), so every mixture of two points that meet it does.

Unbounded noise. If some pair's 2 x 2 block of G is singular, a source of that pair can be free, and the best S unbounded. Without a cap, solvers
see G plus the multiple of I that lifts the smallest eigenvalue of these blocks to RIDGE tr(G) / K, where it is smaller; the price of the returned
noise and its bound refer to G itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from sottovoce.design.pair_barrier import solve_barrier
from sottovoce.design.pair_bound import DualPoint, lower_bound
from sottovoce.design.pair_descent import solve_descent
from sottovoce.design.pair_problem import (
    Blocks,
    Floats,
    PairProblem,
    Units,
    blocks_of,
    covariances,
    largest_ratio,
    one_source_each,
)
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.reprs import short_repr

__all__ = ["PairNoise", "pair_noise"]

RIDGE = 1e-7  # of the mean price of an agent's variance
CLOSE, CLOSE_BY_DESCENT = 2e-6, 1.5e-3  # relative gaps at which solvers may stop
MOST_UNKNOWNS, MOST_PRODUCTS = 1000, 8e7  # beyond, Newton's method takes minutes
LITTLE = 1e4  # times the largest kappa: asked for agents for whom nothing is
MOST_NUMBERS = 4e8  # entries of all inverses: 3.2 GB
Progress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairNoise:
    """Noise made of own sources and of one source per pair, with what no such noise can go below.

    Attributes:
        own: [K] std of each agent's own noise.
        pairs: [m, 2] the pairs, as they were given.
        factors: [m, 2] what the two agents of a pair multiply their common source with.
        lower_bound: tr(G S) of any noise from these pairs that meets what was asked is at least this.
    """

    own: Floats
    pairs: NDArray[np.int64]
    factors: Floats
    lower_bound: float

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def covariance(self) -> Floats:
        """[K, K] S = Diag(own^2) + sum_e c_e c_e'."""
        (i, j), (a, b) = self.pairs.T, self.factors.T
        s = np.diag(self.own**2)
        np.add.at(s, (i, i), a * a)
        np.add.at(s, (j, j), b * b)
        np.add.at(s, (i, j), a * b)
        np.add.at(s, (j, i), a * b)
        return s


class _Best:
    """The cheapest noise and the largest bound so far; every proposal goes through `take`."""

    def __init__(self, problem: PairProblem, asked: Floats, progress: Progress | None) -> None:
        self.problem, self.progress = problem, progress
        self.to_bound = problem._replace(kappa=asked)
        self.own, self.factors = problem.own_variances, np.zeros((len(problem.pairs), 2))
        self.price = self.own_price = float(np.diag(problem.price) @ self.own)
        self.bound, self.close = 0.0, CLOSE

    def take(self, blocks: Blocks, dual: DualPoint) -> bool:
        """Scale a proposal, keep it if it is cheaper, and evaluate its dual point; true where price and bound are close."""
        made = _scaled(self.problem, *one_source_each(self.problem, blocks))
        if made is not None:
            price = float((self.problem.price * covariances(self.problem, blocks_of(*made), slice(0, 1))[0]).sum())
            if price < self.price:
                self.price, (self.own, self.factors) = price, made
        self.bound = max(self.bound, lower_bound(self.to_bound, dual))
        if self.progress is not None:
            self.progress(self.price, self.bound)
        return self.price <= self.bound * (1.0 + self.close)


def pair_noise(
    G: ArrayLike,
    kappa: ArrayLike,
    pairs: ArrayLike,
    *,
    coalitions: Sequence[tuple[Sequence[int], ArrayLike]] = (),
    own_floor: ArrayLike = 0.0,
    cap: ArrayLike | None = None,
    progress: Progress | None = None,
) -> PairNoise:
    """Own noise and pair factors that minimise tr(G S) and hide every agent as asked, with a lower bound for all others.

    Where no pair helps, own noise alone is returned, with factors of zero: the result is never dearer than own noise. The largest
    [S^-1]_pp / kappa_p over all that is asked is one to rounding, unless the floor alone does better or a cap binds.

    Args:
        G: [K, K] symmetric, positive semi-definite: the price of a covariance S is tr(G S).
        kappa: [K] or a number: largest [S^-1]_pp for the reader of every message; infinite for agents of whom it may learn everything.
        pairs: [m, 2] agents that may share a source.
        coalitions: (members, kappa) each: largest [S_H^-1]_pp for p outside, S_H of the honest agents and of the pairs without a member.
        own_floor: [K] or a number: least variance of every agent's own noise.
        cap: [K] or a number: largest variance S_kk of an agent's noise; None for no cap.
        progress: called with price and bound, as shares of the price of own noise alone, after every step of the search.

    Raises:
        ConfigError: arrays of the wrong shape, agents or pairs that do not exist, bounds that are not positive.
        IncompatibleChoice: no noise meets the cap together with the floor and the targets.
    """
    given = _checked(G, kappa, pairs, coalitions, own_floor, cap)
    problem = given._replace(kappa=_with_little_asked(given.kappa))
    _require_feasible(problem, np.asarray(np.isfinite(given.kappa).any(axis=0)))
    units = Units.of(problem)
    best = _solved(units.divide(problem), units.divide(given).kappa, progress)
    own, factors = np.sqrt(best.own) * units.stds, best.factors * units.stds[problem.pairs]
    return PairNoise(own=own, pairs=problem.pairs, factors=factors, lower_bound=best.bound * units.price)


def _with_little_asked(kappa: Floats) -> Floats:
    """[B, K] with a large number in place of infinity, for the reader of every message, where no view asks anything for an agent.

    Its own noise is then next to none and S still has an inverse. The bound is evaluated with what was asked, infinity.
    """
    finite = np.isfinite(kappa)
    if not finite.any():
        raise ConfigError(
            "No kappa is finite, so that nothing is asked and no noise is needed. Give one for some agent."
        )
    filled = kappa.copy()
    filled[0, ~finite.any(axis=0)] = LITTLE * kappa[finite].max()
    return filled


def _solved(problem: PairProblem, asked: Floats, progress: Progress | None) -> _Best:
    """The search, over the agents whose noise is not decided already.

    Where the cap of agent k is the variance of its own noise, S_kk [S^-1]_kk <= 1: that is an equality only if row k of S is zero off the
    diagonal. Such agents have own noise alone, and the others form a problem by themselves.
    """
    best = _Best(problem, asked, progress)
    loose = problem.cap > problem.own_variances
    kept = np.asarray(loose[problem.pairs].all(axis=1))
    if not kept.any():
        best.bound = float(
            np.diag(problem.price) @ best.to_bound.own_variances
        )  # S is diagonal, own noise the least such
    elif loose.all():
        _search(problem, best)
    else:
        inner = _solved(_among(problem, loose, kept), asked[:, loose], progress)
        best.own[loose], best.factors[kept] = inner.own, inner.factors
        fixed = float(np.diag(problem.price)[~loose] @ best.own[~loose])
        best.price, best.bound = inner.price + fixed, inner.bound + fixed
    return best


def _among(problem: PairProblem, agents: NDArray[np.bool_], kept: NDArray[np.bool_]) -> PairProblem:
    number = np.cumsum(agents) - 1
    return PairProblem(
        price=problem.price[np.ix_(agents, agents)],
        kappa=problem.kappa[:, agents],
        honest=problem.honest[:, agents],
        pairs=number[problem.pairs[kept]],
        floor=problem.floor[agents],
        cap=problem.cap[agents],
    )


def _search(problem: PairProblem, best: _Best) -> None:
    proposing = problem._replace(price=_with_ridge(problem))
    unknowns, views = len(problem.floor) + 3 * len(problem.pairs), len(problem.kappa)
    if unknowns <= MOST_UNKNOWNS and views * unknowns**2 <= MOST_PRODUCTS:
        solve_barrier(proposing, best.take)
    else:
        best.close = CLOSE_BY_DESCENT
        solve_descent(proposing, best.take)


def _with_ridge(problem: PairProblem) -> Floats:
    """G, and more on its diagonal where a variance or a pair's block has hardly any price and no cap."""
    g, (i, j) = problem.price, problem.pairs.T
    if np.isfinite(problem.cap).all():
        return g
    mean, half = (g[i, i] + g[j, j]) / 2.0, np.hypot((g[i, i] - g[j, j]) / 2.0, g[i, j])
    missing = RIDGE * np.trace(g) / len(g) - min(float((mean - half).min()), float(np.diag(g).min()))
    return np.asarray(g + max(missing, 0.0) * np.eye(len(g)))


def _scaled(problem: PairProblem, own: Floats, factors: Floats) -> tuple[Floats, Floats] | None:
    """Own variances and factors that meet everything, from any; None where no multiple does."""
    excess = np.maximum(own - problem.floor, 0.0)

    def at(t: float) -> tuple[Floats, Floats]:
        return problem.floor + t * excess, np.sqrt(t) * factors

    def ratio(t: float) -> float:
        return largest_ratio(problem, blocks_of(*at(t)))

    if problem.floor.max() > 0.0 and ratio(0.0) <= 1.0:
        return at(0.0)
    t = ratio(1.0)
    if not np.isfinite(t):
        return None
    if problem.floor.max() > 0.0:
        t = _crossing(ratio, t)
    t *= max(1.0, ratio(t))  # one more pass, for rounding
    return _below_cap(problem, *at(t))


def _crossing(ratio: Callable[[float], float], guess: float) -> float:
    """Where the falling function `ratio` is one."""
    low = high = max(guess, float(np.finfo(np.float64).tiny))
    while ratio(high) > 1.0:
        high *= 2.0
    while ratio(low) <= 1.0:
        low *= 0.5
    return float(optimize.brentq(lambda t: ratio(t) - 1.0, low, high, xtol=1e-15 * low, rtol=1e-14))


def _below_cap(problem: PairProblem, own: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """Mixed with own noise alone as far as the cap demands it."""
    variances = np.diag(covariances(problem, blocks_of(own, factors), slice(0, 1))[0])
    alone = problem.own_variances
    over = variances > problem.cap
    if not over.any():
        return own, factors
    share = float(((problem.cap - alone)[over] / (variances - alone)[over]).min()) * (1.0 - 1e-12)
    return (1.0 - share) * alone + share * own, np.sqrt(share) * factors


def _checked(
    price: ArrayLike,
    kappa: ArrayLike,
    pairs: ArrayLike,
    coalitions: Sequence[tuple[Sequence[int], ArrayLike]],
    own_floor: ArrayLike,
    cap: ArrayLike | None,
) -> PairProblem:
    g = _checked_price(price)
    count = len(g)
    joined = _checked_pairs(pairs, count)
    if (len(coalitions) + 1) * float(count) ** 2 > MOST_NUMBERS:
        raise IncompatibleChoice(
            f"{len(coalitions)} coalitions among {count} agents need an inverse of {count} x {count} numbers each, more than fit in memory. "
            "Ask for smaller coalitions, or name the ones that matter."
        )
    honest, bounds = [np.ones(count, dtype=bool)], [_per_agent("kappa", kappa, count)]
    for members, allowed in coalitions:
        inside = np.asarray(members, dtype=np.int64)
        if inside.size == 0 or inside.min() < 0 or inside.max() >= count:
            raise ConfigError(
                f"A coalition has the members {tuple(members)}; needed are agents of 0..{count - 1}, one at least."
            )
        outside = ~np.isin(np.arange(count), inside)
        honest.append(outside)
        bounds.append(np.where(outside, _per_agent("The kappa of a coalition", allowed, count, where=outside), np.inf))
    floor = _per_agent("own_floor", own_floor, count, least=0.0)
    largest = np.full(count, np.inf) if cap is None else _per_agent("cap", cap, count)
    return PairProblem(g, np.array(bounds), np.array(honest), joined, floor, largest)


def _checked_pairs(pairs: ArrayLike, count: int) -> NDArray[np.int64]:
    joined = np.asarray(pairs)
    if joined.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if joined.ndim != 2 or joined.shape[1] != 2 or joined.dtype.kind not in "iu":
        raise ConfigError(
            f"pairs have shape {joined.shape} and type {joined.dtype}; needed is one row of two agents for every pair."
        )
    if joined.min() < 0 or joined.max() >= count or (joined[:, 0] == joined[:, 1]).any():
        raise ConfigError(
            f"A pair joins two different agents of 0..{count - 1}. Leave out pairs with others, and of an agent with itself."
        )
    return joined.astype(np.int64)


def _checked_price(price: ArrayLike) -> Floats:
    g = np.array(price, dtype=np.float64)
    if g.ndim != 2 or g.shape[0] != g.shape[1] or not len(g) or not np.isfinite(g).all():
        raise ConfigError(f"G has shape {g.shape}; needed is a square matrix of finite numbers, one row per agent.")
    size = float(np.abs(g).max())
    if float(np.abs(g - g.T).max()) > 1e-9 * size:
        raise ConfigError("G is not symmetric; give (G + G') / 2, which has the same price for every covariance.")
    g = (g + g.T) / 2.0
    least = float(np.linalg.eigvalsh(g)[0])
    if least < -1e-9 * size or size == 0.0:
        raise ConfigError(
            f"G has the eigenvalue {least:g} beside entries of size {size:g}; the price of a covariance is not negative and not always zero. "
            "Give a positive semi-definite matrix."
        )
    return g


def _per_agent(
    name: str, given: ArrayLike, count: int, *, least: float | None = None, where: NDArray[np.bool_] | None = None
) -> Floats:
    values = np.asarray(given, dtype=np.float64)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != count):
        raise ConfigError(
            f"{name} has shape {values.shape}; needed is one number, or one for each of the {count} agents."
        )
    values = np.broadcast_to(values, (count,)).copy()
    asked = values if where is None else values[where]
    if (
        np.isnan(asked).any()
        or (least is not None and not np.isfinite(asked).all())
        or (asked.min(initial=np.inf) <= 0.0 if least is None else asked.min(initial=np.inf) < least)
    ):
        raise ConfigError(
            f"{name} is {asked.min(initial=np.inf):g} for some agent; needed are numbers {'above' if least is None else 'of at least'} 0."
        )
    return values


def _require_feasible(problem: PairProblem, asked: NDArray[np.bool_]) -> None:
    """Own noise is the least that a diagonal of S can be, so a cap below it is met by nothing, and one above it by own noise."""
    needed = problem.own_variances
    short = (problem.cap < needed) | (~asked & (problem.cap <= needed))
    if short.any():
        agent = int(np.argmax(short))
        reason = (
            "the floor of its own noise"
            if problem.floor[agent] >= needed[agent]
            else "what its targets need, 1 / kappa, by any noise"
        )
        raise IncompatibleChoice(
            f"The cap lets agent {agent} have the variance {problem.cap[agent]:g}, less than {needed[agent]:g}: {reason}. "
            "No noise meets both; raise the cap, or lower the floor or the target."
        )
