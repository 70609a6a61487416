"""What a party has to itself: its records, the batches it draws of them, and noise in its gradients.

    g = gradient of all records, or of the batch that was drawn for this gradient          float64
    under noise in gradients:   round(2^f g) + noise, whole numbers, and from there on real numbers again

Linear models compute on NumPy. Networks compute with JAX at 64 bits; what comes out is NumPy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sottovoce.deployment.integers import Lattice
from sottovoce.errors import ConfigError, ProtocolError
from sottovoce.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Own:
    """One party's data and the gradient that it makes of them.

    Attributes:
        problem: the loss; its functions take one agent's data.
        data: that agent's row of every array of the problem.
        records: how many it has.
        dimension: of the model.
    """

    problem: Problem
    data: Mapping[str, Any]
    records: int
    dimension: int

    def __repr__(self) -> str:
        return f"<Own: {self.records} records of a problem '{self.problem.kind}' with {self.dimension} parameters>"

    def gradient(self, model: np.ndarray, batch: np.ndarray | None) -> np.ndarray:
        """[d] float64: of all records, or of those at these positions."""
        if batch is None:
            found = self.problem.gradient(model, self.data)
        else:
            found = self.problem.batch_gradient(model, self.problem.records(self.data, batch))
        return np.asarray(found, dtype=np.float64)


def own_of(problem: Problem, agent: int = 0) -> Own:
    """One agent's part of a problem; a party's own problem has one agent, number 0.

    Raises:
        ConfigError: the problem has no such agent.
    """
    if not 0 <= agent < problem.num_agents:
        raise ConfigError(
            f"agent {agent} of a problem with {problem.num_agents} agents was asked for. Give a number from 0 to {problem.num_agents - 1}."
        )
    data = {name: values[agent] for name, values in problem.arrays.items()}
    return Own(problem=problem, data=data, records=int(problem.sizes[agent]), dimension=problem.dimension)


def gradient_of_round(own: Own, lattice: Lattice, batches: np.ndarray, noise: np.ndarray) -> Callable[..., np.ndarray]:
    """(model, step) -> the agent's gradient in this round, with its batch and its noise.

    Args:
        own: the agent's data.
        lattice: on which noise is added.
        batches: [gradients, size] positions of records; [0, 0] for all of them.
        noise: [gradients, d] units; [0, d] for none.
    """

    def gradient(model: Any, step: int = 0) -> np.ndarray:
        found = own.gradient(np.asarray(model, dtype=np.float64), batches[step] if len(batches) else None)
        return lattice.to_float(lattice.to_units(found) + noise[step]) if len(noise) else found

    return gradient


def no_gradient(*_: Any, **__: Any) -> NoReturn:
    """In place of a gradient where there may be none: at the relay, and in updates of agents that are sampled.

    Raises:
        ProtocolError: always.
    """
    raise ProtocolError(
        "a gradient was asked for in an update where agents are sampled. The relay has no records and must follow the update, and agents that do not "
        "take part have drawn no batch and no noise: `update` may use what was received and nothing else."
    )
