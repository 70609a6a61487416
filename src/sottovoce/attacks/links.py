"""Messages on links as an attack takes them: which link carried what, checked once against the arrays and the network."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.attacks.arrays import Floats, finite
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.topologies import ActiveLinks, Static, Topology

Positions = NDArray[np.int64]


def checked_messages(messages: ArrayLike, links: ArrayLike) -> tuple[Floats, Positions]:
    """Return messages [repeats, rounds, E, d] and the (sender, receiver) [E, 2] of each of their links.

    Raises:
        ConfigError: messages that are not finite numbers with four axes, or links that are not whole-numbered pairs, one for each.
    """
    seen, pairs = finite("messages", messages, axes=4), np.asarray(links)
    if pairs.dtype.kind not in "iu" or pairs.shape != (seen.shape[2], 2):
        raise ConfigError(
            f"links have type {pairs.dtype} and shape {pairs.shape}; messages {seen.shape} need one whole-numbered "
            f"(sender, receiver) for each of their {seen.shape[2]} links."
        )
    return seen, pairs.astype(np.int64)


def fixed_links(topology: Topology) -> ActiveLinks:
    """Return the links of every round, where they are the same in all of them.

    Raises:
        IncompatibleChoice: links that change from round to round.
    """
    if not isinstance(topology.schedule, Static):
        raise IncompatibleChoice(
            f"what links carry is known for fixed weights; the links of '{topology.name}' change from round to round. "
            f"Use a topology without a schedule."
        )
    return topology.active_links()


def places_of(pairs: ArrayLike) -> dict[tuple[int, int], int]:
    """Return where each (sender, receiver) stands in [E, 2]."""
    return {(int(sender), int(receiver)): position for position, (sender, receiver) in enumerate(np.asarray(pairs))}


def rows_of(pairs: Positions, active: ActiveLinks) -> list[int]:
    """Return the position among the active links of each of these pairs [n, 2].

    Raises:
        ConfigError: a pair that is no link.
    """
    places = places_of(np.stack([active.senders, active.receivers], axis=1))
    wanted = [(int(sender), int(receiver)) for sender, receiver in pairs]
    unknown = [pair for pair in wanted if pair not in places]
    if unknown:
        raise ConfigError(
            f"the links {unknown[:3]} are not in the topology. Give (sender, receiver) pairs of topology.links."
        )
    return [places[pair] for pair in wanted]
