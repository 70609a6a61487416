"""Gossip averaging with noise injected once: exactly what every agent learns about every other.

Agent u holds x_u, draws z_u ~ N(0, std^2) once, and the network averages: x(0) = x + z, then x(t+1) = A' x(t) for rounds t = 0, ..., T - 1,
in which every agent sends x(t) to its neighbours (per coordinate; A left-stochastic, A = W symmetric in most papers). Agent v hears
x_w(t) of its senders and knows its own value and noise. All it hears is linear in x(0), and

    mu_{u -> v} = (sensitivity / std) || Proj_S e_u ||,      S = span{e_v, A^t e_w : a_wv > 0, t < T},

is attained and never exceeded, whatever the other values are: the values do not react to what agents hear, so that this is a guarantee
and not only a linear view. It is at most the local value sensitivity / std, and it reaches it on most graphs within a few rounds: ring,
path, grid and Erdos-Renyi graphs end with everybody exposed to everybody; only few rounds, or much symmetry, amplify privacy.

Accelerated gossip leaks the same. x(t+1) = gamma A' x(t) + (1 - gamma) x(t-1) with gamma != 0 sends x(t) = P_t(A)' x(0), P_t of degree
exactly t, and span{P_t(A) e_w : t < T} = span{A^t e_w : t < T}: the loss after T rounds is that of plain gossip after T rounds. It needs
fewer rounds for the same accuracy, and that is its whole effect on privacy.

Every number is a bracket. `resolved` counts the directions that floating-point numbers settle (`gossip_space`). Where candidates were left
out because they are too small, exact arithmetic (`gossip_rank`) tells whether they are dependent. If they are, nothing was lost. If not,
`upper` counts every agent in reach as fully exposed: a single unknown direction may point at any of them.
Messages and noise are real numbers here; what rounding in an implementation gives away is not counted.

The published sum over messages is not this number and no upper bound for it: see `documents.cyffers_muffliato_epsilon`.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sottovoce.accounting.gossip.rank import Messages, Step, exact_ranks
from sottovoce.accounting.gossip.space import Space, krylov_space, listed_space
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import one_thread
from sottovoce.numbers import checked, whole
from sottovoce.reprs import short_repr
from sottovoce.topologies import Static, Topology, left_stochastic

HELD = 3e7  # numbers of message vectors that are held at once

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseLoss:
    """Who learns how much about whom; row u is whose value, column i is attacker attackers[i].

    Attributes:
        resolved: [K, A] mu of the directions that are settled; not a number where an agent looks at itself.
        upper: [K, A] mu, the upper end: this one is to be stated; the part of the width that is due to rounding is estimated.
        attackers: [A] who looks.
        rounds: exchanges.
        local: sensitivity / std, what a reader of the noisy values themselves would have.
        undecided: [A] whether a direction was left open, so that `upper` counts everybody in reach as exposed.
    """

    resolved: np.ndarray
    upper: np.ndarray
    attackers: np.ndarray
    rounds: int
    local: float
    undecided: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def gap(self) -> float:
        """The largest upper^2 - resolved^2, in units of local^2."""
        return float(np.nanmax((self.upper / self.local) ** 2 - (self.resolved / self.local) ** 2))

    def describe(self) -> dict[str, Any]:
        """The main numbers, in plain values that JSON can hold."""
        return {
            "num_agents": len(self.upper),
            "num_attackers": len(self.attackers),
            "rounds": self.rounds,
            "local_mu": self.local,
            "largest_mu": float(np.nanmax(self.upper)),
            "mean_squared_mu": float(np.nanmean(self.upper**2)),
            "fully_exposed": float(np.nanmean(self.upper[~np.isnan(self.upper)] >= self.local * (1 - 1e-9))),
            "gap": self.gap,
            "undecided_attackers": int(self.undecided.sum()),
        }


def pairwise_mu(topology: Topology, *, rounds: int, std: float, sensitivity: float = 1.0) -> np.ndarray:
    """The upper end of `pairwise` for all ordered pairs: [K, K], row u whose value, column v who looks, no number on the diagonal."""
    return pairwise(topology, rounds=rounds, std=std, sensitivity=sensitivity).upper


@one_thread
def pairwise(
    topology: Topology,
    *,
    rounds: int,
    std: float,
    sensitivity: float,
    attackers: Sequence[int] | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> PairwiseLoss:
    """What each attacker learns about every agent's value.

    Args:
        topology: who talks to whom with which weights, the same in every round.
        rounds: T, exchanges; with one, an agent hears the noisy values of its neighbours.
        std: of the noise that every agent adds to its value once, per coordinate.
        sensitivity: the largest l2 change of one agent's value.
        attackers: who looks; None for everybody.
        workers: threads; the result does not depend on them.
        progress: called with (attackers done, attackers in all).

    Raises:
        IncompatibleChoice: the weights change from round to round (see `pairwise_of_path`), or the agents talk through a server.
        ConfigError: malformed input.
    """
    _require_fixed_peers(topology)
    T, local = whole("rounds", rounds), _local(std, sensitivity)
    who = _attackers(attackers, topology.num_agents)
    weights = sparse.csr_array(topology.weights)
    symmetric = abs(weights - weights.T).max() == 0

    def space(attacker: int) -> Space:
        return krylov_space(weights, attacker, topology.neighbours(attacker), T, symmetric)

    brackets = _Brackets(topology.num_agents, who, progress)
    with ThreadPoolExecutor(whole("workers", workers)) as pool:
        # A batch at a time, so that no more than its bases wait to be read.
        for start in range(0, len(who), 64):
            brackets.add(pool.map(space, who[start : start + 64].tolist()))

    def heard(position: int) -> Messages:
        senders, depth = topology.neighbours(int(who[position])), brackets.depths[position]
        times = np.repeat(np.arange(depth + 1), len(senders))
        return Messages(np.append(0, times), np.append(who[position], np.tile(senders, depth + 1)))

    return brackets.settled([weights] * T, heard).loss(T, local)


@one_thread
def pairwise_of_path(
    num_agents: int,
    steps: Sequence[Any],
    *,
    std: float,
    sensitivity: float,
    attackers: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> PairwiseLoss:
    """What each attacker learns when the rounds differ, and everybody knows how: randomised gossip, changing networks.

    Before step t the agents that it links send x(t) to each other. A pair (i, j) exchanges and both take the mean, all others rest. A
    left-stochastic matrix A_t sends along its positive weights, and x(t+1) = A_t' x(t). The vectors are products, A_0 ... A_{t-1} e_w.

    Args:
        num_agents: K.
        steps: pairs of agents, or [K, K] matrices, dense or sparse, in the order in which they are taken.
        std: of the noise that every agent adds to its value once, per coordinate.
        sensitivity: the largest l2 change of one agent's value.
        attackers: who looks; None for everybody.
        progress: called with (attackers done, attackers in all).

    Raises:
        ConfigError: malformed input.
    """
    K, local = whole("num_agents", num_agents, least=2), _local(std, sensitivity)
    who = _attackers(attackers, K)
    path = [_step(step, K, position) for position, step in enumerate(steps)]
    if not path:
        raise ConfigError("the path has no step. Give at least one pair or matrix.")
    received = _received(path, K, set(who.tolist()))
    brackets = _Brackets(K, who, progress)
    for group in _groups([received[v] for v in who.tolist()], K):
        vectors = _vectors(path, K, [received[v] for v in who[group].tolist()])
        brackets.add(listed_space(rows, int(v)) for rows, v in zip(vectors, who[group], strict=True))

    def heard(position: int) -> Messages:
        messages, depth = received[int(who[position])], brackets.depths[position]
        return Messages(np.append(0, messages.times[:depth]), np.append(who[position], messages.senders[:depth]))

    return brackets.settled(path, heard).loss(len(path), local)


def random_activations(topology: Topology, rounds: int, seed: int) -> list[tuple[int, int]]:
    """So many uniformly chosen pairs of linked agents, one per round, as randomised gossip takes them.

    Raises:
        IncompatibleChoice: some link has no opposite, or the agents talk through a server.
    """
    topology = topology.with_random_pair()
    chosen = np.random.default_rng(whole("seed", seed, least=0)).integers(
        len(topology.pairs), size=whole("rounds", rounds)
    )
    return [(int(i), int(j)) for i, j in topology.pairs[chosen]]


class _Settled(NamedTuple):
    """The ends of the exposures of all attackers, [K, A], and where a direction was left open, [A]."""

    lower: np.ndarray
    upper: np.ndarray
    attackers: np.ndarray
    undecided: np.ndarray

    def loss(self, rounds: int, local: float) -> PairwiseLoss:
        return PairwiseLoss(
            resolved=local * np.sqrt(self.lower),
            upper=local * np.sqrt(self.upper),
            attackers=self.attackers,
            rounds=rounds,
            local=local,
            undecided=self.undecided,
        )


class _Brackets:
    """Collects the spaces of the attackers, one after the other."""

    def __init__(self, num_agents: int, attackers: np.ndarray, progress: Progress | None) -> None:
        self.attackers, self.progress, self.done = attackers, progress, 0
        self.lower = np.empty((num_agents, len(attackers)))
        self.upper, self.reached = np.empty_like(self.lower), np.empty(self.lower.shape, dtype=bool)
        self.depths, self.ranks = np.zeros(len(attackers), dtype=int), np.zeros(len(attackers), dtype=int)

    def add(self, spaces: Iterator[Space]) -> None:
        for space in spaces:
            i = self.done
            certain = space.exposed == space.reached  # exactly, as for the neighbours and for those out of reach
            self.lower[:, i] = np.where(certain, space.exposed, np.clip(space.exposed - space.error, 0.0, 1.0))
            self.upper[:, i] = np.where(certain, space.exposed, np.minimum(space.exposed + space.error, 1.0))
            self.lower[self.attackers[i], i] = self.upper[self.attackers[i], i] = np.nan
            self.reached[:, i], self.depths[i], self.ranks[i] = space.reached, space.depth, space.rank
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, len(self.attackers))

    def settled(self, steps: Sequence[Step], heard: Callable[[int], Messages]) -> _Settled:
        """Decide in exact arithmetic where something was left out; a rank above ours means that it was not dependent."""
        open_ones = np.flatnonzero(self.depths > 0)
        found = exact_ranks(steps, len(self.lower), [heard(int(i)) for i in open_ones])
        undecided = np.zeros(len(self.attackers), dtype=bool)
        undecided[open_ones] = found != self.ranks[open_ones]
        for i in np.flatnonzero(undecided):
            others = self.reached[:, i] & ~np.isnan(self.upper[:, i])
            self.upper[others, i] = 1.0
        return _Settled(self.lower, self.upper, self.attackers, undecided)


def _local(std: float, sensitivity: float) -> float:
    return checked("sensitivity", sensitivity, "(0, 1e100)") / checked("std", std, "(1e-100, 1e100)")


def _attackers(attackers: Sequence[int] | None, num_agents: int) -> np.ndarray:
    if attackers is None:
        return np.arange(num_agents)
    chosen = [whole("attackers", v, least=0) for v in attackers]
    if not chosen or max(chosen) >= num_agents or len(set(chosen)) < len(chosen):
        raise ConfigError(f"attackers = {attackers!r}; give different agents from 0 to {num_agents - 1}, at least one.")
    return np.array(chosen)


def _require_fixed_peers(topology: Topology) -> None:
    if topology.relay or not isinstance(topology.schedule, Static):
        what = "agents that talk through a server" if topology.relay else "weights that change from round to round"
        raise IncompatibleChoice(
            f"pairwise gossip was asked for {what}; it needs peers with fixed weights. Use a peer graph without a schedule, or "
            f"pairwise_of_path with the rounds as they happened."
        )


def _step(step: Any, num_agents: int, position: int) -> Step:
    if isinstance(step, tuple):
        pair = [whole(f"agent of step {position}", agent, least=0) for agent in step]
        if len(set(pair)) != 2 or max(pair) >= num_agents:
            raise ConfigError(
                f"step {position} is {step!r}; a pair is two different agents from 0 to {num_agents - 1}."
            )
        return pair[0], pair[1]
    matrix = left_stochastic(step, f"step {position}")
    if matrix.shape[0] != num_agents:
        raise ConfigError(
            f"step {position} is for {matrix.shape[0]} agents; num_agents = {num_agents}. Use one number of agents."
        )
    return sparse.csr_array(matrix)


def _received(path: Sequence[Step], num_agents: int, attackers: set[int]) -> dict[int, Messages]:
    """For every attacker, when it heard whom."""
    events: dict[int, list[tuple[int, int]]] = {v: [] for v in attackers}
    for time, step in enumerate(path):
        if isinstance(step, tuple):
            links: ArrayLike = [step, step[::-1]]
        else:
            given = sparse.coo_array(step)
            links = np.column_stack([given.row, given.col])[(given.row != given.col) & (given.data > 0)]
        for sender, receiver in np.asarray(links).tolist():
            if receiver in attackers:
                events[receiver].append((time, sender))
    return {v: Messages(*np.array(list_, dtype=int).reshape(-1, 2).T) for v, list_ in events.items()}


def _groups(received: Sequence[Messages], num_agents: int) -> Iterator[np.ndarray]:
    """Positions of attackers whose message vectors fit into memory together, and at least one."""
    sizes = np.cumsum([len(messages.times) * num_agents for messages in received])
    labels = (sizes // HELD).astype(int)
    for label in np.unique(labels):
        yield np.flatnonzero(labels == label)


def _vectors(path: Sequence[Step], num_agents: int, received: Sequence[Messages]) -> list[np.ndarray]:
    """For every attacker [n, K]: the vectors of its messages in x(0)."""
    product = np.eye(num_agents)  # column w: the vector of x_w(t)
    found = [np.empty((len(messages.times), num_agents)) for messages in received]
    for time, step in enumerate(path):
        for messages, rows in zip(received, found, strict=True):
            now = messages.times == time
            if now.any():
                rows[now] = product[:, messages.senders[now]].T
        if isinstance(step, tuple):
            pair = list(step)
            product[:, pair] = product[:, pair].mean(axis=1, keepdims=True)
        else:
            product = np.asarray((step.T @ product.T).T)
    return found
