"""The model that a run hands out: what the agents have in common when it ends.

    w_c = sum_k q_k w_k,   q the weights of the agents in the network centroid;   on a walk the token, with its last holder

It is what `final_model()` sees, and what the metrics `loss` and `accuracy` are measured at.
"""

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import centroid
from sottovoce.topologies import Topology, Walk, walk_paths


def last_holders(topology: Topology, *, rounds: int, seed: int, repeats: int) -> np.ndarray | None:
    """[repeats] who holds the token when a run ends; None where nothing walks."""
    if not isinstance(topology.schedule, Walk):
        return None
    return walk_paths(topology, rounds, seed=seed, repeats=repeats)[:, -1]


def common_models(
    models: np.ndarray,
    topology: Topology,
    algorithm: Algorithm,
    *,
    rounds: int,
    seed: int,
    holders: np.ndarray | None = None,
) -> np.ndarray:
    """The common model of every repeat, [repeats, d].

    Args:
        models: [repeats, K, d] of all agents after the last round.
        topology: on which they talked.
        algorithm: by which they learnt.
        rounds: how many.
        seed: of the run.
        holders: who holds the token in the end, where that is known already; None: it is drawn here.
    """
    repeats = len(models)
    if algorithm.walks:
        holders = last_holders(topology, rounds=rounds, seed=seed, repeats=repeats) if holders is None else holders
        return models[np.arange(repeats), holders]
    # Float64 sums: a million agents in float32 would lose digits that the models have.
    weighted = np.einsum("k,rkd->rd", centroid(algorithm, topology).weights, models, dtype=np.float64)
    return np.asarray(weighted, dtype=models.dtype)
