"""A whole run in one process, agent by agent, through the very functions that parties call."""

from collections.abc import Callable

import numpy as np

from sottovoce.deployment.agent.exchange import Held, Prepared, prepare, take
from sottovoce.deployment.agent.own import own_of
from sottovoce.deployment.agent.randomness import Randomness
from sottovoce.deployment.agent.relay import relay_prepare, relay_start
from sottovoce.deployment.agent.state import final_model, start
from sottovoce.deployment.agent.wiring import Wiring
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import Coin, PublicRun
from sottovoce.errors import ConfigError
from sottovoce.problems import Problem


def play(
    run: PublicRun,
    lattice: Lattice,
    problem: Problem,
    randomness_of: Callable[[int], Randomness],
    coin: Coin,
    progress: Callable[[int], None] | None = None,
    *,
    relay_trusted: bool = False,
) -> np.ndarray:
    """Let all agents of a run play it, and the relay where there is one.

    Args:
        run: its public parts.
        lattice: on which parties compute.
        problem: the data of all agents.
        randomness_of: where an agent's random numbers come from; of K: the relay's.
        coin: which links are up, and who takes part.
        progress: is called with the number of every round that is done.
        relay_trusted: whether the relay may read everything; noise that the relay adds needs it.

    Returns:
        [K, d] float64: the models after the last round.

    Raises:
        ConfigError: a problem with other agents or another dimension than the run.
        IncompatibleChoice: parties cannot carry the run out.
    """
    if (problem.num_agents, problem.dimension) != (run.num_agents, run.dimension):
        raise ConfigError(
            f"the problem has {problem.num_agents} agents and {problem.dimension} parameters, the run {run.num_agents} and {run.dimension}. Give a "
            f"problem of the run."
        )
    game = _Game(Wiring(run, lattice, coin, relay_trusted=relay_trusted), problem, randomness_of)
    for position in range(run.end):
        game.exchange(position)
        round_, exchange = run.at(position)
        if progress is not None and exchange == run.exchanges - 1:
            progress(round_)
    return np.stack([final_model(run, lattice, state) for state in game.states])


class _Game:
    """All parties of a run at one table."""

    def __init__(self, wiring: Wiring, problem: Problem, randomness_of: Callable[[int], Randomness]) -> None:
        self.wiring, self.agents = wiring, range(wiring.run.num_agents)
        self.owns = [own_of(problem, agent) for agent in self.agents]
        self.random = [randomness_of(agent) for agent in self.agents]
        self.of_relay = randomness_of(wiring.relay) if wiring.federated else None
        self.states = [start(wiring.run, wiring.lattice) for _ in self.agents]
        self.relay_state = relay_start(wiring)
        self.held: list[Held | None] = [None for _ in self.agents]

    def exchange(self, position: int) -> None:
        """Let everybody send and take."""
        made = [self._prepared(agent, position) for agent in self.agents]
        sent = {agent: one.words for agent, one in enumerate(made)}
        if self.of_relay is not None:
            relay = self.wiring.relay
            heard = {agent: words[relay] for agent, words in sent.items() if words}
            averaged = relay_prepare(self.wiring, self.relay_state, position, heard, self.of_relay)
            self.relay_state, sent = averaged.state, {relay: averaged.words}
        for agent, one in enumerate(made):
            words = {sender: sent[sender][agent] for sender in self.wiring.senders(agent, position)}
            self.held[agent] = one.held
            self.states[agent] = take(self.wiring, agent, self.owns[agent], one.state, position, one.held, words)

    def _prepared(self, agent: int, position: int) -> Prepared:
        _, exchange = self.wiring.run.at(position)
        carried = self.held[agent] if exchange else None
        return prepare(self.wiring, agent, self.owns[agent], self.states[agent], position, self.random[agent], carried)
