"""How the relay of a federation gets the average: in the open, or masked in pairs so that it learns the sum alone.

GOPA (Sabater et al. 2022). After the agents are known a public draw makes every agent pick k others; who picks whom is public. In every round
each linked pair agrees on a fresh mask, which one adds and the other subtracts, and all publish

    masked_l = psi_l + own noise_l + sum over partners (+-) mask        on a board that everybody reads.

Masks cancel in the sum, so the average is that of the open exchange, and an ordinary run draws none. The own noise is the noise scheme of the
run, one source per agent. An agent that stays silent is left out: its partners reveal the masks they shared with it, and the sum is that of the
agents that published, divided by their number. A round in which fewer than `minimum_agents` publish is not repaired and changes nothing.

Uniform masks (integers modulo 2^64) hide everything but sums over connected honest agents; Gaussian ones hide less, as their size says.
"""

import math
from typing import Any, NamedTuple

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, is_whole


class Gopa(NamedTuple):
    """Averages by pairwise masks.

    Attributes:
        partners: k, others that every agent picks.
        pairwise_ratio: standard deviation of a mask in those of an agent's own noise; infinity for uniform masks.
        silence: the probability with which an agent publishes nothing in a round, whatever its data.
        minimum_agents: agents that must publish for a round to count; None: all, which needs silence = 0.
    """

    partners: int
    pairwise_ratio: float = math.inf
    silence: float = 0.0
    minimum_agents: int | None = None

    def describe(self) -> str:
        """One line for a saved run."""
        masks = "uniform masks" if math.isinf(self.pairwise_ratio) else f"masks {self.pairwise_ratio:g} times own noise"
        silent = "" if self.silence == 0 else f", {self.silence:g} silent, at least {self.minimum_agents} heard"
        return f"gopa, {self.partners} partners, {masks}{silent}"

    def least_published(self, num_agents: int) -> int:
        """How many agents a sum that counts is made of, at least."""
        return num_agents if self.minimum_agents is None else self.minimum_agents


def check_aggregation(aggregation: Any, *, num_agents: int | None = None) -> None:
    """Refuse anything but a Gopa whose numbers make sense; with `num_agents`, also for that many agents.

    Raises:
        ConfigError: what is wrong, all of it.
    """
    if not isinstance(aggregation, Gopa):
        raise ConfigError(f"aggregation = {aggregation!r}; give sv.algorithms.Gopa(partners=...), or None.")
    problems = []
    if not is_whole(aggregation.partners, 1):
        problems.append(f"partners = {aggregation.partners!r} must be a whole number of at least 1")
    ratio = aggregation.pairwise_ratio
    if not (is_number(ratio, "(1e-50, 1e50)") or ratio == math.inf):
        problems.append(f"pairwise_ratio = {ratio!r} must be from 1e-50 to 1e50, or infinite for uniform masks")
    if not is_number(aggregation.silence, "[0, 1)"):
        problems.append(f"silence = {aggregation.silence!r} must be a probability below 1")
    problems += _minimum(aggregation)
    if num_agents is not None and not problems:
        if aggregation.partners >= num_agents:
            problems.append(f"partners = {aggregation.partners} must be below the number of agents, {num_agents}")
        if aggregation.least_published(num_agents) > num_agents:
            problems.append(
                f"minimum_agents = {aggregation.minimum_agents} is more than there are agents, {num_agents}"
            )
    if problems:
        raise ConfigError("aggregation by GOPA: " + "; ".join(problems) + ".")


def _minimum(aggregation: Gopa) -> list[str]:
    least = aggregation.minimum_agents
    if least is None:
        silent = is_number(aggregation.silence, "(0, inf)")
        return ["minimum_agents is missing: with silent agents it says whose noise can be counted on"] if silent else []
    if not is_whole(least, 2):
        return [f"minimum_agents = {least!r} must be a whole number of at least 2"]
    return []
