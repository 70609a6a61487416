"""Who looks: an observer is data, the same for the accountant and for an attack.

    reads       which messages it sees: those on all links, on given links, into its members, or a server's uplinks
    members     agents it consists of; it knows every noise source that a member owns or shares, and the members' data
    final model whether it is given the centroid (the Perron-weighted average) of the final models

Two observers who put together what they know are `first + second`: an eavesdropper who also gets the published model is
eavesdropper() + final_model(). An observer is a value without a topology; `view` says what it sees on one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.topologies import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """What someone sees and knows."""

    name: str
    all_links: bool = False
    server: bool = False
    members: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    final_model: bool = False

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
        )

    @property
    def sees_messages(self) -> bool:
        """Whether it reads any message at all."""
        return self.all_links or self.server or bool(self.members) or bool(self.links)

    def __str__(self) -> str:
        return self.name


class View(NamedTuple):
    """An observer on a topology."""

    links: np.ndarray  # [E] bool: the links it reads
    every_message: bool  # it reads what every agent sends
    broadcast: bool  # it receives what a relay sends out
    members: np.ndarray  # [K] bool
    final_model: bool


def view(observer: Observer, topology: Topology) -> View:
    """What the observer sees on this topology.

    Raises:
        ConfigError: a member or link that the topology does not have, or nobody is left to protect.
        IncompatibleChoice: a server without a federation, or single links of a federation.
    """
    K = topology.num_agents
    members = np.zeros(K, dtype=bool)
    for agent in observer.members:
        if not 0 <= agent < K:
            raise ConfigError(f"{observer.name}: there is no agent {agent}; the agents are 0 to {K - 1}.")
        members[agent] = True
    if members.all():
        raise ConfigError(
            f"{observer.name}: all {K} agents belong to it, so there is nobody whose data it could learn."
        )
    if observer.server and not topology.relay:
        raise IncompatibleChoice(
            f"a server was named as observer, but '{topology.name}' has none: its agents talk to each other. "
            f"Use sv.observers.eavesdropper(), or sv.topologies.federation(n)."
        )
    if observer.links and topology.relay:
        raise IncompatibleChoice(
            "single links were named as observed, but in a federation every message passes through the relay. "
            "Use sv.observers.server() for all uplinks, or curious_agent(k) for the broadcast."
        )
    senders, receivers = topology.links[:, 0], topology.links[:, 1]
    every_message = observer.all_links or observer.server
    if topology.relay:
        read = np.full(len(senders), every_message)
        return View(read, every_message, bool(observer.members) or every_message, members, observer.final_model)
    read = members[receivers] | observer.all_links | _tapped(observer, topology)
    # What a member sends, the observer knows already.
    return View(read, bool((read | members[senders]).all()), False, members, observer.final_model)


def _tapped(observer: Observer, topology: Topology) -> np.ndarray:
    senders, receivers = topology.links[:, 0], topology.links[:, 1]
    tapped = np.zeros(len(senders), dtype=bool)
    for sender, receiver in observer.links:
        found = (senders == sender) & (receivers == receiver)
        if not found.any():
            raise ConfigError(f"{observer.name}: there is no link from {sender} to {receiver} in '{topology.name}'.")
        tapped |= found
    return tapped
