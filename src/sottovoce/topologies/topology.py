"""A network of agents: who sends to whom, with which weight, and which links are active in which round.

A = [a_lk]: a_lk is the weight RECEIVER k gives to what SENDER l sends; columns sum to one; one combination of the
models W (one row per agent) is W <- A^T W. The Perron vector q (A q = q, q > 0, sum q = 1) weighs the centroid
sum_k q_k w_k, which combining leaves in place: q^T A^T W = q^T W. A schedule may change the weights from round to
round, but never q: what would move the centroid is refused.

Topologies come from the factories in `graphs` and `federation`, which check what they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, whole
from sottovoce.topologies import spectrum
from sottovoce.topologies.active_links import ActiveLinks
from sottovoce.topologies.left_stochastic import left_stochastic, require_connected
from sottovoce.topologies.schedules import Dropout, Listed, RandomPair, Schedule, Static, Walk, describe_schedule
from sottovoce.topologies.weights import DENSE_LIMIT, one_way_link

STATIC = Static()
MATRIX_LIMIT = 5000  # agents up to which a dense [K, K] matrix is handed out

_Entry = TypeVar("_Entry", bound=np.generic)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Topology:
    """Agents, combination weights and a schedule.

    Attributes:
        weights: [K, K] left-stochastic, canonical, no stored zeros. Static: the weights of every round. Dropout: of
            a round in which nothing is dropped. Listed: the mean over one cycle. RandomPair: the expectation.
        name: What kind of graph it is, for people.
        schedule: Which links are active in which round.
        rule: The weight rule that made the weights, or "given".
        positions: [K, 2] places in the unit square where the graph has them.
        relay: Whether all messages pass through a relay without data, which sends the same average to every agent.
        part_of: The listed topology this is one round of; link ids and centroid are those of the whole.
        names: What the agents are called, in their order; None: by their numbers.
        notes: What was changed of a graph that was given, in sentences.
    """

    weights: sparse.csc_array
    name: str
    schedule: Schedule = STATIC
    rule: str = "given"
    positions: NDArray[np.float64] | None = None
    relay: bool = False
    part_of: Topology | None = None
    names: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        kind = describe_schedule(self.schedule)["kind"]
        return f"<Topology {self.name}: {self.num_agents} agents, {len(self.links)} links, {self.rule} weights, {kind}>"

    @property
    def num_agents(self) -> int:
        """K."""
        return int(self.weights.shape[0])

    @cached_property
    def links(self) -> NDArray[np.int64]:
        """[E, 2] (sender, receiver), self-links excluded, by receiver and then sender; a link's id is its position.

        A listed schedule has every link that is active in some round.
        """
        if self.part_of is not None:
            return self.part_of.links
        receivers = np.repeat(np.arange(self.num_agents), np.diff(self.weights.indptr))
        others = self.weights.indices != receivers
        # Column-major, so that the senders and the receivers are contiguous.
        links = np.empty((int(others.sum()), 2), dtype=np.int64, order="F")
        links[:, 0], links[:, 1] = self.weights.indices[others], receivers[others]
        return _read_only(links)

    @cached_property
    def link_weights(self) -> NDArray[np.float64]:
        """[E] the weight the receiver gives the sender of each link."""
        return _read_only(spectrum.entries(self.weights, self.links[:, 0], self.links[:, 1]))

    @cached_property
    def self_weights(self) -> NDArray[np.float64]:
        """[K] the weight each agent gives its own model."""
        return _read_only(self.weights.diagonal())

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """[P, 2] the linked pairs of agents, lower agent first, in lexicographic order; a pair's id is its position."""
        return self._pairs_and_ids[0]

    @cached_property
    def link_pairs(self) -> NDArray[np.int64]:
        """[E] the pair each link belongs to; the two directions share it."""
        return self._pairs_and_ids[1]

    @property
    def num_pairs(self) -> int:
        """P, the number of linked pairs."""
        return len(self.pairs)

    @cached_property
    def _pairs_and_ids(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.part_of is not None:
            return self.part_of._pairs_and_ids
        low, high = self.links.min(axis=1), self.links.max(axis=1)
        keys, ids = np.unique(low * self.num_agents + high, return_inverse=True)
        return _read_only(np.stack(np.divmod(keys, self.num_agents), axis=1)), _read_only(ids.astype(np.int64))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """[K, K] the weights as a dense matrix; a fresh copy."""
        if self.num_agents > MATRIX_LIMIT:
            raise ConfigError(
                f"a dense matrix of {self.num_agents} agents was asked for; the limit is {MATRIX_LIMIT}. "
                "Use topology.weights, which is sparse."
            )
        dense: NDArray[np.float64] = self.weights.toarray()
        return dense

    @cached_property
    def perron(self) -> NDArray[np.float64]:
        """[K] q with A q = q, q > 0, sum q = 1: the weights of the centroid, the same in every round.

        Raises:
            IncompatibleChoice: The matrices of a listed schedule have no common q.
        """
        if self.part_of is not None:
            return self.part_of.perron
        # A vector kept by every round is kept by their mean, whose q is unique: there is no other candidate.
        q = spectrum.perron_vector(self.weights)
        if isinstance(self.schedule, Listed):
            for position, weights in enumerate(self.schedule.matrices):
                change = float(np.abs(weights @ q - q).max() / q.max())
                if change > 1e-8:
                    raise IncompatibleChoice(
                        "the matrices of this schedule have no common Perron vector, so the centroid is not defined: "
                        f"matrix {position} moves the only candidate by {change:.2g} (relative). "
                        "Use doubly stochastic matrices, for example weights='metropolis'."
                    )
        return _read_only(q)

    @cached_property
    def spectral_gap(self) -> float:
        """One minus the second largest eigenvalue modulus of the weights; 0.0 when they are periodic.

        Dropout: of the weights before drop-outs. RandomPair: of the expected weights. Listed: of the product A_1 ...
        A_n over one cycle, as a rate per round, 1 - |lambda_2|^(1/n).
        """
        rounds = self.schedule.matrices if isinstance(self.schedule, Listed) else (self.weights,)
        return spectrum.spectral_gap(rounds, lambda: self.perron)

    @cached_property
    def is_doubly_stochastic(self) -> bool:
        """Whether rows sum to one too (in every round of a listed schedule): the centroid is the plain average."""
        rounds = self.schedule.matrices if isinstance(self.schedule, Listed) else (self.weights,)
        return all(spectrum.rows_sum_to_one(weights) for weights in rounds)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether everybody gives everybody, itself included, the same weight 1/K."""
        complete = self.weights.nnz == self.num_agents**2
        return complete and bool(np.allclose(self.weights.data, 1.0 / self.num_agents, rtol=1e-9, atol=0.0))

    @cached_property
    def is_reversible(self) -> bool:
        """Whether q_m a_lm = q_l a_ml for every pair (l, m): then dropping both directions of a pair keeps q."""
        return spectrum.unbalanced_link(self.weights, self.perron) is None

    def neighbours(self, agent: int) -> NDArray[np.int64]:
        """The senders into an agent, in increasing order, itself excluded."""
        if whole("agent", agent, least=0) >= self.num_agents:
            raise ConfigError(f"agent {agent} was asked for; the agents are 0 to {self.num_agents - 1}.")
        # Links are ordered by receiver.
        first, last = np.searchsorted(self.links[:, 1], [agent, agent + 1])
        return self.links[first:last, 0]

    def active_links(self) -> ActiveLinks:
        """The weights of a round in which every link is active.

        Raises:
            IncompatibleChoice: The schedule has no such round: listed (see `listed`) or random pair (see `paired`).
        """
        if isinstance(self.schedule, Listed | RandomPair):
            method = "listed()" if isinstance(self.schedule, Listed) else "paired(pair)"
            raise IncompatibleChoice(
                f"active_links() was asked of a {describe_schedule(self.schedule)['kind']} schedule, whose rounds "
                f"differ and never use all links as weighted here. Use topology.{method}."
            )
        return ActiveLinks(self.links[:, 0], self.links[:, 1], self.link_weights, self.self_weights, self.perron)

    def dropped(self, kept_pairs: ArrayLike) -> ActiveLinks:
        """The weights of a round in which only these pairs exchange.

        The weight of a dropped link returns to its receiver's self-weight. Both directions of a pair drop together,
        so both ends take back weight; reversible weights then keep their Perron vector.

        Args:
            kept_pairs: [P] True for every pair that exchanges.

        Raises:
            ConfigError: Not one truth value per pair.
            IncompatibleChoice: The weights are not reversible, so that dropping would move the centroid.
        """
        base, kept = self.active_links(), np.asarray(kept_pairs)
        if kept.dtype != np.bool_ or kept.shape != (self.num_pairs,):
            raise ConfigError(
                f"kept_pairs has type {kept.dtype} and shape {kept.shape}; it must hold one boolean for each of the "
                f"{self.num_pairs} pairs."
            )
        if kept.all():
            return base
        self._require_reversible()
        weights = np.where(kept[self.link_pairs], base.weights, 0.0)
        returned = np.bincount(base.receivers, base.weights - weights, minlength=self.num_agents)
        return base._replace(weights=weights, self_weights=base.self_weights + returned)

    def paired(self, pair: int) -> ActiveLinks:
        """The weights of a random-pair round: the two agents of this pair average, all others keep their models."""
        if not isinstance(self.schedule, RandomPair):
            raise IncompatibleChoice("paired() needs a random-pair schedule. Use topology.with_random_pair().")
        if whole("pair", pair, least=0) >= self.num_pairs:
            raise ConfigError(f"pair {pair} was asked for; the pairs are 0 to {self.num_pairs - 1}.")
        weights = np.where(self.link_pairs == pair, 0.5, 0.0)
        self_weights = np.ones(self.num_agents)
        self_weights[self.pairs[pair]] = 0.5
        return ActiveLinks(self.links[:, 0], self.links[:, 1], weights, self_weights, self.perron)

    def with_dropout(self, probability: float) -> Topology:
        """The same network, where every pair is absent from a round with this probability, independently.

        Raises:
            IncompatibleChoice: The weights are not reversible (q would move), or there is a schedule already.
        """
        checked("dropout probability", probability, "[0, 1)")
        self._require_unscheduled("with_dropout")
        self._require_reversible()
        return replace(self, schedule=Dropout(float(probability)))

    def with_random_pair(self) -> Topology:
        """The same links, where each round one uniformly chosen pair averages with weight 1/2 each.

        Every round is doubly stochastic, so q is uniform whatever the weights were. The weights become the
        expectation I - (1 / 2P) L over the P pairs, with L the graph Laplacian.

        Raises:
            IncompatibleChoice: Some link has no opposite, or there is a schedule already.
        """
        self._require_unscheduled("with_random_pair")
        link = one_way_link(self.weights)
        if link is not None or self.num_pairs == 0:
            problem = "there is no pair" if link is None else f"the link {link[0]} -> {link[1]} has no opposite"
            raise IncompatibleChoice(f"with_random_pair needs pairs that exchange both ways; {problem}. Add the link.")
        link_weights = np.full(len(self.links), 0.5 / self.num_pairs)
        links = sparse.csc_array((link_weights, (self.links[:, 0], self.links[:, 1])), shape=self.weights.shape)
        self_weights = 1.0 - links.sum(axis=0)
        weights = left_stochastic(links + sparse.diags_array(self_weights, format="csc"))
        return replace(self, weights=weights, schedule=RandomPair(), rule="random pair")

    def with_walk(self) -> Topology:
        """The same links, on which one token walks: in every round its holder hands it on, or keeps it, by the weights.

        Weights are symmetric, so that in the long run the token visits all agents equally often.

        Raises:
            IncompatibleChoice: The weights are not symmetric, or there is a schedule already.
        """
        self._require_unscheduled("with_walk")
        difference = abs(self.weights - self.weights.T)
        if difference.nnz and difference.max() > 1e-12 * self.weights.max():
            raise IncompatibleChoice(
                "with_walk needs symmetric weights, so that a token visits all agents equally often; these are not. "
                "Use weights='metropolis' or 'laplacian'."
            )
        return replace(self, schedule=Walk())

    def with_schedule(self, matrices: Sequence[Any]) -> Topology:
        """The same agents with listed weights: round t (from 1) uses matrix (t - 1) mod n of the list.

        The weights of this topology itself are used only when it is in the list. A single round need not be
        connected, their union must be.

        Args:
            matrices: Left-stochastic [K, K] matrices, dense or sparse, or topologies without a schedule.

        Raises:
            ConfigError: An empty list, a malformed matrix, another number of agents, a union that is not connected.
            IncompatibleChoice: There is a schedule already, here or in the list.
        """
        self._require_unscheduled("with_schedule")
        rounds = []
        for position, entry in enumerate(matrices):
            if isinstance(entry, Topology):
                entry._require_unscheduled("with_schedule")
            given = entry.weights if isinstance(entry, Topology) else entry
            weights = left_stochastic(given, f"matrix {position} of the schedule")
            if weights.shape != self.weights.shape:
                raise ConfigError(
                    f"matrix {position} of the schedule is for {weights.shape[0]} agents; this topology has "
                    f"{self.num_agents}. Use matrices on the same agents."
                )
            rounds.append(weights)
        if not rounds:
            raise ConfigError("the schedule is empty. Give at least one [K, K] matrix.")
        mean = left_stochastic(sum(rounds[1:], rounds[0]) * (1.0 / len(rounds)), "the mean of the schedule")
        require_connected(mean, "Add a matrix with a link into the missing part: the union must be connected.")
        return replace(self, weights=mean, schedule=Listed(tuple(rounds)), rule="given")

    def listed(self) -> tuple[Topology, ...]:
        """The rounds of one cycle, as topologies that share link ids and centroid; only itself when static.

        Raises:
            IncompatibleChoice: The rounds are random (dropout, random pair) and cannot be listed.
        """
        match self.schedule:
            case Static():
                return (self,)
            case Listed(matrices):
                return tuple(replace(self, weights=weights, schedule=Static(), part_of=self) for weights in matrices)
            case _:
                kind = describe_schedule(self.schedule)["kind"]
                raise IncompatibleChoice(
                    f"the rounds of a {kind} schedule are random and cannot be listed. "
                    "Use dropped(kept_pairs) or paired(pair) for one round, or a static or listed schedule."
                )

    def describe(self) -> dict[str, Any]:
        """What it is, in plain values that JSON can hold; the spectral gap is None where it would take long."""
        cheap = self.num_agents <= DENSE_LIMIT
        return {
            "name": self.name,
            "num_agents": self.num_agents,
            "num_links": len(self.links),
            "weights": self.rule,
            "schedule": describe_schedule(self.schedule),
            "relay": self.relay,
            "spectral_gap": self.spectral_gap if cheap else None,
            **({"agents": list(self.names)} if self.names and all(type(name) is str for name in self.names) else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def _require_unscheduled(self, method: str) -> None:
        if self.relay:
            raise IncompatibleChoice(
                f"{method} was asked of a federation, whose agents are not linked to each other. "
                "Use a peer graph, or partial participation of the algorithm."
            )
        if self.part_of is not None or not isinstance(self.schedule, Static):
            kind = "listed" if self.part_of is not None else describe_schedule(self.schedule)["kind"]
            raise IncompatibleChoice(
                f"{method} was asked of a topology that has a {kind} schedule already; a topology has one schedule. "
                "Start from the topology without a schedule."
            )

    def _require_reversible(self) -> None:
        if self.is_reversible:
            return
        link = spectrum.unbalanced_link(self.weights, self.perron)
        assert link is not None
        sender, receiver = link
        forth, back = self.weights[sender, receiver], self.weights[receiver, sender]
        if back == 0.0:
            problem = f"the link {sender} -> {receiver} has no opposite"
        else:
            q = self.perron
            problem = (
                f"for the pair ({sender}, {receiver}) q_m a_lm = {q[receiver] * forth:.6g} but "
                f"q_l a_ml = {q[sender] * back:.6g}"
            )
        raise IncompatibleChoice(
            "dropping a pair keeps the centroid only if the weights are reversible (q_m a_lm = q_l a_ml with Perron "
            f"vector q); {problem}. Use symmetric weights, for example weights='metropolis'."
        )


def _read_only(array: NDArray[_Entry]) -> NDArray[_Entry]:
    """Cached arrays are shared by all readers, so nobody may write to them."""
    array.setflags(write=False)
    return array
