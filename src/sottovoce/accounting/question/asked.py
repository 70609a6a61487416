"""A question asked of a network: checked once, and reduced to one gradient step per message."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.accounting.question.clipped_updates import check_clipped_update
from sottovoce.accounting.question.local_steps import one_step, why_refused
from sottovoce.accounting.question.participation import Participation, Poisson
from sottovoce.accounting.question.question import Question
from sottovoce.algorithms import AgentSampling, Algorithm, FixedAgents, Gopa
from sottovoce.clipping import Clip
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import check_declared, check_parts, check_together, exchange_topologies
from sottovoce.noise import Gaussian, Noise
from sottovoce.numbers import checked, per_agent
from sottovoce.observers import Observer, View, view
from sottovoce.problems import Adjacency, ConvexSmooth, Unit
from sottovoce.resources import refuse_too_large
from sottovoce.topologies import Topology

AGENT_ROUND_BYTES = 50.0  # what every agent has spent after every round, and what it is computed from: measured


class Local(NamedTuple):
    """What is left to say of several local steps once they are accounted as one."""

    times: int
    growth: float  # the change of their gradients together, in changes of one
    losses: ConvexSmooth | None  # the promise as it was given
    tight: bool  # some losses within the promise reach that growth


class Asked(NamedTuple):
    """A question, and of whom and what it is asked."""

    topology: Topology
    algorithm: Algorithm
    noise: Noise
    observer: Observer
    view: View
    question: Question
    sensitivity: np.ndarray  # [K]
    losses: ConvexSmooth | None  # the promise, restated for one step per message
    same_model: bool  # the sensitivity compares gradients at the same model only
    sampling: AgentSampling | None = None  # which agents take part in a round; None: all
    aggregation: Gopa | None = None  # masks that hide messages from the relay; None: it reads them
    local: Local | None = None  # several local steps that were accounted as one
    clip: Clip | None = None  # of whole updates

    @property
    def rounds(self) -> int:
        """T."""
        return self.question.rounds

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return self.question.unit

    @property
    def adjacency(self) -> Adjacency:
        """How two worlds differ."""
        return self.question.adjacency

    @property
    def participation(self) -> Participation:
        """In which rounds the protected record takes part."""
        return self.question.participation

    @property
    def amplifies(self) -> bool:
        """Whether the draw of agents hides who took part: a relay's noise on clipped updates, seen by who reads no single message."""
        hidden = self.noise.needs_relay and not self.view.every_message and isinstance(self.noise.law, Gaussian)
        return self.sampling is not None and self.clip is not None and hidden

    @property
    def masked(self) -> bool:
        """Whether the observer reads messages with pairwise masks."""
        return self.aggregation is not None and self.view.every_message

    @property
    def growth_is_promised(self) -> bool:
        """Whether what several local steps change together rests on the promise, and is no value of the linear view."""
        return self.local is not None and self.same_model

    @property
    def tight(self) -> bool:
        """Whether the sensitivity is reached by a whole round."""
        return self.local is None or self.local.tight

    @property
    def pure(self) -> bool:
        """Whether the law gives pure epsilon."""
        return self.noise.law is not None and not isinstance(self.noise.law, Gaussian)

    @property
    def promise(self) -> ConvexSmooth | None:
        """The promise as far as it may be used: that steps do not push models apart is a fact of the l2 norm."""
        return None if self.noise.law is not None and self.noise.law.norm == "l1" else self.losses


def ask(topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, question: Question) -> Asked:
    """Check a question against the network it is asked of, and reduce it to one gradient step per message.

    Raises:
        ConfigError: parts of another kind, or numbers that do not fit them.
        IncompatibleChoice: an algorithm and a noise that do not work together on this topology.
        UnsupportedClaim: a question of a kind for which nothing is proved.
    """
    check_observers([observer])
    check_parts(topology=topology, algorithm=algorithm, noise=noise)
    if not algorithm.walks:
        refuse_too_large(
            f"an account of {question.rounds:,} rounds and {topology.num_agents:,} agents",
            AGENT_ROUND_BYTES * question.rounds * topology.num_agents,
            "Lower rounds or agents.",
        )
    sensitivity = per_agent("sensitivity", question.sensitivity, topology.num_agents)
    _check_kind(algorithm, noise, sensitivity, question)
    if algorithm.clipped_update is not None and not noise.in_gradients:
        check_clipped_update(algorithm.clipped_update.clip, noise, sensitivity, question)
    seen = view(observer, *exchange_topologies(algorithm, topology))
    check_together(topology, algorithm, noise, rounds=question.rounds, remembers=True)
    _check_colluding(observer, algorithm, topology.num_agents)
    # What is published stands on a board for all; who is silent adds no noise to a model, which follows from the board.
    if algorithm.aggregation is not None and (observer.sees_messages or algorithm.sampling is not None):
        seen = seen._replace(every_message=True, broadcast=True)
    if noise.law is not None:
        checked("the scale of the noise", noise.law.scale, "(1e-100, 1e100)")
    return _with_one_step(
        Asked(
            topology=topology, algorithm=algorithm, noise=noise, observer=observer, view=seen, question=question, sensitivity=sensitivity,
            losses=question.losses, same_model=question.compares_same_model, sampling=algorithm.sampling, aggregation=algorithm.aggregation,
        )
    )  # fmt: skip


def check_observers(observers: object) -> None:
    """Refuse anything but observers."""
    listed = isinstance(observers, Sequence) and not isinstance(observers, str)
    if not listed or not all(isinstance(one, Observer) for one in observers):  # type: ignore[attr-defined]
        raise ConfigError(
            f"observer = {observers!r}; give one of sv.observers, such as sv.observers.eavesdropper(), or a list of them."
        )


def check_agent(agent: int, asked: Asked) -> int:
    """Refuse an agent that does not exist, or that belongs to the observer."""
    if isinstance(agent, bool) or not isinstance(agent, int | np.integer) or not 0 <= agent < len(asked.sensitivity):
        raise ConfigError(f"agent = {agent!r}; the agents are 0 to {len(asked.sensitivity) - 1}.")
    if asked.view.members[agent]:
        raise ConfigError(
            f"agent {agent} belongs to the observer ({asked.observer}), which knows its data. Name another agent."
        )
    return int(agent)


def _check_kind(algorithm: Algorithm, noise: Noise, sensitivity: np.ndarray, question: Question) -> None:
    """Refuse words of a question that say nothing about this algorithm, or nothing that is proved for this noise."""
    participation = question.participation
    if isinstance(algorithm.sampling, FixedAgents) and (question.unit, question.adjacency) == ("agent", "add-remove"):
        raise UnsupportedClaim(
            "a fixed number of agents takes part in every round, so where one agent is removed another one is drawn, and more than its own "
            "update changes. Use adjacency='replace', or participation=q, by coins."
        )
    if noise.law is not None and noise.law.norm == "l1" and "l2" in question.norms:
        raise ConfigError(
            f"the law {type(noise.law).__name__} needs a sensitivity in l1, and {float(np.max(sensitivity)):g} was computed in l2. Ask the problem for "
            f"problem.sensitivity(norm='l1', ...), or use the law Gaussian or L2Laplace."
        )
    if algorithm.walks and participation != "every-round":
        raise ConfigError(
            f"participation = {participation!r}: on a walk an agent takes part when it holds the token. Leave it out; limit the contributions "
            f"of sv.algorithms.random_walk instead."
        )
    _check_memory_is_accounted(noise, participation)
    if isinstance(participation, Poisson) and not isinstance(noise.law, Gaussian):
        raise UnsupportedClaim(
            "Poisson sampling is accounted for Gaussian noise only. Use a Gaussian law, or another participation."
        )


def _check_memory_is_accounted(noise: Noise, participation: Participation) -> None:
    if noise.memory is not None and (isinstance(participation, Poisson) or not isinstance(noise.law, Gaussian)):
        raise UnsupportedClaim(
            f"'{noise.name}' adds noise of earlier rounds again, which is accounted for the law Gaussian and rounds of taking part that are fixed in "
            f"advance; given the law {type(noise.law).__name__} and participation = {participation!r}. Use sv.noise.Gaussian and 'every-round', 'once' "
            f"or sv.accounting.cyclic(times, gap)."
        )


def _check_colluding(observer: Observer, algorithm: Algorithm, num_agents: int) -> None:
    """Refuse agents that nobody knows where it matters which they are, and a coalition that leaves nobody."""
    if observer.colluding == 0:
        return
    if algorithm.aggregation is None:
        raise UnsupportedClaim(
            f"{observer}: which agents belong to it is not said, and that is accounted under masked averages only. Name them, as in "
            f"sv.observers.server() + sv.observers.coalition([...]), or use fedavg with aggregation=sv.algorithms.Gopa(...)."
        )
    if observer.corrupted(num_agents) >= num_agents:
        raise ConfigError(f"{observer}: with {num_agents} agents nobody is left whose data it could learn.")


def _with_one_step(asked: Asked) -> Asked:
    """The same question about one gradient step per message; `local_steps` and `clipped_updates` say why."""
    if asked.noise.in_gradients or asked.algorithm.walks:  # each gradient counts for itself; a hop is read as it is
        return asked
    check_declared(asked.algorithm, asked.rounds)
    if asked.algorithm.clipped_update is not None:
        one, clip = asked.algorithm.clipped_update
        return asked._replace(algorithm=one, losses=None, same_model=False, clip=clip)
    local = asked.algorithm.local_steps
    if local is None:
        return asked
    if isinstance(asked.participation, Poisson):
        raise UnsupportedClaim(
            f"Poisson sampling is accounted for one gradient step in a message; given {local.times}. Use local_steps=1, or another "
            f"participation."
        )
    same = asked.same_model and asked.noise.law is not None  # without noise nothing is promised
    if same and asked.promise is None:
        raise UnsupportedClaim(why_refused(local.times, promised=asked.losses is not None))
    found = one_step(local, asked.rounds, losses=asked.promise, same_model=same)
    said = Local(local.times, found.growth, asked.losses, found.tight)
    return asked._replace(algorithm=found.algorithm, losses=found.losses, local=said)
