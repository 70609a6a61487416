"""The check that simulation and theory share: problem, topology and batches speak of the same agents and records."""

from typing import Any

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole
from sottovoce.topologies import Topology


def check_agents(problem: Any, topology: Topology, batch_size: int | None) -> None:
    """Refuse a topology for other agents than the problem's, and a batch that some agent cannot fill."""
    if problem.num_agents != topology.num_agents:
        raise ConfigError(
            f"the problem has data for {problem.num_agents} agents but the topology has {topology.num_agents}. Give both the same."
        )
    if batch_size is None:
        return
    smallest = int(np.argmin(problem.sizes))
    if not is_whole(batch_size, 1, int(problem.sizes[smallest])):
        raise ConfigError(
            f"batch_size = {batch_size!r}, but agent {smallest} has {problem.sizes[smallest]} records and a batch holds distinct "
            f"ones. Choose 1 to {problem.sizes[smallest]}, or None for the full gradient."
        )
