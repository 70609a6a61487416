"""What the sources of a bound noise map become on the lattice: whole numbers that agents add, or masks that they add modulo 2^64.

Own noise. A link carries m + sum_s v_s Z_s with m the message in units and Z_s whole numbers, v_s = +1 or -1. A map may want other multiples:

    all links that carry source s carry the same multiple v      Z_s is drawn at |v| times the scale of the round, and added with the sign of v
    two agents share source s, one carries k r, the other k' r   Z_s is drawn at r times the scale, added k times and k' times (`terms.whole_multiples`)
    an own copy carries another multiple w than the links        round((w / |v|) Z_s): a function of what was drawn, and nobody else's
    links carry different multiples of one source                refused: a fraction of a whole number is none, and rounded anew on every link the
                                                                 noise would not be the one that the accountant knows

Sources that two agents share are drawn by both, at the same scale and from the same key, so both get the same whole numbers.

Masks. Where a scheme promises that its noise cancels at every receiver, what is sent is weighed by the SENDER, round(2^f a_lk psi_l), and the
receiver adds up modulo 2^64. Sources are replaced by words that are uniform modulo 2^64, known to the pair that shares them; one of the
pair adds them and the other subtracts them. For that the multiple of a source, times the weight, must be +1 on one link into a receiver and -1 on
another; other maps are refused. Uniform words hide more than any finite noise, and leave nothing behind.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.deployment.terms import multiples
from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import RELAY, Noise, NoiseMap
from sottovoce.topologies import ActiveLinks

SAME = 1e-12  # relative difference of multiples that count as equal: what dividing and multiplying by a weight leaves
NOBODY = -1  # stands for the other owner of a source that one agent owns alone


class Perturbation(NamedTuple):
    """The sources of one exchange, and with which sign or factor they enter what agents send and keep."""

    owners: np.ndarray  # [S, 2]
    sizes: np.ndarray  # [S] a source is drawn at this multiple of the round's scale; 0: it is not drawn
    link_index: np.ndarray  # [m] position of the link
    link_source: np.ndarray  # [m]
    link_multiple: (
        np.ndarray
    )  # [m] int64: of what was drawn; +1 or -1, or another whole number where two agents share it
    self_index: np.ndarray  # [n] agent
    self_source: np.ndarray  # [n]
    self_factor: np.ndarray  # [n] of what was drawn; +1, -1 or another number
    masked: bool  # sources are words modulo 2^64, and messages are weighed by their senders


def perturbation(noise: Noise, bound: NoiseMap, links: ActiveLinks) -> Perturbation:
    """Read a map that is bound to the links of an exchange.

    Raises:
        IncompatibleChoice: the map cannot be carried by whole numbers, or gives an agent a source that it does not know.
    """
    used = (np.asarray(bound.link_value) != 0) & (links.weights[bound.link_index] > 0)
    kept = np.asarray(bound.self_value) != 0
    entries = bound._replace(
        link_index=bound.link_index[used],
        link_source=bound.link_source[used],
        link_value=np.asarray(bound.link_value, dtype=np.float64)[used],
        self_index=bound.self_index[kept],
        self_source=bound.self_source[kept],
        self_value=np.asarray(bound.self_value, dtype=np.float64)[kept],
    )
    _check_owners(noise, entries, links)
    return _masks(noise, entries, links) if "receivers" in noise.promises else _whole_numbers(noise, entries, links)


def _check_owners(noise: Noise, entries: NoiseMap, links: ActiveLinks) -> None:
    users = np.concatenate([links.senders[entries.link_index], entries.self_index])
    owners = entries.owners[np.concatenate([entries.link_source, entries.self_source])]
    knows = (owners == users[:, None]).any(axis=1) | (owners[:, 0] == RELAY)
    if not knows.all():
        row = int(np.argmin(knows))
        raise IncompatibleChoice(
            f"'{noise.name}' lets agent {users[row]} use a source that belongs to {owners[row].tolist()}, and that no party could know. Use a "
            f"scheme in which agents use their own sources, or those they share."
        )


def _whole_numbers(noise: Noise, entries: NoiseMap, links: ActiveLinks) -> Perturbation:
    num_sources = entries.num_sources
    senders = links.senders[entries.link_index]
    sizes = _sizes(noise, num_sources, entries.link_source, senders, entries.link_value, "link")
    # A source on no link is drawn as its own copies want it.
    alone = sizes[entries.self_source] == 0
    sizes += _sizes(
        noise, num_sources, entries.self_source[alone], entries.self_index[alone], entries.self_value[alone], "own copy"
    )
    sizes = _with_own_copies(sizes, entries, senders)
    factor = entries.self_value / sizes[entries.self_source]
    return Perturbation(
        owners=entries.owners,
        sizes=sizes,
        link_index=entries.link_index,
        link_source=entries.link_source,
        link_multiple=np.rint(entries.link_value / sizes[entries.link_source]).astype(np.int64),
        self_index=entries.self_index,
        self_source=entries.self_source,
        self_factor=np.where(np.abs(factor - np.rint(factor)) <= SAME, np.rint(factor), factor),
        masked=False,
    )


def _sizes(
    noise: Noise, num_sources: int, source: np.ndarray, agent: np.ndarray, value: np.ndarray, where: str
) -> np.ndarray:
    """[S] the size at which each source is drawn: what all entries have, or what the entries of two agents are whole multiples of; 0 without an entry."""
    largest, smallest = np.zeros(num_sources), np.full(num_sources, np.inf)
    np.maximum.at(largest, source, np.abs(value))
    np.minimum.at(smallest, source, np.abs(value))
    differs = (largest > 0) & (largest - smallest > SAME * largest)
    for s in np.flatnonzero(differs):
        mine = source == s
        found = multiples(agent[mine], source[mine], value[mine], num_sources)
        if found is None:
            raise _no_whole_numbers(noise, int(s), smallest[s], largest[s], where, len(np.unique(agent[mine])))
        largest[s] = found.sizes[s]
    return largest


def _with_own_copies(sizes: np.ndarray, entries: NoiseMap, senders: np.ndarray) -> np.ndarray:
    """[S] the sizes of shared sources such that own copies carry whole multiples too, where there are such sizes: one of a pair may send nothing in a round."""
    source = np.concatenate([entries.link_source, entries.self_source])
    agent = np.concatenate([senders, entries.self_index])
    value = np.concatenate([entries.link_value, entries.self_value])
    for s in np.flatnonzero((entries.owners[:, 1] >= 0) & (sizes > 0)):
        mine = source == s
        if len(np.unique(np.abs(value[mine]))) > 1:
            found = multiples(agent[mine], source[mine], value[mine], entries.num_sources)
            sizes[s] = sizes[s] if found is None else found.sizes[s]
    return sizes


def _no_whole_numbers(
    noise: Noise, s: int, smallest: float, largest: float, where: str, agents: int
) -> IncompatibleChoice:
    if agents > 1:
        return IncompatibleChoice(
            f"two agents of '{noise.name}' share source {s}, one with the factor {smallest!r} and the other with {largest!r}, which are no whole multiples "
            f"of one size. Parties send whole numbers: hand over sottovoce.deployment.terms.in_whole_multiples(noise) in its place."
        )
    return IncompatibleChoice(
        f"'{noise.name}' puts source {s} on one {where} {smallest:g} times and on another {largest:g} times. Parties send whole numbers, "
        f"and a source is one whole number on all of them. Use a scheme whose links carry equal multiples, such as "
        f"sv.noise.independent(law)."
    )


def _masks(noise: Noise, entries: NoiseMap, links: ActiveLinks) -> Perturbation:
    weighed = links.weights[entries.link_index] * entries.link_value
    sign = np.sign(weighed).astype(np.int64)
    receiver = links.receivers[entries.link_index]
    place = receiver * np.int64(max(entries.num_sources, 1)) + entries.link_source
    _, which, times = np.unique(place, return_inverse=True, return_counts=True)
    total = np.bincount(which, weights=sign, minlength=len(times))
    pairs_up = (times == 2).all() and (total == 0).all() and (np.abs(np.abs(weighed) - 1.0) <= SAME).all()
    shared = (entries.owners[entries.link_source, 1] != NOBODY).all()
    if not pairs_up or not shared or len(entries.self_index):
        raise IncompatibleChoice(
            f"'{noise.name}' cancels at every receiver, but not in pairs of links that carry +1 and -1 of a source that their two senders share, once "
            f"messages are weighed by who sends them; masks modulo 2^64 would not cancel. Use sv.noise.local_graph_homomorphic(law), or "
            f"sv.noise.independent(law)."
        )
    sizes = np.zeros(entries.num_sources)
    sizes[entries.link_source] = 1.0
    return Perturbation(
        owners=entries.owners,
        sizes=sizes,
        link_index=entries.link_index,
        link_source=entries.link_source,
        link_multiple=sign,
        self_index=entries.self_index,
        self_source=entries.self_source,
        self_factor=entries.self_value,
        masked=True,
    )
