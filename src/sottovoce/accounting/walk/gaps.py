"""How long a contribution stays unobserved: the law of the gap h.

h counts the noises between a contribution of agent u and the next visit of the token to u itself or to an observer: 1
if the next holder is one of them. For the transition matrix W and the set S of u and the observers,

    P(h = t) = sum over k in S of (e_u^T W (P W)^(t - 1))_k,      P = identity without the rows and columns of S.

On the complete graph, where the next holder is uniform over all n agents (the present one included), h is geometric
with p = |S| / n, and E[1 / h] = p ln(1 / p) / (1 - p). Gaps longer than the walk end unseen and cost nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr

_EVERY_LENGTH = 1000  # shorter gaps are listed one by one
_BIN_GROWTH = 1.001  # longer ones in bins, each counted as its shortest gap: at most 0.1 % above the truth
_NEGLIGIBLE = 1e-18  # what is left of the law then counts as ending now, which is on the safe side


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GapLaw:
    """P(h = lengths[i]) = probabilities[i]; what is missing to 1 ends unseen.

    Attributes:
        lengths: [M] at least 1.
        probabilities: [M] not negative, sum at most 1.
    """

    lengths: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        lengths, probabilities = self.lengths, self.probabilities
        if lengths.ndim != 1 or lengths.shape != probabilities.shape or lengths.size == 0:
            raise ConfigError(
                f"gap lengths of shape {lengths.shape} with probabilities of shape {probabilities.shape}; "
                f"give two equally long lists."
            )
        finite = np.isfinite(lengths).all() and (lengths >= 1.0).all()
        if not (finite and (probabilities >= 0.0).all() and probabilities.sum() <= 1.0 + 1e-9):
            raise ConfigError(
                "a gap law needs finite lengths of at least 1 and probabilities of at least 0 that sum to 1 or less."
            )

    @property
    def seen(self) -> float:
        """The probability that the gap ends within the walk."""
        return min(1.0, float(self.probabilities.sum()))

    @property
    def mean_inverse(self) -> float:
        """E[1 / h], where a gap that ends unseen counts 0."""
        return float(self.probabilities @ (1.0 / self.lengths))


def complete_gaps(num_agents: int, *, rounds: int, observers: int = 1) -> GapLaw:
    """Return the law of the gap on the complete graph with uniform hops.

    Args:
        num_agents: n.
        rounds: hops of the whole walk; no gap is longer.
        observers: how many other agents look, together.
    """
    n, T = whole("num_agents", num_agents, least=2), whole("rounds", rounds)
    targets = 1 + whole("observers", observers)
    if targets > n:
        raise ConfigError(f"observers = {observers} of {n} agents; at most {n - 1} others can look.")
    p = targets / n
    if p == 1.0:
        return GapLaw(lengths=np.ones(1), probabilities=np.ones(1))
    edges = _bin_edges(min(T, math.ceil(60.0 / p)))
    lasts = np.append(edges[1:], T + 1.0)  # the last bin takes all that is left of the walk
    log_stay = math.log1p(-p)
    probabilities = np.exp((edges - 1.0) * log_stay) * -np.expm1((lasts - edges) * log_stay)
    return GapLaw(lengths=edges, probabilities=probabilities)


def graph_gaps(transition: NDArray[np.float64], *, agent: int, observers: Iterable[int], rounds: int) -> GapLaw:
    """Return the law of the gap for a walk with this transition matrix.

    Args:
        transition: [K, K] W, rows sum to one.
        agent: u, whose contributions are protected.
        observers: the other agents who look, together; at least one.
        rounds: hops of the whole walk; no gap is longer.
    """
    check_transition(transition)
    K, T = transition.shape[0], whole("rounds", rounds)
    looking = agents_in_range(observers, K)
    u = agents_in_range([agent], K)[0]
    if u in looking:
        raise ConfigError(f"agent {u} is among the observers; an agent knows its own data. Name others.")
    targets = np.array([u, *looking])
    step = sparse.csr_array(transition.T)
    mass, found = np.zeros(K), []
    mass[u] = 1.0
    for _ in range(T):
        mass = step @ mass
        found.append(float(mass[targets].sum()))
        mass[targets] = 0.0
        left = float(mass.sum())
        if left < _NEGLIGIBLE:
            found[-1] += left
            break
    return GapLaw(lengths=np.arange(1.0, len(found) + 1.0), probabilities=np.array(found))


def check_transition(transition: NDArray[np.float64]) -> None:
    """Refuse a matrix that loses or adds mass from hop to hop."""
    if transition.min() < 0 or np.abs(transition.sum(axis=1) - 1.0).max() > 1e-9:
        raise ConfigError(
            "a transition matrix needs entries that are not negative and rows that sum to one; mass that is lost would count as never seen."
        )


def _bin_edges(last: int) -> NDArray[np.float64]:
    """Return 1, 2, 3, ... and from some length on only every growing step, up to `last`."""
    short = np.arange(1.0, min(last, _EVERY_LENGTH) + 1.0)
    if last <= _EVERY_LENGTH:
        return short
    count = math.ceil(math.log(last / _EVERY_LENGTH) / math.log(_BIN_GROWTH))
    long = np.unique(np.floor(_EVERY_LENGTH * _BIN_GROWTH ** np.arange(1, count + 1)))
    return np.concatenate([short, long[(long > _EVERY_LENGTH) & (long <= last)]])


def agents_in_range(agents: Iterable[int], num_agents: int) -> list[int]:
    """Return different agents in the range, at least one."""
    listed = [whole("agent", agent, least=0) for agent in agents]
    if not listed or len(set(listed)) < len(listed) or max(listed) >= num_agents:
        raise ConfigError(f"agents {listed} of {num_agents}; give different numbers from 0 to {num_agents - 1}.")
    return listed
