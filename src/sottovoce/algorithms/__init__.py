"""Algorithms: what one agent does in a round, as pure functions."""

from collections.abc import Callable

from sottovoce.algorithms.aggregation import Gopa, check_aggregation
from sottovoce.algorithms.algorithm import Algorithm, ClippedUpdate, Exchange, LocalSteps, step_at
from sottovoce.algorithms.atc import atc
from sottovoce.algorithms.consensus import consensus
from sottovoce.algorithms.cta import cta
from sottovoce.algorithms.dgd import dgd
from sottovoce.algorithms.fedavg import fedavg
from sottovoce.algorithms.gossip import gossip
from sottovoce.algorithms.inexact_admm import inexact_admm
from sottovoce.algorithms.muffliato import muffliato
from sottovoce.algorithms.random_walk import random_walk
from sottovoce.algorithms.ring_sum import noisy_hops, ring_sum
from sottovoce.algorithms.sampling import AgentSampling, FixedAgents, PoissonAgents, SilentAgents, check_sampling
from sottovoce.algorithms.three_matrix import three_matrix

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "consensus": consensus,
    "cta": cta,
    "atc": atc,
    "dgd": dgd,
    "fedavg": fedavg,
    "inexact_admm": inexact_admm,
    "gossip": gossip,
    "muffliato": muffliato,
    "random_walk": random_walk,
}

__all__ = [
    "ALGORITHMS",
    "AgentSampling",
    "Algorithm",
    "ClippedUpdate",
    "Exchange",
    "FixedAgents",
    "Gopa",
    "LocalSteps",
    "PoissonAgents",
    "SilentAgents",
    "atc",
    "check_aggregation",
    "check_sampling",
    "consensus",
    "cta",
    "dgd",
    "fedavg",
    "gossip",
    "inexact_admm",
    "muffliato",
    "random_walk",
    "ring_sum",
    "three_matrix",
]


def __dir__() -> list[str]:
    return [*__all__]
