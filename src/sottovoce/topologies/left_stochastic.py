"""What a matrix must be to serve as combination weights, and refusals that name the agent.

A = [a_lk] with a_lk >= 0 the weight receiver k gives sender l and sum_l a_lk = 1 for every receiver. A network that
is to agree must moreover be strongly connected: what any agent sends reaches, over some rounds, every other agent.
"""

from typing import Any

import numpy as np
from scipy import sparse

from sottovoce.errors import ConfigError

COLUMN_TOLERANCE = 1e-9  # on sum_l a_lk = 1
FEW_AGENTS = 512  # whose links are looked at in a dense matrix


def left_stochastic(matrix: Any, what: str = "the weight matrix") -> sparse.csc_array:
    """The matrix as canonical sparse float64 columns, checked to be left-stochastic.

    Args:
        matrix: [K, K], dense or sparse.
        what: How messages call it.

    Raises:
        ConfigError: Not square, not numbers, NaN or infinite, negative, or a column that does not sum to one.
    """
    weights = _as_columns(matrix, what)
    num_agents = weights.shape[0]
    receivers = np.repeat(np.arange(num_agents), np.diff(weights.indptr))
    for wrong, problem in ((~np.isfinite(weights.data), "a finite number"), (weights.data < 0, "at least zero")):
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ConfigError(
                f"{what} gives sender {weights.indices[first]} the weight {weights.data[first]:g} at receiver "
                f"{receivers[first]}; every weight must be {problem}. Correct that entry."
            )
    sums = np.bincount(receivers, weights.data, minlength=num_agents)
    wrong = np.abs(sums - 1.0) > COLUMN_TOLERANCE
    if wrong.any():
        receiver = int(np.argmax(wrong))
        raise ConfigError(
            f"{what} has a column that does not sum to one: the weights receiver {receiver} gives sum to "
            f"{sums[receiver]:.12g}. Entry [l, k] is the weight receiver k gives sender l; divide column {receiver} "
            "by its sum, or transpose the matrix if its rows sum to one."
        )
    return weights


def _as_columns(matrix: Any, what: str) -> sparse.csc_array:
    """A square canonical csc_array with 32-bit indices and no stored zeros."""
    try:
        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise ConfigError(f"{what} has shape {tuple(matrix.shape)}; it must be square, [K, K] for K agents.")
        weights = sparse.csc_array(matrix, dtype=np.float64, copy=True)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is not a matrix of numbers ({error}). Pass a [K, K] array.") from None
    weights.sum_duplicates()
    weights.eliminate_zeros()
    weights.sort_indices()
    return weights


def require_connected(weights: sparse.csc_array, advice: str) -> None:
    """Refuse a network that is not strongly connected, naming an agent that is cut off.

    Args:
        weights: [K, K] sparse, entry [l, k] stored when l sends to k.
        advice: What to do about it, appended to the message.
    """
    num_agents = weights.shape[0]
    for graph, complaint in ((weights, "cannot be reached from agent 0"), (weights.T, "cannot reach agent 0")):
        reached = _reached_from_first(graph)
        if not reached.all():
            raise ConfigError(
                f"the network is not connected: agent {int(np.argmin(reached))} {complaint} "
                f"({int(reached.sum())} of {num_agents} agents are on its side). {advice}"
            )


def _reached_from_first(graph: sparse.sparray) -> np.ndarray:
    """[K] whether a way leads to each agent from agent 0 over the entries that are stored."""
    num_agents = graph.shape[0]
    reached = np.zeros(num_agents, dtype=bool)
    if num_agents > FEW_AGENTS:
        from scipy.sparse import csgraph  # heavy, and small graphs do without

        reached[csgraph.breadth_first_order(graph, 0, directed=True, return_predecessors=False)] = True
        return reached
    linked = np.zeros((num_agents, num_agents), dtype=bool)
    stored = graph.tocoo()
    linked[stored.row, stored.col] = True
    new = np.arange(num_agents) == 0
    while new.any():
        reached |= new
        new = linked[new].any(axis=0) & ~reached
    return reached
