"""How noise is spread over rounds: what every round's noise does to the error, and the best factors for it.

ATC on losses with Hessian h I, c = 1 - step h: noise n_s that enters the messages of round s is, in the models after round r >= s,

    U_(r-s) n_s,      U_j = c^j (A')^(j+1)

With weights M >= 0 over agents (I/K: the average of the agents' squared errors), the noise of rounds s and t meets in the error after
round r as gram[r - s, r - t],

    gram[j, l] = trace(M U_j S U_l'),      S the covariance over agents

and G[s, t] is gram[T - s, T - t] for the final model, or the mean over r of gram[r - s, r - t] for the mean over rounds. Noise with covariance
Sigma over rounds then costs trace(G Sigma). Independent rounds with factors f_t cost sum_t g_t f_t^2, g_t = G[t, t].

A unit that takes part in every round is charged sum_t 1 / f_t^2 (for a fixed S), so the best factors solve

    minimise  sum_t g_t f_t^2      subject to   sum_t 1 / f_t^2 <= budget,   f_t <= cap

that is f_t^2 = min(sqrt(lambda / g_t), cap^2): f_t falls with the fourth root of what a round's noise does. For every lambda >= 0 the value
of the Lagrangian at its own minimiser bounds the optimum from below.

Correlating an agent's own noise over rounds gains nothing here: for every G >= 0 and every Sigma whose guarantee, stated by its dual
min { sum d : Diag(d) >= Sigma^-1 }, is within the budget, trace(G Sigma) >= (sum_t sqrt(G_tt))^2 / budget, which is what the best factors
reach. (With R = D G D, D = Diag(G_tt^-1/2), of unit diagonal, trace(Sigma^-1 R) <= sum d <= budget, and the Cauchy-Schwarz inequality gives
trace(G Sigma) trace(Sigma^-1 R) >= trace(G^1/2 D G^1/2)^2.) Records that are seen once or in turns are another matter: `own_noise`.
"""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole

Floats = NDArray[np.float64]
When = Literal["final", "mean"]


class Factors(NamedTuple):
    """The best factors on the noise of every round."""

    factors: Floats  # [T] f_t
    error: float  # sum_t g_t f_t^2
    lower_bound: float  # no factors within the budget and the cap have a smaller error
    constant: float  # the error of equal factors within the budget

    @property
    def gain(self) -> float:
        """By how much the error of equal factors is larger."""
        return self.constant / self.error


def lag_gram(
    matrix: Any, contraction: float, rounds: int, covariance: Any, *, weights: Any = None
) -> Floats:  # fmt: skip
    """gram[j, l] = trace(M U_j S U_l') for the lags 0 to T - 1, [T, T]; see the module.

    Args:
        matrix: A [K, K], columns sum to one.
        contraction: c, what a step leaves of an error.
        rounds: T.
        covariance: S [K, K] over agents, or a vector [K] for S = vector vector'.
        weights: M [K, K]; None is I/K.

    Raises:
        ConfigError: shapes that do not fit, or matrices that are not positive semidefinite.
    """
    A, T = _square("matrix", matrix), whole("rounds", rounds)
    c, root = checked("contraction", contraction, "[-1, 1]"), _root("weights", np.eye(len(A)) / len(A), weights)
    spread = np.asarray(covariance, dtype=float)
    carried = spread[:, None] if spread.ndim == 1 else _root("covariance", None, spread)
    if carried.shape[0] != len(A) or root.shape[0] != len(A):
        raise ConfigError(
            f"the matrix is of {len(A)} agents, the covariance of {carried.shape[0]} and the weights of {root.shape[0]}. Give all of the same."
        )
    found = np.empty((T, root.shape[1] * carried.shape[1]))
    for lag in range(T):
        carried = A.T @ carried if lag == 0 else c * (A.T @ carried)
        found[lag] = (root.T @ carried).ravel()
    return np.asarray(found @ found.T)


def round_gram(gram: Any, when: When = "mean") -> Floats:
    """G [T, T]: what the noise of rounds s and t does together to the error, from what lags do.

    Args:
        gram: as `lag_gram` gives it.
        when: "final": the error after the last round; "mean": the mean over all rounds.
    """
    chosen("when", when, get_args(When))
    found = np.array(gram, dtype=float)
    if when == "mean":
        for lag in range(1, len(found)):
            found[lag, 1:] += found[lag - 1, :-1]
        found /= len(found)
    return np.ascontiguousarray(found[::-1, ::-1])


def round_gains(
    matrix: Any, contraction: float, rounds: int, covariance: Any, *, weights: Any = None, when: When = "mean"
) -> Floats:
    """g_t [T]: what noise with covariance S in the messages of round t does to the error, at factor one.

    Args:
        matrix: A [K, K], columns sum to one.
        contraction: c, what a step leaves of an error.
        rounds: T.
        covariance: S [K, K] over agents.
        weights: M [K, K]; None is I/K.
        when: "final": the error after the last round; "mean": the mean over all rounds.
    """
    A, T = _square("matrix", matrix), whole("rounds", rounds)
    c = checked("contraction", contraction, "[-1, 1]")
    chosen("when", when, get_args(When))
    carried = _root("covariance", None, np.asarray(covariance, dtype=float))
    root = _root("weights", np.eye(len(A)) / len(A), weights)
    by_lag = np.empty(T)
    for lag in range(T):
        carried = A.T @ carried if lag == 0 else c * (A.T @ carried)
        by_lag[lag] = ((root.T @ carried) ** 2).sum()
    return by_lag[::-1].copy() if when == "final" else np.cumsum(by_lag)[::-1] / T


def schedule(gains: Any, *, budget: float | None = None, cap: float | None = None) -> Factors:
    """The factors f_t on the noise of the rounds that cost least within a budget for a unit in every round.

    Args:
        gains: g_t [T], the error that noise of factor one in round t makes: trace(G_t S) for a spatial covariance S.
        budget: the largest sum_t 1 / f_t^2; None is T, that of factors one, so that the guarantee stays the same.
        cap: the largest factor; None is none.

    Raises:
        ConfigError: negative gains, a cap that no factors within the budget have, or without a cap a round whose noise does nothing, so
            that it would be unbounded.
    """
    g = np.asarray(gains, dtype=float)
    if g.ndim != 1 or not len(g) or not np.isfinite(g).all() or (g < 0).any() or not g.any():
        raise ConfigError(
            f"gains of shape {g.shape} are needed as finite non-negative numbers, one per round, not all zero."
        )
    total = float(len(g)) if budget is None else checked("budget", budget, "(0, inf)")
    most = np.inf if cap is None else checked("cap", cap, "(0, inf)") ** 2
    if cap is None and (g == 0).any():
        raise ConfigError(
            f"noise in round {int(np.flatnonzero(g == 0)[0]) + 1} does nothing to this error, so that its best factor is unbounded. Give cap, "
            f"the largest factor."
        )
    if len(g) / most > total:
        raise ConfigError(
            f"cap = {cap:g}: even with every factor at the cap, sum 1 / factor^2 is {len(g) / most:g} over {len(g)} rounds, and the budget is "
            f"{total:g}. Raise the cap to at least {np.sqrt(len(g) / total):g}."
        )
    squares, multiplier = _fill(np.sqrt(g), total, most)
    return Factors(
        factors=np.sqrt(squares),
        error=float(g @ squares),
        lower_bound=_dual(g, total, most, multiplier),
        constant=float(g.sum() * len(g) / total),
    )


def _fill(roots: Floats, total: float, most: float) -> tuple[Floats, float]:
    """The squared factors [T] and sqrt(lambda): the rounds that matter least are at the cap, the others spend what is left of the budget."""
    order = np.argsort(roots)  # the smallest first: these reach the cap first
    rest = np.append(np.cumsum(roots[order][::-1])[::-1], 0.0)  # [T + 1] the sum of the roots that are not capped
    for capped in range(len(roots)):
        left = total - capped / most
        if left <= 0:
            break
        multiplier = rest[capped] / left
        if multiplier <= most * roots[order[capped]]:  # the largest factor that is not capped is within the cap
            squares = np.full(len(roots), most)
            squares[order[capped:]] = multiplier / roots[order[capped:]]
            return squares, float(multiplier)
    return np.full(len(roots), most), float(most * roots.max())


def _dual(g: Floats, total: float, most: float, multiplier: float) -> float:
    """The smallest value over squares x <= most of sum_t (g_t x_t + lambda / x_t), less lambda times the budget: a bound for every lambda."""
    roots = np.sqrt(g)
    inside = multiplier <= most * roots
    price = multiplier**2
    at_cap = (g * most + price / most) if np.isfinite(most) else np.zeros_like(g)
    return float(np.where(inside, 2.0 * multiplier * roots, at_cap).sum() - price * total)


def _square(name: str, given: Any) -> Floats:
    found = np.asarray(given, dtype=float)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not np.isfinite(found).all():
        raise ConfigError(f"{name} of shape {found.shape}; it must be a square matrix of finite numbers.")
    return found


def _root(name: str, default: Floats | None, given: Any) -> Floats:
    """R with R R' = the matrix, the columns of eigenvalue zero left out."""
    found = _square(name, default if given is None else given)
    values, vectors = np.linalg.eigh((found + found.T) / 2.0)
    rounding = len(found) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    if np.abs(found - found.T).max(initial=0.0) > rounding or values[0] < -rounding:
        raise ConfigError(
            f"{name} must be symmetric and positive semidefinite; its smallest eigenvalue is {values[0]:g}."
        )
    kept = values > rounding
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
