"""The weights of the links in every round, and the combination they define: sum_l a_lk psi_l.

A fixed topology has constant weights; a listed schedule reads them from a table; drop-outs and random pairs are drawn inside the
compiled round, per repeat, from counters addressed by the pair of agents, so both ends agree. A dropped link's weight goes back to
the receiver's self-weight.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.neighbours import Group, expand, group_by_width, weighted_sum
from sottovoce.topologies import MATRIX_LIMIT, ActiveLinks, Dropout, Listed, RandomPair, Static, Topology, Walk

Array = Any
SAMPLED_ROUNDS = 16  # rounds of a random schedule on which a scheme's promises are checked
DENSE_AGENTS = 50  # up to this many agents one small dense product beats neighbour lists,
DENSE_FILL = 0.5  # and so it does on graphs with more than this share of all links


class Weights(NamedTuple):
    """The weights of one round: of every link [E] or [E, R], of every agent's own copy [K] or [K, R]."""

    link: Array
    own: Array


class Hop(NamedTuple):
    """One hop of a token per repeat: from whom to whom."""

    sender: Array  # [R]
    receiver: Array  # [R]


class LinkPlan(NamedTuple):
    """The structure of a topology's links as a compiled round uses it."""

    topology: Topology
    groups: tuple[Group, ...]
    dense: bool

    @property
    def fixed(self) -> bool:
        """Whether the weights are the same in every round and repeat."""
        return isinstance(self.topology.schedule, Static)


def plan_links(topology: Topology) -> LinkPlan:
    """Choose how to combine over a topology."""
    num_agents, links = topology.num_agents, topology.links
    full = num_agents <= MATRIX_LIMIT and len(links) > DENSE_FILL * num_agents**2
    dense = isinstance(topology.schedule, Static) and (num_agents <= DENSE_AGENTS or full) and not topology.relay
    groups = (
        ()
        if dense or topology.relay or isinstance(topology.schedule, Walk)
        else group_by_width(links[:, 1], links[:, 0], num_agents)
    )
    return LinkPlan(topology, groups, dense)


def link_arrays(plan: LinkPlan) -> dict[str, Any]:
    """Everything a round reads about the links, as arrays to pass to the compiled program."""
    topology = plan.topology
    if isinstance(topology.schedule, Walk):
        return {}  # the path depends on the run
    if topology.relay:
        return {"shares": topology.perron}
    if plan.dense:
        return {"matrix": topology.matrix}
    groups = [{"source": group.source, "entry": group.entry, "present": group.present} for group in plan.groups]
    arrays: dict[str, Any] = {"groups": groups}
    if plan.fixed:
        for group, held in zip(plan.groups, groups, strict=True):
            held["weight"] = (
                topology.link_weights[group.entry] * group.present if len(topology.links) else group.present
            )
        arrays["own"] = topology.self_weights
    elif isinstance(topology.schedule, Listed):
        active = possible_links(topology)
        arrays["table_link"] = np.stack([links.weights for links in active])
        arrays["table_own"] = np.stack([links.self_weights for links in active])
    else:
        arrays["link"], arrays["own"] = topology.link_weights, topology.self_weights
        arrays["pair"] = topology.link_pairs.astype(np.int32)
        # A pair is addressed by its two agents, so that it is up or down for a whole round, in whichever exchange it is used.
        arrays["ends"] = topology.pairs[topology.link_pairs].astype(np.int32)
        arrays["receiver"] = topology.links[:, 1].astype(np.int32)
    return arrays


def hop_of_round(path: Array, round_: Array, repeats: Array) -> Hop:
    """The hop of a round in these repeats, from the holders [all repeats, rounds + 1]."""
    ids = repeats.astype(jnp.int32)
    return Hop(path[ids, round_ - 1], path[ids, round_])


def possible_links(topology: Topology) -> list[ActiveLinks]:
    """The weights the rounds of a topology use: all of them when they can be listed, some drawn ones when they are random."""
    schedule, generator = topology.schedule, np.random.default_rng(0)
    if isinstance(schedule, Dropout):
        kept = generator.random((SAMPLED_ROUNDS, topology.num_pairs)) >= schedule.probability
        return [topology.active_links(), *(topology.dropped(row) for row in kept)]
    if isinstance(schedule, RandomPair):
        return [topology.paired(int(pair)) for pair in generator.integers(topology.num_pairs, size=SAMPLED_ROUNDS)]
    return [listed.active_links() for listed in topology.listed()]


def weights_of_round(plan: LinkPlan, arrays: dict[str, Any], round_: Array, keys: tuple[Array, Array]) -> Weights:
    """The weights of a round; drawn per repeat where the schedule is random."""
    schedule = plan.topology.schedule
    if isinstance(schedule, Listed):
        index = (round_ - 1) % arrays["table_link"].shape[0]
        return Weights(arrays["table_link"][index], arrays["table_own"][index])
    words = random.round_keys(keys, round_, 0)
    if isinstance(schedule, Dropout):
        draws = random.threefry(
            words, (arrays["ends"][:, :1].astype(jnp.uint32), arrays["ends"][:, 1:].astype(jnp.uint32))
        )
        dropped = random.uniform(draws, arrays["link"].dtype) < schedule.probability  # [E, R]
        link = jnp.where(dropped, 0, arrays["link"][:, None])
        returned = jnp.where(dropped, arrays["link"][:, None], 0)
        own = jnp.zeros((plan.topology.num_agents, link.shape[1]), link.dtype).at[arrays["receiver"]].add(returned)
        return Weights(link, own + arrays["own"][:, None])
    assert isinstance(schedule, RandomPair)
    chosen = random.below(random.threefry(words, (jnp.uint32(0), jnp.uint32(0))), plan.topology.num_pairs)  # [R]
    active = arrays["pair"][:, None] == chosen
    link = active * jnp.asarray(0.5, arrays["link"].dtype)
    given = jnp.zeros((plan.topology.num_agents, link.shape[1]), link.dtype).at[arrays["receiver"]].add(link)
    return Weights(link, 1 - given)


def combine(plan: LinkPlan, arrays: dict[str, Any], weights: Weights | Hop | None, messages: Array) -> Array:
    """sum_l a_lk messages[l] for every receiver k, own copy included; messages [K, d, ..., R]."""
    if isinstance(weights, Hop):
        lanes = jnp.arange(messages.shape[-1])
        return messages.at[weights.receiver, ..., lanes].set(messages[weights.sender, ..., lanes])
    flat = messages.reshape(messages.shape[0], -1)
    if plan.topology.relay:  # one average for all
        average = jnp.matmul(arrays["shares"], flat, precision="highest")
        return jnp.broadcast_to(average, flat.shape).reshape(messages.shape)
    if plan.dense:
        # Full precision: accelerators would otherwise shorten float32 products to about ten bits.
        return jnp.matmul(arrays["matrix"].T, flat, precision="highest").reshape(messages.shape)
    if weights is None:
        held, own = arrays["groups"], arrays["own"]
    else:
        own = weights.own
        held = [
            {"source": h["source"], "weight": expand_present(h["present"], weights.link[h["entry"]])}
            for h in arrays["groups"]
        ]
    return weighted_sum(plan.groups, held, messages, expand(own, messages.ndim) * messages)


def expand_present(present: Array, values: Array) -> Array:
    """Zero the padded places of [G, J] or [G, J, R] values."""
    return values * (present if values.ndim == 2 else present[:, :, None])
