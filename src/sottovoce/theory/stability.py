"""Mean-square stability: how large a step the network bears.

The covariance of the error obeys V' = F V F' + G Psi(V) G' + ...; it stays bounded iff the spectral radius of that linear map is
below one. The limit is the factor by which every step may be multiplied before the radius reaches one.
"""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import SottovoceError, UnsupportedClaim
from sottovoce.linear import LinearRound, check_parts, check_together, exchange_topologies, linear_round
from sottovoce.noise import none
from sottovoce.theory.system import BatchCovariance, Quadratic, matrices_of_round, round_system, shifted_quadratic
from sottovoce.topologies import Topology

DENSE_SIZE = 3  # up to this many error coordinates the map on covariances is written out as a matrix
CAUSE_SIZE = 200  # error coordinates up to which a failing run is given its exact limit
CAUSE_WORK = 10**6  # and numbers in the records that this has to read


def mean_square_radius(
    problem: Any,
    topology: Topology,
    algorithm: Algorithm,
    *,
    batch_size: int | None = None,
    step_factor: float = 1.0,
    round_: int = 1,
) -> float:
    """Spectral radius of the map that moves the error covariance in one round; below one means mean-square stable.

    Args:
        problem: a quadratic problem.
        topology: fixed weights.
        algorithm: linear.
        batch_size: records per round; None for the full gradient.
        step_factor: multiplies the step size.
        round_: the round whose step size is meant.
    """
    check_parts(problem=problem, topology=topology, algorithm=algorithm)
    check_together(topology, algorithm, none(), rounds=1, problem=problem, batch_size=batch_size)
    quadratic = shifted_quadratic(problem, batch_size, np.zeros(problem.dimension))
    topologies = exchange_topologies(algorithm, topology)
    return _radius(linear_round(algorithm, round_), matrices_of_round(topologies, round_), quadratic, step_factor)


def stability_limit(
    problem: Any, topology: Topology, algorithm: Algorithm, *, batch_size: int | None = None, round_: int = 1
) -> float:
    """The factor by which the step size may be multiplied before the mean-square error grows without bound.

    Above 1: the algorithm is stable as it is. `stability_limit(...) * step_size` is the largest stable step.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        batch_size: records per agent and round; None for all of them.
        round_: the round whose step size is meant.
    """
    check_parts(problem=problem, topology=topology, algorithm=algorithm)
    check_together(topology, algorithm, none(), rounds=1, problem=problem, batch_size=batch_size)
    quadratic = shifted_quadratic(problem, batch_size, np.zeros(problem.dimension))
    topologies = exchange_topologies(algorithm, topology)
    form, matrices = linear_round(algorithm, round_), matrices_of_round(topologies, round_)
    if problem.constants.strong_convexity <= 0:
        raise UnsupportedClaim("the risk is flat in some direction, in which no step makes errors shrink. Add a ridge.")

    def stable(factor: float) -> bool:
        return _radius(form, matrices, quadratic, factor) < 1.0

    low = high = 1.0
    while stable(high):
        low, high = high, 2.0 * high
        if high > 1e9:
            return float("inf")
    while not stable(low):
        low, high = 0.5 * low, low
        if low < 1e-9:
            raise UnsupportedClaim(
                "no step size is mean-square stable here: this round takes no gradient, or the weights are periodic so that agents "
                "never agree. Use weights with positive self-weights."
            )
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def _radius(form: LinearRound, matrices: list[np.ndarray], quadratic: Quadratic, factor: float) -> float:
    system = round_system(form, matrices, quadratic, factor)
    F, G = system.update.state, system.update.deviation
    K, d = quadratic.offset.shape
    n = len(F)
    batch = BatchCovariance(quadratic) if quadratic.deviations.any() else None

    def move(flat: np.ndarray) -> np.ndarray:
        V = flat.reshape(n, n)
        new = F @ V @ F.T
        if system.point is not None and batch is not None:
            X = system.point.state.reshape(K, d, n)
            moment = np.zeros((K, d + 1, d + 1))
            moment[:, :d, :d] = X @ V @ np.swapaxes(X, 1, 2)
            new = new + batch.spread_over(G, moment)
        return np.asarray(new.ravel())

    if n <= DENSE_SIZE:
        matrix = np.stack([move(column) for column in np.eye(n * n)], axis=1)
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    start = np.eye(n).ravel()
    if not move(start).any():
        return 0.0  # everything is forgotten in one round
    from scipy.sparse.linalg import LinearOperator, eigs

    operator = LinearOperator((n * n, n * n), matvec=move, dtype=float)
    value = eigs(operator, k=1, which="LM", v0=start, tol=1e-9, return_eigenvectors=False)
    return float(np.abs(value[0]))


def likely_cause(problem: Any, topology: Topology, algorithm: Algorithm, batch_size: int | None, round_: int) -> str:
    """One or two sentences on why a run left the finite numbers: its step size against what is stable."""
    from scipy.sparse.linalg import ArpackError

    step = algorithm.parameters.get("step_size")
    try:
        work = int(problem.sizes.max()) * problem.num_agents * problem.dimension**2
        if (
            problem.quadratic is not None
            and problem.num_agents * problem.dimension <= CAUSE_SIZE
            and work <= CAUSE_WORK
        ):
            with np.errstate(all="ignore"):  # steps that overflow here too are the cause
                limit = stability_limit(problem, topology, algorithm, batch_size=batch_size, round_=min(round_, 10**6))
            if limit < 1:
                largest = f" (the limit is {limit * step:.4g})" if isinstance(step, int | float) else ""
                return (
                    f"Likely cause: the step size is {1 / limit:.3g} times the mean-square stability limit of this problem, network and "
                    f"batch size{largest}. Take a smaller step or a larger batch."
                )
            return "The step size is below the mean-square stability limit, so look for overflow in the data or in the noise scale."
    except (SottovoceError, ArpackError, np.linalg.LinAlgError):
        pass  # no exact limit for this case: say what is known about the curvature instead
    given = f"the step size is {step:g}; " if isinstance(step, int | float) else ""
    try:
        constants = problem.constants
    except UnsupportedClaim:
        return (
            f"Likely cause: {given}it is too large for this loss, or the loss or its gradient is not finite there (logarithm of 0, "
            f"division by 0). Take a smaller step, clip the gradients, or mend the loss."
        )
    beta = constants.record_smoothness if batch_size is not None else float(np.max(constants.local_smoothness))
    return f"Likely cause: {given}steps above 2 / smoothness = {2 / beta:.4g} are not stable in general. Take a smaller step."
