"""How much each receiver of each exchange counts in the network centroid.

With the exchanges of a round combining by A_1, ..., A_m in this order, the centroid weights q satisfy A_1 ... A_m q = q, and what
arrives in exchange j enters the centroid with r_j = A_{j+1} ... A_m q. (Rizk et al. 2023 below eq. 43 name the transposed product,
whose Perron vector is the all-ones vector.)
"""

from typing import NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.reprs import short_repr
from sottovoce.topologies import Static, Topology, from_matrix

SAME = 1e-9  # relative difference of weights that count as equal: what an iteration leaves of them


class Centroid(NamedTuple):
    """Weights of the agents in the centroid, and of the receivers of each exchange."""

    weights: np.ndarray  # [K] q
    receivers: tuple[np.ndarray, ...]  # m arrays [K]: r_j

    def __repr__(self) -> str:
        return short_repr(self)


def exchange_topologies(algorithm: Algorithm, topology: Topology) -> tuple[Topology, ...]:
    """The topology every exchange of the algorithm uses."""
    chosen = tuple(topology if exchange.weights is None else exchange.weights for exchange in algorithm.exchanges)
    for index, own in enumerate(chosen):
        if own.num_agents != topology.num_agents:
            raise ConfigError(
                f"exchange {index + 1} of '{algorithm.name}' combines over {own.num_agents} agents but the run's topology has "
                f"{topology.num_agents}. Give both the same agents."
            )
    return chosen


def centroid(algorithm: Algorithm, topology: Topology) -> Centroid:
    """Centroid weights of an algorithm on a topology."""
    topologies = exchange_topologies(algorithm, topology)
    q = topologies[0].perron
    if all((np.abs(other.perron - q) <= SAME * q).all() for other in topologies[1:]):
        return Centroid(q, tuple(q for _ in topologies))
    if not all(isinstance(used.schedule, Static) for used in topologies):
        raise IncompatibleChoice(
            f"the exchanges of '{algorithm.name}' weigh agents differently (their Perron vectors differ) and some of their weights "
            f"change from round to round, so no centroid is kept. Use weights with the same Perron vector, such as 'metropolis'."
        )
    product = topologies[0].weights
    for other in topologies[1:]:
        product = product @ other.weights
    q = from_matrix(product).perron
    receivers = [q]
    for other in reversed(topologies[1:]):
        receivers.append(other.weights @ receivers[-1])
    return Centroid(q, tuple(reversed(receivers)))
