"""Combination weights for a graph: how much a receiver k gives to what a sender l sends.

    metropolis   a_lk = 1 / (1 + max(deg_l, deg_k)),  a_kk = 1 - sum_l a_lk       symmetric
    laplacian    A = I - 2 / (3 lambda_max(L)) L  (Showkatbakhsh et al.)          symmetric
    uniform      a_lk = a_kk = 1 / (1 + deg_k)                                    columns sum to one, rows in general not

Here deg_k counts the neighbours of k without k itself and L = diag(deg) - adjacency. Metropolis and laplacian are
doubly stochastic, so that the centroid is the plain average. Every rule leaves a positive self-weight: at least
1 / (1 + deg_k) for metropolis and uniform, and at least 1/3 for laplacian, because lambda_max >= 1 + max_k deg_k.
Everything is sparse: time and memory grow with the number of links, not with K^2.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import ConfigError, IncompatibleChoice

DENSE_LIMIT = 1000  # agents up to which a dense eigenvalue routine is quicker than an iterative one
LANCZOS_RESTARTS = 10  # restarts of the eigenvalue search: expanders need fewer, and more would not help the others
FACTORISABLE_LINKS = 500_000  # above, and beyond eight links per agent, fill-in may exhaust time and memory


def metropolis(adjacency: sparse.csc_array) -> sparse.csc_array:
    """Metropolis weights 1 / (1 + max(deg_l, deg_k)) of an undirected graph."""
    require_undirected(adjacency, "metropolis")
    senders, receivers, degrees = _links(adjacency)
    return _with_self_weights(adjacency, 1.0 / (1.0 + np.maximum(degrees[senders], degrees[receivers])))


def laplacian(adjacency: sparse.csc_array) -> sparse.csc_array:
    """Laplacian weights I - 2 / (3 lambda_max(L)) L of an undirected graph (Showkatbakhsh et al.)."""
    require_undirected(adjacency, "laplacian")
    factor = 2.0 / (3.0 * largest_laplacian_eigenvalue(adjacency))
    return _with_self_weights(adjacency, np.full(adjacency.nnz, factor))


def uniform(adjacency: sparse.csc_array) -> sparse.csc_array:
    """Equal weights 1 / (1 + deg_k) for the receiver and each of its senders; the graph may be directed."""
    _, receivers, degrees = _links(adjacency)
    return _with_self_weights(adjacency, 1.0 / (1.0 + degrees[receivers].astype(np.float64)))


Rule = Callable[[sparse.csc_array], sparse.csc_array]
RULES: dict[str, Rule] = {"metropolis": metropolis, "laplacian": laplacian, "uniform": uniform}


def rule_named(name: str) -> Rule:
    """The weight rule of that name.

    Raises:
        ConfigError: There is no such rule.
    """
    if not isinstance(name, str) or name not in RULES:
        raise ConfigError(f"weights={name!r} is not a weight rule. Use one of {', '.join(map(repr, RULES))}.")
    return RULES[name]


def require_undirected(adjacency: sparse.csc_array, rule: str) -> None:
    """Refuse a directed graph, naming one link without its opposite."""
    link = one_way_link(adjacency)
    if link is not None:
        raise IncompatibleChoice(
            f"weights={rule!r} needs an undirected graph; the link {link[0]} -> {link[1]} has no opposite. "
            f"Use weights='uniform', or add the link {link[1]} -> {link[0]}."
        )


def one_way_link(matrix: sparse.csc_array) -> tuple[int, int] | None:
    """A (sender, receiver) whose opposite link is missing, or None when the support is symmetric."""
    transposed = matrix.T.tocsc()
    transposed.sort_indices()
    if np.array_equal(matrix.indptr, transposed.indptr) and np.array_equal(matrix.indices, transposed.indices):
        return None
    num_agents = matrix.shape[0]
    keys = [
        np.repeat(np.arange(num_agents), np.diff(m.indptr)) * num_agents + m.indices.astype(np.int64)
        for m in (matrix, transposed)
    ]
    receiver, sender = divmod(int(np.setdiff1d(*keys)[0]), num_agents)
    return sender, receiver


def largest_laplacian_eigenvalue(adjacency: sparse.csc_array, *, dense_limit: int = DENSE_LIMIT) -> float:
    """lambda_max of the graph Laplacian diag(deg) - adjacency.

    Lanczos separates it quickly on well connected graphs. On rings, paths and grids the largest eigenvalues crowd
    together; these graphs factorise with little fill-in, so there the inverse around an upper bound is iterated.

    Args:
        adjacency: [K, K] symmetric, zeros and ones, empty diagonal.
        dense_limit: Number of agents up to which all eigenvalues are computed.

    Raises:
        ConfigError: The eigenvalue could not be separated, and the graph is too large to factorise.
    """
    num_agents = adjacency.shape[0]
    senders, receivers, degrees = _links(adjacency)
    graph_laplacian = sparse.diags_array(degrees.astype(np.float64), format="csc") - adjacency
    if num_agents <= dense_limit:
        return float(np.linalg.eigvalsh(graph_laplacian.toarray())[-1])
    from scipy.sparse import linalg  # heavy, and small graphs do without

    # A fixed start makes the weights a function of the graph alone.
    start = np.random.default_rng(0).standard_normal(num_agents)
    try:
        values = linalg.eigsh(
            graph_laplacian, k=1, which="LA", v0=start, tol=1e-10, ncv=40, maxiter=LANCZOS_RESTARTS,
            return_eigenvectors=False,
        )  # fmt: skip
    except linalg.ArpackNoConvergence:
        if adjacency.nnz > FACTORISABLE_LINKS or adjacency.nnz > 8 * num_agents:
            raise ConfigError(
                f"weights='laplacian' needs the largest Laplacian eigenvalue, which could not be resolved for this graph "
                f"of {num_agents} agents and {adjacency.nnz} links (its largest eigenvalues are too close together). "
                "Use weights='metropolis'."
            ) from None
        # lambda_max <= max of deg_l + deg_k over the links; a little above it, the shifted matrix is regular.
        above = float((degrees[senders] + degrees[receivers]).max()) * (1.0 + 1e-7)
        values = linalg.eigsh(
            graph_laplacian, k=1, sigma=above, which="LM", v0=start, tol=1e-8, return_eigenvectors=False
        )  # fmt: skip
    return float(values[0])


def affordable_restarts(num_links: int) -> int:
    """How often a 40-vector Krylov iteration may restart: some seconds of work, then refuse rather than hang."""
    return int(np.clip(5_000_000 // (num_links + 1), 10, 500))


def _links(adjacency: sparse.csc_array) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Sender and receiver of every stored link, and the number of senders of every agent."""
    degrees = np.diff(adjacency.indptr).astype(np.int64)  # [K]
    return adjacency.indices, np.repeat(np.arange(adjacency.shape[0]), degrees), degrees


def _with_self_weights(adjacency: sparse.csc_array, link_weights: NDArray[np.float64]) -> sparse.csc_array:
    """The matrix with these link weights and what is missing to one on the diagonal."""
    num_agents = adjacency.shape[0]
    _, receivers, _ = _links(adjacency)
    links = sparse.csc_array((link_weights, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    self_weights = 1.0 - np.bincount(receivers, link_weights, minlength=num_agents)
    weights = links + sparse.diags_array(self_weights, format="csc")
    weights.sort_indices()
    return weights
