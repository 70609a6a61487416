"""Who looks: an observer is data, the same for the accountant and for an attack.

    reads       which messages it sees: those on all links, on given links, into its members, or a server's uplinks
    members     agents it consists of; it knows every noise source that a member owns or shares, and the members' data
    colluding   share of further agents that belong to it, nobody knows which; they were chosen before any public draw
    any members number of further agents that belong to it, whichever are worst: it stands for all observers that `coalitions` lists
    final model whether it is given the centroid (the Perron-weighted average) of the final models

Two observers who put together what they know are `first + second`: an eavesdropper who also gets the published model is
eavesdropper() + final_model(). An observer is a value without a topology; `view` says what it sees on one.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import is_number, is_whole
from sottovoce.reprs import short_repr
from sottovoce.topologies import Topology

MOST_COALITIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """What someone sees and knows."""

    name: str
    all_links: bool = False
    server: bool = False
    members: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    final_model: bool = False
    colluding: float = 0.0
    any_members: int = 0

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        """Refuse a share of agents that is none: it would count as fewer agents than belong to the observer."""
        share = self.colluding
        if not is_number(share, "[0, 1]"):
            raise ConfigError(
                f"{self.name}: colluding = {share!r}; it is the part of the agents that belong to the observer, a number "
                f"from 0 to 1."
            )
        if not is_whole(self.any_members, 0):
            raise ConfigError(
                f"{self.name}: any_members = {self.any_members!r}; it is a number of agents, whole and at least 0."
            )

    def __add__(self, other: "Observer") -> "Observer":
        """The two together: every message, source and model that either has."""
        if not isinstance(other, Observer):
            return NotImplemented
        return Observer(
            name=f"{self.name} + {other.name}",
            all_links=self.all_links or other.all_links,
            server=self.server or other.server,
            members=tuple(sorted({*self.members, *other.members})),
            links=tuple(sorted({*self.links, *other.links})),
            final_model=self.final_model or other.final_model,
            colluding=min(1.0, self.colluding + other.colluding),
            any_members=self.any_members + other.any_members,
        )

    @property
    def sees_messages(self) -> bool:
        """Whether it reads any message at all."""
        return (
            self.all_links
            or self.server
            or bool(self.members)
            or bool(self.links)
            or self.colluding > 0
            or self.any_members > 0
        )

    def corrupted(self, num_agents: int) -> int:
        """How many agents belong to it, at most."""
        return len(self.members) + self.any_members + int(np.floor(self.colluding * num_agents * (1.0 + 1e-12)))

    def __str__(self) -> str:
        return self.name


class View(NamedTuple):
    """An observer on the topologies of a round's exchanges."""

    links: tuple[np.ndarray, ...]  # per exchange [E] bool: the links it reads
    every_message: bool  # it reads what every agent sends
    broadcast: bool  # it receives what a relay sends out
    members: np.ndarray  # [K] bool
    final_model: bool

    def __repr__(self) -> str:
        return short_repr(self)


def view(observer: Observer, *topologies: Topology) -> View:
    """What the observer sees of exchanges over these topologies (usually one).

    Raises:
        ConfigError: a member or link that the topology does not have, or nobody is left to protect.
        IncompatibleChoice: a server without a federation, single links of a federation, messages of one agent alone, or exchanges of both
            kinds.
    """
    if observer.any_members:
        raise ConfigError(
            f"{observer.name} stands for many observers, and one is needed here. Name its members: sv.observers.coalition([...])."
        )
    relay = _has_relay(topologies)
    members = _members(observer, topologies[0].num_agents)
    _refuse_what_is_not_there(observer, topologies[0], relay)
    if relay:
        every_message = observer.all_links or observer.server
        read = tuple(np.full(len(topology.links), every_message) for topology in topologies)
        return View(read, every_message, bool(observer.members) or every_message, members, observer.final_model)
    read = _read(observer, topologies, members)
    # What a member sends, the observer knows already.
    known = [one | members[topology.links[:, 0]] for topology, one in zip(topologies, read, strict=True)]
    return View(read, all(bool(one.all()) for one in known), False, members, observer.final_model)


def coalitions(observer: Observer, num_agents: int) -> list[Observer]:
    """The observers for which one stands: itself, or with every choice of its further members.

    Raises:
        ConfigError: nobody is left to protect, or there are too many to look at each.
    """
    if not observer.any_members:
        return [observer]
    others = [agent for agent in range(num_agents) if agent not in observer.members]
    if len(others) <= observer.any_members:
        raise ConfigError(
            f"{observer.name}: with {num_agents} agents nobody is left whose data it could learn. Name a smaller coalition."
        )
    count = comb(len(others), observer.any_members)
    if count > MOST_COALITIONS:
        raise ConfigError(
            f"{observer.name} stands for {count:,} coalitions, and each is looked at; the limit is {MOST_COALITIONS:,}. Name smaller ones."
        )
    made = []
    for chosen in combinations(others, observer.any_members):
        members = tuple(sorted((*observer.members, *chosen)))
        made.append(replace(observer, members=members, any_members=0, name=f"{observer.name} ({_listed(members)})"))
    return made


def _listed(members: tuple[int, ...]) -> str:
    return ", ".join(map(str, members))


def _refuse_what_is_not_there(observer: Observer, topology: Topology, relay: bool) -> None:
    if relay and observer.sees_messages and topology.num_agents == 1:
        raise IncompatibleChoice(
            f"{observer.name}: a federation of one agent sends no messages that could be read; whoever computes there holds the data. Use "
            f"sv.observers.final_model(), who gets what comes out."
        )
    if observer.server and not relay:
        raise IncompatibleChoice(
            f"a server was named as observer, but '{topology.name}' has none: its agents talk to each other. "
            f"Use sv.observers.eavesdropper(), or sv.topologies.federation(n)."
        )
    if observer.links and relay:
        raise IncompatibleChoice(
            "single links were named as observed, but in a federation every message passes through the relay. "
            "Use sv.observers.server() for all uplinks, or curious_agent(k) for the broadcast."
        )


def _has_relay(topologies: tuple[Topology, ...]) -> bool:
    if len({topology.relay for topology in topologies}) > 1:
        raise IncompatibleChoice(
            "some exchanges of a round pass through a relay and others do not, and what an observer sees of such a round is not "
            "defined. Use exchanges of one kind."
        )
    return topologies[0].relay


def _members(observer: Observer, num_agents: int) -> np.ndarray:
    members = np.zeros(num_agents, dtype=bool)
    for agent in observer.members:
        if not 0 <= agent < num_agents:
            raise ConfigError(f"{observer.name}: there is no agent {agent}; the agents are 0 to {num_agents - 1}.")
        members[agent] = True
    if members.all():
        raise ConfigError(
            f"{observer.name}: all {num_agents} agents belong to it, so there is nobody whose data it could learn."
        )
    return members


def _read(observer: Observer, topologies: tuple[Topology, ...], members: np.ndarray) -> tuple[np.ndarray, ...]:
    """Per exchange [E] bool: the links into members and those that are tapped; each of these must exist in some exchange."""
    read = [members[topology.links[:, 1]] | observer.all_links for topology in topologies]
    for sender, receiver in observer.links:
        found = [(topology.links == (sender, receiver)).all(axis=1) for topology in topologies]
        if not any(one.any() for one in found):
            raise ConfigError(
                f"{observer.name}: there is no link from {sender} to {receiver} in '{topologies[0].name}'."
            )
        read = [before | one for before, one in zip(read, found, strict=True)]
    return tuple(read)
