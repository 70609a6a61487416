"""Feature vectors from gradients (Vlaski & Sayed, chapter "Privacy", eq. 11.1-11.7), as studies of leakage rebuild them.

Agents have ONE record each, so that every gradient of agent p, ridge taken off, is a multiple of its feature vector x. All rounds together are fitted
by multiples of one vector: the leading singular vector of the rows g_i - ridge term, whitened by the covariance of their errors.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.attacks import directions_from_gradients
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments import Experiment
from sottovoce.linear import refuse_memory


class Rebuilt(NamedTuple):
    """Gradients [repeats, n, d], the points where they were taken, and [n] the standard deviation of a coordinate (0: none, or not known)."""

    gradients: np.ndarray
    points: np.ndarray
    std: np.ndarray


def require_constant_sizes(experiment: Experiment) -> None:
    """Refuse steps or noise that change from round to round: `error_covariance` reads two sizes and takes the others to be alike.

    Raises:
        IncompatibleChoice: a schedule of the step size, or of the noise.
    """
    noise, step = experiment.noise, experiment.algorithm.parameters["step_size"]
    refuse_memory(noise, "studies of rebuilt records")
    if callable(step) or noise.schedule is not None:
        what = "step size" if callable(step) else f"noise of '{noise.name}'"
        raise IncompatibleChoice(
            f"the {what} changes from round to round, and errors of gradients are put together for one size. Use a constant."
        )


def leading_direction(rows: np.ndarray, std: np.ndarray) -> np.ndarray:
    """[repeats, d] the unit vector along which rows [repeats, n, d] are multiples of one vector, most likely under Gaussian errors.

    The leading right singular vector of the rows, whitened; without noise all rows count alike.
    """
    if not (std > 0).all():
        return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][:, 0])
    factor = np.linalg.cholesky(error_covariance(std))
    return np.asarray(np.linalg.svd(np.linalg.solve(factor, rows), full_matrices=False)[2][:, 0])


def error_covariance(std: np.ndarray) -> np.ndarray:
    """[n, n] covariance, in one coordinate, of the errors of an agent's gradients under ATC, one source per agent and the same size in every round.

    The errors are (rho z_{i-1} - z_i) / mu with z_0 = 0: neighbouring ones share a source, and with rho = 1 they cancel in the sum over rounds.
    """
    first = std[0] ** 2
    rho = np.sqrt(max(std[-1] ** 2 / first - 1.0, 0.0))
    moving = np.eye(len(std)) - rho * np.eye(len(std), k=-1)
    return np.asarray(first * moving @ moving.T)


def data_parts(found: Rebuilt, experiment: Experiment) -> np.ndarray:
    """[repeats, n, d] minus the gradients without their ridge term: multiples of the feature vector."""
    directions = directions_from_gradients(found.gradients, found.points, experiment.problem)
    return (directions.directions * directions.strengths[:, None]).reshape(found.gradients.shape)


def similarity(directions: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """|cos| of the angle of each direction [..., d] to the true feature vector [d]."""
    lengths = np.linalg.norm(directions, axis=-1) * np.linalg.norm(truth)
    return np.asarray(np.abs(directions @ truth) / lengths)
