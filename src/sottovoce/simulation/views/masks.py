"""What an observer learns of a round whose average is masked in pairs (algorithms/aggregation.py); drawn inside a compiled round, per repeat.

Everybody publishes psi + own noise + masks on a board, and the observer takes away what its members know: their own rows and all masks that they share.
Let S be the honest agents that published. What is left is

    uniform masks     for every connected part P of S:   sum over l in P of (psi_l + own_l)
    Gaussian masks    for every l in S:                  psi_l + own_l + sum over partners in S (+-) mask

and, for uniform masks, numbers that are independent of everything. In a round that counts the masks with silent agents are revealed and taken away. One
that does not is not repaired: with a silent honest partner a part P shows nothing, and a Gaussian row keeps that mask.

The row of a part is that of its lowest agent. Public too, and given with every round, are the picks, who published and who belongs to the observer.
The graph is drawn once for every run, after the members that nobody named: every agent picks k others, those with the smallest of random words.

Masks of Gaussian size are added and not taken away again, so that they must not drown what they hide: ratios beyond 1e5 are refused.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm, SilentAgents
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import is_whole
from sottovoce.observers import Observer
from sottovoce.reprs import short_repr
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.participants import draw_published

Array = Any
MOST_RATIO = 1e5
HIDDEN = -1


class Board(NamedTuple):
    """What stands on the board of a round beside the vectors, and whom the observer has; of one run, in a program with a last axis R."""

    published: Array  # [K] bool
    members: Array  # [K] bool: the observer's, named or not
    picks: Array  # [K, k] whom each agent picked
    parts: Array  # [K] the row that holds each agent's value, alone or in a sum; -1: none does

    def __repr__(self) -> str:
        return short_repr(self)


class MaskPlan(NamedTuple):
    """The masks of an algorithm and the members of an observer; host-side values, none of them traced."""

    num_agents: int
    partners: int
    ratio: float  # standard deviation of a mask in those of own noise; infinity for uniform masks
    sampling: SilentAgents | None
    members: np.ndarray  # [K] bool, those with names
    unknown: int  # further members, drawn for every run
    honest: int | None  # an agent that is never drawn

    @property
    def uniform(self) -> bool:
        """Whether masks hide everything but sums."""
        return math.isinf(self.ratio)


class Graph(NamedTuple):
    """Who masks with whom, and who belongs to the observer, in every run."""

    picks: Array  # [K, k, R] int32
    first: Array  # [K, k, R] bool: False for the second pick of a pair that picked each other
    members: Array  # [K, R] bool
    parts: Array  # [K, R] connected parts of all honest agents


def plan_masks(algorithm: Algorithm, observer: Observer, members: np.ndarray, honest: int | None) -> MaskPlan | None:
    """What a recorded round needs to know about masks; None where there are none or the observer does not read the board.

    Raises:
        ConfigError: members without names where nothing is masked, a coalition of all, or an honest agent that is none.
        IncompatibleChoice: Gaussian masks that are too large to be added in floating point.
    """
    K, unknown = len(members), observer.corrupted(len(members)) - len(observer.members)
    _check_members(algorithm, observer, members, unknown, honest)
    aggregation = algorithm.aggregation
    if aggregation is None or not observer.sees_messages:
        return None
    if math.isfinite(aggregation.pairwise_ratio) and aggregation.pairwise_ratio > MOST_RATIO:
        raise IncompatibleChoice(
            f"masks are {aggregation.pairwise_ratio:g} times own noise; recorded are at most {MOST_RATIO:g} times, beyond which rounding would "
            f"drown what they hide. Use pairwise_ratio=math.inf, uniform masks."
        )
    sampling = algorithm.sampling
    assert sampling is None or isinstance(sampling, SilentAgents)  # no other sampling comes with masks
    return MaskPlan(K, aggregation.partners, aggregation.pairwise_ratio, sampling, members, unknown, honest)


def _check_members(
    algorithm: Algorithm, observer: Observer, members: np.ndarray, unknown: int, honest: int | None
) -> None:
    K = len(members)
    if observer.colluding > 0 and algorithm.aggregation is None:
        raise ConfigError(
            f"'{observer.name}' has members of whom nobody knows who they are, and without masked averages a view is that of certain agents. "
            f"Name them: sv.observers.server() + sv.observers.coalition([...])."
        )
    if members.sum() + unknown >= K:
        raise ConfigError(f"'{observer.name}': with {K} agents nobody is left whose data it could learn.")
    if honest is not None and (not is_whole(honest, 0, K - 1) or members[honest]):
        raise ConfigError(
            f"honest = {honest!r}; it must be one of the agents 0 to {K - 1} and no member of '{observer.name}'."
        )


def draw_graph(plan: MaskPlan, seed: Array, repeats: Array) -> Graph:
    """The members without names and the picks of these runs."""
    keys, K = random.repeat_keys(seed, repeats, random.GRAPH), plan.num_agents
    others = jnp.arange(K - 1, dtype=jnp.uint32)[:, None]

    def pick(owner: Array) -> Array:
        words = random.threefry(keys, (others, owner.astype(jnp.uint32)))[0]
        chosen = jnp.argsort(words, axis=0)[: plan.partners].astype(jnp.int32)
        return chosen + (chosen >= owner)  # from a place among the others to the number of an agent

    members = _members(plan, keys)
    picks = jax.lax.map(pick, jnp.arange(K, dtype=jnp.int32))  # [K, k, R]
    return Graph(picks, _first(picks), members, connected(picks, ~members))


def _members(plan: MaskPlan, keys: tuple[Array, Array]) -> Array:
    """[K, R] those with names and, of all others but the honest one, as many as are unknown."""
    K, open_ = plan.num_agents, ~plan.members
    if plan.honest is not None:
        open_ = open_ & (np.arange(K) != plan.honest)
    candidates = np.flatnonzero(open_)
    words = random.threefry(keys, (jnp.asarray(candidates, jnp.uint32)[:, None], jnp.uint32(K)))[0]
    drawn = jnp.argsort(jnp.argsort(words, axis=0), axis=0) < plan.unknown
    named = jnp.broadcast_to(jnp.asarray(plan.members)[:, None], (K, words.shape[1]))
    return named.at[candidates].set(drawn)


def _first(picks: Array) -> Array:
    """[K, k, R] False where the other, who has a lower number, picked this agent too."""
    K, k, _ = picks.shape
    owner = jnp.arange(K, dtype=picks.dtype)[:, None, None]

    def returned(s: Array, found: Array) -> Array:
        return found | (_at(jax.lax.dynamic_index_in_dim(picks, s, 1, keepdims=False), picks) == owner)

    mutual = jax.lax.fori_loop(0, k, returned, jnp.zeros(picks.shape, bool))
    return ~(mutual & (picks < owner))


def _at(values: Array, picks: Array) -> Array:
    """[K, k, R] the values [K, R] of those that were picked."""
    return jnp.take_along_axis(values, picks.reshape(-1, picks.shape[-1]), axis=0).reshape(picks.shape)


def connected(picks: Array, inside: Array) -> Array:
    """[K, R] the lowest agent of the connected part of everybody `inside` [K, R]; K for the others."""
    K, _, R = picks.shape
    lanes, numbers = jnp.arange(R), jnp.arange(K, dtype=jnp.int32)[:, None]
    linked = inside[:, None, :] & _at(inside, picks)

    def spread(labels: Array) -> Array:
        heard = jnp.where(linked, _at(labels, picks), K).min(axis=1)
        told = jnp.where(linked, labels[:, None, :], K)
        low = jnp.minimum(labels, heard).at[picks, lanes].min(told)
        # The agent that a label names may have a lower label by now, which is taken over.
        jumped = jnp.take_along_axis(low, jnp.minimum(low, K - 1), axis=0)
        return jnp.where(inside, jnp.minimum(low, jumped), K)

    def step(held: tuple[Array, Array]) -> tuple[Array, Array]:
        return held[1], spread(held[1])

    start = jnp.where(inside, numbers, K)
    _, labels = jax.lax.while_loop(lambda held: (held[0] != held[1]).any(), step, (start, spread(start)))
    return labels


def published_in(plan: MaskPlan, keys: tuple[Array, Array], dtype: Any) -> tuple[Array, Array]:
    """Who publishes, [K, R], and whether the round counts, [R]; the coins are those of `participants.draw_participants`."""
    if plan.sampling is None:
        shape = (plan.num_agents, keys[0].shape[-1])
        return jnp.ones(shape, bool), jnp.ones(shape[1:], bool)
    return draw_published(plan.sampling, keys, plan.num_agents, dtype)


def reveal(
    plan: MaskPlan, graph: Graph, sent: Array, presence: tuple[Array, Array], keys: tuple[Array, Array], std: Array
) -> tuple[Array, Board]:
    """The rows [K, d, R] that are left of a round, zero where none is, and what stands beside them.

    Args:
        plan: the masks.
        graph: of these runs.
        sent: [K, d, R] what everybody has to publish, with own noise.
        presence: as from `published_in`.
        keys: of the round's masks.
        std: of own noise in this round.
    """
    published, counts = presence
    inside = published & ~graph.members
    waiting = ~published & ~graph.members & ~counts  # honest agents whose masks nobody revealed
    if plan.uniform:
        rows, parts = _sums(plan, graph, sent, inside, waiting)
    else:
        own = jnp.where(inside, jnp.arange(plan.num_agents, dtype=jnp.int32)[:, None], HIDDEN)
        masked = sent + plan.ratio * std * _masks(graph, inside, waiting, keys, sent.shape[1], sent.dtype)
        rows, parts = jnp.where(inside[:, None, :], masked, 0), own
    return rows, Board(published, graph.members, graph.picks, parts)


def _sums(plan: MaskPlan, graph: Graph, sent: Array, inside: Array, waiting: Array) -> tuple[Array, Array]:
    """Sums over parts, each in the row of its lowest agent."""
    K, d, R = sent.shape
    lanes = jnp.arange(R)
    if plan.sampling is None:
        parts = jnp.where(inside, graph.parts, HIDDEN)
    else:
        labels = connected(graph.picks, inside)
        left = _at(waiting, graph.picks).any(axis=1)
        left = left.at[graph.picks, lanes].max(jnp.broadcast_to(waiting[:, None, :], graph.picks.shape))
        # Agents in no part have the label K, and a row of their own that nobody reads.
        hides = jnp.zeros((K + 1, R), bool).at[labels, lanes].max(left & inside)
        shown = inside & ~jnp.take_along_axis(hides, labels, axis=0)
        parts = jnp.where(shown, labels, HIDDEN)
    into = jnp.where(parts == HIDDEN, K, parts)[:, None, :]
    rows = jnp.zeros((K + 1, d, R), sent.dtype).at[into, jnp.arange(d)[:, None], lanes].add(sent)
    return rows[:K], parts


def _masks(graph: Graph, inside: Array, waiting: Array, keys: tuple[Array, Array], d: int, dtype: Any) -> Array:
    """[K, d, R] the masks of standard deviation one that stay in the rows, one pick of every agent after the other."""
    K, k, R = graph.picks.shape
    lanes, parameters = jnp.arange(R), jnp.arange(d, dtype=jnp.uint32)[None, :, None]
    numbers, stays = jnp.arange(K, dtype=jnp.uint32)[:, None, None], inside | waiting

    def add(s: Array, total: Array) -> Array:
        other = jax.lax.dynamic_index_in_dim(graph.picks, s, 1, keepdims=False)  # [K, R]
        first = jax.lax.dynamic_index_in_dim(graph.first, s, 1, keepdims=False)
        live = first & stays & jnp.take_along_axis(stays, other, axis=0)
        words = random.threefry(keys, (numbers * jnp.uint32(k) + s.astype(jnp.uint32), parameters))
        mask = jnp.where(live[:, None, :], random.standard_normal(words, dtype), 0)
        return (total + mask).at[other[:, None, :], jnp.arange(d)[:, None], lanes].add(-mask)

    return jax.lax.fori_loop(0, k, add, jnp.zeros((K, d, R), dtype))
