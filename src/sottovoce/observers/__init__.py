"""Observers: who looks, as data."""

from collections.abc import Callable, Iterable
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, is_whole
from sottovoce.observers import text_forms
from sottovoce.observers.observer import Observer, View, coalitions, view
from sottovoce.observers.text_forms import TextForm


def eavesdropper() -> Observer:
    """Someone who reads every link (in a federation: every uplink and the broadcast), but no agent's own copy."""
    return Observer(name="eavesdropper", all_links=True)


def curious_agent(agent: int) -> Observer:
    """One agent: reads what it is sent and knows its own noise, data and models."""
    return Observer(name=f"curious agent {agent}", members=(_agent(agent),))


def coalition(agents: Iterable[int]) -> Observer:
    """Several agents who put together what they are sent and what they know."""
    members = tuple(sorted({_agent(agent) for agent in agents}))
    if not members:
        raise ConfigError("a coalition needs at least one agent; none was given.")
    return Observer(name=f"coalition {', '.join(map(str, members))}", members=members)


def any_coalition(agents: int) -> Observer:
    """Any so many agents together, whichever learn most."""
    if not is_whole(agents, 1):
        raise ConfigError(f"agents = {agents!r}; a coalition of any agents has a whole number of them, at least 1.")
    return Observer(name=f"any {agents} agents" if agents > 1 else "any agent", any_members=int(agents))


def server() -> Observer:
    """The relay of a federation: reads what every agent sends to it."""
    return Observer(name="server", server=True)


def colluding_server(share: float) -> Observer:
    """The relay of a federation together with a share of its agents, nobody knows which, chosen before any public draw."""
    if not is_number(share, "[0, 1)"):
        raise ConfigError(f"share = {share!r}; it is the part of the agents that collude, at least 0 and below 1.")
    return Observer(name=f"server and {100 * share:g} % of the agents", server=True, colluding=float(share))


def links(pairs: Iterable[tuple[int, int]]) -> Observer:
    """Someone who reads the given links, each (sender, receiver)."""
    tapped = tuple(sorted({(_agent(sender), _agent(receiver)) for sender, receiver in pairs}))
    if not tapped:
        raise ConfigError("links() needs at least one (sender, receiver); none was given.")
    return Observer(name="links " + ", ".join(f"{sender}->{receiver}" for sender, receiver in tapped), links=tapped)


def final_model() -> Observer:
    """Whoever gets the centroid of the final models, and nothing else."""
    return Observer(name="final model", final_model=True)


def _agent(agent: Any) -> int:
    if not is_whole(agent, 0):
        raise ConfigError(f"agent {agent!r} is no whole number of at least 0; agents are numbered from 0.")
    return int(agent)


OBSERVERS: dict[str, Callable[..., Observer]] = {
    "eavesdropper": eavesdropper,
    "curious_agent": curious_agent,
    "coalition": coalition,
    "any_coalition": any_coalition,
    "server": server,
    "colluding_server": colluding_server,
    "links": links,
    "final_model": final_model,
}

TEXT_FORMS: dict[str, TextForm] = {  # how text says what an observer takes, where it takes something
    "curious_agent": TextForm("curious_agent:3", text_forms.one_agent),
    "coalition": TextForm("coalition:1,2", text_forms.agents),
    "any_coalition": TextForm("any_coalition:2", text_forms.number),
    "links": TextForm("links:2->3,4->3", text_forms.pairs),
    "colluding_server": TextForm("colluding_server:0.5", text_forms.share),
}


def observer_named(text: str) -> Observer:
    """The observer that a file or a command line names: "eavesdropper", "coalition:1,2", "links:2->3", "server+final_model".

    Raises:
        ConfigError: an unknown name, or agents or links that cannot be read.
    """
    return text_forms.named(text, OBSERVERS, TEXT_FORMS)


__all__ = [
    "OBSERVERS",
    "Observer",
    "View",
    "any_coalition",
    "coalition",
    "coalitions",
    "colluding_server",
    "curious_agent",
    "eavesdropper",
    "final_model",
    "links",
    "server",
    "view",
]


def __dir__() -> list[str]:
    return [*__all__]
