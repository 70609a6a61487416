"""What an observer will see of a run, row by row, and where every noise source goes; host-side values, fixed before the first round.

An ordinary run adds up noise before it draws it. A recorded one draws every source z_s and forms what every link and every own copy carries,

    link l -> k:   psi_l + sum_s link_map[(l, k), s] z_s,        own copy of k:   psi_k + sum_s self_map[k, s] z_s

(noise/noise.py). Where everybody sends one message, to a relay or with a token, that message is the own copy, and what a relay adds is left out of
it. Rows are in the order of `topology.links`, those of a federation in the order of the agents, sources in the order of the bound map: the rows
and columns of linear/network.py.

The matrices of a list can have different sources, as in local graph-homomorphic noise, and so can the maps of a scheme that change from round to
round. Then every matrix or map has rows of its own among the sources, which are zero in the rounds of the others.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import centroid, exchange_topologies
from sottovoce.noise import GENERATOR, RELAY, Noise, NoiseMap, bind, joined_owners, known_sources
from sottovoce.observers import Observer, View, view
from sottovoce.reprs import short_repr
from sottovoce.simulation.rounds.links import possible_links
from sottovoce.simulation.rounds.neighbours import Group, group_by_width
from sottovoce.simulation.rounds.perturbation import joined_maps, links_of_cycle
from sottovoce.simulation.views.masks import MaskPlan, plan_masks
from sottovoce.topologies import ActiveLinks, Listed, Static, Topology, Walk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The names of the rows of a view.

    Attributes:
        links: per exchange [E_o, 2] the (sender, receiver) of every message; the receiver of an uplink is `sv.noise.RELAY`. Under masks
            there is one uplink per agent, and what it holds is said in masks.py.
        sources: per exchange [S_o, w] who knows each source, as in a noise map. With noise in gradients one entry more, the last: the members
            in order, for the first gradient of the round, then for the second, and so on. Sums that a generator has told members come after the
            sources of their exchange, as (GENERATOR, member).
        broadcast: whether what a relay sends out is a part of the view.
        final_model: whether the centroid of the final models is.
        noisy_gradients: whether the last of `sources` is noise in gradients.
    """

    links: tuple[np.ndarray, ...]
    sources: tuple[np.ndarray, ...]
    broadcast: bool
    final_model: bool
    noisy_gradients: bool

    def __repr__(self) -> str:
        return short_repr(self)


class Channel(NamedTuple):
    """One exchange as a recorded round uses it."""

    topology: Topology
    noise: Noise
    links: ActiveLinks  # of a round with all links; the receivers weigh as in the centroid
    map: NoiseMap  # all rounds together; values [m], [n, m] for a list of n matrices
    read: np.ndarray  # [E_o] positions of the messages that are seen
    known: np.ndarray  # [S_o] positions of the sources that are known
    on_links: tuple[Group, ...]  # sources of every link
    on_own: tuple[Group, ...]  # sources of every own copy
    gather: tuple[Group, ...]  # links of every receiver
    used: np.ndarray | None  # [n, S] the sources of each matrix of a list; None: all of them in every round
    told: (
        np.ndarray | None
    )  # [n, members, S] the sums that a generator has told members, n as in the values; None: there is no generator

    @property
    def one_message(self) -> bool:
        """Whether everybody sends one message, to a relay or with a token."""
        return self.topology.relay or isinstance(self.topology.schedule, Walk)

    @property
    def drawn(self) -> bool:
        """Whether the weights, and with them the noise map, are drawn in every round."""
        return not isinstance(self.topology.schedule, Static | Listed | Walk)


class ViewPlan(NamedTuple):
    """An observer bound to the exchanges of an algorithm."""

    view: View
    channels: tuple[Channel, ...]
    layout: Layout
    masks: MaskPlan | None  # None: messages are read as they were sent


def plan_view(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, honest: int | None = None
) -> ViewPlan:
    """Bind an observer, and the noise with each source on its own, to every exchange of a round.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        observer: who looks.
        honest: an agent that is none of the members without names.

    Raises:
        ConfigError: an observer whose members are not named where nothing is masked, or who has all agents.
        IncompatibleChoice: the observer, the noise and the topology do not fit, or masks are too large.
    """
    topologies = exchange_topologies(algorithm, topology)
    sees = view(observer, *topologies)
    masks = plan_masks(algorithm, observer, sees.members, honest)
    if masks is not None:  # what is published stands on a board for all
        sees = sees._replace(every_message=True, broadcast=True)
    receivers = centroid(algorithm, topology).receivers
    channels = tuple(_channel(noise, used, receivers[e], sees, e) for e, used in enumerate(topologies))
    shown = _layout(algorithm, noise, sees, channels, masked=masks is not None)
    return ViewPlan(sees, channels, shown, masks)


def _layout(algorithm: Algorithm, noise: Noise, sees: View, channels: tuple[Channel, ...], *, masked: bool) -> Layout:
    sources = [_known_names(channel, sees) for channel in channels]
    if noise.in_gradients:
        members = np.tile(np.flatnonzero(sees.members), algorithm.gradients_per_round)
        sources.append(np.stack([members, np.full_like(members, -1)], axis=1))
    return Layout(
        links=tuple(_names(channel) for channel in channels),
        sources=tuple(sources),
        # Whoever reads every message can do without, but not without the rows of members who have no names.
        broadcast=sees.broadcast and (masked or not sees.every_message),
        final_model=sees.final_model,
        noisy_gradients=noise.in_gradients,
    )


def _known_names(channel: Channel, sees: View) -> np.ndarray:
    """Who knows each source that is known, and whom each sum was told that is."""
    owners: np.ndarray = channel.map.owners[channel.known]
    if channel.told is None:
        return owners
    members = np.flatnonzero(sees.members)
    return joined_owners([owners, np.stack([np.full_like(members, GENERATOR), members], axis=1)])


def _names(channel: Channel) -> np.ndarray:
    """The (sender, receiver) of every message that is seen."""
    if channel.topology.relay:
        return np.stack([channel.read, np.full_like(channel.read, RELAY)], axis=1)
    return np.array(channel.topology.links[channel.read])


def _channel(noise: Noise, topology: Topology, receivers: np.ndarray, sees: View, exchange: int) -> Channel:
    every = links_of_cycle(noise, [links._replace(perron=receivers) for links in _links_of_rounds(topology)])
    drawn = not isinstance(topology.schedule, Static | Listed | Walk)
    # Promises on drawn links are checked where an ordinary run is planned; here the structure counts.
    maps = [noise.spread(links) if drawn else bind(noise, links, round_=t + 1) for t, links in enumerate(every)]
    joined, used = joined_maps(maps)
    owners = joined.owners
    known = known_sources(owners, sees.members) | ((owners[:, 0] == RELAY) & sees.every_message)
    uplinks = np.arange(topology.num_agents if sees.every_message else 0)
    one_message = topology.relay or isinstance(topology.schedule, Walk)
    links, num_agents, nothing = every[0], topology.num_agents, ()
    return Channel(
        topology=topology,
        noise=noise,
        links=links,
        map=joined,
        read=uplinks if topology.relay else np.flatnonzero(sees.links[exchange]),
        known=np.flatnonzero(known),
        on_links=nothing if one_message else group_by_width(joined.link_index, joined.link_source, len(links.senders)),
        on_own=group_by_width(joined.self_index, joined.self_source, num_agents),
        gather=nothing if one_message else group_by_width(links.receivers, np.arange(len(links.receivers)), num_agents),
        used=used,
        told=_told(joined, sees.members) if joined.of_generator.any() else None,
    )


def _told(joined: NoiseMap, members: np.ndarray) -> np.ndarray:
    """[n, members, S] what every member adds of the sources that a generator draws, in each round of the list."""
    values = np.atleast_2d(joined.self_value) * joined.of_generator[joined.self_source]
    sums = np.zeros((len(values), len(members), joined.num_sources))
    for table, row in zip(sums, values, strict=True):
        np.add.at(table, (joined.self_index, joined.self_source), row)
    return sums[:, members]


def _links_of_rounds(topology: Topology) -> list[ActiveLinks]:
    """The rounds of a list; one round with all links for any other schedule."""
    if isinstance(topology.schedule, Static | Listed):
        return possible_links(topology)
    ends = topology.links
    return [ActiveLinks(ends[:, 0], ends[:, 1], topology.link_weights, topology.self_weights, topology.perron)]


def relay_part(channel: Channel) -> np.ndarray:
    """[S] what everybody receives of each source that a relay adds to its average; zero for the agents' sources."""
    received = np.zeros(channel.map.num_sources)
    values = channel.topology.perron[channel.map.self_index] * channel.map.self_value
    np.add.at(received, channel.map.self_source, values)
    return np.asarray(received * channel.map.of_relay)


def channel_arrays(channel: Channel) -> dict[str, Any]:
    """What a recorded round reads about one exchange, to pass to the compiled program."""
    held: dict[str, Any] = {"link": channel.links.weights, "own": channel.links.self_weights}
    values = channel.map.self_value
    if channel.topology.relay:
        held["relay"] = relay_part(channel)
        values = values * ~channel.map.of_relay[channel.map.self_source]
    if not channel.drawn:
        held["link_value"], held["self_value"] = channel.map.link_value, values
    if channel.used is not None:
        held["used"] = channel.used
    if channel.told is not None:
        held["told"] = channel.told
    groups = {"on_links": channel.on_links, "on_own": channel.on_own, "gather": channel.gather}
    for name, parts in groups.items():
        held[name] = [{"source": g.source, "entry": g.entry, "present": g.present} for g in parts]
    return held
