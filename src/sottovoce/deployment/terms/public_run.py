"""The public parts of a run: everything that all parties know, and no data.

A simulation has one problem with the records of all agents; a party has its own records alone. What both share, links, algorithm, noise and the
numbers of the run, is this value. Agents are numbered as in `topology`; an exchange has a position,

    position = (round - 1) * exchanges in a round + exchange        from 0; `end` after the last one
"""

from dataclasses import dataclass, replace

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.noise import Noise
from sottovoce.reprs import short_repr
from sottovoce.topologies import Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicRun:
    """What a run is, without any data.

    Attributes:
        topology: who talks to whom.
        algorithm: what one agent does.
        noise: how messages are perturbed.
        rounds: how many.
        batch_size: records of one gradient; None: all of them.
        initial_model: where every agent starts, [d] float64; the same at all of them, and not made from data.
    """

    topology: Topology
    algorithm: Algorithm
    noise: Noise
    rounds: int
    batch_size: int | None
    initial_model: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return len(self.initial_model)

    @property
    def num_agents(self) -> int:
        """K, without a relay."""
        return self.topology.num_agents

    @property
    def exchanges(self) -> int:
        """Exchanges in one round."""
        return len(self.algorithm.exchanges)

    @property
    def end(self) -> int:
        """The position after the last exchange."""
        return self.rounds * self.exchanges

    def at(self, position: int) -> tuple[int, int]:
        """(round from 1, exchange from 0) of a position."""
        before, exchange = divmod(position, self.exchanges)
        return before + 1, exchange


def without_masks(run: PublicRun) -> PublicRun:
    """A run as it is when all agents take part and send in the open; one without aggregation as it is."""
    if run.algorithm.aggregation is None:
        return run
    return replace(run, algorithm=run.algorithm._replace(aggregation=None, sampling=None))
