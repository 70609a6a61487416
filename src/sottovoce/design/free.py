"""The best covariance of noise that agents may add at all, and a proof of how good it is.

    minimise tr(G S)   over S > 0   such that   [S^-1]_pp <= kappa_p for every agent p

G says what noise does to the error, kappa_p how much agent p may give away to somebody who reads every message. Both bounds below hold for whatever
numbers they are given, so that nothing rests on the iteration having converged.

**From above.** Any S > 0, multiplied by max_p [S^-1]_pp / kappa_p, is feasible.

**From below.** Let y >= 0 and Y = Diag(y). A feasible S has sum_p y_p [S^-1]_pp = tr(Y S^-1) <= sum_p kappa_p y_p, and by the inequality of
Cauchy and Schwarz for the nuclear norm, tr(G S) tr(Y S^-1) >= (tr (Y^1/2 G Y^1/2)^1/2)^2. So

    tr(G S)  >=  (tr (Y^1/2 G Y^1/2)^1/2)^2 / sum_p kappa_p y_p        for every y >= 0,

with equality where S G S is a multiple of Y, that is S = Y^1/2 (Y^1/2 G Y^1/2)^-1/2 Y^1/2. Then [S^-1]_pp = [R]_pp / y_p with R = (Y^1/2 G Y^1/2)^1/2, and
y_p <- R_pp / kappa_p is repeated until both bounds meet.

A direction in which G vanishes is wiped out by the next combination: noise there costs nothing, and the best S has no end. A small ridge on G (the error
counts a little of every message's variance) keeps it finite; the lower bound is still that of G itself. A cap on the variance of every message is a
multiplier z >= 0 on the diagonal: for every z the problem with G + Diag(z) has the value of this one plus sum_p z_p cap, or less.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.errors import IncompatibleChoice

RIDGE = 1e-7  # of the mean gain
CLOSE = 1e-10  # relative distance of the two bounds at which the iteration ends
MOST_STEPS = 2000
MOST_CAPPED_STEPS = 150
EAGER = 50  # first steps towards the cap, which are longer
CLOSE_TO_CAP = 1e-4  # as CLOSE, where there is a cap


class FreeCovariance(NamedTuple):
    """A covariance and how good it is.

    Attributes:
        covariance: [K, K] feasible.
        lower_bound: no feasible covariance has a smaller tr(G S).
    """

    covariance: np.ndarray
    lower_bound: float


def free_covariance(
    gains: np.ndarray,
    kappa: np.ndarray,
    *,
    cap: float | None = None,
    close: float = CLOSE,
    most_steps: int = MOST_STEPS,
) -> FreeCovariance:
    """The best covariance between all agents.

    Args:
        gains: [K, K] G, positive semidefinite.
        kappa: [K] largest [S^-1]_pp, above 0; infinite for agents whom no target names.
        cap: largest variance of a message; None: none.
        close: relative distance of the bounds that is good enough.
        most_steps: steps after which whatever was found is returned.

    Raises:
        IncompatibleChoice: no covariance keeps the cap.
    """
    needed = np.where(np.isfinite(kappa), 1.0 / kappa, 0.0)
    if cap is not None and (needed > cap).any():
        p = int(np.argmax(needed))
        raise IncompatibleChoice(
            f"the cap allows messages a variance of {cap:.4g}, and agent {p} needs {needed[p]:.4g} even if it knew all others' noise. Raise the "
            f"cap, or ask for less privacy."
        )
    found = _fixed_point(gains, kappa, np.zeros(len(kappa)), close, most_steps)
    if cap is None or np.diag(found.covariance).max() <= cap:
        return found
    return _capped(gains, kappa, cap, close, most_steps)


def lower_bound(gains: np.ndarray, kappa: np.ndarray, y: np.ndarray) -> float:
    """What no feasible covariance falls below, by any y >= 0."""
    counted = y > 0
    spent = float(kappa[counted] @ y[counted])
    return nuclear_root(gains[np.ix_(counted, counted)], y[counted]) ** 2 / spent if spent > 0 else 0.0


def nuclear_root(gains: np.ndarray, y: np.ndarray) -> float:
    """Tr (Y^1/2 G Y^1/2)^1/2."""
    root = np.sqrt(y)
    values = np.linalg.eigvalsh(root[:, None] * gains * root[None, :])
    return float(np.sqrt(np.maximum(values, 0.0)).sum())


def _fixed_point(
    gains: np.ndarray, kappa: np.ndarray, multiplier: np.ndarray, close: float, most_steps: int
) -> FreeCovariance:
    K = len(kappa)
    whole = gains + np.diag(multiplier)
    ridged = whole + (RIDGE * np.trace(gains) / K) * np.eye(K)
    # Whom no target names needs no noise: a limit far above the others' leaves it next to none.
    limits = np.where(np.isfinite(kappa), kappa, 1e12 * np.max(kappa[np.isfinite(kappa)]))
    y = 1.0 / (limits * np.sqrt(np.diag(ridged)))
    best: tuple[float, np.ndarray] = (np.inf, np.zeros((K, K)))
    below = 0.0
    for _ in range(most_steps):
        root = np.sqrt(y)
        values, vectors = np.linalg.eigh(root[:, None] * ridged * root[None, :])
        values = np.sqrt(np.maximum(values, np.finfo(float).tiny))
        diagonal = (vectors**2) @ values  # of R
        inverse = (vectors / values) @ vectors.T
        covariance = root[:, None] * inverse * root[None, :]
        covariance *= np.max(diagonal / y / limits)
        error = float(np.einsum("ij,ij->", whole, covariance))
        if error < best[0]:
            best = error, covariance
        below = max(
            below, float(values.sum() ** 2 / (limits @ y))
        )  # of the problem with the ridge, which is what converges
        ridge_part = float(np.trace(covariance)) * RIDGE * np.trace(gains) / K
        if error + ridge_part <= below * (1 + close):
            break
        y = diagonal / limits
        y /= y.max()
    return FreeCovariance((best[1] + best[1].T) / 2, lower_bound(whole, limits, y))


def _capped(gains: np.ndarray, kappa: np.ndarray, cap: float, close: float, most_steps: int) -> FreeCovariance:
    """Raise the multipliers of messages that are above the cap until none is, by steps in their logarithms.

    What is still above it is mixed with own noise alone, which keeps the cap; a mixture of two feasible covariances is feasible.
    """
    own = np.diag(np.where(np.isfinite(kappa), 1.0 / kappa, 0.0))
    size = np.trace(gains) / len(kappa)
    multiplier = np.full(len(kappa), 1e-6 * size)
    below, error, found = 0.0, np.inf, own
    for step in range(MOST_CAPPED_STEPS):
        one = _fixed_point(gains, kappa, multiplier, close, most_steps)
        variances = np.diag(one.covariance)
        below = max(below, one.lower_bound - float(multiplier.sum()) * cap)
        over = variances > cap
        share = float(np.max((variances - cap)[over] / (variances - np.diag(own))[over], initial=0.0))
        share = min(1.0, share * (1 + 1e-9))  # rounding stays below the cap
        mixed = (1 - share) * one.covariance + share * own
        if float(np.einsum("ij,ij->", gains, mixed)) < error:
            error, found = float(np.einsum("ij,ij->", gains, mixed)), mixed
        if error <= below * (1 + max(close, CLOSE_TO_CAP)):
            break
        multiplier = np.maximum(multiplier * (variances / cap) ** (1.5 if step < EAGER else 0.7), 1e-12 * size)
    return FreeCovariance(found, max(below, 0.0))
