"""Which choices go together: the one check that engine, recorded views, theory, accountant and attacks share.

Whoever computes anything for a topology, an algorithm and a noise asks here first, so that nothing is promised, predicted or attacked that
could not run. What only a run must satisfy is elsewhere: no gradient sent in clear once the noise has stopped in hand_over.py, compiled rounds in
simulation/checks.py.
"""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm, check_sampling
from sottovoce.linear.agents import check_agents
from sottovoce.linear.generator import check_generator
from sottovoce.linear.gradients import check_gradients
from sottovoce.linear.memory import check_memory, refuse_memory
from sottovoce.linear.relay import check_relay
from sottovoce.linear.shapes import check_shapes
from sottovoce.linear.turns import check_turns
from sottovoce.noise import Noise
from sottovoce.topologies import Topology


def check_together(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    *,
    rounds: int,
    problem: Any = None,
    batch_size: int | None = None,
    remembers: bool = False,
) -> None:
    """Refuse valid parts that do not go together.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: where noise is added.
        rounds: how many; 1 where the answer is the same for any number.
        problem: the data and the loss; None: for any data and models of any size.
        batch_size: records per agent and round; None for all of them.
        remembers: the caller follows noise of earlier rounds that enters again; anybody else is refused it.

    Raises:
        ConfigError: other agents than the problem's, a batch or a sample that cannot be filled, gradients beyond those declared.
        IncompatibleChoice: something needs a relay, a walk, or noise that is not there.
    """
    if problem is not None:
        check_agents(problem, topology, batch_size)
        check_shapes(algorithm, 1, np.zeros(problem.dimension))
    check_sampling(algorithm.sampling, topology.num_agents)
    check_turns(algorithm, noise, topology)
    check_relay(algorithm, noise, topology)
    check_generator(algorithm, noise, topology)
    if not remembers:
        refuse_memory(noise, "parties, pairs and attacks other than the matched filter")
    check_memory(topology, algorithm, noise, rounds)
    check_gradients(algorithm, noise, rounds, dimension=None if problem is None else problem.dimension)
