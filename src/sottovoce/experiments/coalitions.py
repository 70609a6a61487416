"""Masked averages against growing coalitions: what the relay and a share of the agents learn, one row per share."""

import math
from collections.abc import Sequence
from typing import Any

from sottovoce.accounting import gaussian
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import guarantee, stated_delta
from sottovoce.observers import colluding_server, final_model

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
NO_HELP = (
    "alone: masks are not counted on, because the risk of a bad graph exceeds delta, or Gaussian masks are too small for what is proved; every agent "
    "then stands alone with its own noise. More partners, or uniform masks, help."
)


def coalition_table(experiment: Experiment, shares: Sequence[float] = SHARES) -> list[dict[str, Any]] | None:
    """For every share of agents that collude with the relay: epsilon, the honest agents counted on, and the risk of a bad graph.

    Returns:
        None where averages are not masked, or without noise; no row for a share that leaves nobody.
    """
    if experiment.algorithm.aggregation is None or experiment.noise.law is None:
        return None
    delta, released = stated_delta(experiment), _released(experiment)
    rows = []
    for share in shares:
        observer = colluding_server(share)
        if observer.corrupted(experiment.topology.num_agents) >= experiment.topology.num_agents:
            continue
        found = guarantee(experiment, observer + final_model() if released else observer)
        told = dict(found.details)
        epsilon = found.epsilon(delta)
        rows.append(
            {
                "colluding": share,
                "honest": int(told["honest"]),
                "epsilon": None if math.isinf(epsilon) else epsilon,
                "graph_risk": told["graph_risk"],
                "masks_count": epsilon < gaussian.epsilon(told["mu_without_masks"], delta),
                "validity": found.validity,
            }
        )
    return rows


def _released(experiment: Experiment) -> bool:
    return experiment.privacy is not None and any(observer.final_model for observer in experiment.privacy.observers)
