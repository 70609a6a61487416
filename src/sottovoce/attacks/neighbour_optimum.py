"""What a neighbour would learn alone: the minimiser of its own risk, from gradients it gave away.

    quadratic risk   g = H w - b                                 fit (H, b) to pairs (w_i, g_i); optimum H^-1 b
    logistic risk    g = ridge w - (1/m) sum_j z_j s(-z_j.w)     fit m signed records z_j = y_j x_j, minimise their risk

A quadratic risk is determined by d + 1 gradients at points that span the space (no hyperplane holds them all). Errors
of standard deviation s on the gradients, independent and with exact points, give to first order

    Cov(optimum) = s^2 u'(X'X)^-1 u (H'H)^-1,   X rows (w_i, -1),  u = (optimum, -1)

The gradient that the fit predicts at the true optimum has that variance in every coordinate, and H^-1 turns it into a
shift. Agents that have agreed stand in nearly one point, and the factor u'(X'X)^-1 u is then huge: early rounds give
the optimum away. Points are exact for ATC and CTA with self-noise; elsewhere their own errors bias H towards zero,
which the formula leaves out.

A logistic risk is not determined by finitely many gradients without knowing how many records there are: m is the
attacker's guess. With m at least the true number the fit can be exact; a smaller m gives the closest risk of that form
on the visited points.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from sottovoce.attacks.arrays import Floats, finite, same_shape
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, whole
from sottovoce.problems import minimise_logistic

_DEGENERATE = 1e-10  # relative singular value below which points lie in a hyperplane


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuadraticOptimum:
    """The minimiser of a quadratic risk.

    Attributes:
        optimum: [d].
        hessian: [d, d], as fitted (symmetric up to noise) or as given.
        unit_covariance: [d, d] covariance of the optimum, to first order, for gradient errors of variance one.
        residual: root mean square of what the fit leaves of the gradients.
    """

    optimum: Floats
    hessian: Floats
    unit_covariance: Floats
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticOptimum:
    """The minimiser of a logistic risk.

    Attributes:
        optimum: [d].
        records: [m, d] fitted signed records y x; they need not be the true ones.
        residual: root mean square of what the fit leaves of the gradients.
    """

    optimum: Floats
    records: Floats
    residual: float


def quadratic_optimum(points: ArrayLike, gradients: ArrayLike, *, hessian: ArrayLike | None = None) -> QuadraticOptimum:
    """The minimiser of an agent's quadratic risk from its gradients at several points.

    Args:
        points: [n, d].
        gradients: [n, d], for example of `gradient_recovery`.
        hessian: [d, d] when it is known (public features); one gradient is then enough. None fits it.

    Raises:
        IncompatibleChoice: too few points or points in a hyperplane, or a Hessian without an inverse.
    """
    w, g = _checked_pairs(points, gradients)
    n, d = w.shape
    if hessian is None:
        design = np.hstack([w, -np.ones((n, 1))])  # g = [w, -1] (H', b)'
        sizes = np.linalg.svd(design, compute_uv=False)
        if n < d + 1 or sizes[-1] <= _DEGENERATE * sizes[0]:
            raise IncompatibleChoice(
                f"{n} points that span {int((sizes > _DEGENERATE * sizes[0]).sum()) - 1} of {d} directions were given; "
                f"a Hessian is fitted to gradients at {d + 1} or more points in no hyperplane. Observe more rounds, or "
                f"give hessian= when it is public."
            )
        solution = np.asarray(np.linalg.lstsq(design, g, rcond=None)[0], dtype=np.float64)
        H, b = solution[:d].T, solution[d]
    else:
        H, design = finite("hessian", hessian, axes=2), -np.ones((n, 1))
        if H.shape != (d, d):
            raise ConfigError(f"hessian has shape {H.shape}; the points have {d} parameters.")
        b = (w @ H.T - g).mean(axis=0)
    singular = np.linalg.svd(H, compute_uv=False)
    if singular[-1] <= _DEGENERATE * singular[0]:
        raise IncompatibleChoice(
            "the Hessian has no inverse, so the risk has no single minimiser. It needs records that span the space, or "
            "a ridge."
        )
    inverse = np.asarray(np.linalg.inv(H), dtype=np.float64)
    optimum: Floats = inverse @ b
    u = np.append(optimum, -1.0)[-design.shape[1] :]
    factor = float(u @ np.linalg.solve(design.T @ design, u))
    return QuadraticOptimum(
        optimum=optimum,
        hessian=H,
        unit_covariance=factor * inverse @ inverse.T,
        residual=_root_mean_square(w @ H.T - b - g),
    )


def logistic_optimum(
    points: ArrayLike, gradients: ArrayLike, *, ridge: float, records: int, starts: int = 8, seed: int = 0
) -> LogisticOptimum:
    """The minimiser of an agent's logistic risk from its gradients at several points, by a fit of signed records.

    Args:
        points: [n, d].
        gradients: [n, d].
        ridge: the public weight of the ridge, above 0.
        records: m, how many records to fit.
        starts: how many random starts of the fit; the best counts.
        seed: of the starts.

    Raises:
        IncompatibleChoice: fewer numbers seen than fitted.
    """
    w, g = _checked_pairs(points, gradients)
    rho, m = checked("ridge", ridge, "(0, inf)"), whole("records", records)
    if m > len(w):
        raise IncompatibleChoice(
            f"{m} records are fitted to gradients at {len(w)} points; there must be at least as many points as "
            f"records. Observe more rounds or fit fewer records."
        )
    generator = np.random.default_rng(whole("seed", seed, least=0))
    data_part = rho * w - g  # (1/m) sum_j z_j s(-z_j.w)
    size = 2.0 * _root_mean_square(data_part)  # s is about one half near the start
    best = min(
        (
            _fit_records(w, data_part, size * generator.standard_normal((m, w.shape[1])))
            for _ in range(whole("starts", starts))
        ),
        key=lambda fit: float(fit.cost),
    )
    rows = best.x.reshape(m, -1)
    return LogisticOptimum(
        optimum=minimise_logistic(rows, np.full(m, 1.0 / m), ridge=rho),
        records=rows,
        residual=_root_mean_square(best.fun),
    )


def _fit_records(w: Floats, data_part: Floats, start: Floats) -> optimize.OptimizeResult:
    """Least squares over signed records z [m, d], with their Jacobian."""
    m, d = start.shape

    def parts(flat: Floats) -> tuple[Floats, Floats]:
        z = flat.reshape(m, d)
        return z, 0.5 * (1.0 - np.tanh(0.5 * (w @ z.T)))  # s(-z.w), [n, m]

    def residuals(flat: Floats) -> Floats:
        z, wrong = parts(flat)
        difference: Floats = (wrong @ z / m - data_part).ravel()
        return difference

    def jacobian(flat: Floats) -> Floats:
        z, wrong = parts(flat)
        slope = wrong * (1.0 - wrong)  # of s, so that d s(-z.w) / dz = -slope w
        blocks = np.einsum("nm,ab->namb", wrong, np.eye(d)) - np.einsum("nm,ma,nb->namb", slope, z, w)
        matrix: Floats = (blocks / m).reshape(len(w) * d, m * d)
        return matrix

    return optimize.least_squares(
        residuals, start.ravel(), jac=jacobian, method="trf", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400
    )


def _checked_pairs(points: ArrayLike, gradients: ArrayLike) -> tuple[Floats, Floats]:
    w, g = finite("points", points, axes=2), finite("gradients", gradients, axes=2)
    same_shape("points", w, "gradients", g)
    return w, g


def _root_mean_square(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))
