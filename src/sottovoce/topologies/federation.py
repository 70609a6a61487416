"""A federation: n agents that meet only through a relay, which has no data and sends everyone the same average.

    w_k <- sum_l q_l psi_l  for every agent k,   A = q 1^T,   q_l = 1/n  or  (records of l) / (all records)

Every column of A is q, so q is its own Perron vector. The relay is no agent and has no row in A; `relay=True` on the
topology says that messages pass through it, which matters to who can observe what.

A federation of one agent is the central mode: whoever holds all records computes, and nothing is sent. With `sv.noise.central` every step of the
model is perturbed, as in DP-SGD, and `sv.observers.final_model` is who gets what comes out.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import whole
from sottovoce.topologies.topology import MATRIX_LIMIT, Topology


def federation(n: int, weights: str = "uniform", *, records: ArrayLike | None = None) -> Topology:
    """Agents that meet only through a relay without data.

    Args:
        n: Number of agents, without the relay; at most 5000, because A is full. One alone is the central mode.
        weights: "uniform" (every agent counts the same) or "records" (in proportion to its records).
        records: [n] positive record counts; given exactly when weights="records".

    Raises:
        ConfigError: Too many agents, an unknown weighting, or record counts missing or malformed.
        IncompatibleChoice: Record counts together with uniform weights.
    """
    n = whole("n", n, least=1)
    if n > MATRIX_LIMIT:
        raise ConfigError(
            f"federation(n={n}) would hold {n} x {n} weights; the limit is {MATRIX_LIMIT} agents. Use fewer agents, "
            "or a peer graph such as k_out, which is sparse."
        )
    if weights == "uniform":
        if records is not None:
            raise IncompatibleChoice("federation got record counts but weights='uniform'. Use weights='records'.")
        q = np.full(n, 1.0 / n)
    elif weights == "records":
        q = _shares(n, records)
    else:
        raise ConfigError(f"weights={weights!r} is not a weighting of a federation. Use 'uniform' or 'records'.")
    full = sparse.csc_array(np.repeat(q[:, None], n, axis=1))
    return Topology(weights=full, name="federation", rule=weights, relay=True)


def _shares(n: int, records: ArrayLike | None) -> np.ndarray:
    """Record counts as fractions of all records."""
    if records is None:
        raise ConfigError("weights='records' needs the record counts. Pass records=[...], one count per agent.")
    try:
        counts = np.asarray(records, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError("records are not numbers. Pass one count per agent.") from None
    if counts.shape != (n,):
        raise ConfigError(f"records have shape {counts.shape}; federation(n={n}) needs one count per agent, ({n},).")
    wrong = ~(np.isfinite(counts) & (counts > 0))
    if wrong.any():
        agent = int(np.argmax(wrong))
        raise ConfigError(
            f"agent {agent} has {counts[agent]:g} records; every agent needs a positive number, else it is no part "
            "of the average. Leave it out."
        )
    shares: np.ndarray = counts / counts.sum()
    return shares
