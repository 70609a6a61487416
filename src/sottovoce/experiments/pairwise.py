"""Who learns how much about whom in an experiment: one number for every ordered pair of agents, beside their distance in the graph.

    gossip with Gaussian noise in the values (kind = "gradient")    the exact loss of the pair, as a bracket (`accounting.gossip`)
    a walking token with Gaussian noise and a promise on the losses a proven epsilon of the pair (`walk_pairs`)
    any other linear algorithm with Gaussian noise                  the linear view of the pair (`accounting.pairwise`), and beside it what
                                                                    sv.account proves for one attacker

The first two are guarantees. The third speaks of gradients that do not react to what agents hear; `Pairs.validity` says which one it is.
The distance from u to v is the number of links on the shortest way along which u's messages reach v.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting import Guarantee, account_each, pairwise_linear_mu
from sottovoce.accounting.gossip import pairwise
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.pairs import Pairs
from sottovoce.experiments.privacy import parts_of, question, sensitivities
from sottovoce.experiments.walk_pairs import HOLDER, AllWays, Progress, Ways, walk_of
from sottovoce.linear import bound_rounds
from sottovoce.noise import Gaussian
from sottovoce.observers import curious_agent
from sottovoce.resources import refuse_too_large
from sottovoce.topologies import Static, Topology

PAIR_BYTES = 40.0  # memory per pair: the distance, what its computation needs, and both ends of the bracket


class _Asked(NamedTuple):
    """What is asked about all pairs, checked."""

    experiment: Experiment
    unit: str
    delta: float
    distances: np.ndarray  # [K, K]
    attacker: int
    progress: Progress | None


def pairs_of(
    experiment: Experiment, *, attacker: int | None = None, ways: Ways | None = None, progress: Progress | None = None
) -> Pairs:
    """The losses of all pairs of an experiment.

    Args:
        experiment: with Gaussian noise, peers with fixed weights or a walking token, and a section [privacy] with delta.
        attacker: whom to compute proven values for; None for the most central agent.
        ways: of a walking token; None for the average over all ways.
        progress: called with (attackers done, attackers in all).

    Raises:
        ConfigError: no delta, no privacy, an attacker who does not exist, or ways where nothing walks.
        IncompatibleChoice: a relay, or links that change.
        UnsupportedClaim: another law, a walk without a promise or whose hops differ, or an account that is not proved.
    """
    unit, delta = _checked(experiment)
    topology, walks = experiment.topology, experiment.algorithm.walks
    if ways is not None and not walks:
        raise ConfigError(
            f"ways of a token were given for '{experiment.algorithm.name}', in which no token walks; pairs of it have none. Leave ways out, or use "
            f"random_walk."
        )
    refuse_too_large(
        f"all pairs of {topology.num_agents:,} agents",
        PAIR_BYTES * topology.num_agents**2.0,
        "Lower the number of agents.",
    )
    distances = graph_distances(topology)
    looking = most_central(distances) if attacker is None else _agent(attacker, topology.num_agents)
    asked = _Asked(experiment, unit, delta, distances, looking, progress)
    if walks:
        return _of_walk(asked, AllWays() if ways is None else ways)
    return _of_gossip(asked) if _is_gossip(experiment) else _of_learning(asked)


def _of_walk(asked: _Asked, ways: Ways) -> Pairs:
    """Losses of a walking token; the accountant's proof for one observer is the same, so that it is not asked again."""
    walk = walk_of(asked.experiment, asked.delta)
    losses, measure = ways.losses(walk, asked.progress)
    return Pairs(
        losses=losses, measure=measure, resolved=None, distances=asked.distances, attacker=asked.attacker, proven=(),
        validity="amplified-by-iteration", method=ways.method, observer=HOLDER, delta=asked.delta, unit=asked.unit,
        rounds=asked.experiment.rounds, drawn="epsilon", premise=ways.premise, details=walk.details,
        choices=ways.describe(),
    )  # fmt: skip


def _of_gossip(asked: _Asked) -> Pairs:
    """The exact losses of gossip with noise once."""
    experiment, law = asked.experiment, asked.experiment.noise.law
    assert isinstance(law, Gaussian)  # checked before
    proven, sizes = _proven(asked), np.array(sensitivities(experiment))
    std = law.std * float(experiment.noise.factors(experiment.rounds)[0])
    found = pairwise(
        experiment.topology, rounds=experiment.rounds, std=std, sensitivity=1.0, progress=asked.progress
    )  # fmt: skip
    return Pairs(
        losses=found.upper * sizes[:, None], resolved=found.resolved * sizes[:, None], distances=asked.distances, attacker=asked.attacker,
        proven=proven, validity="adaptive", method="exact loss of gossip with noise once", delta=asked.delta, unit=asked.unit,
        rounds=experiment.rounds,
    )  # fmt: skip


def _of_learning(asked: _Asked) -> Pairs:
    """The linear view of every pair."""
    experiment = asked.experiment
    proven, sizes = _proven(asked), np.array(sensitivities(experiment))
    losses = pairwise_linear_mu(
        *parts_of(experiment), rounds=experiment.rounds, sensitivity=sizes, progress=asked.progress
    )  # fmt: skip
    return Pairs(
        losses=losses, resolved=None, distances=asked.distances, attacker=asked.attacker, proven=proven, validity="exogenous-gradients",
        method="linear view of every pair", delta=asked.delta, unit=asked.unit, rounds=experiment.rounds,
    )  # fmt: skip


def _proven(asked: _Asked) -> tuple[Guarantee, ...]:
    """What the accountant proves for the attacker."""
    experiment = asked.experiment
    return tuple(account_each(*parts_of(experiment), curious_agent(asked.attacker), question=question(experiment)))


def _is_gossip(experiment: Experiment) -> bool:
    """Whether it is gossip with noise once, plain or accelerated: read off its rounds, not its name."""
    if not experiment.noise.in_gradients or len(experiment.algorithm.exchanges) != 1:
        return False
    rounds = bound_rounds(experiment.topology, experiment.algorithm, experiment.noise, experiment.rounds)
    sends_its_value = all(bound.form.messages[0, 0] == 1 for bound in rounds.distinct)
    mixes = all(bound.form.state[0, bound.form.blocks] != 0 for bound in rounds.distinct)
    first = rounds.at(0).form
    return rounds.values_are_fixed and sends_its_value and mixes and abs(first.messages[0, -1]) == 1


def graph_distances(topology: Topology) -> np.ndarray:
    """[K, K] how many links lead from u (row) to v (column) on the shortest way."""
    from scipy.sparse import csgraph  # heavy, and nothing else here needs it

    senders, receivers = topology.links.T
    K = topology.num_agents
    linked = sparse.csr_array((np.ones(len(senders)), (senders, receivers)), shape=(K, K))
    return np.asarray(csgraph.shortest_path(linked, method="D", unweighted=True)).astype(np.int64)


def most_central(distances: np.ndarray) -> int:
    """The agent to whom all others have the shortest ways in total; the first of several."""
    return int(np.argmin(distances.sum(axis=0)))


def _checked(experiment: Experiment) -> tuple[str, float]:
    """(what is protected, delta), once everything is known to fit."""
    topology, law, privacy = experiment.topology, experiment.noise.law, experiment.privacy
    if privacy is None:
        raise ConfigError(
            "nothing is said about privacy, so pairs cannot be accounted. Add a section [privacy] with unit, clip, clip_norm and delta."
        )
    if topology.relay or not (isinstance(topology.schedule, Static) or experiment.algorithm.walks):
        what = "agents who talk through a server" if topology.relay else "links that change from round to round"
        raise IncompatibleChoice(
            f"pairs were asked for {what}; they are computed for peers with fixed weights, and for a token that walks among them. Use a peer graph "
            f"without dropout and random_pair, or `sottovoce account` for one observer."
        )
    if not isinstance(law, Gaussian):
        given = "no noise" if law is None else f"{type(law).__name__} noise"
        raise UnsupportedClaim(
            f'pairs were asked for {given}; the loss of a pair is known for Gaussian noise. Use law = "gaussian", or `sottovoce account`.'
        )
    refuse_turns(experiment.batch, "the account of pairs")
    if privacy.participation != "every-round":
        raise UnsupportedClaim(
            "pairs are computed for data that take part in every round, and [privacy] participation promises less. Remove it, or use "
            "`sottovoce account`."
        )
    if privacy.delta is None:
        raise ConfigError(
            "[privacy] delta: this key is missing; Gaussian noise has no finite epsilon without it, there is no default."
        )
    return privacy.unit, privacy.delta


def _agent(attacker: int, num_agents: int) -> int:
    if not 0 <= attacker < num_agents:
        raise ConfigError(f"attacker = {attacker}; the agents are 0 to {num_agents - 1}. Give one of them.")
    return attacker
