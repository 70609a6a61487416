"""Whom parties no longer hear, before anybody votes: what each says of its own neighbours, and who is out of everybody's reach.

A doubt binds nobody. Whoever hears a neighbour again takes it back, and says so with a higher number. Only when **all** neighbours of a party that are left
doubt it is it out of reach, and the others vote to go on without it: one cut link, or a short partition, leaves nothing behind. Votes cannot be taken back.
"""

from collections.abc import Collection, Iterator, Mapping

from sottovoce.deployment.terms import Agreement


def neighbours_in(agreement: Agreement) -> dict[str, frozenset[str]]:
    """Whom each member of an agreement exchanges words with in some round."""
    found: dict[str, set[str]] = {member.name: set() for member in agreement.members}
    for one, other in _pairs(agreement):
        found[one].add(other)
        found[other].add(one)
    return {name: frozenset(others) for name, others in found.items()}


def _pairs(agreement: Agreement) -> Iterator[tuple[str, str]]:
    for relay in (member.name for member in agreement.members if member.role == "relay"):
        yield from ((agent, relay) for agent in agreement.agents)
    names = agreement.agents
    for links in (links for network in agreement.learning.networks for links in network.rounds):
        yield from ((names[one], names[other]) for one, other in zip(links.senders, links.receivers, strict=True))


def out_of_reach(
    doubts: Mapping[str, frozenset[str]],
    neighbours: Mapping[str, frozenset[str]],
    left: Collection[str],
) -> frozenset[str]:
    """The most parties of whom all neighbours that are not among them say that they do not hear them.

    Args:
        doubts: whom each party does not hear.
        neighbours: of every party.
        left: who has finished and may have left, and so need not say anything.
    """
    found = frozenset(name for doubted in doubts.values() for name in doubted)
    while True:
        kept = frozenset(
            name
            for name in found
            if all(name in doubts.get(other, ()) for other in neighbours[name] - found if other not in left)
        )
        if kept == found:
            return found
        found = kept
