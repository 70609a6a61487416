"""Who learns how much about whom in an experiment: one number for every ordered pair of agents, beside their distance in the graph.

    gossip with Gaussian noise in the values (kind = "gradient")    the exact loss of the pair, as a bracket (`accounting.gossip`)
    any other linear algorithm with Gaussian noise                  the linear view of the pair (`accounting.pairwise`), and beside it what
                                                                    sv.account proves for one attacker

The first is a guarantee. The second speaks of gradients that do not react to what agents hear; `Pairs.validity` says which one it is.
The distance from u to v is the number of links on the shortest way along which u's messages reach v.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting import Guarantee, LinearValidity, account_each, gaussian, pairwise_linear_mu
from sottovoce.accounting.gossip import pairwise
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.privacy import parts_of, question, sensitivities
from sottovoce.linear import bound_rounds
from sottovoce.noise import Gaussian
from sottovoce.observers import curious_agent
from sottovoce.resources import refuse_too_large
from sottovoce.topologies import Static, Topology

PAIR_BYTES = 40.0  # memory per pair: the distance, what its computation needs, and both ends of the bracket
Progress = Callable[[int, int], None]

VALIDITY: dict[LinearValidity, str] = {
    "adaptive": "a guarantee, since values do not react to what agents hear",
    "exogenous-gradients": "for gradients that do not react to what agents hear; no guarantee where they do",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """What every agent learns about every other; row u is whose data, column v who looks, no number on the diagonal.

    Attributes:
        mu: [K, K] the upper end; infinite where something is in clear.
        resolved: [K, K] the lower end, where there is a bracket.
        distances: [K, K] links from u to v.
        attacker: the agent about whom `proven` and the picture of the network are.
        proven: what sv.account proves for the attacker about every other agent, in their order.
        validity: whether `mu` is a guarantee ("adaptive") or holds for exogenous gradients.
        method: how it was computed, in words.
        delta: for which epsilon is stated.
        unit: what is protected.
        rounds: accounted.
    """

    mu: np.ndarray
    resolved: np.ndarray | None
    distances: np.ndarray
    attacker: int
    proven: tuple[Guarantee, ...]
    validity: LinearValidity
    method: str
    delta: float
    unit: str
    rounds: int

    @property
    def gap(self) -> float | None:
        """The largest mu^2 - resolved^2 over the largest mu^2; None where there is no bracket."""
        if self.resolved is None:
            return None
        return float(np.nanmax(self.mu**2 - self.resolved**2) / np.nanmax(self.mu) ** 2)

    @property
    def proven_mu(self) -> np.ndarray:
        """[K] the proven mu of the attacker about every agent; no number at its own place, or where the guarantee has no mu."""
        found = np.full(len(self.mu), np.nan)
        for each in self.proven:
            found[each.agent] = np.nan if each.mu is None else each.mu
        return found


class DistanceRow(NamedTuple):
    """All pairs at one distance."""

    distance: int
    pairs: int
    least: float
    median: float
    largest: float
    proven: float  # the largest proven mu of the attacker at this distance; no number where it has none


def pairs_of(experiment: Experiment, *, attacker: int | None = None, progress: Progress | None = None) -> Pairs:
    """The losses of all pairs of an experiment.

    Args:
        experiment: with Gaussian noise, peers with fixed weights, and a section [privacy] with delta.
        attacker: whom to compute proven values for; None for the most central agent.
        progress: called with (attackers done, attackers in all).

    Raises:
        ConfigError: no delta, no privacy, or an attacker who does not exist.
        IncompatibleChoice: a relay, or links that change.
        UnsupportedClaim: another law, or an account that is not proved.
    """
    delta = _checked(experiment)
    topology, law = experiment.topology, experiment.noise.law
    refuse_too_large(
        f"all pairs of {topology.num_agents:,} agents",
        PAIR_BYTES * topology.num_agents**2.0,
        "Lower the number of agents.",
    )
    distances = graph_distances(topology)
    looking = most_central(distances) if attacker is None else _agent(attacker, topology.num_agents)
    sizes = np.array(sensitivities(experiment))
    proven = tuple(account_each(*parts_of(experiment), curious_agent(looking), question=question(experiment)))
    validity: LinearValidity = "exogenous-gradients"
    resolved: np.ndarray | None = None
    if _is_gossip(experiment):
        assert isinstance(law, Gaussian)  # checked above
        std = law.std * float(experiment.noise.factors(experiment.rounds)[0])
        found = pairwise(topology, rounds=experiment.rounds, std=std, sensitivity=1.0, progress=progress)
        mu, resolved = found.upper * sizes[:, None], found.resolved * sizes[:, None]
        validity, method = "adaptive", "exact loss of gossip with noise once"
    else:
        mu = pairwise_linear_mu(*parts_of(experiment), rounds=experiment.rounds, sensitivity=sizes, progress=progress)
        method = "linear view of every pair"
    assert experiment.privacy is not None  # checked above
    return Pairs(
        mu=mu, resolved=resolved, distances=distances, attacker=looking, proven=proven, validity=validity, method=method, delta=delta,
        unit=experiment.privacy.unit, rounds=experiment.rounds,
    )  # fmt: skip


def _is_gossip(experiment: Experiment) -> bool:
    """Whether it is gossip with noise once, plain or accelerated: read off its rounds, not its name."""
    if not experiment.noise.in_gradients or len(experiment.algorithm.exchanges) != 1:
        return False
    rounds = bound_rounds(experiment.topology, experiment.algorithm, experiment.noise, experiment.rounds)
    sends_its_value = all(bound.form.messages[0, 0] == 1 for bound in rounds.distinct)
    mixes = all(bound.form.state[0, bound.form.blocks] != 0 for bound in rounds.distinct)
    first = rounds.at(0).form
    return rounds.values_are_fixed and sends_its_value and mixes and abs(first.messages[0, -1]) == 1


def distance_rows(pairs: Pairs) -> list[DistanceRow]:
    """The table of a matrix of pairs: least, median and largest mu at every distance."""
    rows, proven = [], pairs.proven_mu
    for distance in range(1, int(pairs.distances.max()) + 1):
        there = pairs.distances == distance
        values, own = pairs.mu[there], proven[there[:, pairs.attacker]]
        stated = own[~np.isnan(own)].max(initial=-np.inf)
        low, middle, high = (float(number) for number in (values.min(), np.median(values), values.max()))
        rows.append(
            DistanceRow(distance, len(values), low, middle, high, float(stated) if stated >= 0 else float("nan"))
        )
    return rows


def describe_pairs(pairs: Pairs) -> dict[str, Any]:
    """Plain values for JSON; infinity and missing numbers are written as null."""
    delta = pairs.delta
    return {
        "num_agents": len(pairs.mu),
        "rounds": pairs.rounds,
        "unit": pairs.unit,
        "delta": delta,
        "attacker": pairs.attacker,
        "method": pairs.method,
        "validity": pairs.validity,
        "gap": pairs.gap,
        "largest_mu": _finite(float(np.nanmax(pairs.mu))),
        "by_distance": [
            {
                "distance": row.distance,
                "pairs": row.pairs,
                "mu": {name: _finite(getattr(row, name)) for name in ("least", "median", "largest")},
                "epsilon": {
                    name: _finite(epsilon_of(getattr(row, name), delta)) for name in ("least", "median", "largest")
                },
                "attacker_proven_infinite": bool(np.isposinf(row.proven)),
                "attacker_proven_mu": _finite(row.proven),
                "attacker_proven_epsilon": _finite(epsilon_of(row.proven, delta)),
            }
            for row in distance_rows(pairs)
        ],
        "attacker_about": [
            {
                "agent": each.agent, "distance": int(pairs.distances[each.agent, pairs.attacker]),
                "mu": _finite(float(pairs.mu[each.agent, pairs.attacker])), "proven_mu": _finite(each.mu),
                "proven_epsilon": _finite(each.epsilon(delta)), "proven_validity": each.validity,
            }
            for each in pairs.proven
        ],
    }  # fmt: skip


def epsilon_of(mu: float, delta: float) -> float:
    """Epsilon at delta; infinity and missing numbers are passed on."""
    return gaussian.epsilon(mu, delta) if np.isfinite(mu) else float(mu)


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


def _checked(experiment: Experiment) -> float:
    """The delta, once everything is known to fit."""
    topology, law, privacy = experiment.topology, experiment.noise.law, experiment.privacy
    if privacy is None:
        raise ConfigError(
            "nothing is said about privacy, so pairs cannot be accounted. Add a section [privacy] with unit, clip, clip_norm and delta."
        )
    if topology.relay or not isinstance(topology.schedule, Static):
        what = "agents who talk through a server" if topology.relay else "links that change from round to round"
        raise IncompatibleChoice(
            f"pairs were asked for {what}; they are computed for peers with fixed weights. Use a peer graph without dropout, random_pair "
            f"and walk, or `sottovoce account` for one observer."
        )
    if not isinstance(law, Gaussian):
        given = "no noise" if law is None else f"{type(law).__name__} noise"
        raise UnsupportedClaim(
            f'pairs were asked for {given}; mu of a pair is known for Gaussian noise. Use law = "gaussian", or `sottovoce account`.'
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
    return privacy.delta


def _agent(attacker: int, num_agents: int) -> int:
    if not 0 <= attacker < num_agents:
        raise ConfigError(f"attacker = {attacker}; the agents are 0 to {num_agents - 1}. Give one of them.")
    return attacker


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
