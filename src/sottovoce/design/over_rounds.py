"""Noise whose size changes from round to round: a covariance between agents and a factor for every round.

For a unit that takes part in every round, and covariances S_t = f_t^2 S,

    minimise sum_t f_t^2 tr(G_t S)   such that   (1/T) sum_t [S^-1]_pp / f_t^2 <= kappa_p.

With sum_t 1 / f_t^2 = T the limit on S is that of rounds alike, so S is best for sum_t f_t^2 G_t, and the factors are best for tr(G_t S) (`time.schedule`). The
two are improved in turn; no turn makes the error larger.

**From below.** For any y >= 0, whatever the covariances of the rounds and however they differ: sum_p y_p sum_t [S_t^-1]_pp <= T sum_p kappa_p y_p, and tr(G_t S_t)
tr(Y S_t^-1) >= r_t^2 with r_t = tr (Y^1/2 G_t Y^1/2)^1/2 (`free`), so that sum_t tr(G_t S_t) >= (sum_t r_t)^2 / (T sum_p kappa_p y_p).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sottovoce.design.free import nuclear_root
from sottovoce.design.time import schedule
from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import Noise

TURNS = 12
SETTLED = 1e-6  # relative improvement below which another turn is not worth it


class Over(NamedTuple):
    """What a solver proposes between agents."""

    covariance: np.ndarray  # [K, K]
    noise: Noise


class Spread(NamedTuple):
    """A proposal with factors."""

    over: Over
    factors: np.ndarray  # [T]
    error: float
    bound: float


def over_rounds(
    by_round: np.ndarray,
    kappa: np.ndarray,
    between: Callable[[np.ndarray, float | None], Over],
    *,
    cap: float | None,
) -> Spread:
    """Improve the covariance between agents and the factors of rounds in turn.

    Args:
        by_round: [T, K, K] G_t.
        kappa: [K] the strictest limits.
        between: the best covariance for a matrix of gains, under a cap on variances.
        cap: largest std of a message in any round.

    Raises:
        IncompatibleChoice: the cap is below what even equal rounds need.
    """
    factors = np.ones(len(by_round))
    best: Spread | None = None
    for _ in range(TURNS):
        effective = np.einsum("t,tij->ij", factors**2, by_round)
        over = between(effective, None if cap is None else (cap / factors.max()) ** 2)
        widest = float(np.sqrt(np.diag(over.covariance).max()))
        if cap is not None and widest > cap * (1 + 1e-9):
            raise IncompatibleChoice(
                f"cap = {cap:g} is below the std of {widest:.4g} that a message needs. Raise the cap."
            )
        gains = np.einsum("tij,ij->t", by_round, over.covariance)
        made = schedule(gains, cap=None if cap is None else max(1.0, cap / widest))
        if best is not None and made.error >= best.error * (1 - SETTLED):
            break
        best = Spread(over, made.factors, made.error, 0.0)
        factors = made.factors
        if cap is not None:  # the factors use what the cap leaves; another covariance would have to fit beside them
            break
    assert best is not None
    return best._replace(bound=_bound(by_round, kappa, best))


def _bound(by_round: np.ndarray, kappa: np.ndarray, best: Spread) -> float:
    """The bound by weights that belong to the covariance found: where S G S is diagonal, its diagonal is best."""
    S = best.over.covariance
    effective = np.einsum("t,tij->ij", best.factors**2, by_round)
    y = np.maximum(np.diag(S @ effective @ S), 0.0)
    counted = np.isfinite(kappa) & (y > 0)
    roots = [nuclear_root(each[np.ix_(counted, counted)], y[counted]) for each in by_round]
    return float(np.sum(roots) ** 2 / (len(by_round) * (kappa[counted] @ y[counted])))
