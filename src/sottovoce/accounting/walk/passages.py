"""How a token goes between the protected agent and those who look: the laws of all times that an account of blocks needs.

The agent is u, the observers are a set S. From a visit of u the token comes back to u first (a loop) or to S first (an exit); a block of k
contributions is k - 1 loops and an exit, all independent. Times count hops, so that a loop or exit of t hops passes t noises, the one of u's own
hop included:

    loops[t]         P_u(back at u after t hops, S not visited before)
    exits[t]         P_u(in S after t hops, neither u nor S visited before)
    last_exits[t]    P_u(in S for the first time after t hops), visits of u on the way allowed: after the last contribution u only adds noise
    arrivals[t]      P(u is visited for the first time at hop t), for a start drawn uniformly
    returns[t]       P_S(u is visited for the first time after t hops), from the member from which that is likeliest by every t

Nothing here needs symmetric weights. What ends after `rounds` hops is left out: it is never seen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.accounting.walk.gaps import agents_in_range, check_transition
from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr

Law = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passages:
    """Laws of times, each [T + 1] with its number of hops as index; see the module."""

    loops: Law
    exits: Law
    last_exits: Law
    arrivals: Law
    returns: Law

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.loops) - 1

    @property
    def key(self) -> bytes:
        """All numbers, to find what was computed from them before."""
        return b"".join(law.tobytes() for law in (self.loops, self.exits, self.last_exits, self.arrivals, self.returns))


def complete_passages(num_agents: int, *, rounds: int, observers: int = 1) -> Passages:
    """Return the laws for the complete graph with uniform hops, where all times are geometric.

    Args:
        num_agents: n.
        rounds: T, hops of the whole walk.
        observers: how many other agents look, together.
    """
    n, T, looking = whole("num_agents", num_agents, least=2), whole("rounds", rounds), whole("observers", observers)
    if looking >= n:
        raise ConfigError(f"observers = {looking} of {n} agents; at most {n - 1} others can look.")
    t = np.arange(T + 1.0)

    def first(hit: float, stop: float) -> Law:
        """P(a hop hits at t, and none before it hits or stops)."""
        law = hit * (1.0 - hit - stop) ** np.maximum(t - 1.0, 0.0)
        law[0] = 0.0
        return np.asarray(law)

    arrivals = (1.0 / n) * (1.0 - 1.0 / n) ** t
    return Passages(
        loops=first(1.0 / n, looking / n), exits=first(looking / n, 1.0 / n), last_exits=first(looking / n, 0.0),
        arrivals=arrivals, returns=first(1.0 / n, 0.0),
    )  # fmt: skip


def graph_passages(transition: Law, *, agent: int, observers: Iterable[int], rounds: int) -> Passages:
    """Return the laws for a walk with this transition matrix.

    Args:
        transition: [K, K] W, rows sum to one.
        agent: u, whose contributions are protected.
        observers: the other agents who look, together; at least one.
        rounds: T, hops of the whole walk.
    """
    check_transition(transition)
    K, T = transition.shape[0], whole("rounds", rounds)
    looking = agents_in_range(observers, K)
    u = agents_in_range([agent], K)[0]
    if u in looking:
        raise ConfigError(f"agent {u} is among the observers; an agent knows its own data. Name others.")
    step = sparse.csr_array(transition.T)
    # Columns: from u until u or S; from u until S; from anywhere until u; from each member until u.
    mass = np.zeros((K, 3 + len(looking)))
    mass[u, :2], mass[:, 2] = 1.0, 1.0 / K
    mass[looking, np.arange(3, 3 + len(looking))] = 1.0
    at_agent, at_observers = np.zeros((T + 1, mass.shape[1])), np.zeros((T + 1, 2))
    at_agent[0, 2], mass[u, 2] = mass[u, 2], 0.0
    for t in range(1, T + 1):
        mass = step @ mass
        at_agent[t], at_observers[t] = mass[u], mass[looking, :2].sum(axis=0)
        mass[looking, :2] = 0.0
        mass[u, 0], mass[u, 2:] = 0.0, 0.0
    return Passages(
        loops=at_agent[:, 0], exits=at_observers[:, 0], last_exits=at_observers[:, 1], arrivals=at_agent[:, 2],
        returns=_soonest(at_agent[:, 3:]),
    )  # fmt: skip


def passages_to(transition: Law, observer: int, *, rounds: int) -> Iterator[tuple[int, Passages]]:
    """Yield (u, laws) of every other agent towards one observer, from one pass over all of them."""
    check_transition(transition)
    K, T, v = transition.shape[0], whole("rounds", rounds), agents_in_range([observer], transition.shape[0])[0]
    step, everyone = np.ascontiguousarray(transition.T), np.arange(K)
    mass = np.zeros((K, 4, K))  # where the token is; which law; of which agent u
    mass[everyone, :2, everyone], mass[:, 2], mass[v, 3] = 1.0, 1.0 / K, 1.0
    laws = np.zeros((5, T + 1, K))
    laws[3, 0], mass[everyone, 2, everyone] = 1.0 / K, 0.0
    for t in range(1, T + 1):
        mass = (step @ mass.reshape(K, -1)).reshape(K, 4, K)
        own = mass[everyone, :, everyone]  # [K, 4] back at u
        laws[0, t], laws[3, t], laws[4, t] = own[:, 0], own[:, 2], own[:, 3]
        laws[1, t], laws[2, t] = mass[v, 0], mass[v, 1]
        mass[v, :2] = 0.0
        for law in (0, 2, 3):
            mass[everyone, law, everyone] = 0.0
    for u in everyone[everyone != v]:
        loops, exits, last_exits, arrivals, returns = (np.ascontiguousarray(laws[law, :, u]) for law in range(5))
        yield (
            int(u),
            Passages(loops=loops, exits=exits, last_exits=last_exits, arrivals=arrivals, returns=returns),
        )


def likely_visits(passages: Passages, *, failure_probability: float, most: int | None = None) -> tuple[int, float]:
    """Return (N, d): the token visits u at most N times in hops 0..T-1 but for a probability of d, at most the one given.

    With `most`, the search ends there, and d may be larger than what was given. The law of visits is exact: the k-th is at the first arrival and k - 1 returns, whether the observers were visited or not.
    """
    from scipy import fft

    T = passages.rounds
    length = fft.next_fast_len(2 * T + 1, real=True)
    # From u to u: directly, or by way of the observers.
    back = fft.rfft(passages.loops + np.maximum(_convolved(passages.exits, passages.returns), 0.0), length)
    at, visits = passages.arrivals.copy(), 0
    while True:
        left = float(at[:T].sum())  # P(more than `visits` visits)
        if left <= failure_probability or visits >= (T if most is None else most):
            return max(1, visits), left
        visits += 1
        at = np.maximum(fft.irfft(fft.rfft(at, length) * back, length)[: T + 1], 0.0)


def _convolved(first: Law, second: Law) -> Law:
    """The law of a sum of two independent times, up to T."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(first, second)[: len(first)])


def _soonest(laws: Law) -> Law:
    """[T + 1] the law whose distribution function is the largest of those in the columns at every time."""
    reached = np.cumsum(laws, axis=0).max(axis=1)
    return np.diff(reached, prepend=0.0)
