"""The path of a token on a network: a Markov chain with the weights as transition matrix.

    start uniform,   P(next = k | holder = l) = a_lk,   W = A symmetric, so that the uniform law is stationary

A path is a function of (seed, repeat): the same whatever else is run, and known before the run, for a report or an attack. Guarantees of walks
speak of paths drawn afresh: they are about the protocol that a simulation stands for, not about one published path.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import IncompatibleChoice
from sottovoce.numbers import whole
from sottovoce.topologies.schedules import Walk
from sottovoce.topologies.topology import Topology

_STREAM = 0x77616C6B  # keeps these numbers apart from any other use of the same seed


def walk_paths(topology: Topology, hops: int, *, seed: int, repeats: int = 1) -> NDArray[np.int32]:
    """Who holds the token before the first hop and after every hop, [repeats, hops + 1].

    Args:
        topology: with a walk, `topology.with_walk()`.
        hops: rounds of the run.
        seed: of the run.
        repeats: independent walks; walk r is the same whatever `repeats` is.
    """
    if not isinstance(topology.schedule, Walk):
        raise IncompatibleChoice("a path was asked of a topology on which nothing walks. Use topology.with_walk().")
    hops = whole("hops", hops)
    columns = topology.weights.T.tocsr()  # row l: to whom l hands the token
    starts, targets = columns.indptr, columns.indices
    reached = np.cumsum(columns.data)
    before = np.concatenate([[0.0], reached])[starts[:-1]]
    paths = np.empty((repeats, hops + 1), dtype=np.int32)
    for repeat in range(repeats):
        key = np.array([seed, repeat], dtype=np.uint64)  # a list would lose digits of seeds from 2^63 on
        uniform = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, _STREAM])).random(hops + 1)
        holder = int(uniform[0] * topology.num_agents)
        paths[repeat, 0] = holder
        for hop in range(1, hops + 1):
            first, last = starts[holder], starts[holder + 1]
            # Rows sum to one but for rounding, so the last place catches what is beyond the last sum.
            place = reached[first : last - 1].searchsorted(before[holder] + uniform[hop], side="right")
            holder = int(targets[first + place])
            paths[repeat, hop] = holder
    return paths


def visits_before(paths: NDArray[np.int32], num_agents: int) -> NDArray[np.int32]:
    """How often each holder of [repeats, hops + 1] has held the token before, [repeats, hops + 1]."""
    counted = np.empty_like(paths)
    for repeat, path in enumerate(paths):
        seen = np.zeros(num_agents, dtype=np.int32)
        for hop, holder in enumerate(path):
            counted[repeat, hop] = seen[holder]
            seen[holder] += 1
    return counted
