"""Which agents take part in a round of a federation.

    Poisson       every agent by its own coin, with probability q
    fixed size    m of the K agents, every set of m alike
    silent        every agent by its own coin, and everybody sees who came (pairwise masks, `aggregation`)

In the first two the relay divides by what is expected, not by who came: an agent that takes part counts 1/q (or K/m) times as much as when all
do, and one that does not counts as if its message were what the relay already has. So the average is right on average, and no divisor depends on
the draw. The two are different mechanisms with different guarantees and are never converted into each other.
"""

from typing import Any, NamedTuple

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, whole


class PoissonAgents(NamedTuple):
    """Every agent takes part in every round with this probability, independently."""

    rate: float

    def weight(self, num_agents: int) -> float:
        """How many times as much an agent that takes part counts."""
        return 1.0 / self.rate

    def __str__(self) -> str:
        return f"every agent in every round with probability {self.rate:g}"


class FixedAgents(NamedTuple):
    """So many agents take part in every round, drawn without replacement."""

    size: int

    def weight(self, num_agents: int) -> float:
        """How many times as much an agent that takes part counts."""
        return num_agents / self.size

    def __str__(self) -> str:
        return f"{self.size} agents in every round, drawn without replacement"


class SilentAgents(NamedTuple):
    """Agents fail to publish by coins of their own; the sum is divided by how many did, and does not count below a minimum."""

    silence: float
    minimum: int

    def weight(self, num_agents: int) -> float:
        """How many times as much an agent that takes part counts, at most."""
        return num_agents / self.minimum

    def __str__(self) -> str:
        return f"every agent is silent in a round with probability {self.silence:g}; rounds with fewer than {self.minimum} do not count"


AgentSampling = PoissonAgents | FixedAgents | SilentAgents


def sampling_of(participation: Any, agents_per_round: Any) -> AgentSampling | None:
    """The sampling that a rate and a count describe; None when everybody takes part.

    Raises:
        ConfigError: a rate outside (0, 1], a count that is not whole and positive, or both.
    """
    if not is_number(participation, "(0, 1]"):
        raise ConfigError(
            f"participation = {participation!r}; it is the probability with which an agent takes part in a round, above 0 and at most 1. "
            f"For a fixed number of agents give agents_per_round."
        )
    if agents_per_round is None:
        return None if participation == 1 else PoissonAgents(float(participation))
    if participation != 1:
        raise ConfigError(
            f"participation = {participation!r} and agents_per_round = {agents_per_round!r} are two ways to draw the agents of a round; "
            f"keep one of them."
        )
    return FixedAgents(whole("agents_per_round", agents_per_round))


def check_sampling(sampling: AgentSampling | None, num_agents: int) -> None:
    """Refuse to draw more agents than there are.

    Raises:
        ConfigError: agents_per_round exceeds the number of agents.
    """
    if isinstance(sampling, FixedAgents) and sampling.size > num_agents:
        raise ConfigError(
            f"agents_per_round = {sampling.size}, but there are {num_agents} agents. Choose at most that many."
        )
