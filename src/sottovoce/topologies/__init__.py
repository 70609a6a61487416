"""Networks of agents: graphs, combination weights and schedules of active links.

A topology holds A = [a_lk], where a_lk is the weight receiver k gives to what sender l sends and columns sum to one.
`ring(8)` or `k_out(1_000_000, 5)` make one; `.with_dropout(0.1)` gives it a schedule.
"""

from collections.abc import Callable

from sottovoce.topologies.federation import federation
from sottovoce.topologies.graphs import (
    complete,
    erdos_renyi,
    from_edges,
    from_matrix,
    from_networkx,
    geometric,
    grid,
    hypercube,
    k_out,
    path,
    ring,
    star,
)
from sottovoce.topologies.left_stochastic import left_stochastic
from sottovoce.topologies.schedules import Dropout, Listed, RandomPair, Schedule, Static, Walk
from sottovoce.topologies.topology import MATRIX_LIMIT, ActiveLinks, Topology
from sottovoce.topologies.walk import visits_before, walk_paths

TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "ring": ring,
    "path": path,
    "grid": grid,
    "complete": complete,
    "star": star,
    "hypercube": hypercube,
    "erdos_renyi": erdos_renyi,
    "geometric": geometric,
    "k_out": k_out,
    "federation": federation,
}

__all__ = [
    "TOPOLOGIES",
    "ActiveLinks",
    "Dropout",
    "Listed",
    "RandomPair",
    "Schedule",
    "Static",
    "Topology",
    "Walk",
    "complete",
    "erdos_renyi",
    "federation",
    "from_edges",
    "from_matrix",
    "from_networkx",
    "geometric",
    "grid",
    "hypercube",
    "k_out",
    "path",
    "ring",
    "star",
    "visits_before",
    "walk_paths",
]


def __dir__() -> list[str]:
    return [*__all__]
