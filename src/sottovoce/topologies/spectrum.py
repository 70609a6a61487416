"""The Perron vector and the spectral gap of combination weights.

    Perron vector   A q = q, q > 0, sum_k q_k = 1: the weights of the centroid, which combining leaves in place
    spectral gap    1 - |lambda_2|: the rate at which combining alone removes disagreement

Weights are reversible when q_m a_lm = q_l a_ml for every pair: what flows from l to m over a round flows back. Then
q follows from ratios along any spanning tree, at any size, and A is similar to a symmetric matrix.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import ConfigError
from sottovoce.topologies.weights import DENSE_LIMIT, affordable_restarts, one_way_link

Vector = NDArray[np.float64]

TOLERANCE = 1e-9  # relative, on row sums and on balanced flows
EXACT_SOLVE_LIMIT = 2000  # agents up to which the Perron vector of directed weights is solved for exactly
UNIT_CIRCLE = 1e-12  # closer to it than this, an eigenvalue counts as on it


def perron_vector(weights: sparse.csc_array, *, exact_limit: int = EXACT_SOLVE_LIMIT) -> Vector:
    """The positive q with A q = q and sum q = 1 of strongly connected weights.

    Args:
        weights: [K, K] left-stochastic.
        exact_limit: Number of agents up to which directed weights are solved by elimination.

    Raises:
        ConfigError: A component is too small for float64, or the iteration did not reach 1e-12.
    """
    num_agents = weights.shape[0]
    if rows_sum_to_one(weights):
        return np.full(num_agents, 1.0 / num_agents)
    q = _perron_by_ratios(weights)
    if q is None:
        q = _perron_by_elimination(weights) if num_agents <= exact_limit else _perron_by_iteration(weights)
    if not (q > 0).all():
        raise ConfigError(
            f"the centroid weight of agent {int(np.argmin(q))} is too small for float64. "
            "Use weights='metropolis', which weighs all agents equally."
        )
    return q


def rows_sum_to_one(weights: sparse.csc_array) -> bool:
    """Whether the plain average is the centroid."""
    return bool(np.all(np.abs(weights.sum(axis=1) - 1.0) <= TOLERANCE))


def unbalanced_link(weights: sparse.csc_array, q: Vector) -> tuple[int, int] | None:
    """A link (l, m) with q_m a_lm != q_l a_ml, or None when the weights are reversible."""
    link = one_way_link(weights)
    if link is not None:
        return link
    transposed = weights.T.tocsc()
    transposed.sort_indices()
    receivers = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    forth, back = weights.data * q[receivers], transposed.data * q[weights.indices]
    wrong = np.abs(forth - back) > TOLERANCE * np.maximum(forth, back)
    if not wrong.any():
        return None
    first = int(np.argmax(wrong))
    return int(weights.indices[first]), int(receivers[first])


def spectral_gap(
    rounds: Sequence[sparse.csc_array], perron: Callable[[], Vector], *, dense_limit: int = DENSE_LIMIT
) -> float:
    """One minus the second largest eigenvalue modulus; for several rounds, the geometric mean per round.

    Args:
        rounds: The weights of one cycle, [K, K] each; one matrix when they do not change.
        perron: Gives the common Perron vector; called only when it is needed.
        dense_limit: Number of agents up to which all eigenvalues are computed.

    Raises:
        ConfigError: The gap of a large network is too small to be resolved by iteration.
    """
    num_agents = rounds[0].shape[0]
    if num_agents == 1:
        return 1.0
    if len(rounds) == 1 and period(rounds[0]) > 1:
        return 0.0
    modulus = _second_modulus_dense(rounds) if num_agents <= dense_limit else _second_modulus(rounds, perron())
    return 0.0 if modulus > 1.0 - UNIT_CIRCLE else float(1.0 - modulus ** (1.0 / len(rounds)))


def period(weights: sparse.csc_array) -> int:
    """The greatest common divisor of all cycle lengths of strongly connected weights."""
    if weights.diagonal().any():
        return 1
    from scipy.sparse import csgraph

    depth = csgraph.dijkstra(weights, unweighted=True, indices=0).astype(np.int64)
    receivers = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    return int(np.gcd.reduce(depth[weights.indices] + 1 - depth[receivers]))


def _perron_by_ratios(weights: sparse.csc_array) -> Vector | None:
    """q_l = q_m a_lm / a_ml along a spanning tree; None when the weights turn out not to be reversible."""
    if one_way_link(weights) is not None:
        return None
    from scipy.sparse import csgraph

    order, parents = csgraph.breadth_first_order(weights, 0, directed=True)
    children = order[1:]
    down, up = entries(weights, children, parents[children]), entries(weights, parents[children], children)
    # Logarithms, because the products along a long path leave the range of floats before they are normalised.
    log_q = [0.0] * weights.shape[0]
    for child, parent, ratio in zip(
        children.tolist(), parents[children].tolist(), (np.log(down) - np.log(up)).tolist(), strict=True
    ):
        log_q[child] = log_q[parent] + ratio
    q: Vector = np.exp(np.array(log_q) - max(log_q))
    normalised: Vector = q / q.sum()
    return normalised if unbalanced_link(weights, normalised) is None else None


def _perron_by_elimination(weights: sparse.csc_array) -> Vector:
    """Solve (I - A) q = 0 with its last equation replaced by sum q = 1."""
    num_agents = weights.shape[0]
    system = np.eye(num_agents) - weights.toarray()
    system[-1] = 1.0
    q = np.linalg.solve(system, np.eye(num_agents)[-1])
    return np.asarray(q / q.sum(), dtype=np.float64)


def _perron_by_iteration(weights: sparse.csc_array) -> Vector:
    """Arnoldi for the eigenvalue 1, polished by averaging steps until |A q - q|_1 <= 1e-12."""
    from scipy.sparse import linalg

    num_agents = weights.shape[0]
    start = np.full(num_agents, 1.0 / num_agents)
    try:
        # Of all eigenvalues on the unit circle, 1 has the largest real part, also for periodic weights.
        restarts = affordable_restarts(weights.nnz)
        _, vectors = linalg.eigs(weights, k=1, which="LR", v0=start, ncv=min(40, num_agents), maxiter=restarts)
        q = np.abs(vectors[:, 0].real)
    except linalg.ArpackNoConvergence:
        q = start
    q /= q.sum()
    for _ in range(1000):
        combined = weights @ q
        if np.abs(combined - q).sum() <= 1e-12:
            return np.asarray(combined / combined.sum())
        q = (combined + q) / (combined + q).sum()
    raise ConfigError(
        f"the Perron vector of these directed weights on {num_agents} agents did not converge to 1e-12 (the network "
        "mixes too slowly). Use doubly stochastic weights such as weights='metropolis'."
    )


def _second_modulus_dense(rounds: Sequence[sparse.csc_array]) -> float:
    """Second largest eigenvalue modulus of the product of all rounds, from all eigenvalues."""
    product = rounds[0].toarray()
    for weights in rounds[1:]:
        product = product @ weights.toarray()
    symmetric = np.array_equal(product, product.T)
    moduli = np.sort(np.abs(np.linalg.eigvalsh(product) if symmetric else np.linalg.eigvals(product)))
    return float(moduli[-2])


def _second_modulus(rounds: Sequence[sparse.csc_array], q: Vector) -> float:
    """The same by Lanczos or Arnoldi, after removing the eigenvalue 1 (right vector q, left vector of ones)."""
    num_agents = len(q)
    reversible = len(rounds) == 1 and unbalanced_link(rounds[0], q) is None
    # Reversible weights become symmetric as D^(-1/2) A D^(1/2) with D = diag(q).
    scale = np.sqrt(q) if reversible else np.ones(num_agents)

    def combine(vector: Vector) -> Vector:
        scaled = scale * vector.ravel()
        total = scaled.sum()
        for weights in reversed(rounds):
            scaled = weights @ scaled
        return np.asarray((scaled - q * total) / scale)

    from scipy.sparse import linalg

    operator = linalg.LinearOperator((num_agents, num_agents), matvec=combine, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(num_agents)
    if np.linalg.norm(combine(start)) <= 1e-12 * np.linalg.norm(start):
        return 0.0  # one round already reaches the average; iterating would only resolve rounding errors
    solve = linalg.eigsh if reversible else linalg.eigs
    try:
        values = solve(
            operator, k=1, which="LM", v0=start, tol=1e-12, return_eigenvectors=False,
            ncv=min(40, num_agents), maxiter=affordable_restarts(rounds[0].nnz),
        )  # fmt: skip
    except linalg.ArpackNoConvergence:
        raise ConfigError(
            f"the spectral gap of this network of {num_agents} agents is too small to be resolved by iteration. "
            "Use a better connected graph, or a smaller one of the same kind."
        ) from None
    return float(np.abs(values[0]))


def entries(matrix: sparse.csc_array, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Vector:
    """matrix[rows, columns] as a dense vector, zero where nothing is stored."""
    if len(rows) == 0:
        return np.zeros(0)
    picked = matrix[rows, columns]
    return np.asarray(picked.toarray() if sparse.issparse(picked) else picked, dtype=np.float64).ravel()
