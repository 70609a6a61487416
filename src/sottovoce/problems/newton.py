"""Newton's method for the (weighted) logistic risk, and the test whether a minimiser exists at all.

    minimise  sum_i weight_i ln(1 + exp(-z_i.w)) + (ridge/2) ||w||^2,   z_i = y_i x_i

Without a ridge a minimiser exists if and only if no w has z_i.w >= 0 for all i and > 0 for some: along such a w the
risk falls for ever, and without one it grows in every direction that changes it. A linear program decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import UnsupportedClaim

Floats = NDArray[np.float64]

_MOST_STEPS = 200
_GRADIENT_TOLERANCE = 1e-10


def minimise_logistic(signed_rows: Floats, row_weights: Floats, *, ridge: float) -> Floats:
    """Return the minimiser, to a gradient norm of 1e-10 (times the typical row norm, where that exceeds 1).

    Args:
        signed_rows: z_i = y_i x_i, [N, d].
        row_weights: positive, summing to 1, [N].
        ridge: non-negative.

    Returns:
        The minimiser, [d]; the shortest one when it is not unique.

    Raises:
        UnsupportedClaim: no minimiser exists, or rounding keeps Newton from reaching it.
    """
    if ridge == 0.0 and _is_separable(signed_rows):
        raise UnsupportedClaim(
            "Without a ridge this logistic risk has no minimiser: some model separates the two classes, and "
            "scaling it up always lowers the risk. Give ridge > 0, e.g. ridge=0.01."
        )
    model = np.zeros(signed_rows.shape[1])
    # Rounding in the gradient grows with the rows, so the tolerance must.
    tolerance = _GRADIENT_TOLERANCE * max(1.0, float(row_weights @ np.linalg.norm(signed_rows, axis=1)))
    gradient, hessian = _derivatives(model, signed_rows, row_weights, ridge)
    for _ in range(_MOST_STEPS):
        if np.linalg.norm(gradient) <= tolerance:
            # One more full step costs little and takes quadratic convergence to rounding level.
            return _better(model, model + _direction(hessian, gradient), signed_rows, row_weights, ridge)
        model = _descend(model, _direction(hessian, gradient), gradient, signed_rows, row_weights, ridge)
        gradient, hessian = _derivatives(model, signed_rows, row_weights, ridge)
    raise UnsupportedClaim(
        f"Newton's method stopped at gradient norm {np.linalg.norm(gradient):.1e} after {_MOST_STEPS} steps; "
        f"{tolerance:.0e} is needed to "
        f"call it the optimum. Scale the features to comparable ranges or give a larger ridge."
    )


def _derivatives(model: Floats, rows: Floats, weights: Floats, ridge: float) -> tuple[Floats, Floats]:
    wrong = 0.5 * (1.0 - np.tanh(0.5 * (rows @ model)))  # s(-z.w)
    gradient = -(weights * wrong) @ rows + ridge * model
    hessian = (rows * (weights * wrong * (1.0 - wrong))[:, None]).T @ rows + ridge * np.eye(len(model))
    return gradient, hessian


def _value(model: Floats, rows: Floats, weights: Floats, ridge: float) -> float:
    return float(weights @ np.logaddexp(0.0, -(rows @ model)) + 0.5 * ridge * model @ model)


def _direction(hessian: Floats, gradient: Floats) -> Floats:
    # Least squares: with dependent features the shortest step keeps the model in the span of the data.
    return np.asarray(-np.linalg.lstsq(hessian, gradient, rcond=None)[0], dtype=np.float64)


def _descend(model: Floats, step: Floats, gradient: Floats, rows: Floats, weights: Floats, ridge: float) -> Floats:
    """Halve the step until the risk falls as far as convexity promises (Armijo), within rounding."""
    value = _value(model, rows, weights, ridge)
    slack = 1e-14 * max(1.0, abs(value))
    length = 1.0
    while (
        length > 1e-12
        and _value(model + length * step, rows, weights, ridge) > value + 1e-4 * length * (gradient @ step) + slack
    ):
        length *= 0.5
    moved: Floats = model + length * step
    return moved


def _better(first: Floats, second: Floats, rows: Floats, weights: Floats, ridge: float) -> Floats:
    norms = [np.linalg.norm(_derivatives(model, rows, weights, ridge)[0]) for model in (first, second)]
    return second if norms[1] < norms[0] else first


def _is_separable(signed_rows: Floats) -> bool:
    """Whether some w in [-1, 1]^d has z_i.w >= 0 for all records and > 0 for some."""
    from scipy.optimize import linprog

    # Neither the length of a row nor the unit of a column changes the answer; equal scales keep the program's
    # tolerances meaningful.
    columns = np.abs(signed_rows).max(axis=0)
    rows = signed_rows[:, columns > 0.0] / columns[columns > 0.0]
    rows = rows[np.abs(rows).max(axis=1) > 0.0]
    rows = rows / np.abs(rows).max(axis=1)[:, None]
    if rows.size == 0:
        return False
    answer = linprog(-rows.mean(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1.0, 1.0), method="highs")
    return bool(answer.status == 0 and -answer.fun > 1e-6 / len(rows))
