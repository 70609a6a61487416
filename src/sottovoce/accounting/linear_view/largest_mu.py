"""The linear view of every agent as one number: the largest mu over gradient changes within the sensitivity.

For an observer of every message the view splits into one small system per agent: what an agent receives is read, so only its own state
and noise remain. Otherwise the whole network is one system.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting.linear_view.choice import gram, work
from sottovoce.accounting.linear_view.gram import Gram
from sottovoce.accounting.linear_view.released_model import ReleasedView, reads_only_the_model, released_view
from sottovoce.accounting.linear_view.value import LinearValue
from sottovoce.accounting.linear_view.worst_direction import best_pattern
from sottovoce.linear import BoundExchange, BoundRound, NetworkRound, Rounds, SystemRound, network_round, observed_round
from sottovoce.noise import shared_sources
from sottovoce.observers import View

LARGEST_WORK = 2e11  # multiplications beyond which the view is not computed: about half a minute
MAXIMISED = 8  # agents that are typically maximised before the worst is known
LARGEST_RESULT = 1e8  # entries of all agents' Gram matrices


class GramView(NamedTuple):
    """Gram matrices of several agents, not yet maximised."""

    agents: np.ndarray
    gram: Gram
    patterns: list[np.ndarray]  # index arrays

    def value(self, position: int, sensitivity: float) -> LinearValue:
        """Maximise over the gradient changes of the agent at this position."""
        found, clear = self.gram, int(self.gram.clear_round[position])
        adaptive, public = bool(found.adaptive[position]), bool(found.public[position])
        if clear:
            return LinearValue(np.inf, 0.0, clear, adaptive, public, int(self.agents[position]))
        best = best_pattern(found.values[position], self.patterns)
        upper, lower = max(float(best.upper), 0.0), max(float(best.lower), 0.0)
        gap = 0.0 if upper == 0 else 1.0 - np.sqrt(lower / upper)
        return LinearValue(
            float(sensitivity * np.sqrt(upper)), float(gap), 0, adaptive, public, int(self.agents[position])
        )

    def cheap_upper(self, sensitivity: np.ndarray) -> np.ndarray:
        """[P] a bound that needs no maximisation: the sum of absolute values."""
        bound = sensitivity * np.sqrt(np.abs(self.gram.values).sum(axis=(1, 2)))
        return np.where(self.gram.clear_round > 0, np.inf, bound)


LinearView = GramView | ReleasedView


def linear_view(rounds: Rounds, view: View, agents: np.ndarray, patterns: np.ndarray) -> LinearView | None:
    """The linear view of these agents; None when the computation would be too long."""
    if reads_only_the_model(view):
        return released_view(rounds, agents, patterns)
    return gram_view(rounds, view, agents, patterns)


def gram_view(rounds: Rounds, view: View, agents: np.ndarray, patterns: np.ndarray) -> GramView | None:
    """The Gram matrices of these agents; None when the computation would be too long."""
    indices = [np.flatnonzero(pattern) for pattern in patterns]
    # One maximisation costs some sixty cubes of the number of rounds, and finding the worst agent takes several.
    maximising = 60 * len(rounds) ** 3 * min(len(agents), MAXIMISED)
    if len(rounds) ** 2 * len(agents) > LARGEST_RESULT or maximising > LARGEST_WORK:
        return None
    networks = [network_round(bound) for bound in rounds.distinct]
    if _splits(rounds, view):
        return GramView(agents, _agent_by_agent(networks, rounds, agents), indices)
    q = rounds.centroid.weights
    systems = [observed_round(network, view, last=False, centroid=q) for network in networks]
    every = [systems[index] for index in rounds.which]
    if view.final_model:
        every[-1] = observed_round(networks[rounds.which[-1]], view, last=True, centroid=q)
    if min(work(every, rounds.scales, len(agents))) > LARGEST_WORK:
        return None
    return GramView(agents, gram(every, rounds.scales, agents.tolist(), need_states=view.broadcast), indices)


def _splits(rounds: Rounds, view: View) -> bool:
    """Whether reading everything leaves one independent system per agent."""
    single = all(len(bound.exchanges) == 1 and _own_sources(bound.exchanges[0]) for bound in rounds.distinct)
    return single and view.every_message and not view.final_model


def _own_sources(exchange: BoundExchange) -> bool:
    """Whether every source has one owner, and reaches nothing but its links and its own copy."""
    links, noise = exchange
    if shared_sources(noise.owners).any():
        return False
    on_link, on_own = noise.link_value != 0, noise.self_value != 0
    sent = noise.owners[noise.link_source[on_link], 0] == links.senders[noise.link_index[on_link]]
    kept = noise.owners[noise.self_source[on_own], 0] == noise.self_index[on_own]
    return bool(sent.all() and kept.all())


def _agent_by_agent(networks: list[NetworkRound], rounds: Rounds, agents: np.ndarray) -> Gram:
    """The Gram matrices of agents that stand alone; those with the same weight and noise leak the same, and are computed once."""
    keys = [_alike(network, bound) for network, bound in zip(networks, rounds.distinct, strict=True)]
    seen: dict[tuple[bytes, ...], Gram] = {}
    parts = []
    for p in agents:
        key = tuple(every[p] for every in keys)
        if key not in seen:
            seen[key] = gram(_one_agent(networks, rounds, int(p)), rounds.scales, [0])
        parts.append(seen[key])
    return Gram(*(np.concatenate([getattr(part, name) for part in parts]) for name in Gram._fields))


def _alike(network: NetworkRound, bound: BoundRound) -> list[bytes]:
    """Of every agent all that its own system depends on: the weight of its own copy, its sources on its links and in its own copy, its memory."""
    (links, noise), K = bound.exchanges[0], network.num_agents
    owner = noise.owners[:, 0]
    order = np.argsort(owner, kind="stable")
    rank = np.empty(len(owner), dtype=int)  # of a source among those of its owner
    rank[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    active = np.flatnonzero(links.weights > 0)
    by_sender = active[np.argsort(links.senders[active], kind="stable")]
    place = np.full(len(links.senders), -1)  # of a link among those of its sender
    place[by_sender] = np.arange(len(by_sender)) - np.searchsorted(links.senders[by_sender], links.senders[by_sender])
    agent = np.concatenate([links.senders[noise.link_index], noise.self_index])
    source = np.concatenate([noise.link_source, noise.self_source])
    entry = np.stack(
        [
            np.concatenate([place[noise.link_index], np.full(len(noise.self_index), -2)]),
            rank[source],
            np.concatenate([noise.link_value, noise.self_value]),
        ],
        axis=1,
    )
    own = (owner[source] == agent) & (entry[:, 0] != -1)
    agent, entry = agent[own], entry[own]
    sorting = np.lexsort((entry[:, 1], entry[:, 0], agent))
    agent, entry = agent[sorting], entry[sorting]
    ends = np.searchsorted(agent, np.arange(K + 1))
    sent = np.bincount(links.senders[active], minlength=K)
    held = np.bincount(owner[owner >= 0], minlength=K)
    head = np.stack([links.self_weights, sent, held], axis=1)
    return [
        head[p].tobytes() + bound.remembered[:, p].tobytes() + entry[ends[p] : ends[p + 1]].tobytes() for p in range(K)
    ]


def _one_agent(networks: list[NetworkRound], rounds: Rounds, agent: int) -> list[SystemRound]:
    """Agent p alone: its state, its links' rows and its own sources; what it receives from others is read, hence known."""
    made = []
    for network, bound in zip(networks, rounds.distinct, strict=True):
        K, states = network.num_agents, network.num_states
        own_states = np.arange(agent, states, K)
        own_sources = np.flatnonzero(network.owners[:, 0] == agent) + states + K
        links = bound.exchanges[0].links
        sent = network.links[0][(links.senders == agent) & network.active[0]]
        state = network.state[own_states]
        columns = (own_states, np.array([states + agent]), own_sources)
        parts = [sparse.csr_array(rows[:, part]) for rows in (state, sent) for part in columns]
        made.append(SystemRound(*parts))
    return [made[index] for index in rounds.which]
